"""The builds of a commit: the end of the newest one's log, and which other commits gave the same program."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, OuterRef, QuerySet, Subquery, When

from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
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
        return [(name, program["bytes"]) for name, program in self.build.artifacts.items() if program.get("bytes")]


def builds_near(project: int, shas: list[str], commit: int, phase: str) -> QuerySet[Build]:
    """The builds of these commits; the newest one of ``commit`` with the end of its ``log``, that of this phase."""
    newest = Build.objects.filter(commit=commit).order_by("-pk").values("pk")[:1]
    chunks = LogChunk.objects.filter(attempt=OuterRef("attempt"), phase=phase).order_by("-seq")
    near = Commit.objects.filter(among("sha", shas), project=project)
    rows = Build.objects.filter(commit__in=near.values("pk")).select_related("commit", "attempt__run__machine")
    rows = rows.annotate(log=Case(When(pk=Subquery(newest), then=ArraySubquery(chunks.values("text")[:4]))))
    return rows.defer("attempt__run__machine__facts")


BUILDS: PreparedQuery[Any] = PreparedQuery(builds_near)


def builds_of(commit: Commit, other_shas: Sequence[str]) -> list[BuildWithLog]:
    """The builds, newest first; the newest has the end of its log.

    ``other_shas``: of commits whose programs may be equal.
    """
    shas, phase = [commit.sha, *other_shas], f"build {commit.sha}"
    rows = BUILDS.rows(project=commit.project_id, shas=shas, commit=commit.pk, phase=phase)
    all_builds = sorted(rows, key=lambda build: -build.pk)
    builds = [build for build in all_builds if build.commit_id == commit.pk][:10]
    return [
        BuildWithLog(build, build.attempt.run, log_tail(build.log or []), same_programs(build, all_builds))
        for build in builds
    ]


def same_programs(build: Build, builds: Iterable[Build]) -> list[Commit]:
    """Other commits of which the same machine has built the same program, bit for bit."""
    if not build.succeeded or not build.artifacts:
        return []
    machine = build.attempt.run.machine_id
    same = (
        candidate
        for candidate in builds
        if candidate.artifacts == build.artifacts and candidate.attempt.run.machine_id == machine
    )
    return list(
        {candidate.commit_id: candidate.commit for candidate in same if candidate.commit_id != build.commit_id}.values()
    )


def log_tail(chunks: Sequence[str]) -> str:
    """The last lines of a log. ``chunks``: the last parts of its text, the newest first."""
    return plain("".join(reversed(chunks)))[-LOG_TAIL:]
