"""The detectors that judge them: SpeedTrack, other programs, settling; and what they cost."""
