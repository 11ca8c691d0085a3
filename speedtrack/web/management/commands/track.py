"""``manage.py track URL --suite NAME``: track a repository."""

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

from django.core.management.base import CommandError

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.notices import subscribing
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs import tracking
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Track a repository: mirror it, store its history, and queue runs of its newest commits."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url", help="https URL, or a local path if ALLOW_LOCAL_REPOSITORIES=true")
        parser.add_argument("--suite", required=True, help="name of a suite in suites/, such as redis")
        parser.add_argument("--branch", help="branch to track (default: the repository's own)")
        parser.add_argument(
            "--last",
            type=int,
            default=10,
            metavar="COUNT",
            help="how many of its newest commits to measure now (default: 10)",
        )
        parser.add_argument("--name", help="name of the project (default: the last part of the URL)")
        parser.add_argument(
            "--mail",
            action="append",
            default=[],
            metavar="ADDRESS",
            help="address that gets mails about slowdowns; may be repeated",
        )
        parser.add_argument(
            "--mail-history-verdicts",
            action=BooleanOptionalAction,
            help="raise alerts for slowdowns known from the history only, which cannot be measured again (default: no)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            subscribing.check_addresses(options["mail"])
            tracked = tracking.track(
                tracking.TrackingRequest(
                    url=options["url"],
                    suite=options["suite"],
                    branch=options["branch"],
                    last=options["last"],
                    name=options["name"],
                    mail_history_verdicts=options["mail_history_verdicts"],
                )
            )
            subscribing.subscribe(tracked.project, options["mail"])
        except (RepositoryError, DefinitionError, tracking.NoSuchThing) as e:
            raise CommandError(str(e)) from e
        project = tracked.project
        self.stdout.write(f"{project.slug}: tracking {tracked.branch} of {project.url} with suite {project.suite}")
        self.stdout.write(f"  history    {tracked.commits} commits; {tracked.queued} runs queued")
        machines = ", ".join(m.name for m in project.machines.all())
        self.stdout.write(
            f"  machines   {machines or 'none yet: `manage.py machine add NAME`, then repeat this command'}"
        )
        self.stdout.write(f"  webhook    {tracked.hook_url}")
        self.stdout.write(f"  secret     {project.hook_secret}")
        for ref, fault in project.left_out.items():
            self.stdout.write(f"  left out   {ref}: {fault['why']}")
