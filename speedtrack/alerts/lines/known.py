"""The known steps of a series, at their places in a window of its line: they are not suspected again."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.windows import Window
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Series
from speedtrack.stats.changes.changepoint import NEAR, SettledShift, Shift

Status = ChangePoint.Status


LEVELS = (Status.CONFIRMED, Status.HISTORY, Status.MACHINE)  # a new level begins with these, whatever the cause


ChangeRange = tuple[ChangePoint, int, int]  # with the positions of its two commits

STEPS = """
    SELECT s.at, cp.id, cp.status, cp.ratio,
           (SELECT p.number FROM projects_position p WHERE p.branch_id = s.branch_id AND p.commit_id = cp.before_id),
           (SELECT p.number FROM projects_position p WHERE p.branch_id = s.branch_id AND p.commit_id = cp.commit_id)
      FROM unnest(%(series)s::bigint[], %(branches)s::bigint[]) WITH ORDINALITY AS s (id, branch_id, at)
      JOIN alerts_changepoint cp ON cp.series_id = s.id AND cp.kind = 'step'
  ORDER BY s.at, cp.id
"""
# Suspicions with a commit that has no clean point any more, because its measurements were flagged since.
UNFOUNDED = lines.sql("""
    SELECT cp.id
      FROM unnest(%(series)s::bigint[]) AS s (id)
      JOIN alerts_changepoint cp ON cp.series_id = s.id AND cp.kind = 'step' AND cp.status = 'suspected'
     WHERE EXISTS (SELECT FROM unnest(ARRAY[cp.before_id, cp.commit_id]) AS p (commit_id) WHERE NOT IS_MEASURED)
""")


class PlacedStep(NamedTuple):
    """A step of a series at its place on a branch.

    ``first``: the position of the commit before it; None if that is not on the branch.
    """

    id: int
    status: str
    ratio: float
    first: int | None
    last: int


@dataclass(frozen=True)
class Steps:
    """The steps of a series, whatever their status: those on a branch, and ids of confirmed ones that are not on it."""

    placed: list[PlacedStep]
    elsewhere: list[int]


def steps_on(series: Series, branch: Branch) -> Steps:
    """The steps of one line."""
    return steps_of_lines([(series, branch)])[0]


def steps_of_lines(of: Sequence[tuple[Series, Branch]]) -> list[Steps]:
    """The steps of each line."""
    parameters = {"series": [series.pk for series, _ in of], "branches": [branch.pk for _, branch in of]}
    placed: list[list[PlacedStep]] = [[] for _ in of]
    elsewhere: list[list[int]] = [[] for _ in of]
    with connection.cursor() as cursor:
        cursor.execute(STEPS, parameters)
        for at, *row in cursor:
            step = PlacedStep._make(row)
            if step.last is not None:
                placed[at - 1].append(step)
            elif step.status == Status.CONFIRMED:
                elsewhere[at - 1].append(step.id)
    return [Steps(*of_line) for of_line in zip(placed, elsewhere, strict=True)]


def unfounded_suspicions(series: Sequence[Series]) -> list[int]:
    """The ids of suspicions of these series that have lost one of the two points between which they lie."""
    with connection.cursor() as cursor:
        cursor.execute(UNFOUNDED, {"series": [member.pk for member in series]})
        return [pk for (pk,) in cursor]


@dataclass(frozen=True)
class KnownChange:
    """A change point of the series, with the points of the line in its range, ``first`` to ``last``.

    If its commit was found by bisection and has no point itself, the first point after it stands for it. ``near``: the
    points by which noise may place a shift elsewhere.
    """

    change_point: ChangePoint
    first: int
    last: int
    near: int

    @property
    def is_open(self) -> bool:
        return self.change_point.status == Status.SUSPECTED

    @property
    def is_reported(self) -> bool:
        """Return whether it was confirmed, by pairs or by the history."""
        return self.change_point.status in (Status.CONFIRMED, Status.HISTORY)

    @property
    def begins_level(self) -> bool:
        settled_shift = self.settled()
        return settled_shift is not None and settled_shift.confirmed

    @property
    def is_up(self) -> bool:
        return self.change_point.ratio > 1

    def is_same(self, shift: Shift) -> bool:
        """Return whether the shift is this same change."""
        if self.is_open and self.first <= shift.index <= self.last:
            return True
        settled_shift = self.settled()
        if settled_shift:
            return settled_shift.is_same(shift.index, shift.ratio > 1)
        return self.is_up == (shift.ratio > 1) and self.first - self.near <= shift.index <= self.last + self.near

    def settled(self) -> SettledShift | None:
        """The change as the detector takes it for granted; None unless pairs or a person decided it.

        A change that is being measured or could not be settled divides the line where the detector sees it, and is not
        suspected twice.
        """
        cp = self.change_point
        if cp.status not in (*LEVELS, Status.REFUTED):
            return None
        invalid = cp.alert is not None and cp.alert.status == Alert.Status.INVALID
        return SettledShift(self.first, self.last, self.is_up, cp.status in LEVELS and not invalid, self.near)


@dataclass(frozen=True)
class KnownLine:
    """The known steps of a window's line, and confirmed steps ``rewritten`` into it by a rebase."""

    steps: Steps
    rewritten: list[ChangeRange]
    changes: list[KnownChange]

    def placed(self) -> list[PlacedStep]:
        """All known steps, at their places on the branch."""
        return [*self.steps.placed, *(PlacedStep(cp.pk, cp.status, cp.ratio, *at) for cp, *at in self.rewritten)]


def known_lines(windows: Sequence[Window]) -> list[KnownLine]:
    """The known steps of the line of each window; each window has points.

    The number of queries does not grow with the number of windows.
    """
    steps = steps_of_lines([(window.series, window.branch) for window in windows])
    gone = gone_changes({pk for of_line in steps for pk in of_line.elsewhere})
    ranges = [ranges_in(window, of_line) for window, of_line in zip(windows, steps, strict=True)]
    ids = {pk for of_line in ranges for pk in of_line}
    related = ChangePoint.objects.select_related("alert").in_bulk(ids) if ids else {}
    known_by_window = []
    for window, of_line, within in zip(windows, steps, ranges, strict=True):
        rewritten = rewritten_changes([gone[pk] for pk in of_line.elsewhere if pk in gone], window)
        own = ((related[pk], *within[pk]) for pk in sorted(within) if pk in related)
        positions = window.points.positions
        changes = [
            KnownChange(cp, bisect_left(positions, begin + 1), bisect_left(positions, end), near_in(window.series))
            for cp, begin, end in (*own, *rewritten)
        ]
        known_by_window.append(KnownLine(of_line, rewritten, changes))
    return known_by_window


def near_in(series: Series) -> int:
    """The points by which noise may place a shift of this series elsewhere."""
    return 0 if METRICS[series.metric].needs_no_trials else NEAR


def ranges_in(window: Window, steps: Steps) -> dict[int, tuple[int, int]]:
    """By id of each step that overlaps the window: the positions of its two ends."""
    first, last = window.points.positions[0], window.points.positions[-1]
    return {
        step.id: (step.first, step.last)
        for step in steps.placed
        if step.first is not None and step.first < last and step.last > first
    }


def gone_changes(pks: Collection[int]) -> dict[int, ChangePoint]:
    """By id: those of these change points whose commits are on no live branch any more."""
    if not pks:
        return {}
    alive = Position.objects.filter(commit=OuterRef("commit"), branch__deleted_at=None)
    return ChangePoint.objects.filter(~Exists(alive)).select_related("alert", "before", "commit").in_bulk(pks)


def rewritten_changes(gone: Iterable[ChangePoint], window: Window) -> list[ChangeRange]:
    """The confirmed changes whose commits a rebase has replaced, each at the commits of the line that replaced them.

    A rebase keeps author, author date and subject of a commit. Refuted changes are not carried over: an amended commit
    keeps all that too, and may be slower than the one that was measured.
    """
    ranges = []
    for cp in gone:
        if (end := place_of_twin(cp.commit, window)) is not None:
            begin = place_of_twin(cp.before, window)
            ranges.append((cp, begin if begin is not None and begin < end else end - 1, end))
    return ranges


def place_of_twin(commit: Commit, window: Window) -> int | None:
    """The position in the window of a commit, or of the commit that replaced it in a rewrite; None without either."""
    same = {name: getattr(commit, name) for name in ("author_name", "author_email", "authored_at", "subject")}
    within = (window.points.positions[0], window.points.positions[-1])
    positions = Position.objects.filter(branch=window.branch, number__range=within)
    here = positions.filter(Q(commit=commit) | Q(**{f"commit__{name}": value for name, value in same.items()}))
    return here.order_by("-number").values_list("number", flat=True).first()
