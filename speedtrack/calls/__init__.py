"""What calls of the API leave behind: answers by their Idempotency-Keys, and how fast somebody calls."""
