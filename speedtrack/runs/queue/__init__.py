"""The life of a run in the queue: claimed, renewed, ended; how long it takes; what its job says."""
