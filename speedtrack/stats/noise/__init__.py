"""The noise of a series and of a machine, and whether the machine has changed."""
