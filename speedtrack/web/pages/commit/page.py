"""A commit: its builds, its results, and how these compare with the last commit measured before it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404, QueryDict

from speedtrack.alerts.models import ChangePoint
from speedtrack.ground.postgres.plainrows import among_selected
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.summaries import State, Summary, summaries_of
from speedtrack.projects.mirrors.git import ChangedFile, Description
from speedtrack.projects.models import Annotation, Branch, Commit, Position, Project, sha_begins
from speedtrack.reports.readings.commits import MOST_RUNS, TAGS, CommitReading, read
from speedtrack.runs.models import Deferral, Run, Status
from speedtrack.runs.scheduling import states
from speedtrack.web import forges
from speedtrack.web.addresses import metric_given
from speedtrack.web.forges import ForgePages
from speedtrack.web.pages import changes
from speedtrack.web.pages.alerting.banners import Banner, banners_of
from speedtrack.web.pages.commit.builds import BuildWithLog, builds_of
from speedtrack.web.pages.commit.description import described
from speedtrack.web.pages.commit.neighbours import commits_around
from speedtrack.web.pages.commit.results import (
    MachineResults,
    machine_results,
)
from speedtrack.web.pages.paging import page_of
from speedtrack.web.pages.running.live import stream_of_queue
from speedtrack.web.scope import project_or_404

MOST_FILES = 500  # that the page lists
FEW_RUNS = 8  # the others are folded


class FileLink(NamedTuple):
    """A changed file; ``url`` is empty where the forge is not known."""

    file: ChangedFile
    url: str


class CommitVerdict(NamedTuple):
    """The first line of the page. ``version``: of the queues that it was read after; empty: not known."""

    summary: Summary
    version: str = ""

    @property
    def is_open(self) -> bool:
        """Return whether it changes by itself."""
        return self.summary.state == State.OPEN

    @property
    def stream(self) -> str:
        return stream_of_queue() if self.is_open else ""


def verdict_of(commit: Commit) -> CommitVerdict:
    version = states.version_now()  # first: what changes meanwhile makes the page load it again
    return CommitVerdict(summaries_of([commit.pk])[commit.pk], version)


@dataclass(frozen=True)
class CommitPage(CommitReading):
    """What the page shows besides: what git and the forge know, its neighbours, builds and changes."""

    project: Project
    verdict: CommitVerdict
    description: Description | None
    forge: ForgePages | None
    parents: list[Commit | str]
    named: dict[int, Commit]  #: commits near it on the branch, by how many commits they are before it
    results: MachineResults | None
    builds: list[BuildWithLog]
    changes: list[changes.ChangeGroup]
    banners: list[Banner]
    deferrals: list[Deferral]  #: why policies do not measure it now
    has_machines: bool

    @property
    def body(self) -> str:
        """The message without its first line."""
        return self.description.message.partition("\n")[2].strip() if self.description else ""

    @property
    def files(self) -> list[FileLink]:
        """The changed files, with their pages at the forge."""
        files = self.description.files[:MOST_FILES] if self.description else []
        forge, sha = self.forge, self.commit.sha
        return [FileLink(file, forge.file(sha, file.path) if forge else "") for file in files]

    @property
    def is_annotated(self) -> bool:
        return bool(getattr(self.commit, "is_annotated"))  # noqa: B009 (an annotation)

    @property
    def forge_url(self) -> str:
        return self.forge.commit(self.commit.sha) if self.forge else ""

    @property
    def first_runs(self) -> list[Run]:
        return self.runs[:FEW_RUNS]

    @property
    def more_runs(self) -> list[Run]:
        return self.runs[FEW_RUNS:]

    @property
    def all_runs(self) -> str:
        """How many of the commit's runs the page lists, in words."""
        total: int = getattr(self.runs[0], "total") if self.runs else 0  # noqa: B009 (an annotation)
        return f"All {total}" if total <= MOST_RUNS else f"The newest {MOST_RUNS} of {total}"

    @property
    def repeatable(self) -> Run | None:
        """The newest run whose scripts repeat what it measured of this commit alone."""
        own = (run for run in self.runs if run.status == Status.SUCCEEDED and not run.paired and not run.linked)
        return next(own, None)

    @property
    def latency_benchmarks(self) -> list[str]:
        return self.results.benchmarks if self.results else []

    @property
    def earlier(self) -> Commit | None:
        return self.named.get(1)

    @property
    def later(self) -> Commit | None:
        return self.named.get(-1)


def commit_or_404(slug: str, sha: str) -> Commit:
    """A commit by its hash, or by the beginning of it (at least seven characters).

    ``is_annotated``: has it annotations? ``tags``: TAGS.
    """
    beginning = sha.lower()
    commits = Commit.objects.filter(sha_begins(beginning), project__slug=slug).select_related("project")
    annotated = Exists(Annotation.objects.filter(commit=OuterRef("pk")))
    matches = list(commits.annotate(is_annotated=annotated, tags=TAGS)[:2]) if len(sha) >= 7 else []
    if len(matches) != 1:
        project_or_404(slug)
        raise Http404(f"{slug} has {'more than one' if matches else 'no'} commit {sha!r}.")
    return matches[0]


@dataclass(frozen=True)
class CommitPageQuery:
    """The parameters of the page's address; None means the default."""

    branch: str | None = None
    machine: str | None = None
    metric: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "CommitPageQuery":
        return cls(query.get("branch"), query.get("machine"), metric_given(query), page_of(query))


def load(slug: str, sha: str, page_query: CommitPageQuery) -> CommitPage:
    commit = commit_or_404(slug, sha)
    project = commit.project
    reading = read(commit, page_query.branch, page_query.machine, change_points_around)
    parents, by_distance = commits_around(reading)
    machine, release = reading.machine, reading.release
    return CommitPage(
        **vars(reading),
        project=project,
        verdict=CommitVerdict(reading.summary),
        description=described(project.slug, commit.sha),
        forge=forges.forge_of(project.url),
        parents=parents,
        named=by_distance,
        results=machine_results(machine, reading.measured, page_query.metric, page_query.page) if machine else None,
        builds=builds_of(commit, [*commit.parents, *([release.sha] if release else [])]),
        changes=changes.groups_of(cp for cp in reading.points if cp.status in changes.VISIBLE),
        banners=banners_of([one.alert for one in reading.alerts], commit),
        deferrals=[] if reading.measured else deferrals_of(commit),
        has_machines=bool(reading.runs) or project.machines.exists(),
    )


def deferrals_of(commit: Commit) -> list[Deferral]:
    return list(Deferral.objects.filter(commit=commit).select_related("branch").order_by("branch__name"))


def change_points_around(branch: Branch, number: int) -> Iterable[ChangePoint]:
    """The change points whose range includes this position, so that the commit may be their cause."""
    return CHANGE_POINTS.rows(branch=branch.pk, number=number)


def points_around(branch: int, number: int) -> QuerySet[ChangePoint]:
    starts_before = Position.objects.filter(branch=branch, commit=OuterRef("before"), number__lt=number)
    from_here_on = among_selected(
        "commit_id", Position.objects.filter(branch=branch, number__gte=number).values("commit")
    )
    return changes.on_branch(branch, first=number).filter(from_here_on, Exists(starts_before)).order_by("id")


CHANGE_POINTS = PreparedQuery(points_around)
