"""The command ``speedtrack``: a client of SpeedTrack's API that stands alone."""

__version__ = "1.1.0"
