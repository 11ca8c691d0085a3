"""Random faults of all kinds while three runners work, and whether each run still ended once and nothing was lost."""
