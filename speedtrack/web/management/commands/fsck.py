"""``manage.py fsck``: check the rows against git and against each other. Changes nothing."""

import sys
import time
from argparse import ArgumentParser
from typing import Any

from speedtrack.upkeep import fsck
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Check what no constraint can hold, and print each fault with its remedy. Changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = list(fsck.checks())
        parser.add_argument("--only", nargs="+", choices=names, default=names, help="only these checks")

    def handle(self, *args: Any, **options: Any) -> None:
        faults = 0
        for name, check in fsck.checks().items():
            if name in options["only"]:
                faults += self.report(name, check)
        sys.exit(bool(faults))

    def report(self, name: str, check: fsck.Check) -> int:
        """Print what a check finds, and how much it looked at. Return the number of faults."""
        begin, faults = time.monotonic(), 0
        for fault in check.find(check):
            faults += 1
            if faults <= fsck.MOST:
                self.stdout.write(f"BAD   {name:10}  {fault}")
        if faults > fsck.MOST:
            self.stdout.write(f"BAD   {name:10}  and {faults - fsck.MOST:,} more")
        summary = f"{check.seen:,} {check.what}, {time.monotonic() - begin:.1f} s"
        self.stdout.write(f"{'BAD ' if faults else 'ok  '}  {name:10}  {summary}")
        return faults
