"""Exports of points: files for programs, views for other programs of the database, and the newest values."""

import csv
import gzip
import json
import math
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from speedtrack.accounts import tokens
from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.outside import document, taking
from speedtrack.projects.models import Branch, ChainCommit, Commit, Position, Project
from speedtrack.runs.models import Attempt, Import, Measurement, Samples
from speedtrack.tests import worlds
from speedtrack.web.pages.sharing import exportedpoints
from speedtrack.web.tests.world import CPU, World, counted, slowed, world

DASHBOARD = Path(settings.BASE_DIR) / "deploy" / "grafana" / "dashboard.json"
DOCUMENT = Path(settings.BASE_DIR) / "docs" / "sql.md"
VIEWS = ("export_points", "export_samples", "export_commits", "export_change_points", "export_alerts")


def measured_by_two(settings: Any, directory: Path) -> World:
    made = world(settings, directory, commits=6, machines=2)
    made.measure()
    return made


@worlds.shared
def two_machines(settings: Any, directory: Path) -> World:
    return measured_by_two(settings, directory)


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.content
    return response.getvalue().decode()


def test_commits_outside_of_the_asked_time_are_not_read(two_machines: World, client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(exportedpoints, "STRETCH", 1)
    since = f"{two_machines.commit(-1).committed_at:%Y-%m-%dT%H:%M:%SZ}"
    with counted() as sent:
        lines = text_of(client, f"/p/kvd/export.ndjson?since={since}").splitlines()
    assert {json.loads(line)["commit"] for line in lines} == {two_machines.shas[-1]}
    assert len(sent) <= 8


def test_each_form_has_every_point_of_the_branch(two_machines: World, client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(exportedpoints, "STRETCH", 2)
    whole = json.loads(text_of(client, "/p/kvd/export.json?samples=1"))
    lines = [json.loads(line) for line in text_of(client, "/p/kvd/export.ndjson?samples=1").splitlines()]
    rows = list(csv.DictReader(StringIO(text_of(client, "/p/kvd/export.csv?samples=1"))))
    there = Measurement.objects.filter(accepted=True, paired=False).select_related("commit", "series__benchmark")
    assert len(there) > 40
    assert whole["schema"] == "speedtrack.export/1" and whole["branch"] == "main"
    assert whole["points"] == lines and len(rows) == len(lines) == len(there)
    places = dict(Position.objects.values_list("commit", "number"))
    expected = {
        (places[one.commit_id], one.series.benchmark.name, one.series.metric, one.value, one.n) for one in there
    }
    found = {(one["position"], one["benchmark"], one["metric"], one["value"], one["n"]) for one in lines}
    assert found == expected
    assert sorted(one["position"] for one in lines) == [one["position"] for one in lines]
    samples = {tuple(one.values) for one in Samples.objects.filter(measurement__in=there)}
    assert {tuple(one["samples"]) for one in lines} == samples
    assert {tuple(map(float, row["samples"].split())) for row in rows} == samples
    assert "samples" not in text_of(client, "/p/kvd/export.csv").splitlines()[0]


@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
def test_points_that_are_deleted_while_an_export_is_sent_are_left_out(
    two_machines: World, client: Client, monkeypatch: Any, form: str
) -> None:
    deleted: list[int] = []

    def deleting(query: str, parameters: Any) -> list[tuple[Any, ...]]:
        if query == exportedpoints.ATTEMPTS and not deleted:
            deleted.append(min(parameters["attempts"]))
            Attempt.objects.filter(pk=deleted[0]).delete()
        return fetch(query, parameters)

    fetch = exportedpoints.fetch
    monkeypatch.setattr(exportedpoints, "fetch", deleting)
    first = text_of(client, f"/p/kvd/export.{form}?samples=1")
    assert deleted and first == text_of(client, f"/p/kvd/export.{form}?samples=1")


@pytest.mark.parametrize("form", [exportedpoints.CSV, exportedpoints.JSON])
def test_numbers_are_written_with_all_their_digits(form: exportedpoints.Form) -> None:
    powers = [sign * digits * 10.0**power for power in range(-8, 20) for sign in (1, -1) for digits in (1, 1 / 3, 9.99)]
    for column in (
        [0.0001, 9.999999999999998e15],
        [0.1 + 0.2, 2.0, -12345678.9],
        [0.0, 1.5],
        *([one] for one in powers),
    ):
        assert list(exportedpoints.numbers_of(np.array(column), form)) == list(map(repr, column))


def test_a_query_chooses_points(two_machines: World, client: Client) -> None:
    def found(query: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in text_of(client, f"/p/kvd/export.ndjson?{query}").splitlines()]

    every = found("")
    third = two_machines.commit(3)
    assert {one["benchmark"] for one in found("benchmark=get-p1")} == {"get-p1"}
    assert {one["metric"] for one in found(f"metric={CPU}")} == {CPU}
    assert {one["machine"] for one in found("machine=kvd-m2")} == {"kvd-m2"}
    assert found(f"environment={every[0]['environment'][7:19]}") and found("environment=beef") == []
    assert {one["position"] for one in found("after=3")} == {4, 5}
    assert found("after=5") == found("benchmark=none") == []
    since = f"{third.committed_at:%Y-%m-%dT%H:%M:%SZ}"
    assert {one["position"] for one in found(f"since={since}")} == {3, 4, 5}
    assert {one["position"] for one in found(f"until={since}")} == {0, 1, 2}
    early, late = "since=0001-01-01T00:00:00%2B23:59", "until=9999-12-31T23:59:59-23:59"
    for wrong in (
        early,
        late,
        "branch=none",
        "after=x",
        "after=9999999999",
        "since=yesterday",
        "since=2026-13-01",
        "until=12:00",
    ):
        assert client.get(f"/p/kvd/export.csv?{wrong}").status_code == 404, wrong
    assert client.get("/p/kvd/export.xml").status_code == client.get("/p/none/export.csv").status_code == 404


def test_a_row_says_what_its_values_mean(two_machines: World, client: Client) -> None:
    """Also of a result that was measured elsewhere, long before it was sent."""
    row = {"benchmark": "sort", "metric": "time", "unit": "s", "better": "lower", "samples": [1.5, 2.5]}
    sent = {"schema": "speedtrack.points/1", "commit": "main", "machine": "ci", "measured_at": "2026-03-01T12:00:00Z"}
    batch = document.batch_of({**sent, "results": [row]})
    taking.take(two_machines.project, batch, taking.Sender(Import.Door.COMMAND))
    Samples.objects.filter(measurement__series__benchmark__name="sort").update(values=[1.5, math.nan])
    found = json.loads(text_of(client, "/p/kvd/export.ndjson?benchmark=sort&samples=1"))
    assert (found["unit"], found["better"], found["samples"]) == ("s", "lower", [1.5, None])
    assert found["measured_at"] == "2026-03-01T12:00:00+00:00"
    assert found["benchmark_digest"].startswith("sha256:")
    with connection.cursor() as cursor:
        cursor.execute("SELECT measured_at FROM export_points WHERE benchmark = 'sort'")
        assert cursor.fetchone()[0].isoformat() == found["measured_at"]
    [cells] = csv.DictReader(StringIO(text_of(client, "/p/kvd/export.csv?benchmark=sort&samples=1")))
    assert (cells["unit"], cells["better"], cells["samples"]) == ("s", "lower", "1.5 nan")
    assert cells["benchmark_digest"] == found["benchmark_digest"] and cells["measured_at"] == found["measured_at"]


def test_rows_are_in_the_order_of_names_and_say_what_is_odd(two_machines: World, client: Client) -> None:
    """A flag, a value that is no number and a time of its own stand in the row of their point, and in no other."""
    first, second = Measurement.objects.filter(commit=two_machines.commit(2)).order_by("pk")[:2]
    Measurement.objects.filter(pk=first.pk).update(flags=["noisy", "cpu"], value=math.nan, high=math.inf)
    Measurement.objects.filter(pk=second.pk).update(value=1e-7)
    lines = [json.loads(line) for line in text_of(client, "/p/kvd/export.ndjson").splitlines()]
    rows = list(csv.DictReader(StringIO(text_of(client, "/p/kvd/export.csv"))))
    order = [(one["position"], one["benchmark"], one["metric"], one["machine"]) for one in lines]
    assert order == sorted(order)
    assert [list(one) for one in lines] == [list(row) for row in rows] == [list(exportedpoints.COLUMNS)] * len(lines)
    for line, row in zip(lines, rows, strict=True):
        texts = {name: "" if value is None else str(value) for name, value in line.items() if name != "flags"}
        odd = {"value": "nan", "high": "inf"} if line["flags"] else {}
        assert row == texts | odd | {"flags": " ".join(line["flags"])}
    (flagged,) = (line for line in lines if line["flags"])
    assert (flagged["value"], flagged["high"], flagged["low"]) == (None, None, first.low)
    assert flagged["flags"] == ["noisy", "cpu"] and flagged["run"] == first.attempt.run_id
    assert [line["value"] for line in lines].count(1e-7) == 1


@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
def test_an_export_is_compressed_while_it_is_sent(two_machines: World, client: Client, form: str) -> None:
    address = f"/p/kvd/export.{form}"
    answer = client.get(address, headers={"accept-encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip" and "Content-Length" not in answer.headers
    content = answer.getvalue()
    assert gzip.decompress(content).decode() == text_of(client, address)
    assert len(content) < len(text_of(client, address)) / 4


def test_a_token_reads_exports_of_a_private_project(two_machines: World, client: Client) -> None:
    Project.objects.update(is_public=False)
    user = User.objects.create_user("ada")
    Membership.objects.create(project=two_machines.project, user=user, role=Role.READER)
    _, token = tokens.issue(user, "ci", [Scope.READ], days=None)
    _, other = tokens.issue(user, "ci", [Scope.RESULTS], days=None)
    for address in ("/p/kvd/export.csv", "/p/kvd/openmetrics"):
        assert client.get(address).status_code == 404
        answer = client.get(address, headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private")
        for wrong, status in ((f"Bearer {other}", 404), ("Bearer stpt_wrong", 401), (f"Basic {token}", 404)):
            assert client.get(address, headers={"Authorization": wrong}).status_code == status


def test_no_cell_is_a_formula_and_no_text_hides_anything(two_machines: World, client: Client) -> None:
    Commit.objects.update(subject="=cmd|' /C calc'!A0\u202e", author_name="@SUM(1)")
    (row, *_) = csv.DictReader(StringIO(text_of(client, "/p/kvd/export.csv")))
    assert row["subject"].startswith("'=cmd") and row["author"] == "'@SUM(1)" and "\u202e" not in row["subject"]


def test_the_newest_value_of_each_series_is_a_gauge(two_machines: World, client: Client) -> None:
    newest = two_machines.commit(5)
    text = text_of(client, "/p/kvd/openmetrics")
    families = {one.name: one for one in text_string_to_metric_families(text)}
    gauge = families[f"speedtrack_{CPU}"]
    values = {(one.labels["benchmark"], one.labels["machine"]): one.value for one in gauge.samples}
    assert {one.labels["commit"] for one in gauge.samples} == {newest.sha}
    there = Measurement.objects.filter(commit=newest, series__metric=CPU).select_related("series__benchmark")
    expected = {(one.series.benchmark.name, one.series.machine.name): one.value for one in there}
    assert values == expected and len(values) == 4
    assert "lower is better" in gauge.documentation


def test_the_newest_value_is_that_of_the_last_position_whatever_ids_its_commit_has(
    db: None, settings: Any, tmp_path: Path, client: Client
) -> None:
    """In a world of its own, as processes remember positions, which never change."""
    made = measured_by_two(settings, tmp_path)
    for commit, number in ((5, 100), (1, 5), (5, 1)):
        ChainCommit.objects.filter(commit=made.commit(commit)).update(number=number)
    assert commits_in(text_of(client, "/p/kvd/openmetrics")) == {made.commit(1).sha}


def test_a_commit_of_another_branch_is_no_newest_value(two_machines: World, client: Client) -> None:
    ChainCommit.objects.filter(commit=two_machines.commit(2)).delete()
    Measurement.objects.filter(commit__in=[two_machines.commit(number) for number in (3, 4, 5)]).delete()
    assert commits_in(text_of(client, "/p/kvd/openmetrics")) == {two_machines.commit(1).sha}


def test_names_in_openmetrics_may_have_any_character(two_machines: World, client: Client) -> None:
    name = 'a"b\\c'
    Project.objects.update(default_branch=name)
    Branch.objects.update(name=name)
    families = text_string_to_metric_families(text_of(client, "/p/kvd/openmetrics"))
    assert {sample.labels["branch"] for family in families for sample in family.samples} == {name}


def commits_in(text: str) -> set[str]:
    return {one.labels["commit"] for family in text_string_to_metric_families(text) for one in family.samples}


@pytest.fixture
def reader(transactional_db: Any) -> Iterator[str]:
    """The address of the database for the role that the document makes."""
    (block,) = re.findall(r"```sql\n(CREATE ROLE.*?)```", DOCUMENT.read_text(), re.S)
    with connection.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS speedtrack_reader")
        cursor.execute(block)
    known = connection.settings_dict
    parts = {key: known[key.upper()] for key in ("host", "port") if known[key.upper()]}
    yield psycopg.conninfo.make_conninfo(
        "", dbname=known["NAME"], user="speedtrack_reader", password="change-me", **parts
    )
    with connection.cursor() as cursor:
        cursor.execute("DROP OWNED BY speedtrack_reader; DROP ROLE speedtrack_reader")


def test_the_documented_role_reads_the_views_and_nothing_else(reader: str, settings: Any, tmp_path: Path) -> None:
    made, alert = slowed(settings, tmp_path)
    with psycopg.connect(reader, autocommit=True) as link:
        count = dict.fromkeys(VIEWS, 0)
        for view in VIEWS:
            count[view] = link.execute(f"SELECT count(*) FROM {view}").fetchone()[0]  # type: ignore[index]
        there = Measurement.objects.filter(accepted=True, paired=False)
        assert count["export_points"] == there.count() and count["export_commits"] == len(made.shas)
        assert count["export_alerts"] == 1 and all(count.values())
        (found,) = link.execute("SELECT alert, commit, status FROM export_alerts").fetchall()
        assert found == (alert.pk, alert.commit.sha, alert.status)
        with connection.cursor() as cursor:
            tables = [name for name in connection.introspection.table_names(cursor) if name not in VIEWS]
        assert len(tables) > 50
        for table in tables:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute(f'SELECT FROM "{table}" LIMIT 1')
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            link.execute("CREATE TABLE mine ()")


def queries(value: Any) -> Iterator[str]:
    """Every query of the dashboard."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key in ("rawSql", "query") and isinstance(one, str) and one.startswith("SELECT"):
                yield one
            else:
                yield from queries(one)
    elif isinstance(value, list):
        for one in value:
            yield from queries(one)


def test_every_query_of_the_dashboard_answers(reader: str, settings: Any, tmp_path: Path) -> None:
    made, _ = slowed(settings, tmp_path)
    names = {"project": "kvd", "branch": "main", "benchmark": "get-p1", "metric": CPU, "machine": "'kvd-m1'"}
    found = list(queries(json.loads(DASHBOARD.read_text())))
    assert len(found) == 9
    with psycopg.connect(reader, autocommit=True) as link:
        for query in found:
            # As Grafana puts them in: a variable of several values with quotes, the range of times as a condition.
            text = re.sub(r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN '2000-01-01' AND '2100-01-01'", query)
            text = re.sub(r"\$(\w+)", lambda match: names[match[1]], text)
            assert link.execute(text).fetchall(), query
    assert made.project.slug == names["project"]
