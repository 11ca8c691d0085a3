"""What pages show of runs, their logs and profiles, of the queue and of machines."""
