"""A series as a line of points, its noise, and the smallest change that matters on it."""
