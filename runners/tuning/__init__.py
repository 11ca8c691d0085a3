"""The kernel's settings for measuring: their target values, set during runs with a journal, and restored."""
