"""Tools that are independent of SpeedTrack's domain."""
