"""A commit: its builds, its results, and how these compare with the last commit measured before it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, Window
from django.http import Http404

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.projects.mirrors.git import ChangedFile, Description
from speedtrack.projects.models import Annotation, Branch, Commit, Position, Project
from speedtrack.runs.models import Deferral, Run, Status
from speedtrack.runs.scheduling import standing
from speedtrack.web import forges
from speedtrack.web.forges import ForgePages
from speedtrack.web.pages import changes
from speedtrack.web.pages.alerting.banners import Banner, banners_of, for_banners
from speedtrack.web.pages.commit.builds import BuildWithLog, builds_of
from speedtrack.web.pages.commit.description import described
from speedtrack.web.pages.commit.neighbours import TAGS, LastRelease, commits_around, tags_around
from speedtrack.web.pages.commit.results import (
    BranchPlace,
    MachineResults,
    SeriesResult,
    machine_results,
    measured_by,
    results_on,
)
from speedtrack.web.scope import named_or_default, project_or_404

MOST_FILES = 500  # that the page lists
FEW_RUNS = 8  # the others are folded
MOST_RUNS = 50  # that the page lists


class FileLink(NamedTuple):
    """A changed file; ``url`` is empty where the forge is not known."""

    file: ChangedFile
    url: str


@dataclass(frozen=True)
class CommitPage:
    project: Project
    commit: Commit
    branch: Branch | None
    position: int | None  #: on the branch
    branches: list[Branch]
    tags: list[str]
    release: LastRelease | None
    description: Description | None
    forge: ForgePages | None
    parents: list[Commit | str]
    named: dict[int, Commit]  #: commits near it on the branch, by how many commits they are before it
    machines: list[str]  #: those that measured the commit; the results are of the one that was asked for
    results: MachineResults | None
    measured: list[SeriesResult]  #: all that the machine measured
    builds: list[BuildWithLog]
    runs: list[Run]
    changes: list[changes.ChangeGroup]
    alerts: list[Banner]
    ladders: list[str]
    deferrals: list[Deferral]  #: why policies do not measure it now
    waiting: dict[int, str]  #: by id of its queued runs: why each is not measured yet
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
        return [name for name, _ in self.results.rows] if self.results else []

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
    commits = Commit.objects.filter(project__slug=slug, sha__startswith=sha.lower()).select_related("project")
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
    metric: str | None = None


def load(slug: str, sha: str, page_query: CommitPageQuery) -> CommitPage:
    commit = commit_or_404(slug, sha)
    project = commit.project
    positions = {p.branch: p.number for p in commit.positions.select_related("branch").order_by("branch__name")}
    branch = named_or_default("branch", page_query.branch, positions, project.default_branch)
    branch_place = (
        BranchPlace(commit, branch, positions[branch], list(change_points_around(branch, positions[branch])))
        if branch
        else None
    )
    machines, ladders = measured_by(commit)
    machine = named_or_default("machine", page_query.machine, machines, "")
    results = results_on(machine, branch_place) if branch_place and machine else []
    parents, by_distance = commits_around(commit, branch_place, results)
    runs = runs_of(commit)
    tags, release = tags_around(commit, getattr(commit, "tags"))  # noqa: B009 (an annotation)
    return CommitPage(
        project=project,
        commit=commit,
        branch=branch,
        position=positions[branch] if branch else None,
        branches=list(positions),
        tags=tags,
        release=release,
        description=described(project.slug, commit.sha),
        forge=forges.forge_of(project.url),
        parents=parents,
        named=by_distance,
        machines=[machine.name for machine in machines],
        results=machine_results(machine.name, results, page_query.metric) if machine and results else None,
        measured=results,
        builds=builds_of(commit, [*commit.parents, *([release.sha] if release else [])]),
        runs=runs,
        changes=changes.groups_of(cp for cp in branch_place.points if cp.status in changes.VISIBLE)
        if branch_place
        else [],
        alerts=alerts_of(commit),
        ladders=ladders,
        deferrals=[] if results else deferrals_of(commit),
        waiting=standing.why_wait(runs),
        has_machines=bool(runs) or project.machines.exists(),
    )


def deferrals_of(commit: Commit) -> list[Deferral]:
    return list(Deferral.objects.filter(commit=commit).select_related("branch").order_by("branch__name"))


def change_points_around(branch: Branch, number: int) -> Iterable[ChangePoint]:
    """The change points whose range includes this position, so that the commit may be their cause."""
    starts_before = Position.objects.filter(branch=branch, commit=OuterRef("before"), number__lt=number)
    return changes.on_branch(branch, first=number).filter(Exists(starts_before)).order_by("id")


def runs_of(commit: Commit) -> list[Run]:
    """The newest runs of a commit, newest first, each with ``total``: how many there are."""
    related = ("machine", "base", "linked__commit")
    runs = Run.objects.filter(project=commit.project, commit=commit).select_related(*related)
    return list(runs.annotate(total=Window(Count("pk"))).defer("machine__facts").order_by("-id")[:MOST_RUNS])


def alerts_of(commit: Commit) -> list[Banner]:
    """The alerts that name a commit, newest first, each with the commit's roles in it."""
    condition = Q(commit=commit) | Q(fixed_by=commit) | Q(reverted_by=commit)
    alerts = Alert.objects.standing().filter(condition, project=commit.project)
    return banners_of(for_banners(alerts).order_by("-pk"), commit)
