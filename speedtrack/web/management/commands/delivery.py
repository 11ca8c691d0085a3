"""``manage.py delivery list|replay|purge PROJECT``: stored webhook calls."""

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError

from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.projects import deliveries
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs import naming
from speedtrack.web.management.plaincommand import PlainCommand

LINE = "{:>8}  {:19}  {:12}  {:9}  {:>10,}  {}"
LISTED = 20


class Command(PlainCommand):
    help = "List a project's webhook calls, take some as if they had just arrived, or delete old ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["list", "replay", "purge"])
        parser.add_argument("project", help="name of the project")
        parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="replay: as listed")
        parser.add_argument("--status", choices=Delivery.Status.values, default="", help="only these")
        parser.add_argument(
            "--last", type=int, metavar="COUNT", help=f"only the newest ones (list: {LISTED}; replay: name numbers)"
        )
        parser.add_argument("--older-than", type=int, metavar="DAYS", help="purge: those that arrived before then")
        parser.add_argument("--dry-run", action="store_true", help="only say what would change")

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        if options["last"] is not None and options["last"] < 1:
            raise CommandError("--last: give a count of 1 or more")
        act = {"list": list_lines, "replay": replay, "purge": purge}[options["action"]]
        for line in act(project, options):
            self.stdout.write(line)


def list_lines(project: Project, options: dict[str, Any]) -> Iterator[str]:
    for row in deliveries.list_calls(project, options["status"])[: options["last"] or LISTED]:
        description = ": ".join(filter(None, [row.summary or row.event, row.outcome]))
        yield LINE.format(
            row.pk, f"{row.received_at:%Y-%m-%d %H:%M:%S}", row.provider, row.status, row.size, description
        )
    for refusal in project.refusals.order_by("-hour", "reason")[:5]:
        yield f"refused   {refusal.hour:%Y-%m-%d %H:00}     {refusal}"


def replay(project: Project, options: dict[str, Any]) -> Iterator[str]:
    yield str(projects.replay(Actor(dry_run=options["dry_run"]), project, selected(project, options)))


def selected(project: Project, options: dict[str, Any]) -> list[int]:
    if options["numbers"]:
        return list(options["numbers"])
    if not options["last"]:
        raise CommandError("name the deliveries by their numbers, or give --last COUNT")
    return list(deliveries.list_calls(project, options["status"]).values_list("pk", flat=True)[: options["last"]])


def purge(project: Project, options: dict[str, Any]) -> Iterator[str]:
    if options["older_than"] is None:
        raise CommandError("say what is old: --older-than DAYS")
    yield str(projects.purge(Actor(dry_run=options["dry_run"]), project, options["older_than"], options["status"]))
