"""What loads a server: the native driver and the load generators of others."""
