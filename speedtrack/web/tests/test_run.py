"""The run page: live while it runs, complete afterwards."""

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.runs.documents import LogPiece, Renewal, ReportedProgress
from speedtrack.runs.models import Result, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.web.pages.running import run as run_page
from speedtrack.web.tests.world import World, html_of, queries


def test_a_finished_run_shows_its_measurements_and_history(client: Client, kvd: World) -> None:
    run = Run.objects.order_by("pk").first()
    assert run
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert "succeeded" in page
    assert "Server CPU per request" in page
    assert "claimed by kvd-m1" in page
    assert "10 trials" in page
    assert 'data-going="no"' in page


def test_a_waiting_run_says_how_many_are_before_it(client: Client, kvd: World) -> None:
    kvd.push(3)
    oldest = Run.objects.filter(status="queued").order_by("rank").first()
    assert oldest
    assert "2 runs before it" in html_of(client.get(f"/runs/{oldest.pk}/"))


def test_a_running_run_is_live(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    progress = ReportedProgress(done=3, total=10, now="trial 3 of get-p1")
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token, progress=progress))
    text = "\x1b[1mcc\x1b[0m -c <main>.c\n"
    queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=0, phase="measure", text=text))
    part = html_of(client.get(f"/runs/{run.pk}/?part=live"))
    assert "<html" not in part
    assert 'data-going="yes"' in part
    assert '<progress value="30" max="100"' in part
    assert "measure 30%, about 10 s left" in part
    assert "3 of 10: trial 3 of get-p1" in part
    assert '<b class="bold">cc</b> -c &lt;main&gt;.c' in part


def test_the_whole_log_is_plain_text(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    for seq, phase in enumerate(("build a", "build a", "measure")):
        queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=seq, phase=phase, text=f"<{seq}>\n"))
    answer = client.get(f"/runs/{run.pk}/log.txt")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert b"".join(answer).decode() == ("--- attempt 1, build a ---\n<0>\n<1>\n\n--- attempt 1, measure ---\n<2>\n")
    only = b"".join(client.get(f"/runs/{run.pk}/log.txt?phase=measure")).decode()
    assert only == "--- attempt 1, measure ---\n<2>\n"


def test_a_failed_run_shows_its_error(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = kvd.fail("no such file: <config>")
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert "no such file: &lt;config&gt;" in page
    # Where it was to be measured is known from the run before.
    assert "What was on kvd-m1 when it measured last before this run" in page
    assert "<dd>6.1</dd>" in page
    measured = Run.objects.filter(status="succeeded").latest("pk")
    assert "when it measured last" not in html_of(client.get(f"/runs/{measured.pk}/"))


def test_a_run_as_values(client: Client, kvd: World) -> None:
    run = Run.objects.filter(status="succeeded").latest("pk")
    found = client.get(f"/runs/{run.pk}.json").json()
    assert (found["schema"], found["sha"], found["status"]) == ("speedtrack.run/2", run.commit.sha, "succeeded")
    table = b"".join(client.get(f"/runs/{run.pk}.csv")).decode().splitlines()
    assert table[0].startswith("benchmark,metric,unit,") and len(table) - 1 == len(found["measurements"]) > 0
    assert client.get(f"/runs/{run.pk}.xml").status_code == client.get("/runs/77.json").status_code == 404


def test_a_paired_run_tells_its_sides_apart(client: Client, slow: tuple[World, Alert]) -> None:
    run = Run.objects.filter(reason="confirm").first()
    assert run
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert "<td>base</td>" in page
    assert "<td>head</td>" in page


def test_an_unknown_run(client: Client, db: None) -> None:
    assert client.get("/runs/77/").status_code == 404
    assert client.get("/runs/77/log.txt").status_code == 404


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    plain = Run.objects.filter(base=None).first()
    paired = Run.objects.filter(reason="confirm").first()
    assert plain
    assert paired
    assert queries(client, f"/runs/{paired.pk}/") == queries(client, f"/runs/{plain.pk}/")


def test_the_page_of_a_run_whose_documents_are_deleted_has_no_script(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kvd.push(1)
    run = builders.claim(kvd.machines[0])
    recipe = {"server": ["kvd"], "loads": [{"argv": ["speedbench"], "workload": {}}], "padding_bytes": 0}
    recipe |= {"server_cpus": "1", "driver_cpus": "0", "memory_nodes": ""}
    trials = [one | {"reproduce": recipe} for one in builders.trials([{"throughput_rps": 1000.0}] * 5)]
    results.accept_result(run.machine, run.pk, builders.result(run, "get-p1", run.commit, [], trials=trials))
    assert "Reproduce this" in html_of(client.get(f"/runs/{run.pk}/"))
    assert client.get(f"/runs/{run.pk}/reproduce.sh").status_code == 200
    with monkeypatch.context() as of_many:
        of_many.setattr(run_page, "LISTED_SCRIPTS", 0)
        page = html_of(client.get(f"/runs/{run.pk}/"))
        assert f'action="/runs/{run.pk}/reproduce.sh"' in page and '<option value="get-p1">get-p1</option>' in page
    Result.objects.update(documents=None)
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert "5 trials" in page and "Reproduce this" not in page
    assert client.get(f"/runs/{run.pk}/reproduce.sh").status_code == 404


HOW = {"reason": "cap", "half_width": 0.0123, "target": 0.01, "trials": 5, "thrown_out": 1}
FUTILE = {"reason": "futile", "half_width": 0.07, "most_trials": 15, "half_width_at_most": 0.0404}


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (
            HOW,
            "5 trials, 1 discarded and repeated: the median is known to ±1.23% (target ±1.00%); no more were allowed",
        ),
        (HOW | FUTILE, "the median is known to ±7.00% (target ±1.00%); 15 would give about ±4.04%"),
    ],
)
def test_a_measurement_says_why_its_trials_ended(
    client: Client, kvd: World, how: dict[str, object], sentence: str
) -> None:
    kvd.push(1)
    run = builders.claim(kvd.machines[0])
    document = builders.result(run, "get-p1", run.commit, [5000.0 + i for i in range(5)], stopping=how)
    results.accept_result(run.machine, run.pk, document)
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert sentence in page
