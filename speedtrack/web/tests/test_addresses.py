"""Metrics in addresses: what people can read, and the keys of former links."""

from urllib.parse import unquote

import pytest
from django.urls import Resolver404, resolve
from hypothesis import given
from hypothesis import strategies as st

from speedtrack.benchmarks.metrics import Direction, outside_key
from speedtrack.web.addresses import timeline_path

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("name", "unit", "segment"),
    [
        ("time", "s", "time,s,lower"),
        ("p99.9 latency", "µs", "p99.9+latency,µs,lower"),
        ("ns/op", "", "ns:op,,lower"),
        ("a, b+c", "%", "a~2c~+b~2b~c,~25~,lower"),
    ],
)
def test_a_metric_from_outside_has_a_readable_address(name: str, unit: str, segment: str) -> None:
    path = timeline_path("kvd", "sort", outside_key(name, unit, Direction.LOWER))
    assert unquote(path) == f"/p/kvd/timeline/sort/{segment}"


@given(TEXT, TEXT, st.sampled_from(Direction))
def test_each_metric_has_an_address_of_its_own(name: str, unit: str, better: Direction) -> None:
    key = outside_key(name, unit, better)
    path = unquote(timeline_path("kvd", "sort", key))
    assert resolve(path).kwargs["metric"] == resolve(f"/p/kvd/timeline/sort/{key}").kwargs["metric"] == key
    assert resolve(f"{path}.json").kwargs == {"slug": "kvd", "benchmark": "sort", "metric": key, "form": "json"}


@pytest.mark.parametrize("segment", ["time,s,up", "time,s", "a~110000~,s,lower", "a~d800~,s,lower", ",s,lower"])
def test_what_is_no_metric_has_no_page(segment: str) -> None:
    with pytest.raises(Resolver404):
        resolve(f"/p/kvd/timeline/sort/{segment}")
