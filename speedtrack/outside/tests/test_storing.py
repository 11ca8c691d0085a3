"""Rows that imports into several projects may store at once."""

import pytest

from speedtrack.outside import storing
from speedtrack.runs.models import Environment


@pytest.mark.django_db
def test_environments_are_stored_in_the_order_of_their_keys_so_that_no_two_imports_wait_for_each_other() -> None:
    machines = list(storing.register(["ci", "lab"], None).values())
    keys = [(machine, f"sha256:{name}") for machine in reversed(machines) for name in "ca"]
    ids = storing.store_environments({key: {"cpu": "one"} for key in keys})
    assert sorted(ids, key=ids.__getitem__) == sorted(keys)
    assert Environment.objects.filter(machine__in=machines).count() == 4
