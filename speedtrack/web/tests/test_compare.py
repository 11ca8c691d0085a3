"""The page that compares two commits: its answers, what it warns of, what it refuses, and what it queues."""

import json
import re
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import Alert
from speedtrack.judging.points import CommitOnMachine, Place, points_at
from speedtrack.judging.sidecolumns import side_columns
from speedtrack.judging.sides import compare_sides
from speedtrack.projects.models import Project, Tag
from speedtrack.runs import packing
from speedtrack.runs.models import Machine, Measurement, Reason, Result, Run, Samples, Series
from speedtrack.runs.planning.questions import PAIRS
from speedtrack.stats.comparing.compare import compare_samples
from speedtrack.tests import builders
from speedtrack.tests.comparisons import change_comparisons, stored_comparisons
from speedtrack.tests.latencies import encoded
from speedtrack.web.pages import paging
from speedtrack.web.tests.world import CPU, HOSTILE, World, html_of, queries, world

OTHER_FACTS = builders.SERIES_FACTS | {"kernel": "6.9", "compiler": "cc 14"}


def compare(client: Client, **query: str) -> str:
    return html_of(client.get("/p/kvd/compare/", query))


def document(client: Client, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get("/p/kvd/compare.json", query).content)
    return found


def ends(made: World, base: int, head: int) -> dict[str, str]:
    return {"base": made.shas[base], "head": made.shas[head]}


def put_latencies(made: World, place: int, level_ns: float) -> None:
    """Store what three trials of get-p1 at a commit recorded, around this latency."""
    trials = [[level_ns * (1 + (i * 7 % 100) / 200) for i in range(2000)] for _ in range(3)]
    tests = [[{"name": "get", "latency_hdr_v2": encoded(one), "flags": []}] for one in trials]
    documents = [{"trial": i, "driver": {"schema": "speedbench.v1", "tests": test}} for i, test in enumerate(tests)]
    own = Result.objects.filter(attempt__run__commit=made.commit(place), attempt__run__base=None)
    own = own.filter(benchmark__name="get-p1")
    assert own.update(documents=packing.pack(documents)) == 1


def test_the_answers_are_those_of_the_comparison_of_samples(slow: tuple[World, Alert]) -> None:
    made, _ = slow
    machine, base, head = made.machines[0], made.commit(1), made.commit(6)
    sides = (CommitOnMachine(base.pk, machine.pk), CommitOnMachine(head.pk, machine.pk))
    found = compare_sides(*sides)
    assert not any(row.distance == 5 for row in stored_comparisons(commit=head)), "nothing is stored of these two"
    assert {(row.benchmark, row.metric.name) for row in found.rows} == {
        (name, metric) for name in ("get-p1", "set-p1") for metric in (CPU, "throughput_rps")
    }
    for row in found.rows:
        series = Series.objects.get(pk=row.head.series_id)
        points = Samples.objects.filter(measurement__series=series, measurement__paired=False)
        old, new = (list(points.get(measurement__commit=c).by_trial.values()) for c in (base, head))
        effect = 0.03 if row.metric.name == CPU else row.metric.smallest_effect
        alone = compare_samples(old, new, smallest_effect=effect, seed=series.pk)
        assert (alone.answer, row.ratio) == ("different", pytest.approx(alone.ratio))
        assert (row.low, row.high) == (pytest.approx(alone.low), pytest.approx(alone.high))
        assert row.look == "worse"


def test_points_as_columns_are_those_of_their_places(slow: tuple[World, Alert]) -> None:
    made, _ = slow
    sides = [CommitOnMachine(made.commit(number).pk, made.machines[0].pk) for number in (1, 6)]
    Measurement.objects.filter(commit=sides[1].commit_id, series__metric=CPU).update(flags=["steal", "paging"])
    for columns, side in zip(side_columns(sides), sides, strict=True):
        points = {point.place: point for point in columns.points}
        measured = Measurement.objects.filter(commit=side.commit_id, series__machine=side.machine_id, paired=False)
        assert points == points_at([Place(*place) for place in measured.values_list("series", "commit")])
        assert len(points) == 4


def test_what_is_stored_of_both_counts(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    assert {row["verdict"] for row in document(client, **ends(made, 3, 6))["rows"]} == {"worse"}
    changes = {"distance": 3, "ratio": 1.5, "low": 1.4, "high": 1.6, "answer": "different"}
    assert change_comparisons(made.commit(6), **changes) == 4
    assert {row["ratio"] for row in document(client, **ends(made, 3, 6))["rows"]} == {1.5}
    assert {row["ratio"] for row in document(client, **ends(made, 2, 6))["rows"]} != {1.5}


def test_pairs_of_just_these_two_are_the_better_evidence(client: Client, slow: tuple[World, Alert]) -> None:
    run = Run.objects.filter(reason=Reason.CONFIRM, status="succeeded").latest("pk")
    base, head = run.base, run.commit
    assert base
    rows = document(client, base=base.sha, head=head.sha)["rows"]
    paired = [row for row in rows if row["pairs"]]
    assert paired and all(row["verdict"] == "worse" for row in paired)
    swapped = document(client, base=head.sha, head=base.sha)["rows"]
    assert {(r["benchmark"], r["verdict"], r["pairs"]) for r in swapped if r["pairs"]} == {
        (r["benchmark"], "better", r["pairs"]) for r in paired
    }
    page = compare(client, base=base.sha, head=head.sha)
    assert "pairs of just these two commits" in page
    assert f"{paired[0]['pairs']} pairs</span>" in page


def test_the_usual_sides_are_the_newest_release_and_the_head(client: Client, kvd: World) -> None:
    for name, place in (("1.2", 1), ("1.10", 2), ("1.10-rc1", 0)):
        Tag.objects.create(project=kvd.project, name=name, sha=kvd.shas[place])
    found = document(client)
    assert (found["base_side"]["name"], found["base"]) == ("1.10", kvd.shas[2])
    assert (found["head_side"]["name"], found["head"]) == ("main", kvd.shas[3])
    page = compare(client)
    assert '<option value="1.10-rc1">' in page
    assert "Changed code" not in page
    Project.objects.update(url="https://github.com/owner/name.git")
    assert f"https://github.com/owner/name/compare/{kvd.shas[2]}...{kvd.shas[3]}" in compare(client)
    Tag.objects.all().delete()
    assert document(client)["base"] == kvd.shas[2], "without a release: what was measured before"


def test_a_branch_stands_for_its_newest_measured_commit(client: Client, kvd: World) -> None:
    kvd.push(2)
    found = document(client, base=kvd.shas[0][:8], head="main")
    assert found["head"] == kvd.shas[3]
    assert "2 newer ones are not measured yet" in compare(client, base=kvd.shas[0], head="main")


def test_a_commit_that_was_not_measured_has_neighbours_that_were(client: Client, kvd: World) -> None:
    kvd.push(2)
    page = compare(client, base=kvd.shas[0], head=kvd.shas[5])
    assert "Not measured." in page
    assert f"head={kvd.shas[3][:12]}" in page and "(2 commits earlier)" in page
    Project.objects.update(url="https://github.com/owner/name.git")
    diff = f"https://github.com/owner/name/compare/{kvd.shas[0]}...{kvd.shas[5]}"
    assert diff in compare(client, base=kvd.shas[0], head=kvd.shas[5])
    assert "Changed code" not in compare(client, base=kvd.shas[0], head=kvd.shas[0])
    assert document(client, base=kvd.shas[0], head=kvd.shas[5])["rows"] == []


ODD_NAMES = ["../../x", "no-such-branch", "f" * 40, "x" * 500, HOSTILE, "%", "^main", "abc", "é" * 100]


def test_names_that_are_no_commit_are_refused_in_a_sentence(client: Client, kvd: World) -> None:
    for side, name in product(("base", "head"), ODD_NAMES):
        response = client.get("/p/kvd/compare/", {side: name})
        assert response.status_code == 404, name
        page = html_of(response)
        assert "kvd has no commit, branch or tag" in page and "manage.py measure kvd" in page
        assert "<script>alert" not in page
        assert len(page) < 4000


def test_a_name_means_the_same_commit_on_the_page_and_in_the_api(client: Client, kvd: World) -> None:
    """A whole commit id, else a tag, else a branch (as for git), else the beginning of an id."""
    for name, sha in {"main": kvd.shas[1], kvd.shas[2]: kvd.shas[0]}.items():
        Tag.objects.create(project=kvd.project, name=name, sha=sha)
    for name, sha in {"main": kvd.shas[1], kvd.shas[2]: kvd.shas[2], kvd.shas[0][:6]: kvd.shas[0]}.items():
        assert document(client, base=name, head=kvd.shas[3])["base"] == sha
        assert client.get(f"/api/v1/projects/kvd/commits/{name}").json()["sha"] == sha


def test_other_bad_input_is_refused_in_a_sentence(client: Client, kvd: World) -> None:
    for key in ("metric", "verdict", "machine", "base_machine", "base_project", "benchmark"):
        assert client.get("/p/kvd/compare/", ends(kvd, 0, 3) | {key: "x9"}).status_code == 404, key
    assert client.get("/p/kvd/compare/?base=a%00b").status_code == 400
    assert client.get("/p/kvd/compare.xml").status_code == 404


def other_environment(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Push and measure one more commit after the machine was updated, so in a new environment."""
    monkeypatch.setattr(builders, "SERIES_FACTS", OTHER_FACTS)
    made.push(1)
    made.measure()


def test_another_environment_is_said_first_and_loudly(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Not only the code differs" not in compare(client, **ends(kvd, 0, 3))
    other_environment(kvd, monkeypatch)
    page = compare(client, **ends(kvd, 0, 4))
    assert page.index("Not only the code differs") < page.index("Totals")
    assert "this affects all 4 rows" in page
    for fact in ("kernel", "6.1 → 6.9", "cc 12 → cc 14", "two environments"):
        assert fact in page
    assert "measure both again" in page
    found = document(client, **ends(kvd, 0, 4))
    assert ["kernel", "6.1", "6.9"] in found["differences"][0]["facts"]
    assert all(row["doubts"] == ["environment"] for row in found["rows"])


def test_two_machines_are_said_as_well(client: Client, db: None, settings: Any, tmp_path: Path) -> None:
    made = world(settings, tmp_path, machines=2)
    made.measure()
    page = compare(client, **ends(made, 0, 3), machine="kvd-m2", base_machine="kvd-m1")
    assert "kvd-m1 measured the base, kvd-m2 the head." in page
    assert "two machines" in page
    rows = document(client, **ends(made, 0, 3), machine="kvd-m2")["rows"]
    assert rows and not any(row["doubts"] for row in rows), "the machine of the head measured both"

    # Swapped, the machines are kept.
    def swapped(**machines: str) -> dict[str, str]:
        page = compare(client, **ends(made, 0, 3), **machines, differs="1")
        (address,) = re.findall(r'href="/p/kvd/compare/\?([^"]*)">Swap sides', page)
        return dict(parse_qsl(unescape(address)))

    names = {"base": made.commit(3).sha, "head": made.commit(0).sha, "differs": "1"}
    assert swapped(machine="kvd-m2") == names | {"machine": "kvd-m2"}
    assert swapped(machine="kvd-m2", base_machine="kvd-m1") == names | {"machine": "kvd-m1", "base_machine": "kvd-m2"}

    # A machine that has nothing of one side: what there is of it is shown, and said.
    lines.point_measurements().filter(commit=made.commit(3), series__machine__name="kvd-m2").delete()
    page = compare(client, **ends(made, 0, 3), machine="kvd-m2")
    assert "kvd-m2 has not measured the head: what kvd-m1 measured is shown." in page and "Totals" in page
    assert document(client, **ends(made, 0, 3), machine="kvd-m2")["head_side"]["machine"] == "kvd-m1"


def test_two_projects_are_compared_by_the_names_of_benchmarks(client: Client, kvd: World, tmp_path: Path) -> None:
    repository = builders.Repository(tmp_path / "other")
    repository.commits(2)
    builders.track(repository, name="other")
    kvd.measure()
    page = compare(client, base_project="other")
    assert "Two projects: other is the base, kvd the head." in page
    assert "Benchmarks of the same name have the same workload in both." in page
    assert "Measure both again</h2>" not in page and "Runs of both on kvd-m1 in one environment" in page
    assert "Log in</a> to measure each again" in page

    # The form names a base and its machine; of another project they say nothing.
    sent = {"base_of": "kvd", "base": "main", "head": "main", "machine": "kvd-m1"}
    assert (
        client.get("/p/kvd/compare/", sent).headers["Location"] == "/p/kvd/compare/?base=main&head=main&machine=kvd-m1"
    )
    moved = client.get("/p/kvd/compare/", sent | {"base_project": "other", "base": "1.0", "base_machine": "kvd-m1"})
    assert moved.headers["Location"] == "/p/kvd/compare/?head=main&machine=kvd-m1&base_project=other"
    stayed = client.get("/p/kvd/compare/", sent | {"base_project": "kvd"})
    assert "base=main" in stayed.headers["Location"]

    client.force_login(User.objects.create_superuser("ada"))
    address = "/p/kvd/compare/measure/?base_project=other"
    page = html_of(client.post(address, {"what": "each"}, follow=True))
    queued = Run.objects.unfinished().filter(reason=Reason.MANUAL).order_by("pk")
    assert [(run.project.slug, run.machine.name) for run in queued] == [("other", "kvd-m1"), ("kvd", "kvd-m1")]
    assert all(f"Run {run.pk} is queued on kvd-m1" in page for run in queued)


def test_filters_stand_in_the_address_and_totals_count_all_rows(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    sides = ends(made, 1, 6)
    assert {row["benchmark"] for row in document(client, **sides, q="GET")["rows"]} == {"get-p1"}
    assert {row["metric"] for row in document(client, **sides, metric=CPU)["rows"]} == {CPU}
    assert document(client, **sides, verdict="same")["rows"] == []
    assert len(document(client, **sides, differs="1")["rows"]) == 4
    page = compare(client, **sides, q='"><b>', differs="1")
    assert "No row fits these filters" in page and '"><b>' not in page
    csv = b"".join(client.get("/p/kvd/compare.csv", sides | {"metric": CPU}).streaming_content).decode()  # type: ignore[attr-defined]
    assert [line.split(",")[0] for line in csv.splitlines()] == ["benchmark", "get-p1", "set-p1"]
    cpu = next(total for total in document(client, **sides, q="get")["totals"] if total["metric"] == CPU)
    assert cpu["verdicts"] == {"worse": 2}
    assert cpu["mean_ratio"][0] == pytest.approx(1.2, abs=0.005)
    assert cpu["mean_ratio"][1] < cpu["mean_ratio"][0] < cpu["mean_ratio"][2]


def rows_of(page: str) -> list[str]:
    return re.findall(r'<tr><th scope="row"><a .*?</tr>', page)


def test_all_rows_come_by_page(client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = slow
    sides = ends(made, 1, 6)
    everything = rows_of(compare(client, **sides))
    assert len(everything) == 4
    monkeypatch.setattr(paging, "MOST", 3)
    first, second, last = (compare(client, **sides, rows="all", page=page) for page in ("1", "2", "99"))
    assert rows_of(first) + rows_of(second) == everything, "in the same order, on the same axis"
    assert rows_of(last) == rows_of(second) and len(rows_of(first)) == 3
    assert "3 of 4 rows" in first and "Rows 4 to 4 of 4" in second
    (more,) = re.findall(r'data-more="([^"]+)"', first)
    part = html_of(client.get(f"/p/kvd/compare/{unescape(more)}"))
    assert rows_of(part) == rows_of(second) and "<html" not in part and "4 of 4 rows" in part
    (following,) = re.findall(r'href="([^"]+)#results"\s+rel="next"', first)
    assert rows_of(html_of(client.get(f"/p/kvd/compare/{unescape(following)}"))) == rows_of(second), "without scripts"
    assert re.search(r'href="[^"]*rows=all[^"]*page=1#results"\s+rel="prev"', second)
    assert len(document(client, **sides, rows="all", page="2")["rows"]) == 4
    assert second.count('name="page"') == 1, "a form sends it along, but for that of the filters"


def test_filters_search_the_rows_of_all_pages(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = slow
    monkeypatch.setattr(paging, "MOST", 1)
    page = compare(client, **ends(made, 1, 6), q="set")
    assert len(rows_of(page)) == 1 and "1 of 2 rows" in page and "set-p1" in rows_of(page)[0]
    empty = compare(client, **ends(made, 1, 6), q="nothing", part="rows")
    assert rows_of(empty) == [] and "0 of 0 rows" in empty


def test_percentile_curves_of_both_sides(client: Client, kvd: World) -> None:
    page = compare(client, **ends(kvd, 0, 3), benchmark="get-p1")
    assert page.count("have no stored latencies") == 2
    put_latencies(kvd, 0, 50_000.0)
    put_latencies(kvd, 3, 75_000.0)
    page = compare(client, **ends(kvd, 0, 3), benchmark="get-p1")
    assert "no stored latencies" not in page
    assert "Percentile curves of latency" in page and "Difference of latency by percentile" in page
    assert '<td class="number">+50.0%</td>' in page or '<td class="number">+49.9%</td>' in page


def test_functions_that_cost_more_are_named(client: Client, kvd: World) -> None:
    for place, cost in ((0, 100.0), (3, 130.0)):
        counted = {"inside": "serve", "functions": {"hash": cost, "parse": 50.0}}
        own = Result.objects.filter(attempt__run__commit=kvd.commit(place), benchmark__name="set-p1")
        own.update(documents=packing.pack([{"trial": 0, "server": {"counted": counted}}]))
    page = compare(client, **ends(kvd, 0, 3), benchmark="set-p1")
    assert "Instructions per request by function, set-p1" in page
    assert "150.0 before, 180.0 after" in page
    assert "<code>hash</code>" in page and "<code>parse</code>" not in page


@pytest.fixture
def person(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def ask(client: Client, made: World, base: int, head: int, **form: Any) -> str:
    address = f"/p/kvd/compare/measure/?base={made.shas[base]}&head={made.shas[head]}"
    return html_of(client.post(address, form, follow=True))


def test_measuring_both_again_queues_one_paired_run(person: Client, kvd: World) -> None:
    page = ask(person, kvd, 0, 3, what="pair", benchmark=["get-p1", "no-such"])
    run = Run.objects.get(base=kvd.commit(0), commit=kvd.commit(3))
    assert (run.reason, run.trials, run.status) == (Reason.MANUAL, PAIRS, "queued")
    assert run.benchmark_set.names == ["get-p1"]
    assert f"Run {run.pk} is queued on kvd-m1" in page
    assert f"Run {run.pk} was queued before" in ask(person, kvd, 0, 3, what="pair", benchmark=["get-p1"])
    assert Run.objects.filter(base__isnull=False).count() == 1
    kvd.measure()
    rows = document(person, **ends(kvd, 0, 3), q="get", metric=CPU)["rows"]
    assert [row["pairs"] for row in rows] == [PAIRS]
    ask(person, kvd, 0, 3, what="pair", benchmark=["get-p1"])
    assert list(Run.objects.filter(base=kvd.commit(0)).order_by("pk").values_list("round", flat=True)) == [0, 1]


def test_a_waiting_pair_of_other_benchmarks_answers_nothing(person: Client, kvd: World) -> None:
    ask(person, kvd, 0, 3, what="pair", benchmark=["get-p1"])
    assert "was queued before" not in ask(person, kvd, 0, 3, what="pair", benchmark=["set-p1"])
    pairs = Run.objects.filter(base=kvd.commit(0), commit=kvd.commit(3)).order_by("pk")
    assert [run.benchmark_set.names for run in pairs] == [["get-p1"], ["set-p1"]]


def test_the_message_says_when_it_will_be_done(person: Client, kvd: World) -> None:
    kvd.machines[0].note_call()
    page = ask(person, kvd, 0, 3, what="pair", benchmark=["get-p1"])
    assert "It will be done in about" in page and "UTC." in page
    Machine.objects.update(paused=True)
    Run.objects.filter(base__isnull=False).delete()
    assert "Machine kvd-m1 is paused" in ask(person, kvd, 0, 3, what="pair", benchmark=["get-p1"])


def test_measuring_a_commit_that_was_not_measured_queues_it_once(person: Client, kvd: World) -> None:
    kvd.push(1)
    Run.objects.filter(commit=kvd.commit(4)).delete()
    for _ in range(2):
        ask(person, kvd, 0, 4, what="head")
    run = Run.objects.get(commit=kvd.commit(4))
    assert (run.reason, run.base) == (Reason.MANUAL, None)


def test_measuring_needs_a_login_and_two_commits(client: Client, kvd: World) -> None:
    address = f"/p/kvd/compare/measure/?base={kvd.shas[0]}&head={kvd.shas[3]}"
    response = client.post(address, {"what": "pair", "benchmark": "get-p1"})
    assert response.status_code == 302 and response.headers["Location"].startswith("/login/?next=")
    assert "Log in</a> to measure both again" in compare(client, **ends(kvd, 0, 3))
    client.force_login(User.objects.create_superuser("ada"))
    assert "Nothing was queued" in ask(client, kvd, 3, 3, what="pair", benchmark=["get-p1"])
    assert "Nothing was queued" in ask(client, kvd, 0, 3, what="pair")
    assert not Run.objects.filter(base__isnull=False).exists()


def test_the_number_of_queries_does_not_grow(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, alert = slow
    address = f"/p/kvd/compare/?base={alert.before.sha}&head={alert.commit.sha}"
    few = queries(client, address)
    assert few <= 12
    other_environment(made, monkeypatch)
    assert queries(client, f"/p/kvd/compare/?base={made.shas[0]}&head={made.shas[-1]}") <= 12
    assert queries(client, f"/p/kvd/compare.json?base={alert.before.sha}&head={alert.commit.sha}") <= few
