"""``--dry-run`` of commands that change something."""

from argparse import ArgumentParser


def add_dry_run(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing: say what would be queued, and how long it would take"
    )
