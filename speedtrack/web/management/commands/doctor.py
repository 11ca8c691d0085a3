"""``manage.py doctor``: check this installation."""

import sys
from argparse import ArgumentParser
from typing import Any

from speedtrack import doctor
from speedtrack.web.management.plaincommand import PlainCommand

MARKS = {"good": "ok  ", "note": "note", "bad": "BAD "}


class Command(PlainCommand):
    help = "Check database, broker, git, driver, compiler, cores and kernel settings, and print the remedies."

    def add_arguments(self, parser: ArgumentParser) -> None:
        checks = list(doctor.CHECKS)
        parser.add_argument("--only", nargs="+", choices=checks, default=checks, help="run only these checks")

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for finding in doctor.examine(options["only"]):
            self.stdout.write(f"{MARKS[finding.state]}  {finding.name:10} {finding.words}")
            bad += finding.state == "bad"
        sys.exit(bool(bad))
