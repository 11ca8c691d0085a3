"""What is installed on a measuring machine: it claims runs, builds, measures and reports."""

__version__ = "1.0.0"
