"""``--dry-run`` of commands that change something."""

from argparse import ArgumentParser
from collections.abc import Callable

from speedtrack.runs.requests.outlook import outlook


def add_dry_run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing: say what would be queued, and how long it would take"
    )


def result_in_words(verb: Callable[[], object], dry_run: bool) -> str:
    """The answer of the verb; in a dry run, what it would answer and change."""
    return str(outlook(verb)) if dry_run else str(verb())
