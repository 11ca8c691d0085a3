"""The heat map of latencies by commit, and the curves of a commit beside its parent's."""

import re

import pytest
from django.test import Client

from speedtrack.runs.models import Result
from speedtrack.web.pages.latency import shape_cache
from speedtrack.web.tests.test_compare import other_environment, put_latencies
from speedtrack.web.tests.world import World, html_of, queries

ADDRESS = "/p/kvd/latency/get-p1/"


@pytest.fixture(autouse=True)
def no_kept_shapes() -> None:
    """Tests change the documents of one world, which never change in production."""
    shape_cache.clear()


def test_the_newest_commit_stands_beside_its_parent(client: Client, kvd: World) -> None:
    for place, level in enumerate((50_000.0, 50_000.0, 50_000.0, 100_000.0)):
        put_latencies(kvd, place, level)
    page = html_of(client.get(ADDRESS))
    assert page.count('class="column') == 4
    assert page.count('class="column chosen"') == 1
    assert f"{kvd.shas[3][:10]}</a>" in page and "beside its parent" in page
    assert "+100%" in page
    assert f"compare/?base={kvd.shas[2][:10]}&amp;head={kvd.shas[3][:10]}" in page


def test_commits_without_documents_are_named_with_the_reason(client: Client, kvd: World) -> None:
    put_latencies(kvd, 0, 50_000.0)
    put_latencies(kvd, 3, 50_000.0)
    Result.objects.filter(attempt__run__commit=kvd.commit(2)).update(documents=None)
    page = html_of(client.get(ADDRESS))
    assert "1 measured commit without stored latencies" in page
    assert "deleted after" in page
    assert page.count('class="column') == 2
    assert "beside the last one before it with latencies" in page
    page = html_of(client.get(f"{ADDRESS}?commit={kvd.shas[2]}"))
    assert f"{kvd.shas[2][:10]}</span> has no stored latencies" in page


def test_the_curve_of_any_commit_can_be_shown(client: Client, kvd: World) -> None:
    for place in range(4):
        put_latencies(kvd, place, 50_000.0)
    page = html_of(client.get(f"{ADDRESS}?commit={kvd.shas[1][:12]}&last=50"))
    assert f"{kvd.shas[1][:10]}</a>" in page
    first = html_of(client.get(f"{ADDRESS}?commit={kvd.shas[0][:12]}"))
    assert "The trials of the commit before have no stored latencies" in first


def test_another_environment_is_said_and_breaks_the_lines(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_environment(kvd, monkeypatch)
    for place in range(5):
        put_latencies(kvd, place, 50_000.0)
    page = html_of(client.get(ADDRESS))
    assert page.count('class="newenvironment"') == 1
    assert f"{kvd.shas[4][:10]}</a> on: kernel 6.1 → 6.9" in page
    assert "Not only the code differs" in page and "<dd>6.1 → 6.9</dd>" in page
    percentile = re.search(r'class="percentile percentile-1" d="([^"]+)"', page)
    assert percentile and percentile[1].count("M") == 2
    found = client.get("/p/kvd/latency/get-p1.json").json()
    assert [one["sha"] for one in found["commits"]] == kvd.shas and found["commits"][0]["p99_us"] > 50
    assert found["breaks"] == [{"sha": kvd.shas[4], "what": "kernel 6.1 → 6.9, compiler cc 12 → cc 14"}]
    assert len(b"".join(client.get("/p/kvd/latency/get-p1.csv?last=50")).decode().splitlines()) == 6
    before = html_of(client.get(f"{ADDRESS}?commit={kvd.shas[3][:12]}"))
    assert "Not only the code differs" not in before and 'class="newenvironment"' in before


def test_what_does_not_exist_is_refused_in_a_sentence(client: Client, kvd: World) -> None:
    for bad in ("?commit=fffffff", "?commit=abc", "?last=7", "?machine=m9", "?branch=x"):
        response = client.get(ADDRESS + bad)
        assert response.status_code == 404 and "There is no" in html_of(response), bad
    assert client.get("/p/kvd/latency/no-such/").status_code == 404
    assert client.get(f"{ADDRESS}?commit=a%00b").status_code == 400
    assert "No commit in this range has stored latencies" in html_of(client.get(ADDRESS))


def test_the_number_of_queries_does_not_grow(client: Client, kvd: World) -> None:
    for place in range(4):
        put_latencies(kvd, place, 50_000.0)
    few = queries(client, ADDRESS)
    kvd.push(3)
    kvd.measure()
    put_latencies(kvd, 5, 50_000.0)
    assert queries(client, ADDRESS) <= few <= 12
