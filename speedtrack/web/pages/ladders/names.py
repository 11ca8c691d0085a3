"""Which ladders there are, and what belongs to them."""

from dataclasses import dataclass

from django.contrib.postgres.fields import ArrayField
from django.db.models import Exists, F, Func, JSONField, OuterRef, QuerySet, TextField, Value

from speedtrack.accounts.access import Access
from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import Series

TITLES = {
    "clients": "Connections",
    "pipeline": "Requests in flight per connection",
    "value_bytes": "Bytes of a value",
    "key_bytes": "Bytes of a key",
    "keys": "Keys",
    "rate": "Requests/s asked for",
}


@dataclass(frozen=True)
class LadderName:
    name: str
    axis: str

    @property
    def axis_title(self) -> str:
        return TITLES[self.axis]


def ladder_names(slug: str | None, access: Access) -> list[LadderName]:
    """All ladders, those of the project first.

    Of ladders that have one name but different axes, only the first is included.
    """
    rows = access.among(Benchmark.objects.exclude(ladder="")).values_list("ladder", "axis", "project__slug").distinct()
    own_first = sorted(rows, key=lambda row: (row[2] != slug, row[:2]))
    ladders: dict[str, LadderName] = {}
    for name, axis, _ in own_first:
        ladders.setdefault(name, LadderName(name, axis))
    return list(ladders.values())


def transports_of(ladder: LadderName | None, access: Access) -> list[LadderName]:
    """The ladders that differ from this one only in their transport."""
    if ladder is None:
        return []
    path = Value(["workload", "transport"], output_field=ArrayField(TextField()))
    remainder = Func(F("definition"), path, template="(%(expressions)s)", arg_joiner=" #- ", output_field=JSONField())
    own = rungs_of([ladder]).annotate(rest=remainder).filter(rest=OuterRef("rest"), project=OuterRef("project"))
    candidates = access.among(Benchmark.objects.filter(axis=ladder.axis).exclude(ladder__in=["", ladder.name]))
    matches = (
        candidates.annotate(rest=remainder).filter(Exists(own)).order_by("ladder").values_list("ladder", flat=True)
    )
    return [LadderName(name, ladder.axis) for name in matches.distinct()]


def rungs_of(ladders: list[LadderName]) -> QuerySet[Benchmark]:
    """The rungs of one or two ladders, which have one axis."""
    axes = {ladder.axis for ladder in ladders}
    return Benchmark.objects.filter(ladder__in=[ladder.name for ladder in ladders], axis__in=axes)


def series_of(ladders: list[LadderName], access: Access) -> QuerySet[Series]:
    return access.among(Series.objects.filter(benchmark__in=rungs_of(ladders)))
