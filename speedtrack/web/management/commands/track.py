"""``manage.py track URL --suite NAME``: track a repository."""

from argparse import ArgumentParser, BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from speedtrack.notices import subscribing
from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.projects.mirrors.credentials import CredentialEntry, UnfitCredential, credential_for
from speedtrack.runs.requests import firstlook, tracking
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run


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
        parser.add_argument(
            "--token-file", type=Path, help="file with an access token that may read the repository, for an https URL"
        )
        parser.add_argument("--token-user", default="", help="the user that goes with the token (default: git)")
        parser.add_argument(
            "--key-file",
            type=Path,
            help="private deploy key, for a URL as ssh://git@host/owner/name",
        )
        parser.add_argument("--known-hosts-file", type=Path, help="what ssh-keyscan prints of the host")
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
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            subscribing.check_addresses(options["mail"])
            request = tracking.TrackingRequest(
                url=options["url"],
                suite=options["suite"],
                branch=options["branch"],
                last=options["last"],
                name=options["name"],
                mail_history_verdicts=options["mail_history_verdicts"],
                credential=credential_for(options["url"], entry_of(options)),
            )
            if options["dry_run"]:
                self.stdout.write(str(firstlook.would_track(request)))
                return
            tracked = projects.track(Actor(), request, fetches=True).row
            subscribing.subscribe(tracked.project, options["mail"])
        except (UnfitCredential, OSError, UnicodeDecodeError) as e:
            raise CommandError(str(e)) from e
        self.tell(tracked)

    def tell(self, tracked: tracking.Tracked) -> None:
        project = tracked.project
        self.stdout.write(f"{project.slug}: tracking {tracked.branch} of {project.url} with suite {project.suite}")
        self.stdout.write(f"  history    {tracked.commits} commits; {tracked.queued} runs queued")
        machines = ", ".join(m.name for m in project.machines.all())
        self.stdout.write(
            f"  machines   {machines or 'none yet: `manage.py machine add NAME`, then repeat this command'}"
        )
        self.stdout.write(f"  webhook    {tracked.hook.url}")
        secret = tracked.hook.secret
        self.stdout.write(f"  secret     {secret or f'`manage.py hook rotate {project.slug}` makes one'}")
        for ref, fault in project.left_out.items():
            self.stdout.write(f"  left out   {ref}: {fault['why']}")


def entry_of(options: dict[str, Any]) -> CredentialEntry:
    """What the files say; they keep tokens and keys out of the list of processes. Raises OSError."""
    token, key, hosts = (
        file.read_text() if (file := options[name]) else "" for name in ("token_file", "key_file", "known_hosts_file")
    )
    return CredentialEntry(token.strip(), options["token_user"], key, hosts)
