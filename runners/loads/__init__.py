"""The native driver and other programs that load a server, and the metrics in their output."""
