"""Judgements of the same sides again and again, as pages ask for them: each process makes them once.

They are made anew as soon as anything changes that they rest on: the points of the sides, stored answers, confirmed
changes and whether a person called them invalid, builds, paired runs, or the smallest effects.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from speedtrack.ground.postgres.pgvalues import row_of
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import judge
from speedtrack.judging.verdicts import Judgement
from speedtrack.runs.models import MEASURED

V = TypeVar("V")

# Of each set of commits of a project, what judgements between them rest on besides points. Tables are read laterally,
# by their index of commits. A definition never changes: its suite stands for the effects that it states.
VERSIONS = """
    SELECT array_agg(md5(ROW(evidence.*, effects.*)::text) ORDER BY asked.number)
      FROM (SELECT project.number, project.id,
                   ARRAY(SELECT c.id FROM unnest(%(numbers)s::int[], %(commits)s::int[]) AS c (number, id)
                          WHERE c.number = project.number ORDER BY c.id) AS commits
              FROM unnest(%(projects)s::bigint[]) WITH ORDINALITY AS project (id, number)) asked
CROSS JOIN LATERAL (
        SELECT sum(answers.batches), max(answers.newest), max(built.newest), string_agg(changed.points, ';'),
               string_agg(paired.runs, ';')
          FROM unnest(asked.commits) AS c (id)
    CROSS JOIN LATERAL (SELECT count(*) AS batches, max(id) AS newest
                          FROM alerts_comparisonbatch WHERE commit_id = c.id) answers
    CROSS JOIN LATERAL (SELECT max(id) AS newest FROM runs_build WHERE commit_id = c.id AND succeeded) built
    CROSS JOIN LATERAL (SELECT string_agg(concat_ws(' ', p.id, p.before_id, p.ratio, p.low, p.high,
                                                    alert.status = 'invalid'), ',' ORDER BY p.id) AS points
                          FROM alerts_changepoint p LEFT JOIN alerts_alert alert ON alert.id = p.alert_id
                         WHERE p.commit_id = c.id AND p.status = 'confirmed' AND p.kind = 'step') changed
    CROSS JOIN LATERAL (SELECT string_agg(concat_ws(' ', id, attempt), ',' ORDER BY id) AS runs FROM runs_run
                         WHERE base_id = c.id AND commit_id = ANY (asked.commits) AND status = ANY (%(measured)s)
                           AND reason <> 'profile') paired) evidence
CROSS JOIN LATERAL (
        SELECT (SELECT suite_id FROM runs_run
                 WHERE project_id >= asked.id AND project_id <= asked.id
                   AND base_id IS NULL AND canary_id IS NULL AND imported_id IS NULL
              ORDER BY project_id, id DESC LIMIT 1),
               (SELECT string_agg(concat_ws(' ', key, smallest_effect), ',' ORDER BY id)
                  FROM benchmarks_outsidemetric WHERE project_id = asked.id),
               (SELECT max(id) FROM alerts_noisefloor)) effects
"""


class SidesOfProject(NamedTuple):
    """Sides that are judged together, and ``points``: bytes that differ when their points do.

    ``neighbours``: as those of ``judge``.
    """

    project_id: int
    points: bytes
    sides: Sequence[TwoSides]
    neighbours: Sequence[TwoSides] = ()

    @property
    def every_side(self) -> list[TwoSides]:
        return [*self.sides, *self.neighbours]

    @property
    def commits(self) -> set[int]:
        return {commit for _, *both in self.every_side for commit in both}

    def key(self, version: str) -> bytes:
        """What stands for its judgements. ``version``: of VERSIONS."""
        side_ids = np.array(self.every_side, np.int64).tobytes()
        return digest(version.encode(), len(self.sides).to_bytes(8), side_ids, self.points)


class NewestValues(Generic[V]):
    """The values that were used last, by key, up to ``most`` by weight. Several threads may use it."""

    instances: ClassVar[list["NewestValues[Any]"]] = []

    def __init__(self, most: int, weigh: Callable[[V], int]) -> None:
        self.most, self.weigh, self.weight = most, weigh, 0
        self.values: OrderedDict[bytes, V] = OrderedDict()
        self.lock = Lock()
        self.instances.append(self)

    def get(self, key: bytes) -> V | None:
        with self.lock:
            if key in self.values:
                self.values.move_to_end(key)
            return self.values.get(key)

    def put(self, key: bytes, value: V) -> None:
        with self.lock:
            if key not in self.values:
                self.values[key] = value
                self.weight += self.weigh(value)
            while self.weight > self.most:
                self.weight -= self.weigh(self.values.popitem(last=False)[1])

    def clear(self) -> None:
        with self.lock:
            self.values.clear()
            self.weight = 0


def forget() -> None:
    """Forget all values, for tests that use a database anew."""
    for values in NewestValues.instances:
        values.clear()


JUDGEMENTS: NewestValues[dict[TwoSides, Judgement]] = NewestValues(40_000, len)  # of about 500 bytes each


def judge_again(sides: SidesOfProject) -> dict[TwoSides, Judgement]:
    """What ``judge`` answers about these sides."""
    (judgements,) = repeated(JUDGEMENTS, [sides], lambda _: [judge(sides.sides, sides.neighbours)])
    return judgements


def repeated(
    values: NewestValues[V], subjects: Sequence[SidesOfProject], make: Callable[[list[int]], Iterable[V]]
) -> list[V]:
    """The value of each of these, as it was made before. ``make``: those at these indices, which are missing."""
    keys = [subject.key(version) for subject, version in zip(subjects, versions_of(subjects), strict=True)]
    answers = [values.get(key) for key in keys]
    missing = [index for index, answer in enumerate(answers) if answer is None]
    for index, value in zip(missing, make(missing) if missing else (), strict=True):
        values.put(keys[index], value)
        answers[index] = value
    return [answer for answer in answers if answer is not None]


def versions_of(subjects: Sequence[SidesOfProject]) -> list[str]:
    """Of each of these: a text that differs once any evidence of its commits does, by one statement."""
    if not subjects:
        return []
    numbered = [(number, commit) for number, subject in enumerate(subjects, start=1) for commit in subject.commits]
    parameters: dict[str, Any] = {
        "projects": [subject.project_id for subject in subjects],
        "numbers": [number for number, _ in numbered],
        "commits": [commit for _, commit in numbered],
        "measured": list(MEASURED),
    }
    (versions,) = row_of(VERSIONS, parameters)
    return list(versions)


def digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()
