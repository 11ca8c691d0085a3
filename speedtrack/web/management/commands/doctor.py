"""``manage.py doctor``: is this installation fit?"""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from speedtrack import doctor

MARKS = {"good": "ok  ", "note": "note", "bad": "BAD "}


class Command(BaseCommand):
    help = "Check database, broker, git, driver, compiler, cores and kernel settings, and say what to do."

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for finding in doctor.examine():
            self.stdout.write(f"{MARKS[finding.state]}  {finding.name:10} {finding.words}")
            bad += finding.state == "bad"
        sys.exit(bool(bad))
