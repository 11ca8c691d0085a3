"""The builds of a commit: the end of the newest one's log, and which other commits gave the same program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, OuterRef, Subquery, When

from speedtrack.ground.texts.text import plain
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Build, LogChunk, Run

LOG_TAIL = 12_000  # characters of the build log that the page shows


@dataclass(frozen=True)
class BuildWithLog:
    """A build with the end of its log.

    ``same_as``: those of the parents and the last release for which the machine built the same program.
    """

    build: Build
    run: Run
    log: str
    same_as: list[Commit]

    @property
    def sizes(self) -> list[tuple[str, int]]:
        """(name, bytes) of each program."""
        return [(name, one["bytes"]) for name, one in self.build.artifacts.items() if one.get("bytes")]


def builds_of(commit: Commit, others: Sequence[str]) -> list[BuildWithLog]:
    """The builds, newest first; the newest has the end of its log. ``others``: commits whose programs may be equal."""
    near = Commit.objects.filter(project=commit.project_id, sha__in=[commit.sha, *others])
    newest = Build.objects.filter(commit=commit).order_by("-pk").values("pk")[:1]
    chunks = LogChunk.objects.filter(attempt=OuterRef("attempt"), phase=f"build {commit.sha}").order_by("-seq")
    rows = Build.objects.filter(commit__in=near.values("pk")).select_related("commit", "attempt__run__machine")
    rows = rows.annotate(log=Case(When(pk=Subquery(newest), then=ArraySubquery(chunks.values("text")[:4]))))
    found = sorted(rows.defer("attempt__run__machine__facts"), key=lambda build: -build.pk)
    builds = [build for build in found if build.commit_id == commit.pk][:10]
    return [BuildWithLog(one, one.attempt.run, log_tail(one.log or []), same_programs(one, found)) for one in builds]


def same_programs(build: Build, found: Iterable[Build]) -> list[Commit]:
    """Other commits of which the same machine has built the same program, bit for bit."""
    if not build.succeeded or not build.artifacts:
        return []
    machine = build.attempt.run.machine_id
    same = (one for one in found if one.artifacts == build.artifacts and one.attempt.run.machine_id == machine)
    return list({one.commit_id: one.commit for one in same if one.commit_id != build.commit_id}.values())


def log_tail(chunks: Sequence[str]) -> str:
    """The last lines of a log. ``chunks``: the last parts of its text, the newest first."""
    return plain("".join(reversed(chunks)))[-LOG_TAIL:]
