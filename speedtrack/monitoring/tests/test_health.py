"""``/readyz``: what makes an installation not ready, and what strangers are told of it."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from speedtrack.celery import app
from speedtrack.monitoring import health
from speedtrack.monitoring.heartbeats import DISPATCHER, Beating, age_s
from speedtrack.monitoring.models import Heartbeat
from speedtrack.monitoring.remembered import Remembered, StillComputing
from speedtrack.processes import devstack
from speedtrack.tests.builders import redis_client
from speedtrack.tests.clusters import databases

TOKEN = "t" * 40


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    health.newest.forget()
    yield
    health.newest.forget()


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(devstack, "HOME", tmp_path)
    monkeypatch.delenv("BROKER_URL", raising=False)
    with devstack.running_broker() as url:
        known, app.conf.broker_url = app.conf.broker_url, url
        app.pool.force_close_all()
        yield url
        app.conf.broker_url = known


@pytest.fixture
def dispatcher(db: None) -> None:
    Beating(DISPATCHER, every_s=5).beat()


def states(answer: Any) -> dict[str, str]:
    return {name: said["state"] for name, said in answer.json()["checks"].items()}


def test_an_installation_that_works_is_ready(client: Client, broker: str, dispatcher: None) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    assert states(answer) == dict.fromkeys(("database", "migrations", "dispatcher", "broker", "disk"), "good")
    assert "no-store" in answer["Cache-Control"]


def test_a_lost_broker_is_a_note(client: Client, dispatcher: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.conf, "broker_url", "redis://127.0.0.1:1/0")
    answer = client.get("/readyz")
    assert (answer.status_code, states(answer)["broker"]) == (200, "note")


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_a_broker_that_takes_no_message_makes_it_unready(
    client: Client, broker: str, dispatcher: None, policy: str
) -> None:
    redis = redis_client(broker)
    redis.config_set("maxmemory-policy", policy)
    redis.config_set("maxmemory", "1mb")
    answer = client.get("/readyz")
    assert (answer.status_code, states(answer)["broker"]) == (503, "bad")
    assert "memory is full" in answer.json()["checks"]["broker"]["why"]
    redis.config_set("maxmemory", "0")
    health.newest.forget()
    assert client.get("/readyz").status_code == 200
    assert list(redis.scan_iter("*probe*")) == []


def test_a_dispatcher_that_never_ran_or_is_silent_makes_it_unready(client: Client, db: None) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "start `manage.py dispatch`" in answer.json()["checks"]["dispatcher"]["why"]
    Beating(DISPATCHER, every_s=5).beat()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE monitoring_heartbeat SET at = now() - interval '31 seconds'")
    health.newest.forget()
    answer = client.get("/readyz")
    assert (answer.status_code, states(answer)["dispatcher"]) == (503, "bad")
    assert "silent for 3" in answer.json()["checks"]["dispatcher"]["why"]


def test_a_missing_migration_makes_it_unready(client: Client, dispatcher: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'monitoring'")
    answer = client.get("/readyz")
    assert (answer.status_code, states(answer)["migrations"]) == (503, "bad")
    assert "dispatcher" not in answer.json()["checks"]


def test_a_full_disk_makes_it_unready(client: Client, dispatcher: None, settings: Any) -> None:
    settings.LEAST_FREE_MB = 10**9
    answer = client.get("/readyz")
    assert (answer.status_code, states(answer)["disk"]) == (503, "bad")
    assert "make room" in answer.json()["checks"]["disk"]["why"]


def test_without_the_database_it_says_so_at_once(client: Client, db: None) -> None:
    began = time.monotonic()
    with databases(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert states(answer) == {"database": "bad", "broker": states(answer)["broker"], "disk": "good"}
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "told",
    [
        {"REMOTE_ADDR": "192.0.2.7"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_FORWARDED": "for=192.0.2.7"},
        {"REMOTE_ADDR": "nonsense"},
        {"REMOTE_ADDR": ""},
    ],
)
def test_strangers_learn_names_and_states_only(client: Client, dispatcher: None, told: dict[str, Any]) -> None:
    answer = client.get("/readyz", **told)
    assert all(said.keys() == {"state"} for said in answer.json()["checks"].values())
    assert str(health.settings.HOME) not in answer.content.decode()
    assert client.get("/metrics", **told).status_code == 401


def test_a_token_opens_both_from_anywhere(client: Client, dispatcher: None, settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN
    away = {"REMOTE_ADDR": "192.0.2.7"}
    for wrong in ("", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer \u00e9", TOKEN):
        refused = client.get("/metrics", HTTP_AUTHORIZATION=wrong, REMOTE_ADDR="127.0.0.1")
        assert (refused.status_code, refused["WWW-Authenticate"]) == (401, "Bearer"), wrong
    assert client.get("/metrics", HTTP_AUTHORIZATION=f"Bearer {TOKEN}", **away).status_code == 200
    told = client.get("/readyz", HTTP_AUTHORIZATION=f"bearer {TOKEN}", **away)
    assert "why" in told.json()["checks"]["database"]


def test_behind_a_proxy_nobody_is_local(client: Client, dispatcher: None, settings: Any) -> None:
    settings.BEHIND_TLS_PROXY = True
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 401


def test_a_sign_of_life_is_stored_every_few_seconds_only(db: None, django_assert_num_queries: Any) -> None:
    life = Beating(DISPATCHER, every_s=1000)
    assert age_s(DISPATCHER) is None
    life.beat()
    with django_assert_num_queries(0):
        life.beat()
    assert Heartbeat.objects.count() == 1
    found = age_s(DISPATCHER)
    assert found is not None
    assert 0 <= found < 60


def test_many_who_ask_cost_as_little_as_one() -> None:
    begun, ends, calls = threading.Event(), threading.Event(), []

    def find() -> int:
        calls.append(1)
        begun.set()
        ends.wait(30)
        return len(calls)

    answers: list[int] = []
    remembered = Remembered(find, for_s=1000)
    threads = [threading.Thread(target=lambda: answers.append(remembered.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    ends.set()
    for thread in threads:
        thread.join(30)
    assert (answers, len(calls)) == ([1] * 8, 1)


def test_who_asks_while_another_hangs_gets_the_former_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speedtrack.monitoring.remembered.LONGEST_WAIT_S", 0.01)
    remembered = Remembered(lambda: 1, for_s=0)
    with remembered.lock, pytest.raises(StillComputing):
        remembered.get()
    assert remembered.get() == 1
    remembered.find = lambda: 2
    with remembered.lock:
        assert remembered.get() == 1
    assert remembered.get() == 2


def test_the_process_is_alive_whatever_else_is_not(client: Client) -> None:
    assert client.get("/healthz").content == b"ok\n"
