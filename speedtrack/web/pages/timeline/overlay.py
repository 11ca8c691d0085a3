"""All lines of a timeline, those of its page and those that ``line=`` adds, with the paths that they run along."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from django.db import connection
from django.http import QueryDict

from speedtrack.accounts.access import Access
from speedtrack.alerts.lines.linecolumns import LineColumns, PathOfSeries, columns_along
from speedtrack.alerts.lines.lines import sql
from speedtrack.ground.texts.text import listed
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Commit, sha_begins
from speedtrack.runs.models import Series
from speedtrack.web.pages.timeline.names import NamedLine, NoSuchLine, find_lines, lines_of_page, parse_line
from speedtrack.web.pages.timeline.view import SUBJECT, View

MOST_LINES = 8
MOST_NAMES = 3 * MOST_LINES  # of lines in an address; more are not looked for
AXES = ("commits", "time")
SCALES = ("fitted", "zero", "log")  # of the values

# The positions of the commits of other branches that fall into the time of the page's; NULL where there is none.
WINDOWS = """
    WITH page AS (
      SELECT (SELECT c.committed_at FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
               WHERE p.branch_id = %(branch)s AND p.number = %(begin)s) AS first,
             (SELECT c.committed_at FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
               WHERE p.branch_id = %(branch)s AND p.number = %(end)s) AS last),
         commits AS MATERIALIZED (
      SELECT c.project_id, array_agg(c.id) AS ids
        FROM page
  CROSS JOIN projects_commit c
       WHERE c.project_id = ANY (%(projects)s)
         AND c.committed_at BETWEEN coalesce(page.first, '-infinity') AND coalesce(page.last, 'infinity')
    GROUP BY c.project_id)
    SELECT found.*
      FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[])
           WITH ORDINALITY AS asked (project_id, branch_id, place)
CROSS JOIN LATERAL (
        SELECT min(p.number), max(p.number)
          FROM commits c CROSS JOIN LATERAL unnest(c.ids) AS commit (id)
    CROSS JOIN LATERAL (
                SELECT number FROM projects_position
                 WHERE branch_id = asked.branch_id AND commit_id = commit.id OFFSET 0) p
         WHERE c.project_id = asked.project_id) found
  ORDER BY asked.place
"""

LATELY = 200  # commits before the base in which a line's value is looked for

# The newest clean point of each series at or before a commit; on a branch without it, at or before its time.
IS_MEASURED = """EXISTS (SELECT FROM runs_measurement m
                          WHERE m.series_id = asked.series_id AND m.commit_id = p.commit_id AND IS_CLEAN_POINT
                         OFFSET 0)"""
VALUES = sql(f"""
    SELECT asked.line, found.*
      FROM unnest(%(lines)s::int[], %(series)s::bigint[], %(projects)s::bigint[], %(branches)s::bigint[])
           AS asked (line, series_id, project_id, branch_id)
CROSS JOIN LATERAL (
        SELECT coalesce(
                 (SELECT p.number FROM projects_position p
                   WHERE p.branch_id = asked.branch_id AND p.commit_id = %(commit)s),
                 (SELECT p.number FROM projects_commit c JOIN projects_position p ON p.commit_id = c.id
                   WHERE c.project_id = asked.project_id AND p.branch_id = asked.branch_id
                     AND c.committed_at <= %(time)s
                ORDER BY c.committed_at DESC LIMIT 1)) AS number OFFSET 0) newest
CROSS JOIN LATERAL (
        SELECT p.number, m.series_id, c.sha, m.value
          FROM ({positions.last(IS_MEASURED, "asked.branch_id", "newest.number - %(lately)s", "newest.number")}) p
          JOIN runs_measurement m ON m.series_id = asked.series_id AND m.commit_id = p.commit_id AND IS_CLEAN_POINT
          JOIN projects_commit c ON c.id = p.commit_id
      ORDER BY m.attempt_id DESC LIMIT 1) found
  ORDER BY asked.line, found.number
""")  # noqa: S608 - constants


class BaseValue(NamedTuple):
    """The point that is 0% of a line."""

    number: int
    series_id: int
    sha: str
    value: float


class Path(NamedTuple):
    """The commits of a branch from position ``first`` to ``last``, both included; empty if ``last < first``."""

    slug: str
    branch: Branch
    first: int
    last: int

    @property
    def commits(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class ShownLine(NamedLine):
    """A line of the timeline. ``right``: its values are read on the right axis."""

    right: bool = False
    base: BaseValue | None = None


@dataclass(frozen=True)
class Overlay:
    """``scale``: fitted, zero or log; ``base``: the hash of a commit, or empty; ``problems``: sentences on what could
    not be shown."""

    view: View
    shown: list[ShownLine]
    paths: list[Path]
    axis: str
    scale: str
    base: str
    problems: list[str]

    @property
    def titles(self) -> list[str]:
        """The names of the lines without the parts that all share; if there is one line, its machine."""
        names = [(*line.name[:2], line.metric.title, *line.name[3:]) for line in self.shown]
        differing = [i for i in range(5) if len({name[i] for name in names}) > 1] or [3]
        return [", ".join(name[i] for i in differing) for name in names]

    def newest(self, count: int) -> "Overlay":
        """A copy with only the newest commits of each path."""
        return replace(self, paths=[path._replace(first=max(path.first, path.last - count + 1)) for path in self.paths])

    @cached_property
    def along(self) -> list[dict[int, tuple[int, Series]]]:
        """For each path its series: series id -> (number of the line, series)."""
        by_path: list[dict[int, tuple[int, Series]]] = [{} for _ in self.paths]
        for number, line in enumerate(self.shown):
            by_path[self.path_of(line)].update({series.pk: (number, series) for series in line.series})
        return by_path

    def path_of(self, line: ShownLine) -> int:
        """The number of the path that a line runs along."""
        return next(number for number, path in enumerate(self.paths) if path.branch.pk == line.branch.pk)

    def columns(self) -> list[list[LineColumns]]:
        """For each path the points of its series, in the order in which the series begin."""
        each = zip(self.paths, self.along, strict=True)
        return columns_along([PathOfSeries(p.branch, p.first, p.last, list(series)) for p, series in each])

    def fetch(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query about all paths, which may use the parameters below and these ``parameters``."""
        return rows_of(
            query,
            projects=[path.branch.project_id for path in self.paths],
            branches=[path.branch.pk for path in self.paths],
            firsts=[path.first for path in self.paths],
            lasts=[path.last for path in self.paths],
            subject=SUBJECT,
            **parameters,
        )


def rows_of(query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a plain query."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def overlay_of(view: View, query: QueryDict, access: Access) -> Overlay:
    """The lines that an address names. What is unknown or too much becomes a sentence; the rest is shown."""
    problems: list[str] = []
    axis, scale = (word_of(query, key, choices, problems) for key, choices in (("axis", AXES), ("y", SCALES)))
    lines = distinct_lines(
        [*lines_of_page(view), *added_lines(view, query.getlist("line"), problems, access)], problems
    )
    base = query.get("base", "").strip()
    shown_lines = relative_lines(lines, base, problems) if base else []
    if not shown_lines:
        base, shown_lines = "", lines_of_two_units(lines, problems)
    paths = paths_of(view, shown_lines)
    return Overlay(view, shown_lines, paths, "time" if len(paths) > 1 else axis, scale, base, problems)


def word_of(query: QueryDict, key: str, choices: Sequence[str], problems: list[str]) -> str:
    """The word that the address gives for ``key``, if it is one of ``choices``; otherwise the first of these."""
    choice = query.get(key) or choices[0]
    if choice not in choices:
        problems.append(f"There is no {key}={choice[:40]!r}: there are {', '.join(choices)}.")
    return choice if choice in choices else choices[0]


def added_lines(view: View, texts: Sequence[str], problems: list[str], access: Access) -> list[NamedLine]:
    names = []
    if len(texts) > MOST_NAMES:
        problems.append(
            f"The address names {len(texts)} lines, and only the first {MOST_NAMES} were looked for: name at most "
            f"{MOST_LINES}."
        )
    for text in texts[:MOST_NAMES]:
        try:
            names.append(parse_line(view, text))
        except NoSuchLine as e:
            problems.append(str(e))
    lines = find_lines(view, names, access)
    problems += [str(line) for line in lines if isinstance(line, NoSuchLine)]
    return [line for line in lines if isinstance(line, NamedLine)]


def distinct_lines(lines: Sequence[NamedLine], problems: list[str]) -> list[NamedLine]:
    """Each line once, and no more than can be told apart."""
    each = list({line.name: line for line in lines}.values())
    if len(each) > MOST_LINES:
        left_out = listed([str(line.name) for line in each[MOST_LINES:]])
        problems.append(f"A chart shows at most {MOST_LINES} lines; left out: {left_out}.")
    return each[:MOST_LINES]


def lines_of_two_units(lines: Sequence[NamedLine], problems: list[str]) -> list[ShownLine]:
    """The lines that have the first two units; those of the second unit use the right axis."""
    units = list(dict.fromkeys(line.metric.unit for line in lines))
    for line in lines:
        if line.metric.unit in units[2:]:
            problems.append(
                f"A chart has two axes, for {units[0]} and {units[1]} here; {line.name} is left out. "
                "Relative to a base commit, all lines share one axis."
            )
    fitting = [line for line in lines if line.metric.unit in units[:2]]
    return [ShownLine(**vars(line), right=line.metric.unit != units[0]) for line in fitting]


def relative_lines(lines: Sequence[NamedLine], base: str, problems: list[str]) -> list[ShownLine]:
    """The lines relative to their values at the base. Lines without such a value are left out."""
    commit = base_commit({line.branch.project_id for line in lines}, base)
    if commit is None:
        problems.append(f"None of these projects has a commit {base[:64]!r}: the values are absolute.")
        return []
    values = base_values(lines, commit)
    relative = []
    for number, line in enumerate(lines):
        value = values.get(number)
        if value and value.value > 0:
            relative.append(ShownLine(**vars(line), base=value))
        else:
            why = "is zero there" if value else f"was not measured there, nor in the {LATELY} commits before"
            problems.append(f"{line.name} {why}: it cannot be shown relative to {commit.short}.")
    return relative


def base_commit(project_ids: set[int], sha: str) -> Commit | None:
    """The commit of one of these projects whose hash begins like this."""
    if len(sha) < 7:
        return None
    commit: Commit | None = Commit.objects.filter(sha_begins(sha), project__in=project_ids).order_by("pk").first()
    return commit


def base_values(lines: Sequence[NamedLine], commit: Commit) -> dict[int, BaseValue]:
    """By the number of the line; a line without a value in the commits before the base has none."""
    each = [(number, series, line) for number, line in enumerate(lines) for series in line.series]
    rows = rows_of(
        VALUES,
        lines=[number for number, _, _ in each],
        series=[series.pk for _, series, _ in each],
        projects=[line.branch.project_id for _, _, line in each],
        branches=[line.branch.pk for _, _, line in each],
        commit=commit.pk,
        time=commit.committed_at,
        lately=LATELY,
    )
    return {line: BaseValue._make(values) for line, *values in rows}  # the newest one of a line's series is the last


def paths_of(view: View, lines: Sequence[ShownLine]) -> list[Path]:
    """The page's range of commits, and the commits of other branches at the same time."""
    page = Path(view.scope.project.slug, view.branch, view.first, view.last)
    by_branch = {line.branch.pk: line for line in lines if line.branch.pk != view.branch.pk}
    if not by_branch:
        return [page]
    rows = rows_of(
        WINDOWS,
        branch=view.branch.pk,
        begin=view.first if view.first > 0 else None,
        end=view.last if view.last < view.scope.head else None,
        projects=[line.branch.project_id for line in by_branch.values()],
        branches=list(by_branch),
    )
    paths = [page]
    for line, (first, last) in zip(by_branch.values(), rows, strict=True):
        paths.append(Path(line.name.project, line.branch, first or 0, -1 if last is None else last))
    return paths
