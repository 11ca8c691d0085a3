"""Data about calls of the API: answers by Idempotency-Key, and the rates of callers."""
