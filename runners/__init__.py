"""The program of a measuring machine: it claims runs, builds, measures and reports."""

__version__ = "1.1.0"
PROTOCOL = 2  # of the calls: raised with every change that an older server would misunderstand
