"""Results that were measured elsewhere: the documents they come in, and how they become runs and measurements."""
