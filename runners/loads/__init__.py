"""What loads a server: the native driver, other load generators, and the metrics that are read from each."""
