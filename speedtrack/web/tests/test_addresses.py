"""Metrics in addresses: what people can read, and the keys of former links."""

from urllib.parse import unquote, urlencode

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import Resolver404, resolve
from hypothesis import given
from hypothesis import strategies as st

from speedtrack.benchmarks.metrics import Direction, outside_key
from speedtrack.outside.tests.conftest import row, send
from speedtrack.projects.models import Tag
from speedtrack.web.addresses import metric_given, metric_in_query, timeline_path
from speedtrack.web.tests.world import World, html_of

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


@pytest.mark.parametrize(
    ("name", "unit", "better", "text"),
    [
        ("allocs/op", "allocs/op", "lower", "metric=allocs-per-op"),
        ("throughput", "requests/s", "higher", "metric=throughput--requests-per-s--higher"),
        ("p99.9 latency", "µs", "lower", "metric=p99.9+latency--us"),
        ("cache-misses", "", "lower", "metric=cache-misses--"),
        ("top-10", "s", "lower", "metric=top-2D10--s--lower"),  # -10 would be read as a character
        ("time", "us", "lower", "metric=time--us--lower"),  # the short form is that of µs
    ],
)
def test_a_query_has_a_metric_from_outside_readable(name: str, unit: str, better: str, text: str) -> None:
    key = outside_key(name, unit, Direction(better))
    assert urlencode({"metric": metric_in_query(key)}) == text
    assert metric_given(QueryDict(text)) == metric_given(QueryDict(f"metric={key}")) == key


@given(TEXT, st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.sampled_from(Direction))
def test_each_metric_is_read_back_from_its_query(name: str, unit: str, better: Direction) -> None:
    key = outside_key(name, unit, better)
    assert metric_given(QueryDict(urlencode({"metric": metric_in_query(key)}))) == key


@pytest.mark.parametrize("text", ["", "throughput", "server_cpu_ns_per_request", "a--b--c--higher"])
def test_what_is_no_readable_form_stays(text: str) -> None:
    assert metric_given(QueryDict(urlencode({"metric": text}))) == metric_in_query(text) == text


PAGES = ("/p/kvd/", "/p/kvd/releases/", "/p/kvd/compare/?base={0}&head={1}", "/p/kvd/alerts/", "/p/kvd/c/{1}/")


@pytest.mark.parametrize("page", PAGES)
def test_pages_offer_and_read_a_metric_in_its_readable_form_and_in_the_former(
    client: Client, kvd: World, page: str
) -> None:
    """On each page the choice and the links have the readable form only; both forms choose the metric."""
    own: dict[str, str] = {"metric": "allocs/op", "unit": "allocs/op"}
    send(kvd.project, *(row(sha, benchmark=name, **own) for sha in kvd.shas[2:] for name in ("sort", "scan")))
    Tag.objects.bulk_create(Tag(project=kvd.project, name=f"1.{i}.0", sha=sha) for i, sha in enumerate(kvd.shas[2:]))
    address = page.format(*kvd.shas[2:]) + ("&machine=ci" if "?" in page else "?machine=ci")
    key = outside_key("allocs/op", "allocs/op", Direction.LOWER)
    readable, former = (html_of(client.get(f"{address}&metric={metric}")) for metric in ("allocs-per-op", key))
    assert f'value="{key}"' not in readable and f"metric={key}" not in readable
    assert client.get(f"{address}&metric=nothing").status_code == (200 if "/c/" in page else 404)
    for shown in (readable, former):
        assert "/c/" in page or 'value="allocs-per-op" selected' in shown
