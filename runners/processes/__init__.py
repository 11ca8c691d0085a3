"""Child processes: start them on their cores, wait for them, end them, find them again after a crash."""
