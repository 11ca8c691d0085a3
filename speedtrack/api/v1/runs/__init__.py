"""Runs, the queue, and what programs ask the machines to measure."""
