"""The calls to the SpeedTrack server: the client, its spool on disk, the lease and the log of a run."""
