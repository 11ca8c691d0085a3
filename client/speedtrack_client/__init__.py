"""The command ``speedtrack``: a client of SpeedTrack's API, independent of the server's code."""

__version__ = "1.1.0"
