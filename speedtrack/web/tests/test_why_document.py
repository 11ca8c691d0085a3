"""The test of a point as JSON: both levels, the band, what the change needed and what it was."""

import re
from typing import Any

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.runs.models import Run
from speedtrack.web.tests.world import CPU, World, queries

WHY = f"/p/kvd/timeline/get-p1/{CPU}/why.json"


def why(client: Client, made: World, place: int) -> Any:
    answer = client.get(WHY, {"commit": made.shas[place][:12]})
    assert answer.status_code == 200
    return answer.json()


def test_the_levels_and_the_band_of_a_slow_commit(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    found = why(client, made, 5)
    assert (found["schema"], found["sha"], found["base"]) == ("speedtrack.why/1", made.shas[5], made.shas[4])
    assert (found["machine"], found["branch"], found["is_suspicious"]) == ("kvd-m1", "main", True)
    assert found["before"] == {
        "first": made.shas[0],
        "last": made.shas[4],
        "commits": 5,
        "level": pytest.approx(5005, rel=0.002),
    }
    assert (found["after"]["first"], found["after"]["level"]) == (made.shas[5], pytest.approx(6010, rel=0.002))
    assert found["low"] < found["before"]["level"] < found["high"] < found["after"]["level"]
    limit = found["high"] / found["before"]["level"] - 1
    assert found["summary"] == f"Suspected: needs {100 * limit:.2g}%, saw +20.0%"
    assert any(f"alert {alert.pk}, confirmed" in step for step in found["steps"])


def test_why_no_alert(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    found = why(client, made, 2)
    assert not found["is_suspicious"] and found["steps"] == []
    assert found["low"] < found["after"]["level"] < found["high"]
    assert re.fullmatch(r"Not suspected: needs 3\.\d%, saw [+−]0\.\d\d%", found["summary"])
    last = why(client, made, 4)
    assert last["after"]["commits"] == 1 and last["after"]["level"] < 5100, "the next level is not a part of it"
    first = why(client, made, 0)
    assert first["summary"].startswith("It is the first point of its level") and first["base"] is None
    assert first["before"] is first["after"] is first["low"] is None


def test_a_commit_that_is_not_there(client: Client, kvd: World) -> None:
    assert client.get(WHY, {"commit": "f" * 40}).status_code == 404
    assert client.get(WHY, {"commit": ""}).status_code == 404
    kvd.push(1)
    assert client.get(WHY, {"commit": kvd.shas[4]}).status_code == 404, "not measured, and nothing after it"


def test_without_a_commit_it_is_the_newest_that_was_measured(client: Client, kvd: World) -> None:
    kvd.push(1)
    assert client.get(WHY).json() == client.get(WHY, {"commit": kvd.shas[-2]}).json()


def test_it_takes_few_queries_and_changes_nothing(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    before = Run.objects.count()
    assert queries(client, f"{WHY}?commit={made.shas[5]}") <= 14
    assert Run.objects.count() == before
