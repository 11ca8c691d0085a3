"""Child processes: start them on their cores, wait for them, end them, and find them again after a crash."""
