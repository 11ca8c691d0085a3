"""The pages of bisections: the form, the path as a strip, what is known and how long it will take."""

import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from speedtrack.accounts.models import AuditEntry
from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.bisections.remaining import remaining_time
from speedtrack.alerts.bisections.searches import stored_searches
from speedtrack.alerts.models import Bisection
from speedtrack.runs.models import Run
from speedtrack.runs.requests import byhand
from speedtrack.tests import builders, worlds
from speedtrack.tests.plans import rows_read
from speedtrack.web.tests.test_queue import add_runs
from speedtrack.web.tests.world import World, html_of, queries, world


@worlds.shared
def slower_end(settings: Any, directory: Path) -> World:
    """Nine commits, of which the last four are slower; nothing waits to be measured."""
    made = world(settings, directory, commits=9)
    made.slow = set(made.shas[5:])
    made.measure()
    return made


@pytest.fixture
def made(slower_end: World) -> World:
    slower_end.machines[0].note_call()  # of a machine that never called, no end is expected
    return slower_end


@pytest.fixture
def user(client: Client, db: None) -> User:
    user = User.objects.create_superuser("ada")
    client.force_login(user)
    return user


def asked(made: World, **changes: Any) -> dict[str, Any]:
    form = {"before": made.shas[0], "commit": "main", "machine": "kvd-m1", "benchmark": ["get-p1", "set-p1"]}
    return form | changes


def finish(made: World) -> None:
    for _ in range(20):
        builders.work(made.machines[0], made.speed, until=1)
        bisecting.step()


def test_a_form_begins_one_and_its_page_shows_the_way(client: Client, made: World, user: User) -> None:
    answer = client.post("/p/kvd/bisect/", asked(made), follow=True)
    page = html_of(answer)
    bisection = Bisection.objects.get()
    assert answer.redirect_chain[-1][0] == f"/bisections/{bisection.pk}/"
    assert bisection.asked_by == user and bisection.benchmark_set.names == ["get-p1", "set-p1"]
    assert "<strong>Measuring:</strong> about " in page and ", 4 steps at most; each step measures one commit." in page
    assert "get-p1 waits for the pairs of both ends" in page
    finish(made)
    page = html_of(client.get(f"/bisections/{bisection.pk}/"))
    assert "<strong>Done</strong>" in page
    for name in ("get-p1", "set-p1"):
        assert f"<h2>{name}</h2>" in page
    assert f'by <a href="/p/kvd/c/{made.shas[5]}/"><code>{made.shas[5][:10]}</code>' in page
    assert page.count("it may be the cause") == 2 * 2  # title and text of one commit, for both
    assert 'class="new possible"' in page and 'class="old"' in page
    listed = html_of(client.get("/p/kvd/bisect/"))
    assert f'<a href="/bisections/{bisection.pk}/">' in listed and "done" in listed


def test_the_expected_end_counts_the_steps_and_what_waits(client: Client, made: World) -> None:
    for run in Run.objects.all():
        builders.take_time(run, build_s=0, trial_s=20, between_s=0, around_s=60)
    bisection = bisecting.start(made.commit(0), made.commit(-1), made.machines[0], ["get-p1"])
    (step,) = bisection.runs.all()
    step_s = 60 + step.trials * 2 * 20  # a pair takes as long as two trials
    address = f"/bisections/{bisection.pk}/"

    def expected_s() -> float:
        seconds = remaining_time(bisection, stored_searches(bisection)).seconds
        assert seconds is not None
        return seconds

    assert expected_s() == pytest.approx(4 * step_s, abs=5)
    assert f"about {round(4 * step_s / 60)} min, 4 steps at most;" in html_of(client.get(address))
    queue_of = byhand.choose("kvd", made.shas[3], ["get-p1"], None, fetches=False)
    assert byhand.queue_by_hand(queue_of) == 1
    other = Run.objects.latest("pk")
    other_s = 60 + other.trials * 20
    assert expected_s() == pytest.approx(4 * step_s + other_s, abs=5), "it waits behind this step, before the next"
    byhand.raise_run(other.pk)
    assert expected_s() == pytest.approx(4 * step_s + other_s, abs=5), "and is counted once"
    assert builders.claim(made.machines[0]) == other
    assert expected_s() == pytest.approx(4 * step_s + other_s, abs=5)
    made.machines[0].paused = True
    made.machines[0].save()
    page = html_of(client.get(address))
    assert "<strong>Measuring:</strong> 4 steps at most; each" in page and "kvd-m1 takes no work now." in page


def test_an_improvement_is_no_slowdown(client: Client, made: World, user: User) -> None:
    made.slow = set(made.shas[:5])
    client.post("/p/kvd/bisect/", asked(made, benchmark=["get-p1"]))
    finish(made)
    page = html_of(client.get(f"/bisections/{Bisection.objects.get().pk}/"))
    assert 'class="better possible"' in page and 'class="better">−16.' in page


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"before": "nonsense"}, "has no commit, branch or tag &#x27;nonsense&#x27;"),
        ({"commit": ""}, "name both commits"),
        ({"machine": "other"}, "no machine &#x27;other&#x27; measures"),
        ({"metric": "binary_bytes"}, "pairs do not measure"),
        ({"benchmark": ["gone"]}, "has no benchmark gone"),
        ({"before": "main"}, "is both ends"),
    ],
)
def test_what_cannot_be_bisected_is_refused_with_a_reason(
    client: Client, made: World, user: User, changes: dict[str, Any], why: str
) -> None:
    answer = client.post("/p/kvd/bisect/", asked(made, **changes), follow=True)
    assert why in html_of(answer) and "Nothing was queued" in html_of(answer)
    assert not Bisection.objects.exists()


def test_the_page_says_first_what_would_happen(client: Client, made: World, user: User) -> None:
    tried = client.post("/p/kvd/bisect/", asked(made, preview="yes"), follow=True)
    page = html_of(tried)
    assert "Nothing was done. It would be: a bisection of" in page and "by get-p1, set-p1: about" in page
    assert "4 steps at most" in page and "on kvd-m1: 1 run queued" in page
    assert f'name="before" value="{made.shas[0]}"' in page and 'value="set-p1" selected>' in page, "it is kept"
    assert not Bisection.objects.exists() and not Run.objects.unfinished().exists()
    bisection = bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    page = html_of(client.post(f"/bisections/{bisection.pk}/stop", {"preview": "yes"}, follow=True))
    assert "1 waiting run taken from the queue" in page and "<strong>Measuring:</strong>" in page
    assert not AuditEntry.objects.exists()


def said(*words: str) -> str:
    out = io.StringIO()
    call_command("bisect", "kvd", *words, stdout=out)
    return out.getvalue()


def test_a_command_begins_tries_and_ends_one(made: World) -> None:
    ends = f"{made.shas[0]}..main"
    tried = said(ends, "--benchmarks", "get-p1", "--dry-run")
    assert "Nothing was done. It would be: a bisection of" in tried and "4 steps at most" in tried
    assert "on kvd-m1: 1 run queued, which take" in tried and "/bisections/" not in tried
    assert not Bisection.objects.exists() and not AuditEntry.objects.exists()
    answer = said(ends, "--benchmarks", "get-p1")
    bisection = Bisection.objects.get()
    assert answer.startswith("a bisection of") and answer.endswith(f"/bisections/{bisection.pk}/\n")
    assert bisection.benchmark_set.names == ["get-p1"] and bisection.asked_by is None
    assert said(ends, "--benchmarks", "get-p1") == answer, "it is under way already"
    assert "1 waiting run taken from the queue" in said("--end", str(bisection.pk), "--dry-run")
    assert Run.objects.unfinished().count() == 1
    assert "has ended" in said("--end", str(bisection.pk))
    bisection.refresh_from_db()
    assert bisection.note == "stopped by a command" and not Run.objects.unfinished().exists()
    noted = AuditEntry.objects.order_by("pk").values_list("action", "project__slug")
    assert list(noted) == [*[("bisection.begin", "kvd")] * 2, ("bisection.stop", "kvd")]
    with pytest.raises(CommandError, match="has ended already"):
        said("--end", str(bisection.pk))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["main"], "name both commits"),
        (["nowhere..main"], "no commit, branch or tag 'nowhere'"),
        (["main..main"], "is both ends"),
        (["main..main", "--machine", "other"], "no machine 'other' measures"),
        (["--end", "7"], "kvd has no bisection 7"),
        ([], "one of the arguments"),
    ],
)
def test_a_command_refuses_with_a_reason(made: World, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        said(*words)


def test_only_who_has_a_login_begins_or_ends_one(client: Client, made: World) -> None:
    assert client.post("/p/kvd/bisect/", asked(made)).headers["Location"].startswith("/login/")
    bisection = bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    assert client.post(f"/bisections/{bisection.pk}/stop").headers["Location"].startswith("/login/")
    assert "Stop it" not in html_of(client.get(f"/bisections/{bisection.pk}/"))
    assert client.get("/bisections/999/").status_code == 404


def test_it_can_be_stopped(client: Client, made: World, user: User) -> None:
    bisection = bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    page = html_of(client.post(f"/bisections/{bisection.pk}/stop", follow=True))
    assert "<strong>Ended:</strong> stopped by ada" in page
    assert not Run.objects.unfinished().exists()


def test_a_page_takes_as_many_queries_for_many_commits_as_for_few(client: Client, made: World) -> None:
    few = bisecting.start(made.commit(0), made.commit(2), made.machines[0])
    many = bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    finish(made)
    counts = [queries(client, f"/bisections/{one.pk}/") for one in (few, many)]
    assert counts[0] == counts[1] <= 12
    assert queries(client, "/p/kvd/bisect/") <= 12


def test_the_form_reads_as_many_rows_however_many_runs_there_are(client: Client, made: World) -> None:
    run = Run.objects.latest("pk")
    form = partial(client.get, "/p/kvd/bisect/")
    add_runs(run, 40, first_round=10)
    few = rows_read(form)
    add_runs(run, 600, first_round=100)
    assert rows_read(form) <= few
