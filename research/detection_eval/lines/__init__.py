"""The lines to judge: generated ones, and those of published data sets."""
