"""``manage.py policy PROJECT``: which commits of its branches are measured by themselves, with what, and where."""

from argparse import ArgumentParser, BooleanOptionalAction
from dataclasses import replace
from datetime import time
from typing import Any

from speedtrack.operations import projects
from speedtrack.operations.performing import Actor, Done
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.planning.policies import BadPolicy
from speedtrack.runs.requests import rules
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run

CHANGING = ("every", "most_waiting", "fills_gaps", "ignored_paths", "suite", "machines", "extended_at", "zone")


class Command(PlainCommand):
    help = "List a project's planning policies, or make, change or remove the one of a pattern of branches."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("--branches", default="", metavar="PATTERN", help="such as 8.* (default: all others)")
        parser.add_argument("--every", type=int, metavar="N", help="measure every n-th commit")
        parser.add_argument("--most-waiting", type=int, metavar="N", help="commits that wait at most; 0: no limit")
        parser.add_argument(
            "--fills-gaps", action=BooleanOptionalAction, help="measure what --every leaves out on idle machines"
        )
        parser.add_argument("--ignored-paths", nargs="*", metavar="GLOB", help="as in .gitignore, such as 'docs/**'")
        parser.add_argument("--suite", help="another suite than the project's")
        parser.add_argument("--machines", nargs="*", metavar="NAME", help="only on these; none: all of the project")
        parser.add_argument("--extended-at", metavar="HH:MM", help="measure the extended set daily; 'never' ends that")
        parser.add_argument("--zone", help="time zone of --extended-at (default: UTC)")
        parser.add_argument("--remove", action="store_true", help="let the other policies, or none, decide")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        changes = {name: options[name] for name in CHANGING if options[name] is not None}
        if changes or options["remove"]:
            self.stdout.write(str(change(Actor(dry_run=options["dry_run"]), project, options, changes)))
        else:
            self.list_policies(project)

    def list_policies(self, project: Project) -> None:
        for policy in project.policies.order_by("branches"):
            self.stdout.write(f"{policy}: {', '.join(rules.in_words(policy))}")
        if not project.policies.filter(branches="").exists():
            self.stdout.write("policy of all other branches: every commit")


def change(actor: Actor, project: Project, options: dict[str, Any], changes: dict[str, Any]) -> Done:
    """Do what the options say; what they leave out stays as it was."""
    branches = options["branches"]
    if options["remove"]:
        return projects.remove_policy(actor, project, branches)
    if "most_waiting" in changes:
        changes["most_waiting"] = changes["most_waiting"] or None
    if "extended_at" in changes:
        changes["extended_at"] = hour_of(changes["extended_at"])
    return projects.save_policy(actor, project, replace(rules.wanted_now(project, branches), **changes))


def hour_of(text: str) -> time | None:
    if text == "never":
        return None
    try:
        return time.fromisoformat(text)
    except ValueError as e:
        raise BadPolicy(f"{text[:20]!r} is no time of day: give one such as 02:30, or 'never'") from e
