"""What knows nothing of what SpeedTrack does."""
