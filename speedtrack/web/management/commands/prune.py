"""``manage.py prune``: delete what is older than its policy keeps it."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError
from django.template.defaultfilters import filesizeformat

from speedtrack.operations import installation
from speedtrack.operations.performing import Actor
from speedtrack.retention import pruning
from speedtrack.retention.policies import POLICIES, Policy
from speedtrack.retention.pruning import Forecast
from speedtrack.web.management.plaincommand import PlainCommand

ROW = "{:11}  {:26}  {:>13}  {:>10}  {}"


class Command(PlainCommand):
    help = "Delete what is older than its policy keeps it. What something rests on is kept: docs/operating.md."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only print what would go, in rows and bytes")
        parser.add_argument("--only", metavar="NAME,...", help=f"only these policies: {', '.join(POLICIES)}")
        parser.add_argument("--again", action="store_true", help="look at what earlier prunings have kept, too")
        parser.add_argument("--yes", action="store_true", help="do not ask, even where nearly everything would go")

    def handle(self, *args: Any, **options: Any) -> None:
        policies = list(chosen_policies(options["only"]))
        if options["dry_run"]:
            self.print_forecasts(policies, options["again"])
            return
        with pruning.one_at_a_time():
            unconfirmed = [policy.name for policy in policies if not self.apply(policy, **options)]
        if unconfirmed:
            raise CommandError(f"nothing was deleted of {', '.join(unconfirmed)}: confirm it, or give --yes")

    def print_forecasts(self, policies: list[Policy], again: bool) -> None:
        self.stdout.write(ROW.format("policy", "setting", "rows", "bytes", "what would go"))
        for policy in policies:
            forecast = pruning.forecast(policy, again)
            days = f"{policy.setting}={policy.days}" if policy.days else f"{policy.setting}=0 (for ever)"
            size = filesizeformat(forecast.bytes).replace("\xa0", " ")
            self.stdout.write(ROW.format(policy.name, days, f"{forecast.rows:,}", size, policy.what))
            for doubt in forecast.doubts:
                self.stdout.write(f"{'':13}asks twice: {doubt.words}")

    def apply(self, policy: Policy, *, again: bool, yes: bool, **options: Any) -> bool:
        """Apply a policy. False if nobody has confirmed what has to be confirmed."""
        if not policy.days:
            self.stdout.write(f"{policy.name}: kept for ever ({policy.setting}=0)")
            return True
        if not yes and not self.is_confirmed(policy, pruning.forecast(policy, again)):
            return False
        self.stdout.write(installation.prune(Actor(), policy, again).sentence)
        return True

    def is_confirmed(self, policy: Policy, forecast: Forecast) -> bool:
        """Ask twice about what looks like a mistake; nobody can answer who is not at a terminal."""
        if not forecast.doubts:
            return True
        for doubt in forecast.doubts:
            self.stderr.write(f"{policy.name}: {doubt.words}")
        questions = {
            f"Delete {forecast.rows:,} rows for good? Then answer yes: ": "yes",
            f"Nothing brings them back but a backup. Then answer {policy.name}: ": policy.name,
        }
        try:
            return sys.stdin.isatty() and all(input(question) == answer for question, answer in questions.items())
        except EOFError:
            return False


def chosen_policies(names: str | None) -> Iterator[Policy]:
    for name in names.split(",") if names else POLICIES:
        if name not in POLICIES:
            raise CommandError(f"there is no policy {name!r}: there are {', '.join(POLICIES)}")
        yield POLICIES[name]
