"""The measured server: start it on its cores, wait for it, read its counters, stop it."""
