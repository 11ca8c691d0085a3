"""``manage.py doctor``: check this installation."""

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from speedtrack.upkeep import doctor
from speedtrack.web.management.plaincommand import PlainCommand

MARKS = {"good": "ok  ", "note": "note", "bad": "BAD "}


class Command(PlainCommand):
    requires_system_checks = "__all__"  # they belong to what it examines
    help = "Check this installation, and its runner if this host has one, and print the remedies."

    def add_arguments(self, parser: ArgumentParser) -> None:
        checks = list(doctor.CHECKS)
        parser.add_argument("--only", nargs="+", choices=checks, help="run only these checks")
        parser.add_argument("--json", action="store_true", help="print a JSON document")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = []
        for finding in doctor.examine(options["only"] or doctor.usual_checks()):
            findings.append(finding)
            if not options["json"]:
                self.stdout.write(f"{MARKS[finding.state]}  {finding.name:10} {finding.words}")
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings]))
        sys.exit(any(finding.state == "bad" for finding in findings))
