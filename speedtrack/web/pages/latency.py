"""The latencies of one benchmark: a heat map over commits, and the percentile curves of two of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from django.core.cache.backends.locmem import LocMemCache
from django.db import connection
from django.http import Http404, QueryDict

from speedtrack.alerts.lines import lines
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Position, sha_begins
from speedtrack.retention import policies
from speedtrack.runs.models import Result, Series
from speedtrack.runs.results import latencies
from speedtrack.runs.results.environments import ChangedFact, changes_in_words
from speedtrack.runs.results.latencies import Latencies
from speedtrack.web.drawing.charts.curves import LATENCY, curve_chart, curve_of, difference_chart
from speedtrack.web.drawing.charts.heatmap import LINES, HeatMap, LatencyShape, NamedShape, draw_heatmap
from speedtrack.web.drawing.charts.linecharts import LineChart
from speedtrack.web.pages.timeline.breaks import differing_facts
from speedtrack.web.scope import PageScope, scope_of

RANGES = (50, 100, 200, 1000)
USUAL_RANGE = 100
MOST_COLUMNS = 160  # commits that are drawn; of more, some in equal distances
LISTED = {"50%": 0.5, "90%": 0.9, "99%": 0.99, "99.9%": 0.999, "99.99%": 0.9999}
KEPT_SHAPES = 20_000

# The commits of a branch that some series measured, oldest first, with the result of the newest run of each: it has the
# documents of its trials unless retention has deleted them.
MEASURED = lines.sql("""
    SELECT DISTINCT ON (p.number) p.number, c.sha, c.subject, r.id, r.documents IS NOT NULL, s.id
      FROM projects_position p
      JOIN projects_commit c ON c.id = p.commit_id
CROSS JOIN unnest(%(series)s::int[], %(benchmarks)s::bigint[]) AS s (id, benchmark_id)
CROSS JOIN LATERAL (
        SELECT m.attempt_id FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = p.commit_id AND IS_POINT OFFSET 0) m
      JOIN runs_result r ON r.attempt_id = m.attempt_id AND r.benchmark_id = s.benchmark_id AND r.side = 'head'
     WHERE p.branch_id = %(branch)s AND p.number > %(after)s AND p.number <= %(through)s
  ORDER BY p.number, r.documents IS NOT NULL DESC, r.id DESC
""")


class PercentileRow(NamedTuple):
    """One percentile of both sides, as text."""

    label: str
    base: str
    head: str
    change: str


def rule_of_keeping() -> str:
    """A sentence: for how long latencies are kept, as they are part of the trials' documents."""
    policy = policies.POLICIES["documents"]
    return f"Latencies are {policy.deletion}." if policy.days else "Latencies are kept for ever."


@dataclass(frozen=True)
class LatencyCurves:
    """Two percentile curves and their difference. ``missing``: sides whose documents of trials are not stored."""

    benchmark: str
    names: tuple[str, str]
    chart: LineChart | None
    difference: LineChart | None
    rows: list[PercentileRow]
    missing: list[str]
    flagged: list[str]

    @property
    def rule(self) -> str:
        return rule_of_keeping()


class HeatCommit(NamedTuple):
    """A commit of the heat map, with the result that has its latencies.

    ``series_id`` determines its environment and definition.
    """

    number: int
    sha: str
    subject: str
    result_id: int
    documented: bool
    series_id: int

    @property
    def short(self) -> str:
        return self.sha[:10]


@dataclass(frozen=True)
class LatencyPage:
    """The page of one benchmark's latencies.

    ``without``: measured commits whose documents are not stored. ``before``: the commit that ``chosen`` is compared
    with. ``left_out``: how many commits the map leaves out because there are too many. ``lacking``: the requested
    commit, if it has no latencies. ``breaks``: the drawn commits from which on another environment or definition was
    measured, each with what changed; ``apart``: what changed in this way between ``before`` and ``chosen``.
    """

    scope: PageScope
    benchmark: Benchmark
    benchmarks: list[str]
    last: int
    commits: list[HeatCommit]
    without: list[HeatCommit]
    left_out: int
    heatmap: HeatMap | None
    lacking: str
    chosen: HeatCommit | None
    before: HeatCommit | None
    curves: LatencyCurves | None
    shapes: dict[int, LatencyShape]  #: by result, of the drawn commits
    breaks: list[tuple[HeatCommit, str]]
    apart: list[ChangedFact]

    @property
    def rule(self) -> str:
        return rule_of_keeping()

    @property
    def later(self) -> HeatCommit | None:
        """The next commit after the chosen one that has latencies."""
        current = self.chosen
        return next(
            (commit for commit in self.commits if current and commit.documented and commit.number > current.number),
            None,
        )

    @property
    def is_parent(self) -> bool:
        return bool(self.chosen and self.before and self.before.number == self.chosen.number - 1)


def curves_of(benchmark: str, base: tuple[str, Latencies], head: tuple[str, Latencies]) -> LatencyCurves:
    """The curves of two named sides."""
    names, sides = (base[0], head[0]), (base[1], head[1])
    if names[0] == names[1]:
        names = (f"{names[0]} (base)", f"{names[1]} (head)")
    curves = [curve_of(side.together, side.trials) if side.trials else [] for side in sides]
    chart = curve_chart(list(zip(names, curves, strict=True))) if any(curves) else None
    difference = difference_chart(curves[0], curves[1], f"{names[1]} against {names[0]}") if all(curves) else None
    missing = [name for name, side in zip(names, sides, strict=True) if not side.trials]
    flagged = [name for name, side in zip(names, sides, strict=True) if side.flagged]
    return LatencyCurves(benchmark, names, chart, difference, percentile_rows(sides), missing, flagged)


def percentile_rows(sides: Sequence[Latencies]) -> list[PercentileRow]:
    shares = list(LISTED.values())
    base, head = ((side.together.quantiles(shares) / 1000).tolist() if side.trials else [] for side in sides)
    rows = []
    for index, label in enumerate(LISTED):
        old, new = (values[index] if values else None for values in (base, head))
        change = numbers.change(new / old) if old and new else "–"
        rows.append(PercentileRow(label, latency_text(old), latency_text(new), change))
    return rows


def latency_text(value: float | None) -> str:
    return "–" if value is None else numbers.quantity(LATENCY, value)


def load(slug: str, benchmark: str, query: QueryDict) -> LatencyPage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    scope = scope_of(slug, query)
    last = range_asked(query.get("last", ""))
    series = list(
        Series.objects.filter(project=scope.project, metric=HEADLINE, machine=scope.machine)
        .order_by("benchmark__name")
        .values_list("pk", "benchmark", "benchmark__name")
    )
    own = [(pk, of) for pk, of, name in series if name == benchmark]
    benchmark_row = (
        Benchmark.objects.filter(project=scope.project, name=benchmark).defer("definition").order_by("-pk").first()
    )
    if benchmark_row is None:
        raise Http404(f"{scope.project.slug} has no benchmark {benchmark[:80]!r}.")
    position = position_asked(scope, query.get("commit", "").lower())
    commits = measured_commits(scope, own, range_of(scope, last, position))
    documented = [commit for commit in commits if commit.documented]
    current, before = chosen_of(documented, position)
    columns = thinned_commits(documented, {commit.number for commit in (current, before) if commit})
    shapes = shapes_of([commit.result_id for commit in columns])
    differences = changes_between([*pairwise(columns), *([(before, current)] if before and current else [])])
    breaks = [
        (commit, changes_in_words(differences[old.series_id, commit.series_id])) for old, commit in apart_in(columns)
    ]
    break_texts = dict(breaks)
    named_shapes = [
        NamedShape(
            commit.sha[:12],
            commit.sha[:7],
            title_of(commit, shape),
            shape,
            commit == current,
            break_texts.get(commit, ""),
        )
        for commit in columns
        if (shape := shapes.get(commit.result_id))
    ]
    return LatencyPage(
        scope=scope,
        benchmark=benchmark_row,
        benchmarks=list(dict.fromkeys(name for *_, name in series)),
        last=last,
        commits=commits,
        without=[commit for commit in commits if not commit.documented],
        left_out=len(documented) - len(columns),
        heatmap=draw_heatmap(named_shapes),
        lacking=query.get("commit", "")[:10] if position is not None and current is None else "",
        chosen=current,
        before=before,
        curves=curves_between(benchmark, before, current),
        shapes=shapes,
        breaks=breaks,
        apart=differences.get((before.series_id, current.series_id), []) if before and current else [],
    )


def apart_in(commits: Sequence[HeatCommit]) -> list[tuple[HeatCommit, HeatCommit]]:
    """Neighbouring commits whose environments or definitions differ."""
    return [(old, new) for old, new in pairwise(commits) if old.series_id != new.series_id]


def changes_between(pairs: Iterable[tuple[HeatCommit, HeatCommit]]) -> dict[tuple[int, int], list[ChangedFact]]:
    """By the series ids of each pair: what differs between the two series, if they are not the same."""
    differing = {(old.series_id, new.series_id) for old, new in pairs if old.series_id != new.series_id}
    if not differing:
        return {}
    related = Series.objects.select_related("environment", "benchmark").defer("benchmark__definition")
    by_pk = related.in_bulk({pk for pair in differing for pk in pair})
    return {(old, new): differing_facts(by_pk[old], by_pk[new]) for old, new in differing}


def range_asked(text: str) -> int:
    if text and text not in map(str, RANGES):
        raise Http404(f"There is no range {text[:20]!r}: there are {', '.join(map(str, RANGES))}.")
    return int(text or USUAL_RANGE)


def position_asked(scope: PageScope, sha: str) -> int | None:
    """The position on the branch of the requested commit; None if none is requested.

    Raises Http404 if it is not there.
    """
    if not sha:
        return None
    positions = Position.objects.filter(sha_begins(sha, "commit__"), branch=scope.branch)
    numbers = list(positions.values_list("number", flat=True)[:2]) if len(sha) >= 7 else []
    if len(numbers) != 1:
        raise Http404(f"There is no commit {sha[:64]!r} on {scope.branch}: give at least seven digits of its id.")
    return int(numbers[0])


def range_of(scope: PageScope, last: int, position: int | None) -> tuple[int, int]:
    """The positions (before the range, its last one): of the newest commits, or of those around the requested one."""
    if position is None or position > scope.head - last + 1:
        return scope.head - last, scope.head
    return position - last // 2, position + last // 2


def measured_commits(
    scope: PageScope, series: Iterable[tuple[int, int]], positions: tuple[int, int]
) -> list[HeatCommit]:
    """The measured commits between these positions of the branch, oldest first."""
    if scope.branch is None:
        return []
    own = list(series)
    parameters: dict[str, Any] = {
        "series": [pk for pk, _ in own],
        "benchmarks": [benchmark for _, benchmark in own],
        "branch": scope.branch.pk,
        "after": positions[0],
        "through": positions[1],
    }
    with connection.cursor() as cursor:
        cursor.execute(MEASURED, parameters)
        return [HeatCommit._make(row) for row in cursor]


def chosen_of(documented: Sequence[HeatCommit], position: int | None) -> tuple[HeatCommit | None, HeatCommit | None]:
    """The requested commit, by default the newest, and the last one before it that has its documents too."""
    candidates = (commit for commit in reversed(documented) if position is None or commit.number == position)
    current = next(candidates, None)
    before = next((commit for commit in reversed(documented) if current and commit.number < current.number), None)
    return current, before


def thinned_commits(commits: Sequence[HeatCommit], positions: set[int]) -> list[HeatCommit]:
    """At most MOST_COLUMNS of the commits at equal distances, and those at these ``positions``."""
    step = -(-len(commits) // MOST_COLUMNS)
    newest = len(commits) - 1
    return [
        commit
        for index, commit in enumerate(commits)
        if (newest - index) % max(step, 1) == 0 or commit.number in positions
    ]


def title_of(commit: HeatCommit, shape: LatencyShape) -> str:
    middle, slow, slowest = (numbers.quantity(LATENCY, value) for value in shape.percentiles)
    return f"{commit.short} {commit.subject}: {middle} (50%), {slow} (99%), {slowest} (99.9%)"


shape_cache = LocMemCache("latency shapes", {"max_entries": KEPT_SHAPES, "TIMEOUT": None})


def shapes_of(result_ids: Sequence[int]) -> dict[int, LatencyShape]:
    """The shapes of results by id. What was stored never changes, so each is read once by a process."""
    shapes = shape_cache.get_many(map(str, result_ids))
    absent = [pk for pk in result_ids if str(pk) not in shapes]
    for result in Result.objects.filter(pk__in=absent) if absent else ():
        result_latencies = latencies.of_results([result])
        shapes[str(result.pk)] = LatencyShape.of(result_latencies.together) if result_latencies.trials else None
        shape_cache.set(str(result.pk), shapes[str(result.pk)])
    return {int(pk): shape for pk, shape in shapes.items() if shape}


def curves_between(benchmark: str, before: HeatCommit | None, current: HeatCommit | None) -> LatencyCurves | None:
    if current is None:
        return None
    results = Result.objects.in_bulk([commit.result_id for commit in (before, current) if commit])
    sides = [
        (commit.short, latencies.of_results([results[commit.result_id]] if commit.result_id in results else []))
        for commit in (before, current)
        if commit
    ]
    base = sides[0] if before else ("the commit before", Latencies([]))
    return curves_of(benchmark, base, sides[-1])


PERCENTILES = tuple(f"p{name.removesuffix('%')}_us" for name in LINES)


def latency_document(page: LatencyPage) -> dict[str, Any]:
    """The percentiles that the heat map draws, by commit."""
    scope = page.scope
    return {
        "schema": "speedtrack.latency/1",
        "project": scope.project.slug,
        "benchmark": page.benchmark.name,
        "branch": scope.branch.name if scope.branch else None,
        "machine": scope.machine.name if scope.machine else None,
        "commits": [
            {"sha": commit.sha, "subject": commit.subject, **dict(zip(PERCENTILES, shape.percentiles, strict=True))}
            for commit in page.commits
            if (shape := page.shapes.get(commit.result_id))
        ],
        "without": [commit.sha for commit in page.without],
        "breaks": [{"sha": commit.sha, "what": text} for commit, text in page.breaks],
    }


def csv_rows(page: LatencyPage) -> Iterator[list[Any]]:
    yield ["sha", "subject", *PERCENTILES]
    yield from (list(row.values()) for row in latency_document(page)["commits"])
