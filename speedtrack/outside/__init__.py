"""Results that were measured elsewhere: the documents that they come in, and how they become runs and measurements."""
