"""Suspicions: steps, drifts, and what a whole machine or the history alone explains."""
