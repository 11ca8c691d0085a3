"""What an address names among what there is, and the machines of a project."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol, TypeVar

from django.http import Http404

from speedtrack.alerts.lines import lines
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine

# The machines of a project, as plain SQL: each page asks for them, and Django would take longer to make the query than
# PostgreSQL to answer it. The series of the project are read once, not for each machine. Of a machine without a runner,
# the newest commit is found by one look for each of its newest series.
MACHINES = lines.sql("""
    SELECT COLUMNS, measured.machine_id IS NOT NULL AS has_series,
           CASE WHEN runs_machine.outside
                THEN ARRAY(SELECT metric FROM runs_series
                            WHERE project_id = %(project)s AND machine_id = runs_machine.id AND metric LIKE '%%--%%'
                         GROUP BY metric ORDER BY count(*) DESC, metric)
                ELSE '{}' END AS outside_metrics,
           CASE WHEN runs_machine.outside
                THEN (SELECT max(newest.commit_id)
                        FROM (SELECT id FROM runs_series
                               WHERE project_id = %(project)s AND machine_id = runs_machine.id
                            ORDER BY id DESC LIMIT 50) s
                  CROSS JOIN LATERAL (SELECT m.commit_id FROM runs_measurement m
                                       WHERE m.series_id = s.id AND IS_POINT ORDER BY m.commit_id DESC LIMIT 1) newest)
                ELSE 0 END AS newest_commit
      FROM runs_machine
 LEFT JOIN (SELECT DISTINCT machine_id FROM runs_series WHERE project_id = %(project)s) measured
        ON measured.machine_id = runs_machine.id
     WHERE measured.machine_id IS NOT NULL
        OR EXISTS (SELECT FROM runs_machine_projects p
                    WHERE p.machine_id = runs_machine.id AND p.project_id = %(project)s)
  ORDER BY has_series DESC, runs_machine.outside, runs_machine.name
""")


class Named(Protocol):
    @property
    def name(self) -> str: ...


MOST_NAMED = 12  # of what there is, in the message about a name that there is not
N = TypeVar("N", bound=Named)


def named_or_default(kind: str, name: str | None, among: Iterable[N], default: str) -> N | None:
    """The item with this name; without a name the one named ``default``, otherwise the first. Raises Http404."""
    by_name = {item.name: item for item in among}
    if name and name not in by_name:
        ending = " and others" if len(by_name) > MOST_NAMED else ""
        names = ", ".join(islice(by_name, MOST_NAMED)) or "none"
        raise Http404(f"There is no {kind} {name!r} here: there are {names}{ending}.")
    return by_name.get(name or default) or next(iter(by_name.values()), None)


def machines_of(project: Project) -> list[Machine]:
    """Machines that measure the project or have measured it.

    Those with series come first, those without a runner last. ``outside_metrics``: the keys of the project's metrics
    from outside there, the most frequent first. Of machines without a runner, those with the newest points come first,
    then those with most metrics: the first by name is often only a try.
    """
    columns = (field.column for field in Machine._meta.concrete_fields if field.name != "facts")
    query = MACHINES.replace("COLUMNS", ", ".join(f"runs_machine.{column}" for column in columns))
    listing: list[Any] = list(Machine.objects.raw(query, {"project": project.pk}))
    return sorted(
        listing,
        key=lambda machine: (
            not machine.has_series,
            machine.outside,
            machine.outside and -(machine.newest_commit or 0),
            machine.outside and -len(machine.outside_metrics),
        ),
    )
