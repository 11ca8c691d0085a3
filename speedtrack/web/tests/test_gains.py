"""A month's gains: who made what faster, of one project and of all."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Direction, outside_key
from speedtrack.notices.tests.history import History
from speedtrack.projects.models import Project
from speedtrack.web.pages.alerting import gains
from speedtrack.web.tests.world import html_of, queries


def dated(alert: Alert, year: int, month: int, day: int = 31) -> Alert:
    alert.commit.committed_at = datetime(year, month, day, 23, 59, tzinfo=UTC)
    alert.commit.save()
    return alert


def test_a_month_lists_its_confirmed_gains_the_largest_first(client: Client, db: None) -> None:
    redis = History()
    dated(redis.alert(0.9, subject="Copy less <b>", benchmarks=["get-p1", "set-p1"]), 2026, 1)
    dated(redis.alert(0.4, subject="Skip the copy"), 2026, 1, 1)
    dated(redis.alert(1.5, subject="Copy twice"), 2026, 1)
    dated(redis.alert(0.5, subject="Not so"), 2026, 1).change_points.update(status="refuted")
    false_alarm = dated(redis.alert(0.5, subject="Judged invalid"), 2026, 1)
    Alert.objects.filter(pk=false_alarm.pk).update(status="invalid")
    dated(redis.alert(0.8, subject="In spring"), 2026, 4, 30)
    page = html_of(client.get("/p/redis/gains/?month=2026-01"))
    assert "2 confirmed gains" in page and page.index("Skip the copy") < page.index("Copy less &lt;b&gt;")
    assert "Ada Example" in page and "−60.0%" in page and "and 1 more" in page
    for subject in ("Copy twice", "Not so", "Judged invalid", "In spring"):
        assert subject not in page
    assert 'href="?month=2026-04" rel="next"' in page and 'rel="prev"' not in page
    newest = html_of(client.get("/p/redis/gains/"))
    assert "Gains of April 2026" in newest and 'href="?month=2026-01" rel="prev"' in newest
    assert "No confirmed gain by a commit of this month" in html_of(client.get("/p/redis/gains/?month=2026-02"))


def test_many_slowdowns_of_a_month_hide_no_gain(client: Client, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains, "MOST", 2)
    redis = History()
    dated(redis.alert(0.9, subject="Copy less"), 2026, 1)
    for _ in range(3):
        dated(redis.alert(1.5, subject="Copy twice"), 2026, 1)
    page = html_of(client.get("/p/redis/gains/?month=2026-01"))
    assert "1 confirmed gain" in page and "Copy less" in page


@pytest.mark.parametrize("metric", [*METRICS, *(outside_key("hits", "", better) for better in Direction)])
def test_the_database_calls_a_gain_what_a_change_point_does(db: None, metric: str) -> None:
    redis = History()
    alert = redis.alert(benchmarks=[])
    points = [redis.grow(alert, ratio, "get-p1", metric) for ratio in (0.5, 1.0, 1.5)]
    assert {point for point in points if not point.is_slowdown} == set(ChangePoint.objects.gains())


def test_gains_of_all_projects_hide_private_ones(client: Client, db: None) -> None:
    dated(History().alert(0.9, subject="Public"), 2026, 1)
    dated(History("valkey").alert(0.9, subject="Private"), 2026, 3)
    Project.objects.filter(slug="valkey").update(is_public=False)
    page = html_of(client.get("/gains/"))
    assert "Gains of January 2026" in page and "Public" in page and 'href="/p/redis/"' in page
    assert "Private" not in html_of(client.get("/gains/?month=2026-03"))
    assert client.get("/p/valkey/gains/").status_code == 404
    client.force_login(User.objects.create_superuser("root"))
    assert "Private" in html_of(client.get("/gains/?month=2026-03"))
    assert 'href="/gains/"' in html_of(client.get("/")) and 'href="/p/redis/gains/"' in html_of(client.get("/p/redis/"))


def test_wrong_months_are_refused_and_queries_do_not_grow(client: Client, db: None) -> None:
    history = History()
    assert "No confirmed gain" in html_of(client.get("/p/redis/gains/"))
    for month in ("2026-13", "2026-1", "x", "0000-01", "2026-01-01", "٢٠٢٦-٠١"):
        answer = client.get("/p/redis/gains/", {"month": month})
        assert answer.status_code == 404 and "is no month: give such as 2026-11" in html_of(answer)
    dated(history.alert(0.9), 2026, 1)
    few = queries(client, "/p/redis/gains/")
    for _ in range(5):
        dated(history.alert(0.8), 2026, 1)
    assert queries(client, "/p/redis/gains/") <= few <= 10
