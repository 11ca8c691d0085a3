"""The commits that can be chosen as lines, and those that are."""

from collections import defaultdict
from dataclasses import dataclass, replace

from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.http import Http404

from speedtrack.accounts.access import Access
from speedtrack.projects.models import Commit, Position, Tag, sha_begins
from speedtrack.projects.releases import version_of
from speedtrack.runs.models import Measurement
from speedtrack.web.drawing.charts.linecharts import MOST_LINES

LISTED = 20  # of the commits of a project that can be chosen as lines, besides what is tagged or asked for
SHORTEST = 7  # digits of a commit id in an address


@dataclass(frozen=True)
class LineChoice:
    """A commit that a ladder was measured for. ``key``: its name in addresses."""

    commit: Commit
    release: str
    shown: bool = False

    @property
    def key(self) -> str:
        return f"{self.commit.project.slug}@{self.commit.short}"

    @property
    def label(self) -> str:
        return f"{self.commit.project.name} {self.release or self.commit.short}"

    def is_at(self, revision: str) -> bool:
        return revision == self.release or (len(revision) >= SHORTEST and self.commit.sha.startswith(revision))


def choices_of(
    points: QuerySet[Measurement], names: list[str], slug: str | None, access: Access
) -> tuple[list[LineChoice], list[str]]:
    """The measured commits, each with whether it is shown; and the requested lines that are not among them.

    Of each project these are the commits measured last, the tagged ones (releases) and those requested. They are
    ordered by project, those on its default branch first, the newest first. Raises Http404 for a line that does not
    exist.
    """
    on_default = Position.objects.filter(commit=OuterRef("pk"), branch__name=OuterRef("project__default_branch"))
    by_project = measured_commits(points)
    tags = list(Tag.objects.filter(project__in=by_project).values_list("project", "sha", "name"))
    commits = Commit.objects.select_related("project").filter(choosable(by_project, tags, names))
    commits = commits.order_by("project__name", "project", Exists(on_default).desc(), "-committed_at", "-pk")
    releases = {(project, sha): name for project, sha, name in tags if version_of(name)}
    measured_ids = {pk for own in by_project.values() for pk in own}
    choices = [
        LineChoice(commit, releases.get((commit.project_id, commit.sha), ""))
        for commit in commits
        if commit.pk in measured_ids
    ]
    by_name = {name: choice_named(choices, name) for name in names}
    absent = [name for name, choice in by_name.items() if choice is None]
    require_known(absent, access)
    selection = [choice for choice in choices if choice in by_name.values()] or usual_choices(choices, slug)
    return [replace(choice, shown=choice in selection[:MOST_LINES]) for choice in choices], absent


def measured_commits(points: QuerySet[Measurement]) -> dict[int, list[int]]:
    """By project: the ids of its measured commits, the one measured last first."""
    latest = points.values("commit").annotate(latest=Max("pk")).order_by("-latest")
    by_project: dict[int, list[int]] = defaultdict(list)
    for project, commit in latest.values_list("commit__project", "commit"):
        by_project[project].append(commit)
    return by_project


def choosable(by_project: dict[int, list[int]], tags: list[tuple[int, str, str]], names: list[str]) -> Q:
    """The condition for commits that can be selected as lines, if they are measured."""
    condition = Q(pk__in=[commit for own in by_project.values() for commit in own[:LISTED]])
    condition |= Q(project__in=by_project, sha__in={sha for _, sha, _ in tags})
    for slug, _, revision in (name.partition("@") for name in names):
        if len(revision) >= SHORTEST:
            condition |= Q(sha_begins(revision), project__slug=slug)
    return condition


def choice_named(choices: list[LineChoice], name: str) -> LineChoice | None:
    """The one with this name: ``project@commit``, ``project@release``, or ``project`` for its newest one."""
    slug, _, revision = name.partition("@")
    for choice in choices:
        if choice.commit.project.slug == slug and (not revision or choice.is_at(revision)):
            return choice
    return None


def require_known(names: list[str], access: Access) -> None:
    """Raise Http404 for a line that is neither a project nor one of its commits."""
    for name in names:
        slug, _, revision = name.partition("@")
        commits = access.among(Commit.objects.filter(project__slug=slug))
        if revision:
            tags = Tag.objects.filter(project__slug=slug, name=revision)
            commits = commits.filter(sha_begins(revision) | Q(sha__in=tags.values("sha")))
        if not commits.exists():
            raise Http404(f"There is no line {name!r}: name a project, or one as PROJECT@RELEASE or PROJECT@COMMIT.")


def usual_choices(choices: list[LineChoice], slug: str | None) -> list[LineChoice]:
    """Those shown by default: the newest commit of each project; if there is one project, also its releases."""
    own = [choice for choice in choices if choice.commit.project.slug == slug]
    if own:
        return [own[0], *(choice for choice in own[1:] if choice.release)]
    newest = {choice.commit.project_id: choice for choice in reversed(choices)}
    return [choice for choice in choices if choice in newest.values()]
