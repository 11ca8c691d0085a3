"""The state of the installation itself: its readiness, and the activity of its processes."""
