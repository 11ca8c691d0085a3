"""The commit page: results against the commit measured before, builds, runs."""

from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.runs import queue
from speedtrack.runs.documents import LogPiece
from speedtrack.web.tests.world import World, html_of, queries


def test_results_are_compared_on_their_samples(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    page = html_of(client.get(f"/p/kvd/c/{made.shas[5]}/"))
    assert "▼ slower" in page
    assert "+20" in page
    assert f"alert {alert.pk}" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page


def test_equal_neighbours_are_the_same(client: Client, kvd: World) -> None:
    page = html_of(client.get(f"/p/kvd/c/{kvd.shas[2][:10]}/"))
    assert 'class="answer same">same' in page
    assert "▼ slower" not in page


def test_the_first_measurement_has_nothing_before_it(client: Client, kvd: World) -> None:
    page = html_of(client.get(f"/p/kvd/c/{kvd.shas[0]}/"))
    assert "first measurement" in page
    assert "newer →" in page
    assert "← older" not in page


def test_a_failed_build_shows_its_log(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    text = "\x1b[31merror:\x1b[0m <b>bold</b>\u202eevil\n"
    queue.keep_log(
        run.machine, run.pk, LogPiece(token=run.lease_token, seq=0, phase=f"build {run.commit.sha}", text=text)
    )
    kvd.fail()
    # the claim of fail() took the run back; its second attempt failed without a log
    page = html_of(client.get(f"/p/kvd/c/{run.commit.sha}/"))
    assert "make exited with code 2" in page
    log = b"".join(client.get(f"/runs/{run.pk}/log")).decode()
    assert "error: <b>bold</b>evil" in log
    assert "\x1b" not in log


def test_an_unmeasured_commit_says_so(client: Client, kvd: World) -> None:
    kvd.push(1)
    assert "This commit has no measurement" in html_of(client.get(f"/p/kvd/c/{kvd.shas[-1]}/"))


def test_ambiguous_or_unknown_hashes_are_not_found(client: Client, kvd: World) -> None:
    for sha in (kvd.shas[0][:6], "f" * 40, "nothex!"):
        assert client.get(f"/p/kvd/c/{sha}/").status_code == 404


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    address = f"/p/kvd/c/{made.shas[5]}/"
    few = queries(client, address)
    made.push(8)
    made.measure()
    assert queries(client, address) == few
    assert queries(client, f"/p/kvd/c/{made.shas[-2]}/") <= few
