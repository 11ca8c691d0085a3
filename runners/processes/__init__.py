"""Programs that the runner starts, and how they are ended."""
