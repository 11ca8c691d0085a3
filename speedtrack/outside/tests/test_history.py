"""From results that were sent in to one alert, and to pages: with a real repository, by the history alone."""

import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from speedtrack.alerts.detection import detection, history
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.benchmarks.metrics import Direction, outside_key
from speedtrack.notices.mail import subject_of
from speedtrack.outside import storing
from speedtrack.outside.readers.tests.test_field_files import CASES
from speedtrack.outside.tests.conftest import row, send
from speedtrack.projects.models import Commit, Project, Tag
from speedtrack.runs.models import Attempt, Import, Run, Series
from speedtrack.tests import builders
from speedtrack.web.addresses import timeline_path

STEP = 40


@pytest.fixture
def shas(repository: builders.Repository) -> list[str]:
    return repository.commits(60)


def rows_of(shas: list[str], step: float) -> list[dict[str, Any]]:
    """60 commits; from STEP on one of two benchmarks takes so much longer."""
    noise = random.Random(11)
    found = []
    for place, sha in enumerate(shas):
        for name in ("sort", "merge/fast::one"):
            level = 0.012 * (step if place >= STEP and name == "sort" else 1)
            samples = [level * noise.gauss(1, 0.004) for _ in range(5)]
            found.append(row(sha, benchmark=name, value=None, samples=samples, parameters={"a b": "<i>"}))
    return found


def look() -> None:
    detection.detect()
    confirm.step()


def test_a_planted_step_becomes_one_alert_marked_as_of_the_history(project: Project, shas: list[str]) -> None:
    Project.objects.update(mail_history_verdicts=True)
    rows = rows_of(shas, 1.05)
    late, early = rows[60:70], rows[:60] + rows[70:]
    send(project, *reversed(early))
    look()
    send(project, *late)
    assert Series.objects.filter(undetected_since__isnull=False).count() == 2
    look()
    (cp,) = ChangePoint.objects.all()
    assert (cp.status, cp.series.benchmark.name) == ("history", "sort (a b=<i>)")
    assert cp.commit.sha == shas[STEP] and 1.04 < cp.ratio < 1.06
    assert "has no runner here, its results are sent in" in cp.note
    alert = Alert.objects.get()
    assert (alert.status, alert.commit.sha) == ("suspected", shas[STEP])
    assert [event.past for event in alert.events.all()] == [True], "years of history are no news"
    send(project, *rows)
    look()
    assert (Alert.objects.count(), ChangePoint.objects.count()) == (1, 1)
    assert not Run.objects.exclude(reason="import").exists(), "nothing is measured again"
    assert not Series.objects.exclude(error="").exists()


def test_a_count_that_leaves_zero_is_a_change_from_zero(
    project: Project, shas: list[str], tmp_path: Path, client: Client
) -> None:
    Project.objects.update(mail_history_verdicts=True)
    content = (CASES / "zero-to-three-allocs.js").read_text()
    for old, sha in zip(re.findall(r'"id": "([0-9a-f]{40})"', content), shas, strict=True):
        content = content.replace(old, sha)
    (tmp_path / "data.js").write_text(content)
    call_command("import", project.slug, str(tmp_path / "data.js"), "--machine", "ci")
    look()
    (cp,) = ChangePoint.objects.all()
    assert (cp.series.metric, cp.commit.sha) == ("allocations--allocs-2Fop--lower", shas[30])
    assert cp.is_slowdown and cp.ratio == 2.0, "the difference as a share of the larger value, as 0 has no ratio"
    alert = Alert.objects.get()
    assert (alert.commit.sha, cp.from_zero, cp.interval_in_words) == (shas[30], 3.0, "")
    name, metric = cp.series.benchmark.name, cp.series.metric
    pages = ("/", "/p/kvd/", "/alerts/", f"/alerts/{alert.pk}/", timeline_path("kvd", name, metric))
    for path in (*pages, f"/p/kvd/c/{shas[30]}/", "/p/kvd/alerts.atom", f"/api/v1/alerts/{alert.pk}"):
        page = client.get(path)
        assert page.status_code == 200, path
        assert "0 to 3" in page.content.decode(), path
    assert "worse 0 to 3 allocs/op: " in subject_of(alert)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_spike_is_refuted_when_later_values_are_those_of_before(
    project: Project, shas: list[str], client: Client, width: int, one_by_one: bool
) -> None:
    noise = random.Random(3)
    spike = range(STEP, STEP + width)
    levels = [0.012 * (999 if place in spike else 1) * noise.gauss(1, 0.004) for place in range(len(shas))]
    rows = [row(sha, value=level) for sha, level in zip(shas, levels, strict=True)]
    for part in (rows[: STEP + width], rows[STEP + width :]) if one_by_one else (rows,):
        send(project, *part)
        look()
        look()
    assert [(cp.status, cp.note) for cp in ChangePoint.objects.all()] == [("refuted", history.SPIKE)]
    assert "Last change" not in client.get("/").content.decode()


def test_what_is_sent_at_once_is_news_and_no_mail_without_the_setting(project: Project, shas: list[str]) -> None:
    Commit.objects.update(committed_at=timezone.now())
    send(project, *rows_of(shas, 1.2))
    look()
    assert ChangePoint.objects.get().past is False
    assert not Alert.objects.exists()


def test_pages_show_results_from_outside(client: Client, project: Project, shas: list[str]) -> None:
    Project.objects.update(mail_history_verdicts=True)
    said = {"tool": "watch 1.0", "url": "https://ci.example.org/1", "tags": {"job": "<b>7</b>"}}
    named = {"metric": "t<i>", "unit": "<i>", "value": None, "samples": [1.5, 1.6, 1.7]}
    odd = [row(sha, **named) for sha in (shas[0], shas[-1])]
    send(project, *rows_of(shas, 1.2), *odd, environment={"cpu": "<script>"}, **said)
    look()
    name, metric, odd_metric = "sort (a b=<i>)", "time--s--lower", outside_key("t<i>", "<i>", Direction.LOWER)
    run = Run.objects.get(commit__sha=shas[-1])
    Tag.objects.create(project=project, name="v1.0", sha=shas[0])
    shown = {
        "/": "12.",
        "/p/kvd/": "sort (a b=&lt;i&gt;)",
        timeline_path("kvd", name, metric): "measured elsewhere, a b &lt;i&gt;",
        f"/p/kvd/c/{shas[-1]}/": "sort (a b=&lt;i&gt;)",
        f"/p/kvd/compare/?base={shas[0]}&head={shas[-1]}": "sort (a b=&lt;i&gt;)",
        f"/p/kvd/compare/?base={shas[0]}&head={shas[-1]}&metric={metric}&benchmark={name}": "time",
        f"/p/kvd/releases/?metric={odd_metric}": "t&lt;i&gt; through the years",
        timeline_path("kvd", "sort", odd_metric): "t&lt;i&gt;",
        f"/runs/{run.pk}/": "Measured elsewhere by watch 1.0, sent by ada through manage.py import",
        "/machines/ci/": "measured elsewhere and sent in",
        "/machines/": ">sent in<",
        "/p/kvd/alerts/": "sort",
        f"/alerts/{Alert.objects.get().pk}/": "nothing is measured again here",
        "/p/kvd/sensitivity/": "merge.fast.one",
        f"/p/kvd/releases/?metric={metric}": "Releases",
        "/p/kvd/releases.atom": "The first release that was measured: time.",
        "/search/?q=merge": "merge.fast.one",
    }
    for address, words in shown.items():
        answer = client.get(address)
        text = answer.content.decode()
        assert answer.status_code == 200, address
        assert words in text, address
        assert "<i>" not in text and "<script>" not in text and "<b>7" not in text, address
    assert "Canary" not in client.get("/machines/ci/").content.decode()
    assert ">ci<" not in client.get("/queue/").content.decode()
    line = client.get(f"{timeline_path('kvd', name, metric)}.json").json()
    assert len(line["commits"]["sha"]) == 60
    assert client.get("/machines/ci.json").json()["state"] == "outside"
    assert client.get(f"/runs/{run.pk}/reproduce.sh").status_code == 404, "nobody knows how it was measured"


def test_pages_show_the_machine_that_has_the_newest_points(client: Client, project: Project, shas: list[str]) -> None:
    old = [row(shas[0], benchmark=name, metric=metric) for name in ("sort", "merge") for metric in ("time", "wait")]
    send(project, *old, machine="a-try")
    send(project, row(shas[-1]), machine="nightly")
    assert client.get("/p/kvd.json").json()["machine"] == "nightly"
    assert client.get("/p/kvd.json?machine=a-try").json()["machine"] == "a-try"


@pytest.mark.django_db(transaction=True)
def test_an_import_does_not_wait_for_detection(project: Project, shas: list[str]) -> None:
    send(project, row(shas[0]), row(shas[0], benchmark="merge"))
    look()
    held, free = Series.objects.order_by("pk")
    taken, go_on = threading.Event(), threading.Event()

    def detect_slowly() -> None:
        with transaction.atomic():
            Series.objects.select_for_update(no_key=True).get(pk=held.pk)
            taken.set()
            assert go_on.wait(60)
        connection.close()

    with ThreadPoolExecutor(1) as others:
        slow = others.submit(detect_slowly)
        assert taken.wait(60)
        send(project, row(shas[1]), row(shas[1], benchmark="merge"))
        storing.mark_held()
        assert Import.objects.latest("pk").unmarked == [held.pk]
        assert [one.pk for one in Series.objects.undetected()] == [free.pk]
        go_on.set()
        slow.result()
    storing.mark_held()
    assert not Import.objects.exclude(unmarked=[]).exists()
    held.refresh_from_db()
    assert held.undetected_since == Attempt.objects.latest("pk").ended_at
