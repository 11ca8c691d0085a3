"""``manage.py import PROJECT FILE...``: store results that were measured elsewhere."""

import getpass
import sys
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from speedtrack.operations import results
from speedtrack.operations.performing import Actor
from speedtrack.outside import importing
from speedtrack.outside.importing import Contents, ImportOutcome, Unfinished, Unreadable
from speedtrack.outside.readers import Options
from speedtrack.outside.taking import Prepared, Report
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.upkeep.archive import reading
from speedtrack.upkeep.archive.files import ArchiveError, is_archive
from speedtrack.web.management.plaincommand import PlainCommand

SOME_REFUSED, UNREADABLE = 1, 2
BROKEN_OFF = 3  #: some batches are stored, later ones are not
LISTED = 50  # reasons


class Command(PlainCommand):
    help = (
        "Store results that were measured elsewhere. What was imported before changes nothing. Exit code: 0 if every "
        "result is stored, 1 if some were refused, 2 if a file could not be read (then nothing is stored)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("files", nargs="+", metavar="FILE", help="files, or directories of tools that write these")
        parser.add_argument("--format", default=importing.AUTO, choices=importing.formats(), help="default: by content")
        parser.add_argument("--commit", default="", help="a commit id, branch or tag; counts before what a file says")
        parser.add_argument("--machine", default="", help="the name of the machine; counts before what a file says")
        parser.add_argument(
            "--environment",
            action="append",
            default=[],
            type=pair,
            metavar="NAME=VALUE",
            help="what else affects the values, such as compiler=gcc-14; may be repeated",
        )
        parser.add_argument("--measured-at", type=date, metavar="DATE", help="such as 2026-01-31T12:00 (UTC)")
        parser.add_argument(
            "--option", action="append", default=[], type=pair, metavar="NAME=VALUE", help="an option of the format"
        )
        parser.add_argument("--all-or-nothing", action="store_true", help="take none if one result is refused")
        archives = parser.add_argument_group("of an archive that `manage.py export` wrote (docs/archive.md)")
        archives.add_argument("--same-machines", action="store_true", help="machines of equal names are the same ones")
        archives.add_argument("--machine-prefix", default="", help="what names of its machines begin with here")
        archives.add_argument("--match-people", action="store_true", help="people of equal names are the same people")

    def handle(self, *args: Any, **options: Any) -> None:
        files = [Path(name) for name in options["files"]]
        if any(map(is_archive, files)):
            return self.restore(files, options)
        try:
            project = naming.project_named(options["project"])
            import_options = options_of(options)
            # All are read before any is stored: a misspelt name leaves nothing half done.
            contents_by_path = {
                Path(name): importing.contents_of(Path(name), options["format"], import_options)
                for name in options["files"]
            }
        except (NoSuchThing, Unreadable) as e:
            raise CommandError(str(e), returncode=UNREADABLE) from e
        try:
            outcomes = store_all(project, contents_by_path, options["all_or_nothing"])
        except Unfinished as e:
            raise CommandError(unfinished_in_words(e, options["all_or_nothing"]), returncode=BROKEN_OFF) from e
        for path, outcome in outcomes.items():
            self.say(path, outcome, contents_by_path[path].left_out)
        refusal_count = sum(outcome.refused_count for outcome in outcomes.values())
        if refusal_count:
            raise CommandError(f"{refusal_count} results were not stored", returncode=SOME_REFUSED)

    def restore(self, files: list[Path], options: dict[str, Any]) -> None:
        """A project from its archive, under a name that is not taken."""
        if len(files) > 1:
            raise CommandError("an archive is a whole project: import it by itself", returncode=UNREADABLE)
        choices = {name: options[name] for name in ("same_machines", "machine_prefix", "match_people")}
        try:
            with Console(stderr=True).status("reading") as status:
                restored = reading.restore(
                    files[0],
                    reading.Choices(options["project"], **choices),
                    lambda table, rows: status.update(f"{table}: {rows:,} rows"),
                )
        except ArchiveError as e:
            raise CommandError(str(e), returncode=UNREADABLE) from e
        self.stdout.write(f"{restored.manifest.rows:,} rows are now project {restored.project.slug}")
        for note in restored.notes:
            self.stdout.write(f"note: {note}")

    def say(self, path: Path, outcome: ImportOutcome, left_out: list[str]) -> None:
        counts = [f"{outcome.taken} taken", f"{outcome.unchanged} unchanged", f"{outcome.refused_count} refused"]
        self.stdout.write(f"{path.name}: {', '.join(counts)}{f', {len(left_out)} left out' if left_out else ''}")
        reasons = [*outcome.refused, *(f"left out: {reason}" for reason in left_out)]
        for reason in reasons[:LISTED]:
            self.stdout.write(f"  {reason}")
        if len(reasons) > LISTED:
            self.stdout.write(f"  and {len(reasons) - LISTED} more")


def unfinished_in_words(error: Unfinished, all_or_nothing: bool) -> str:
    """What was stored before the import broke off, and how to go on."""
    counts = {
        path: outcome.taken + outcome.unchanged
        for path, outcome in error.outcomes.items()
        if outcome.taken or outcome.unchanged
    }
    if all_or_nothing or not counts:
        return f"the import broke off ({error}): nothing was stored. Mend the cause and repeat the command"
    summary = ", ".join(f"{count} of {path.name}" for path, count in counts.items())
    return (
        f"the import broke off ({error}): {summary} are stored. Mend the cause and repeat the command: results that "
        "are stored already change nothing"
    )


def store_all(
    project: Project, contents_by_path: dict[Path, Contents], all_or_nothing: bool
) -> dict[Path, ImportOutcome]:
    """Store the results of each file, with a bar on a terminal."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        counts = [contents.count for contents in contents_by_path.values()]
        total = None if None in counts else sum(filter(None, counts))
        bar = progress.add_task("storing results", total=total)
        store = importing.store_all_or_nothing if all_or_nothing else importing.store
        advance = partial(progress.advance, bar)
        return store(project, contents_by_path, getpass.getuser(), advance, partial(take, project))


def take(project: Project, batch: Prepared) -> Report:
    report: Report = results.take(Actor(), project, [batch]).row[0]
    return report


def options_of(options: dict[str, Any]) -> Options:
    return Options(
        commit=options["commit"],
        machine=options["machine"],
        environment=dict(options["environment"]),
        measured_at=options["measured_at"],
        given=dict(options["option"]),
    )


def pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def date(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no date: give such as 2026-01-31T12:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
