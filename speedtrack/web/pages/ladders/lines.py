"""The lines of a chart: the selected commits on its ladders, each as one environment measured it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import QuerySet

from speedtrack.projects.models import Commit
from speedtrack.runs.models import Environment, Measurement
from speedtrack.runs.results.environments import ChangedFact, changed_facts, flat_facts, shorten
from speedtrack.web.drawing.charts.linecharts import MOST_LINES
from speedtrack.web.pages.ladders.choices import LineChoice
from speedtrack.web.pages.ladders.names import LadderName

PLACEMENT = ("server cpus", "driver cpus")  # the facts that name an environment before all others
LadderCommit = tuple[int, str]  # a commit, by id, and a ladder, by name
Environments = Mapping[int, Environment]  # by id


class MeasuredRung(NamedTuple):
    place: LadderCommit
    value: float
    environment: int
    measurement: Measurement


@dataclass(frozen=True)
class LadderLine:
    """A commit on a ladder, in one environment; None if it was not measured there.

    ``newest``: no other environment measured it later. ``label``: its name in the legend.
    """

    commit: Commit
    release: str
    ladder: str
    environment: Environment | None
    newest: bool
    label: str

    @property
    def place(self) -> LadderCommit:
        return self.commit.pk, self.ladder


@dataclass(frozen=True)
class Apart:
    """Lines that were measured in another environment than the first line of the chart, and the facts that differ."""

    labels: list[str]
    first: str
    facts: list[ChangedFact]


def measured_rungs(points: QuerySet[Measurement], choices: list[LineChoice]) -> list[MeasuredRung]:
    """The measurements of the selected commits, oldest first."""
    measurements = points.filter(commit__in=[choice.commit.pk for choice in choices if choice.shown]).order_by("pk")
    measurements = measurements.select_related("series__benchmark").defer(
        "series__benchmark__definition", "series__benchmark__why"
    )
    return [
        MeasuredRung((measurement.commit_id, rung.ladder), rung.rung, measurement.series.environment_id, measurement)
        for measurement in measurements
        if (rung := measurement.series.benchmark).rung is not None
    ]


def environments_of(rungs: list[MeasuredRung]) -> Environments:
    return Environment.objects.in_bulk({rung.environment for rung in rungs})


def environments_at(key: LadderCommit, rungs: list[MeasuredRung]) -> list[int]:
    """The ids of those that measured a commit on a ladder, the newest measurement's first."""
    return list(dict.fromkeys(rung.environment for rung in reversed(rungs) if rung.place == key))


def lines_of(
    choices: list[LineChoice],
    ladders: list[LadderName],
    rungs: list[MeasuredRung],
    environments: Environments,
    each: bool,
) -> list[LadderLine]:
    """The lines to draw: each selected commit on each of these ladders, in the environment that measured it last.

    ``each``: in each environment that measured it.
    """
    names = environment_names(environments) if each else {}
    lines = []
    for choice in choices:
        for ladder in ladders if choice.shown else ():
            environment_ids = environments_at((choice.commit.pk, ladder.name), rungs)
            for number, pk in enumerate((environment_ids if each else environment_ids[:1]) or [0]):
                labels = [choice.label, ladder.name if len(ladders) > 1 else "", names.get(pk, "")]
                label, here = ", ".join(filter(None, labels)), environments.get(pk)
                lines.append(LadderLine(choice.commit, choice.release, ladder.name, here, number == 0, label))
    return lines[:MOST_LINES]


def environment_names(environments: Environments) -> dict[int, str]:
    """By id: the facts that tell these environments from each other, first the placement, and no more than it takes."""
    facts = {pk: dict(flat_facts(environment.facts.get("series", {}))) for pk, environment in environments.items()}
    names: dict[int, tuple[str, ...]] = dict.fromkeys(facts, ())
    for fact in (*PLACEMENT, *sorted({fact for own in facts.values() for fact in own}.difference(PLACEMENT))):
        values = {pk: str(own.get(fact, "none")) for pk, own in facts.items()}
        alike = len(set(values.values())) == 1
        if alike or (fact not in PLACEMENT and len(set(names.values())) == len(names)):
            continue
        names = {pk: (*texts, f"{fact} {shorten(values[pk])}") for pk, texts in names.items()}
    return {pk: ", ".join(texts) for pk, texts in names.items()}


def lines_apart(lines: list[LadderLine], environments: Environments) -> list[Apart]:
    """The lines of other environments than the first line, by environment."""
    pairs = [(line, line.environment) for line in lines if line.environment]
    if not pairs:
        return []
    first, here = pairs[0]
    labels: dict[int, list[str]] = {}
    for line, there in pairs:
        if there != here:
            labels.setdefault(there.pk, []).append(line.label)
    return [Apart(own, first.label, changed_facts(environments[pk], here)) for pk, own in labels.items()]
