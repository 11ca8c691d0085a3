"""What an address names among what there is, and the machines of a project."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.contrib.postgres.fields import ArrayField
from django.db.models import BooleanField, Case, Count, Exists, ExpressionWrapper, OuterRef, Q, TextField, Value, When
from django.http import Http404

from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine, Series

NONE = Value([], output_field=ArrayField(TextField()))


class Named(Protocol):
    @property
    def name(self) -> str: ...


MOST_NAMED = 12  # of what there is, in the message about a name that there is not
N = TypeVar("N", bound=Named)


def named_or_default(kind: str, name: str | None, among: Iterable[N], default: str) -> N | None:
    """The item with this name; without a name the one named ``default``, otherwise the first. Raises Http404."""
    by_name = {item.name: item for item in among}
    if name and name not in by_name:
        others = " and others" if len(by_name) > MOST_NAMED else ""
        names = ", ".join(islice(by_name, MOST_NAMED)) or "none"
        raise Http404(f"There is no {kind} {name!r} here: there are {names}{others}.")
    return by_name.get(name or default) or next(iter(by_name.values()), None)


def machines_of(project: Project) -> list[Machine]:
    """Machines that measure the project or have measured it.

    Those with series come first, those without a runner last. ``outside_metrics``: the keys of the project's metrics
    from outside there, the most frequent first. Of machines without a runner, those with most metrics come first: the
    first by name is often only a try.
    """
    series = Series.objects.filter(project=project, machine=OuterRef("pk"))
    outside = series.filter(metric__contains="--").order_by().values("metric").annotate(count=Count("pk"))
    keys = ArraySubquery(outside.order_by("-count", "metric").values("metric"))
    # In, not Exists: the series of a project are read once, not for each machine.
    with_series = Q(pk__in=Series.objects.filter(project=project).values("machine"))
    machines = Machine.objects.defer("facts").annotate(
        has_series=ExpressionWrapper(with_series, BooleanField()),
        outside_metrics=Case(When(outside=True, then=keys), default=NONE),
    )
    # Exists, not a join: of a machine of many projects, the series would be counted once for each.
    measures = Machine.projects.through.objects.filter(machine=OuterRef("pk"), project=project)
    project_machines = machines.filter(Exists(measures) | Q(has_series=True))
    listing: list[Any] = list(project_machines.order_by("-has_series", "outside", "name"))
    return sorted(
        listing,
        key=lambda machine: (
            not machine.has_series,
            machine.outside,
            machine.outside and -len(machine.outside_metrics),
        ),
    )
