"""Rows that several imports may store at once."""

from typing import Any

from speedtrack.benchmarks.models import Benchmark
from speedtrack.outside import storing
from speedtrack.projects.models import Project
from speedtrack.runs.models import Environment


def test_rows_are_stored_in_the_order_of_their_keys_so_that_two_imports_never_wait_for_each_other(
    project: Project,
) -> None:
    machines = list(storing.register(["ci", "lab"], None).values())
    keys = [(machine, f"sha256:{name}") for machine in reversed(machines) for name in "ca"]
    ids = storing.store_environments({key: {"cpu": "one"} for key in keys})
    assert sorted(ids, key=ids.__getitem__) == sorted(keys)
    assert Environment.objects.filter(machine__in=machines).count() == 4
    definitions: dict[tuple[str, str], dict[str, Any]] = {(name, f"sha256:{name}"): {} for name in "zya"}
    benchmarks = storing.store_benchmarks(project, definitions)
    assert sorted(benchmarks, key=benchmarks.__getitem__) == sorted(definitions)
    assert Benchmark.objects.filter(pk__in=benchmarks.values()).count() == 3
