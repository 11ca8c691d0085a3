"""Bisections that people asked for: the list of a project with its form, and the page of one."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Prefetch
from django.http import Http404, QueryDict

from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.bisections.remaining import RemainingTime, remaining_time
from speedtrack.alerts.bisections.searches import Search, stored_searches
from speedtrack.alerts.models import Bisection, BisectionAnswer
from speedtrack.alerts.triage.measuring import NotMeasurable
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, WATCHED, Metric
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet
from speedtrack.projects.models import Commit, Project
from speedtrack.reports.readings.choices import machines_of
from speedtrack.reports.readings.sides import places_of
from speedtrack.runs.models import Machine, Run
from speedtrack.stats.comparing.bisect import CommitRange
from speedtrack.web.pages.alerting.narrowing import MARKS, MEANINGS, MOST, PathCommit, PathRow
from speedtrack.web.scope import project_or_404

NEWEST = 30  # bisections of a list
Answer = BisectionAnswer.Answer
LOOKS = {Answer.OLD: "old", Answer.UNKNOWN: "unknown", Answer.UNDECIDED: "unknown", Answer.FAILED: "failed"}
#: What is known of a benchmark while its ends are not known to differ.
WORDS = {
    Answer.SAME: "did not change",
    Answer.UNKNOWN: "is measured further: the pairs so far do not say whether it changed",
    Answer.UNDECIDED: "stays unknown: no number of pairs says whether it changed",
    Answer.FAILED: "could not be measured",
}
ANSWER_WORDS = {
    Answer.DIFFERENT: "the newer end",
    Answer.SAME: "same as the older end",
    Answer.OLD: "level of the older end",
    Answer.NEW: "level of the newer end",
    Answer.UNKNOWN: "not known yet",
    Answer.UNDECIDED: "not known",
    Answer.FAILED: "not built or measured",
}


@dataclass(frozen=True)
class BisectPage:
    """The form, with what the address presets, and the newest bisections."""

    project: Project
    bisections: list[Bisection]
    names: list[str]
    machines: list[Machine]
    metrics: list[Metric]
    before: str
    commit: str
    machine: str
    metric: str
    chosen: list[str]


def load(slug: str, query: QueryDict) -> BisectPage:
    project = project_or_404(slug)
    related = project.bisections.select_related("before", "commit", "machine", "benchmark_set", "asked_by")
    # Of each set one run is looked for: with all its runs, PostgreSQL would walk over the whole history.
    benchmark_sets = BenchmarkSet.objects.filter(
        Exists(Run.objects.filter(benchmark_set=OuterRef("pk"))), project=project
    )
    benchmarks = Benchmark.objects.filter(sets__in=benchmark_sets).order_by("name")
    preset = {key: query.get(key, "").strip() for key in ("before", "commit", "machine", "metric")}
    preset["metric"] = preset["metric"] or HEADLINE
    return BisectPage(
        project,
        list(related.order_by("-id")[:NEWEST]),
        list(benchmarks.values_list("name", flat=True).distinct()),
        [machine for machine in machines_of(project) if machine.retired_at is None],
        [METRICS[name] for name in WATCHED if not METRICS[name].counted],
        **preset,
        chosen=query.getlist("benchmark"),
    )


def preset_by(form: QueryDict) -> QueryDict:
    """The parameters of an address that presets the form with what was sent."""
    query = form.copy()
    for name in form.keys() - {"before", "commit", "machine", "metric", "benchmark"}:
        del query[name]
    return query


@dataclass(frozen=True)
class AskedBisection:
    """A bisection as a form or command requests it."""

    before: Commit
    commit: Commit
    machine: Machine
    names: list[str]
    metric: str

    def begin(self, asked_by: User | None) -> Bisection:
        """Begin the bisection. Raises NotMeasurable, or DefinitionError for an invalid suite."""
        return bisecting.start(self.before, self.commit, self.machine, self.names, self.metric, asked_by)


def read_form(project: Project, form: QueryDict) -> AskedBisection:
    """The bisection that the form requests. Raises NotMeasurable for names that the project does not have."""
    ends = [form.get(key, "").strip() for key in ("before", "commit")]
    return asked_for(project, ends, form.get("machine", ""), form.getlist("benchmark"), form.get("metric", ""))


def asked_for(project: Project, ends: list[str], machine: str, names: list[str], metric: str) -> AskedBisection:
    """The bisection between commits, on a machine and by benchmarks with these names.

    ``ends``: the older one first. Raises NotMeasurable for names that the project does not have.
    """
    if not all(ends):
        raise NotMeasurable("name both commits, the older one first")
    commits = []
    for name, position in zip(ends, places_of((project, name) for name in ends), strict=True):
        if position is None:
            raise NotMeasurable(f"{project.name} has no commit, branch or tag {name!r}")
        commits.append(Commit.objects.get(pk=position.commit_id))
    machines = {candidate.name: candidate for candidate in machines_of(project) if candidate.retired_at is None}
    if machine not in machines:
        raise NotMeasurable(f"no machine {machine!r} measures {project.name}")
    before, commit = commits
    return AskedBisection(before, commit, machines[machine], names, metric or HEADLINE)


@dataclass(frozen=True)
class AnswerRow:
    """A measured commit of a search."""

    commit: Commit
    answer: BisectionAnswer

    @property
    def words(self) -> str:
        return ANSWER_WORDS[Answer(self.answer.answer)]


@dataclass(frozen=True)
class SearchShown:
    """The state of the search for one benchmark's change.

    ``left``: those of the ``possible`` causes that are shown, oldest first.
    """

    benchmark: str
    end: BisectionAnswer | None
    worse: bool
    left: list[Commit]
    possible: int
    commits: list[PathCommit]
    rows: list[AnswerRow]

    @property
    def words(self) -> str:
        if self.end is None:
            return "waits for the pairs of both ends"
        return WORDS.get(Answer(self.end.answer), "")

    @property
    def newest(self) -> Commit:
        return self.left[-1]

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        looks = {commit.look for commit in self.commits}
        return [(look, MARKS[look], MEANINGS[look]) for look in MARKS if look in looks]


@dataclass(frozen=True)
class BisectionPage:
    """``left_out``: the number of commits that the strips do not show, because nothing is known about them."""

    bisection: Bisection
    searches: list[SearchShown]
    expected: RemainingTime
    runs: list[Run]
    left_out: int

    @property
    def measuring(self) -> bool:
        return self.bisection.ended_at is None


def load_one(pk: int) -> BisectionPage:
    related = ("project", "before", "commit", "machine", "benchmark_set", "suite", "asked_by")
    runs = Run.objects.select_related("commit", "benchmark_set").order_by("pk")
    bisections = Bisection.objects.select_related(*related).prefetch_related(Prefetch("runs", queryset=runs))
    bisection: Bisection | None = bisections.filter(pk=pk).first()
    if bisection is None:
        raise Http404(f"There is no bisection {pk}.")
    searches = stored_searches(bisection)
    positions = shown_places(bisection, searches)
    commits = Commit.objects.in_bulk([bisection.path[position - 1] for position in positions if position])
    commits[bisection.before_id] = bisection.before
    return BisectionPage(
        bisection,
        [search_shown(bisection, search, positions, commits) for search in searches],
        remaining_time(bisection, searches),
        list(bisection.runs.all()),
        1 + len(bisection.path) - len(positions),
    )


def shown_places(bisection: Bisection, searches: list[Search]) -> list[int]:
    """The indices of the path's commits that are shown: the ends, measured ones, and their nearest neighbours."""
    length = 1 + len(bisection.path)
    positions = {commit: position for position, commit in enumerate(bisection.path, start=1)}
    indices = {0, length - 1} | {
        positions[commit] for search in searches for commit in search.answers if commit in positions
    }
    indices |= {position for search in searches if (interval := search.range_left(bisection)) for position in interval}
    near = (
        sorted(range(length), key=lambda position: min(abs(position - index) for index in indices))
        if length > MOST
        else []
    )
    return sorted(near[:MOST]) if near else list(range(length))


def search_shown(bisection: Bisection, search: Search, positions: list[int], commits: dict[int, Commit]) -> SearchShown:
    end = search.answers.get(bisection.commit_id)
    metric = bisection.metric
    worse = bool(end and end.ratio and metric.is_worse(end.ratio))
    interval = search.range_left(bisection)
    ids = [bisection.before_id, *bisection.path]
    path_commits = [path_commit(commits[ids[position]], position, search, interval, worse) for position in positions]
    between = [
        commits[ids[position]] for position in positions if interval and interval.first < position <= interval.last
    ]
    rows = [
        AnswerRow(commits[ids[position]], search.answers[ids[position]])
        for position in positions
        if ids[position] in search.answers
    ]
    return SearchShown(
        search.benchmark.name,
        end,
        worse,
        between,
        interval.last - interval.first if interval else 0,
        path_commits,
        rows,
    )


def path_commit(commit: Commit, position: int, search: Search, interval: CommitRange | None, worse: bool) -> PathCommit:
    answer = search.answers.get(commit.pk)
    look = "unmeasured" if position else "old"
    if answer is not None:
        after = "new" if worse else "better"
        look = LOOKS.get(Answer(answer.answer), after if answer.answer in (Answer.NEW, Answer.DIFFERENT) else "old")
    row = PathRow(commit.pk, position, commit.sha, commit.subject, commit.author_name)
    return PathCommit(row, look, bool(interval and interval.first < position <= interval.last))
