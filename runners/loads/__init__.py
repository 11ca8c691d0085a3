"""The native driver and other programs that load a server, and the metrics that are read from the output of each."""
