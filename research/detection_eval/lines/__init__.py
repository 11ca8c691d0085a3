"""The lines that are judged: generated, and of published data sets."""
