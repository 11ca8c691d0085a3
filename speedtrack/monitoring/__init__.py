"""The state of the installation itself: whether it is ready, what its processes do, and what they log."""
