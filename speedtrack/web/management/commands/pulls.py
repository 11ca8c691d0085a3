"""``manage.py pulls PROJECT [NUMBER]``: list open pull requests, or approve the head of one."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.operations import runs
from speedtrack.operations.performing import Actor
from speedtrack.projects.models import Project, PullRequest
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run


class Command(PlainCommand):
    help = "List a project's open pull requests, or let the machines build and measure the head of one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("number", nargs="?", type=int, help="of the pull request to approve")
        parser.add_argument("--head", metavar="SHA", help="the commit that you have looked at; needed to approve")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        if options["number"] is None:
            self.list_open(project)
            return
        pull = pull_numbered(project, options["number"])
        if not options["head"]:
            raise CommandError(f"name the head that you have looked at: --head {pull.head_sha}")
        self.stdout.write(str(runs.approve(Actor(dry_run=options["dry_run"]), pull, options["head"])))

    def list_open(self, project: Project) -> None:
        for pull in project.pull_requests.filter(state=PullRequest.State.OPEN).order_by("-number"):
            approved = pull.approvals.filter(head_sha=pull.head_sha).exists()
            state = "approved" if approved else "waits for approval"
            self.stdout.write(f"{pull.number:6} {pull.head_sha} {state:18} {pull.title}")


def pull_numbered(project: Project, number: int) -> PullRequest:
    pull = project.pull_requests.filter(number=number).first()
    if pull is None:
        raise NoSuchThing(f"{project} has no pull request {number}: without a number, they are listed")
    return pull
