"""What is deleted after a time, and what is kept whatever its age."""
