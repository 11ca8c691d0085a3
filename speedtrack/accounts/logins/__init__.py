"""How people log in: rules of django-allauth, the second step, sessions, and who may make an account."""
