"""Results that were measured elsewhere: reads their documents, and stores them as runs and measurements."""
