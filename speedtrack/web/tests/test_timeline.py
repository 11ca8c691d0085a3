"""The timeline: page, JSON and CSV."""

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.db.models.functions import Now
from django.http import QueryDict
from django.test import Client

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.digests import json_digest
from speedtrack.projects.models import Commit, Tag
from speedtrack.runs.models import Deferral, Run, Series
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.tests.plans import rows_read
from speedtrack.web.pages.timeline import document as timeline_json
from speedtrack.web.tests.world import CPU, HOSTILE, World, counted, html_of, queries

LINE = f"/p/kvd/timeline/get-p1/{CPU}"


def document(client: Client, query: str = "") -> dict[str, Any]:
    """The document, with the commits of each path where it has their places, and an entry for each gap."""
    found: dict[str, Any] = client.get(f"{LINE}.json{query}").json()
    return found | {"paths": [timeline_json.chart_path(path, found["commits"]) for path in found["paths"]]}


def path_of(client: Client, query: str = "") -> dict[str, Any]:
    """The commits of the branch, with what is known of them."""
    (found,) = document(client, query)["paths"]
    path: dict[str, Any] = found
    return path


def table(client: Client, query: str = "") -> list[dict[str, str]]:
    answer = client.get(f"{LINE}.csv{query}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(b"".join(answer).decode())))


def test_a_series_whose_changes_cannot_be_looked_for_says_so(client: Client, kvd: World) -> None:
    assert "Detection failed" not in html_of(client.get(LINE))
    Series.objects.update(error="ValueError: a sample is not a finite number", failures=1, retry_at=Now())
    assert "Detection failed on kvd-m1 (ValueError: a sample is not a finite number)" in html_of(client.get(LINE))


def test_the_page_says_in_words_what_the_chart_shows(client: Client, slow: tuple[World, Alert]) -> None:
    page = html_of(client.get(LINE))
    assert "slower +20.1%" in page
    assert f'data-values="{LINE}.json?"' in page
    assert 'role="img"' in page
    assert 'data-part="?part=values"' in page
    assert "<script>alert" not in page


def test_the_table_of_values_comes_when_it_is_opened(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    page = html_of(client.get(f"{LINE}?part=values"))
    assert page.count('<th scope="row">') == 8
    assert f'href="/p/kvd/c/{made.shas[5]}/"' in page and "confirmed +20.1%" in page
    assert "&lt;script&gt;alert" in page and "<script>alert" not in page and "<html" not in page


def test_the_json_has_columns(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    found = document(client)
    assert found["schema"] == "speedtrack.timeline/4"
    assert found["metric"] == {"name": CPU, "title": "Server CPU per request", "unit": "ns", "better": "lower"}
    (shown,), (path,), (line,) = found["shown"], found["paths"], found["lines"]
    assert (shown["machine"], shown["branch"], shown["measured"]) == ("kvd-m1", "main", 8)
    assert shown["line"] == f"kvd/get-p1/{CPU}@kvd-m1:main"
    assert path["commits"]["sha"] == [sha[:12] for sha in made.shas]
    assert path["commits"]["subject"][5] == HOSTILE
    assert set(path["commits"]["author"]) == {"Ada Example"}
    assert line["shown"] == 0
    assert line["at"] == list(range(8))
    assert line["n"] == [5] * 8
    assert all(low <= value <= high for low, value, high in zip(line["low"], line["value"], line["high"], strict=True))
    (change,) = found["changes"]
    assert (change["at"], change["status"], change["worse"], change["alert"]) == (5, "confirmed", True, alert.pk)
    assert change["ratio"] == pytest.approx(1.2, abs=0.01)
    assert change["alert_state"] == "confirmed" and "fixed<" not in client.get(f"{LINE}.svg").content.decode()
    Alert.objects.update(status="fixed")
    assert document(client)["changes"][0]["alert_state"] == "fixed"
    assert "% fixed<" in client.get(f"{LINE}.svg").content.decode()


@patch.multiple(timeline_json, MOST_COMMITS=7, PLACES=1, LABELLED=1)
def test_a_long_timeline_is_an_outline_unless_all_points_are_wanted(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    found, whole = document(client), document(client, "?points=all")
    (path,), (whole_path,) = found["paths"], whole["paths"]
    assert (path["count"], path["step"], whole_path["count"], whole_path["step"]) == (8, 8, 8, 1)
    (line,), (all_points,) = found["lines"], whole["lines"]
    assert all_points["at"] == list(range(8))
    values = all_points["value"]
    told = {0, 7, values.index(min(values)), values.index(max(values)), 4, 5}  # ends, extremes, around the change
    assert line["at"] == sorted(told)
    assert line["value"] == [values[at] for at in line["at"]]
    assert path["commits"]["at"] == line["at"]
    assert path["commits"]["sha"] == [made.shas[at][:12] for at in line["at"]]
    assert [one["shown"][0]["measured"] for one in (found, whole)] == [8, 8]
    assert found["changes"] == whole["changes"]
    assert path_of(client, "?last=7")["step"] == 1


def moved_to(client: Client, query: str) -> dict[str, str]:
    """The query of the address to which dates in an address lead."""
    answer = client.get(f"{LINE}?{query}")
    assert answer.status_code == 302
    return QueryDict(answer["Location"].partition("?")[2]).dict()


def test_dates_become_the_commits_at_them(client: Client, kvd: World) -> None:
    for place, day in enumerate((1, 3, 3, 9)):
        Commit.objects.filter(pk=kvd.commit(place).pk).update(committed_at=datetime(2026, 5, day, 23, 59, tzinfo=UTC))
    shas = [sha[:12] for sha in kvd.shas]
    assert moved_to(client, "since=2026-05-02") == {"from": shas[1]}
    assert moved_to(client, "since=2026-05-03&until=2026-05-03") == {"from": shas[1], "to": shas[2]}
    assert moved_to(client, "until=2026-05-08&last=50&y=log") == {"to": shas[2], "y": "log"}
    assert moved_to(client, f"since=2020-01-01&from={shas[2]}&to={shas[3]}") == {"from": shas[0], "to": shas[3]}
    assert moved_to(client, "until=2999-01-01") == {"to": shas[3]}
    for query, remedy in {
        "since=2026-05-10": "main has no commit of 2026-05-10 or later: choose an earlier date",
        "until=2026-04-30": "main has no commit before 2026-05-01: choose a later date",
        "since=tomorrow": "give one such as 2026-05-01",
    }.items():
        answer = client.get(f"{LINE}?{query}")
        assert answer.status_code == 404 and remedy in answer.content.decode()
    assert html_of(client.get(LINE)).count('type="date"') == 2


def test_ranges(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    assert path_of(client, "?last=3")["commits"]["sha"] == [sha[:12] for sha in made.shas[-3:]]
    assert path_of(client, "?last=all")["first"] == 0
    assert path_of(client, "?last=nonsense")["first"] == 0
    zoomed = document(client, f"?from={made.shas[4][:12]}&to={made.shas[2]}")
    assert zoomed["paths"][0]["commits"]["sha"] == [sha[:12] for sha in made.shas[2:5]]
    assert zoomed["lines"][0]["at"] == [0, 1, 2]
    assert len(path_of(client, f"?around={made.shas[0]}")["commits"]["sha"]) == 8
    assert client.get(f"{LINE}?from=abc").status_code == 404
    assert client.get(f"{LINE}?from={'f' * 40}").status_code == 404


def test_a_project_tracked_lately_opens_on_what_is_measured(
    client: Client, db: None, settings: Any, tmp_path: Path
) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    box, repository = builders.machine("kvd-m1"), builders.Repository(tmp_path / "kvd")
    shas = repository.commits(30)
    project = builders.track(repository, last=4).project
    assert path_of(client)["count"] == 30, "nothing is measured yet"
    World(repository, project, [box], shas).measure()

    path = path_of(client)
    assert (path["first"], path["count"]) == (23, 7), "the four measured commits and three before them"
    assert path_of(client, "?last=200")["count"] == 30 == path_of(client, "?last=all")["count"]
    assert path_of(client, "?last=2")["count"] == 2
    page, asked = html_of(client.get(LINE)), html_of(client.get(f"{LINE}?last=200"))
    assert re.findall(r'aria-current="true">([^<]*)<', page)[0] == "measured"
    assert re.findall(r'aria-current="true">([^<]*)<', asked)[0] == "200"
    assert 'name="last"' not in page and '<input type="hidden" name="last" value="200">' in asked


def test_an_unmeasured_commit_is_a_gap_with_its_reason(client: Client, kvd: World) -> None:
    kvd.push(3)
    kvd.fail("build failed: make exited with code 2")
    found = document(client)
    assert found["lines"][0]["at"] == [0, 1, 2, 3]
    (sent,) = client.get(f"{LINE}.json").json()["paths"]
    assert sent["gaps"][0] == {"state": "waiting", "reason": "waiting to be measured", "at": [4, 5]}
    assert found["paths"][0]["gaps"] == [
        {"at": 4, "state": "waiting", "reason": "waiting to be measured"},
        {"at": 5, "state": "waiting", "reason": "waiting to be measured"},
        {"at": 6, "state": "failed", "reason": "build failed: make exited with code 2"},
    ]
    assert "build failed: make exited with code 2" in html_of(client.get(f"{LINE}?part=values"))
    # What the branch's policy left out, unless a run says more.
    Run.objects.filter(commit=kvd.commit(4)).delete()
    for place in (4, 6):
        why = {"why": Deferral.Why.STEP, "detail": "it is not the third"}
        Deferral.objects.create(project=kvd.project, branch=kvd.project.branches.get(), commit=kvd.commit(place), **why)
    reasons = [gap["reason"] for gap in document(client)["paths"][0]["gaps"]]
    assert reasons == [
        "not measured: it is not the third",
        "waiting to be measured",
        "build failed: make exited with code 2",
    ]


def measure_under(kvd: World, kernel: str) -> None:
    """Push a commit and measure it under a kernel."""
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    facts = {**builders.SERIES_FACTS, "kernel": kernel}
    environment = {"digest": json_digest(facts), "series": facts, "recorded": {}}
    for name in run.benchmark_set.names:
        document_sent = builders.result(run, name, run.commit, [5000.0] * 5, environment=environment)
        results.accept_result(run.machine, run.pk, document_sent)
    queue.complete(run.machine, run.pk, run.lease_token)


def test_a_new_environment_is_a_line_of_its_own(client: Client, kvd: World) -> None:
    measure_under(kvd, "6.2")
    found = document(client)
    assert [line["at"] for line in found["lines"]] == [[0, 1, 2, 3], [4]]
    assert len({line["environment"] for line in found["lines"]}) == 2
    facts = [{"fact": "kernel", "before": "6.1", "after": "6.2"}]
    (one,) = found["breaks"]
    assert one == {"path": 0, "at": 4, "machine": "kvd-m1", "what": "kernel 6.1 → 6.2", "facts": facts}
    page = html_of(client.get(f"{LINE}?part=values"))
    assert 'title="kernel 6.1 → 6.2">new environment' in page


def test_a_machine_that_returns_to_an_environment_breaks_twice(client: Client, kvd: World) -> None:
    measure_under(kvd, "6.2")
    measure_under(kvd, "6.1")
    found = document(client)
    assert [line["at"] for line in found["lines"]] == [[0, 1, 2, 3, 5], [4]]
    assert [(one["at"], one["what"]) for one in found["breaks"]] == [(4, "kernel 6.1 → 6.2"), (5, "kernel 6.2 → 6.1")]
    byhand.queue_by_hand(byhand.choose("kvd", kvd.shas[4], [], None))
    kvd.measure()  # now under both: nothing begins or ends there any more
    found = document(client)
    assert found["breaks"] == []
    assert found["shown"][0]["measured"] == 6, "one that was measured in two environments counts once"


def test_flagged_points_are_told(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    for name in run.benchmark_set.names:
        sent = builders.result(run, name, run.commit, [5000.0] * 5, flags=[["steal"]] * 5)
        results.accept_result(run.machine, run.pk, sent)
    queue.complete(run.machine, run.pk, run.lease_token)
    assert document(client)["lines"][0]["flags"] == {"4": ["steal"]}


def test_tags(client: Client, kvd: World) -> None:
    Tag.objects.create(project=kvd.project, name="v1.0", sha=kvd.shas[2])
    assert path_of(client)["tags"] == [{"at": 2, "name": "v1.0"}]
    assert path_of(client, "?last=1")["tags"] == []


def test_a_commit_measured_twice_is_one_point_of_all_its_samples(client: Client, kvd: World) -> None:
    byhand.queue_by_hand(byhand.choose("kvd", kvd.shas[1], [], None))
    kvd.measure()
    (line,) = document(client)["lines"]
    assert line["at"] == [0, 1, 2, 3]
    assert line["n"] == [5, 10, 5, 5]


def test_samples_stay_in_the_database(client: Client, kvd: World) -> None:
    with counted() as context:
        document(client)
    assert not [q for q in context.captured_queries if "runs_samples" in q["sql"]]


def test_the_points_come_from_the_index(kvd: World) -> None:
    branch = kvd.project.branches.get()
    series = Series.objects.get(benchmark__name="get-p1", metric=CPU)
    points = lines.points([series.pk], branch, 1, 2)
    assert [(p.position, p.n) for p in points] == [(1, 5), (2, 5)]


def test_csv_cells_are_no_formulas(client: Client, kvd: World) -> None:
    for sign in "=+-@":
        kvd.push(1, f"{sign}HYPERLINK(1)")
    Commit.objects.filter(project=kvd.project).update(author_name="@SUM(1+1)")
    kvd.measure()
    rows = table(client)
    assert [row["subject"] for row in rows[-4:]] == [f"'{sign}HYPERLINK(1)" for sign in "=+-@"]
    assert {row["author"] for row in rows} == {"'@SUM(1+1)"}
    assert [row["sha"] for row in rows] == kvd.shas
    assert rows[0]["unit"] == "ns"
    assert float(rows[0]["low"]) <= float(rows[0]["value"]) <= float(rows[0]["high"])


def test_what_does_not_exist(client: Client, kvd: World) -> None:
    for address in (
        f"/p/kvd/timeline/nope/{CPU}",
        "/p/kvd/timeline/get-p1/nope",
        f"{LINE}.xml",
        f"{LINE}?machine=nope",
    ):
        assert client.get(address).status_code == 404


def raised(kvd: World) -> Alert:
    ends = {"before": kvd.commit(1), "commit": kvd.commit(2)}
    return Alert.objects.create(project=kvd.project, branch=kvd.project.branches.get(), status="confirmed", **ends)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_values_that_have_not_changed_are_not_sent_again(client: Client, kvd: World, form: str) -> None:
    def answer(etag: str = "", query: str = "") -> Any:
        return client.get(f"{LINE}.{form}{query}", headers={"if-none-match": etag})

    known = answer()["ETag"]
    again = answer(known)
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", known)
    assert answer(known, "?last=2").status_code == 200
    changes: dict[str, Callable[[], object]] = {
        "a commit": lambda: kvd.push(1),
        "a claimed run": lambda: queue.claim(kvd.machines[0]),
        "measurements": lambda: kvd.measure(),
        "a tag": lambda: Tag.objects.create(project=kvd.project, name="v1.0", sha=kvd.shas[2]),
        "a quarantine": lambda: Series.objects.update(undetected_since=Now()),
        "a change": lambda: ChangePoint.objects.create(
            series=Series.objects.get(benchmark__name="get-p1", metric=CPU),
            branch=kvd.project.branches.get(),
            before=kvd.commit(1),
            commit=kvd.commit(2),
            **dict.fromkeys(("ratio", "low", "high", "score"), 1.0),
        ),
        "a verdict": lambda: ChangePoint.objects.update(status="confirmed"),
        "an alert": lambda: ChangePoint.objects.update(alert=raised(kvd)),
        "its state": lambda: Alert.objects.update(status="expected"),
        "a deferral": lambda: Deferral.objects.create(
            project=kvd.project, branch=kvd.project.branches.get(), commit=kvd.commit(4), why="gap", detail="later"
        ),
    }
    for what, change in changes.items():
        change()
        now = answer(known)
        assert now.status_code == 200, what
        known = now["ETag"]
    assert answer(f"W/{known}").status_code == 304  # as it is sent where it was compressed


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    few = [queries(client, f"{LINE}{end}") for end in ("", ".json", ".csv")]
    made.push(8)
    made.measure()
    assert [queries(client, f"{LINE}{end}") for end in ("", ".json", ".csv")] == few


def test_the_commits_of_a_path_are_not_read_again_for_each_change(client: Client, kvd: World) -> None:
    commits = [*kvd.project.commits.order_by("pk"), *(kvd.commit(kvd.shas.index(sha)) for sha in kvd.push(60))]

    def read() -> int:
        return rows_read(lambda: client.get(f"{LINE}.csv?last=all"))

    few = read()
    ends = {"series": Series.objects.get(benchmark__name="get-p1", metric=CPU), "branch": kvd.project.branches.get()}
    numbers = dict.fromkeys(("ratio", "low", "high", "score"), 1.0)
    ChangePoint.objects.bulk_create(
        ChangePoint(**ends, **numbers, before=before, commit=commit) for before, commit in pairwise(commits)
    )
    assert read() - few <= 6 * len(commits)
