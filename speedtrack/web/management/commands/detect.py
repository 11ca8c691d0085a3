"""``manage.py detect --replay PROJECT``: what detection finds in its history, when, and why."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from speedtrack.alerts.triage import replay
from speedtrack.alerts.triage.replay import ReplayEntry
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.operations import triage
from speedtrack.operations.performing import Actor
from speedtrack.projects.models import Project
from speedtrack.web.management.plaincommand import PlainCommand


def parse_day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)


class Command(PlainCommand):
    help = "Replay a project's history: print what is suspected when, and why or why not; then detect it again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--replay", required=True, metavar="PROJECT", help="name of a tracked project")
        parser.add_argument(
            "--since", type=parse_day, default=replay.ALWAYS, metavar="YYYY-MM-DD", help="only commits since this day"
        )
        parser.add_argument("--dry-run", action="store_true", help="only print: raise no suspicion, measure nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["replay"]).first()
        if project is None:
            slugs = ", ".join(Project.objects.order_by("slug").values_list("slug", flat=True)) or "none"
            raise CommandError(f"there is no project {options['replay']!r}; tracked are: {slugs}")
        entries = replay.replay(project, options["since"])
        for entry in entries:
            self.write_entry(entry)
        self.stdout.write(f"{sum(entry.suspected for entry in entries)} suspicions")
        if not options["dry_run"]:
            self.stdout.write(triage.detect_again(Actor(), project).sentence)

    def write_entry(self, entry: ReplayEntry) -> None:
        metric = METRICS[entry.series.metric].title
        verdict = "suspected" if entry.suspected else "not suspected"
        where = f"{entry.series.benchmark.name}, {metric} on {entry.series.machine}"
        self.stdout.write(
            f"{entry.seen.commit.committed_at:%Y-%m-%d} {entry.seen.commit.short} {verdict}: {where} "
            f"at {entry.place.commit.short} {entry.place.commit.subject}"
        )
        for line in (entry.judgement, *entry.steps):
            self.stdout.write(f"    {line}")
