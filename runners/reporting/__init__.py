"""What the SpeedTrack server is told, and what it answers."""
