"""Which commits are queued: of pushes, pull requests, releases, and of the gaps between them."""
