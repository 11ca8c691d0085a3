"""Text from builds, servers and commits, made fit to be shown: it may hold anything."""

import re

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def plain(log: str) -> str:
    """A log without terminal escapes, control characters and characters that turn the direction of text."""
    return UNSEEN.sub("", ESCAPES.sub("", log.replace("\r\n", "\n")))


def cell(value: str) -> str:
    """A value for a CSV file, which no spreadsheet takes for a formula."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
