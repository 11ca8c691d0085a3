"""An alert is fixed when the series shows it; what a message says is only noted."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.triage import resolving, triage
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.alerts.triage.triage import Decision
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.notices import mail
from speedtrack.notices.models import Outbox
from speedtrack.projects.mirrors import git
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Environment, Machine, Series
from speedtrack.runs.planning import pushes
from speedtrack.tests import builders

from .conftest import World

Slowed = tuple[World, Alert]
INSTRUCTIONS = "counted_instructions_per_request"


def push(world: World, message: str, factor: float | None = None, more: int = 0) -> str:
    """Push a commit, which may change the speed, and some after it."""
    sha = world.repository.commit(message)
    world.shas.append(sha)
    if factor:
        world.factors[sha] = factor
    world.shas += world.repository.commits(more)
    pushes.sync_and_plan(Alert.objects.all()[0].project)
    world.until_quiet()
    return sha


def test_a_later_change_back_fixes_the_alert(slowed: Slowed) -> None:
    world, alert = slowed
    sha = push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by.sha if alert.fixed_by else "") == ("fixed", sha)
    event = alert.events.get(kind="fixed")
    assert (event.before, event.after, event.who) == ("confirmed", "fixed", None)
    assert f"{sha[:10]} brought the old level back" in event.note and "fixed on main" in event.note


def test_a_change_that_a_person_called_invalid_is_no_return(slowed: Slowed, admin_user: User) -> None:
    world, alert = slowed
    push(world, "Make it fast again", 1 / 1.3, more=9)
    Alert.objects.filter(pk=alert.pk).update(status="confirmed", fixed_by=None)
    returned = Alert.objects.get(improvement=True)
    triage.decide(returned, Decision("confirmed", "invalid", None, "the machine was overclocked"), admin_user)
    confirm.step()
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by) == ("confirmed", None)
    cp = of_series(alert, "server_cpu_ns_per_request")
    assert resolving.later_changes(cp) == [] and resolving.later_return(cp, None) is None


def test_an_alert_is_open_again_when_the_change_that_fixed_it_is_called_invalid(
    slowed: Slowed, admin_user: User
) -> None:
    world, alert = slowed
    sha = push(world, "Make it fast again", 1 / 1.3, more=9)
    returned = Alert.objects.get(improvement=True)
    triage.decide(returned, Decision("confirmed", "invalid", None, "the machine was overclocked"), admin_user)
    confirm.step()
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by) == ("confirmed", None)
    event = alert.events.get(kind="reopened")
    assert (event.before, event.after, event.who) == ("fixed", "confirmed", None)
    assert event.note == "no valid change has brought the old level back"
    triage.decide(returned, Decision("invalid", "confirmed", None, "it was not"), admin_user)
    confirm.step()
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by and alert.fixed_by.sha) == ("fixed", sha)


def test_open_alerts_cost_a_round_no_statement_while_nothing_undid_them(slowed: Slowed) -> None:
    with CaptureQueriesContext(connection) as with_alert:
        confirm.step()
    Alert.objects.update(status="expected")
    with CaptureQueriesContext(connection) as without:
        confirm.step()
    assert len(with_alert) == len(without) > 0


def test_half_the_way_back_is_no_fix(slowed: Slowed) -> None:
    world, alert = slowed
    push(world, "Make it a little faster", 1 / 1.12, more=9)
    alert.refresh_from_db()
    assert alert.status == "confirmed"
    assert Alert.objects.filter(improvement=True).exists()


def test_a_revert_is_noted_and_fixes_only_what_the_series_shows(slowed: Slowed) -> None:
    world, alert = slowed
    sha = push(
        world, f'Revert "Change number 8"\n\nThis reverts commit {world.shas[7]}.', more=5
    )  # but nothing changed
    alert.refresh_from_db()
    assert (alert.status, alert.reverted_by.sha if alert.reverted_by else "") == ("confirmed", sha)
    noted = alert.events.get(kind="noted")
    assert noted.note == f"a revert, {sha[:10]}, is on main; waiting for its measurement"


def test_a_revert_whose_measurements_show_the_old_level_is_a_fix(slowed: Slowed) -> None:
    world, alert = slowed
    sha = push(world, f"Go back\n\nThis reverts commit {world.shas[7][:9]}.", 1 / 1.3, more=4)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by.sha if alert.fixed_by else "") == ("fixed", sha)


def test_a_revert_that_changed_nothing_gets_no_credit_for_a_later_fix(slowed: Slowed) -> None:
    world, alert = slowed
    push(world, f'Revert "Change number 8"\n\nThis reverts commit {world.shas[7]}.', more=5)
    sha = push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by.sha if alert.fixed_by else "") == ("fixed", sha)
    assert alert.events.get(kind="fixed").note.startswith(f"{sha[:10]} brought the old level back")


def test_a_revert_is_what_undid_a_change_whose_return_was_narrowed_to_a_range_with_it(slowed: Slowed) -> None:
    world, alert = slowed
    sha = push(world, f"Go back\n\nThis reverts commit {world.shas[7]}.", 1 / 1.3, more=9)
    alert.refresh_from_db()
    cp = of_series(alert, "server_cpu_ns_per_request")
    end = Commit.objects.get(sha=world.shas[world.shas.index(sha) + 1])
    ChangePoint.objects.filter(series=cp.series, commit__sha=sha).update(commit=end)
    recovery, without = resolving.later_return(cp, alert.reverted_by), resolving.later_return(cp, None)
    assert recovery and without and (recovery.commit.sha, without.commit) == (sha, end)


def of_series(alert: Alert, metric: str) -> ChangePoint:
    return alert.change_points.get(series__metric=metric, series__benchmark__name="get-p1")


def worse(alert: Alert, benchmark: str, metric: str, ratio: float) -> ChangePoint:
    """Another confirmed change of the alert, whose line shows nothing of it."""
    of_cpu = Series.objects.get(project=alert.project, benchmark__name=benchmark, metric="server_cpu_ns_per_request")
    series, _ = Series.objects.get_or_create(
        project=of_cpu.project,
        benchmark=of_cpu.benchmark,
        metric=metric,
        machine=of_cpu.machine,
        environment=of_cpu.environment,
    )
    return ChangePoint.objects.create(
        series=series,
        branch=alert.branch,
        before=alert.before,
        commit=alert.commit,
        alert=alert,
        status="confirmed",
        ratio=ratio,
        low=ratio,
        high=ratio,
        score=3,
    )


def test_one_series_that_is_not_back_keeps_the_alert_open_and_every_face_says_so(
    world: World,
) -> None:
    """A later commit restores one benchmark, and another one of the alert stays slower for good."""
    both = {"get-p1": (7, 12), "set-p1": (7, 99)}

    def speed(sha: str, benchmark: str, trial: int) -> float:
        begin, end = both[benchmark]
        return 5000 * (1.3 if begin <= world.shas.index(sha) < end else 1) * world.rng.gauss(1, world.noise)

    builders.track(world.repository, pushed=True, emails=["dev@example.org"])
    world.until_quiet(speed)
    world.shas += world.repository.commits(10)
    alert = Alert.objects.get()
    pushes.sync_and_plan(alert.project)
    world.until_quiet(speed)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by) == ("confirmed", None)
    sentence = restoration_in_words(list(alert.events.order_by("pk")))
    assert sentence.startswith("not fixed yet: get-p1, Server CPU per request")
    assert re.search(r"on the old level; set-p1, Server CPU per request\b.* (is|are) not$", sentence)
    client = Client()
    words = f"{sentence[0].upper()}{sentence[1:]}."
    assert words in client.get(f"/alerts/{alert.pk}/").content.decode()
    assert client.get(f"/alerts/{alert.pk}.json").json()["restoration"] == sentence
    assert client.get(f"/api/v1/alerts/{alert.pk}").json()["restoration"] == sentence
    assert sentence in client.get("/alerts.atom").content.decode()
    assert words in " ".join(str(mail.message_of(Outbox.objects.filter(alert=alert)[0]).body).split())
    before = alert.events.count()
    confirm.step()
    assert alert.events.count() == before, "it is noted once"


def test_an_alert_is_not_fixed_while_its_instructions_stay(slowed: Slowed) -> None:
    world, alert = slowed
    stays = worse(alert, "get-p1", INSTRUCTIONS, 5.69)
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert alert.status == "confirmed"
    assert f"get-p1, {METRICS[INSTRUCTIONS].title} is not" in restoration_in_words(list(alert.events.order_by("pk")))
    stays.delete()
    confirm.step()
    alert.refresh_from_db()
    assert alert.status == "fixed"


def test_a_series_that_is_measured_no_more_is_left_to_a_person(slowed: Slowed) -> None:
    world, alert = slowed
    old = of_series(alert, "server_cpu_ns_per_request").series
    gone = Machine.objects.create(name="gone", retired_at=timezone.now(), paused=True)
    environment = Environment.objects.create(machine=gone, digest="gone", facts={})
    series = Series.objects.create(
        project=alert.project, benchmark=old.benchmark, metric=old.metric, machine=gone, environment=environment
    )
    other = worse(alert, "set-p1", old.metric, 1.3)
    ChangePoint.objects.filter(pk=other.pk).update(series=series)
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert alert.status == "confirmed"
    sentence = restoration_in_words(list(alert.events.order_by("pk")))
    assert sentence.endswith("on gone is measured no more, so a person has to decide about it")


def test_a_series_that_joins_a_fixed_alert_and_is_not_back_reopens_it(slowed: Slowed, django_user_model: type) -> None:
    world, alert = slowed
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert alert.status == "fixed"
    joined = worse(alert, "get-p1", INSTRUCTIONS, 5.69)
    ChangePoint.objects.filter(pk=joined.pk).update(alert=None)
    confirm.step()
    alert.refresh_from_db()
    event = alert.events.latest("id")
    assert (alert.status, alert.fixed_by, event.kind, event.before) == ("confirmed", None, "reopened", "fixed")
    assert event.note == restoration_in_words([event])
    confirm.step()
    assert alert.events.latest("id") == event
    ada = django_user_model.objects.create(username="ada")  # type: ignore[attr-defined]
    triage.decide(alert, Decision("confirmed", "fixed", None, "by hand"), ada)
    late = worse(alert, "set-p1", "throughput_rps", 0.8)
    ChangePoint.objects.filter(pk=late.pk).update(alert=None)
    confirm.step()
    alert.refresh_from_db()
    assert alert.status == "fixed", "what a person settled stays"


def test_what_got_better_and_is_lost_again_does_not_keep_an_alert_open(slowed: Slowed) -> None:
    world, alert = slowed
    worse(alert, "set-p1", "server_cpu_ns_per_request", 0.8)
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert alert.status == "fixed"


@pytest.mark.parametrize(
    ("ratio", "noise", "share", "most"),
    [(1.3, 0.0, 0.5, 0.0296), (1.3, 0.05, 0.5, 0.05), (1.3, 0.9, 0.5, 0.131), (1.012, 0.0, 0.5, 0.006)],
)
def test_how_much_of_a_change_may_remain(slowed: Slowed, ratio: float, noise: float, share: float, most: float) -> None:
    """The smallest effect, of 3%, or the noise; but never more than a part of the change."""
    _, alert = slowed
    cp = of_series(alert, "server_cpu_ns_per_request")
    cp.ratio = ratio
    assert resolving.tolerance(cp, noise, share) == pytest.approx(most, abs=0.0006)


def test_a_fix_names_the_branches_that_lack_it(world: World) -> None:
    world.repository.git("branch", "release")
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository, pushed=True)
    builders.track(world.repository, branch="release")
    world.until_quiet()
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert = Alert.objects.get(improvement=False)
    assert alert.branches_fixed() == (["main"], ["release"])
    assert "fixed on main, not on release" in alert.events.get(kind="fixed").note


def test_what_a_person_settled_stays(slowed: Slowed, django_user_model: type) -> None:
    world, alert = slowed
    ada = django_user_model.objects.create(username="ada")  # type: ignore[attr-defined]
    triage.decide(alert, Decision("confirmed", "expected", None, "meant"), ada)
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert (alert.status, resolving.resolve_alerts()) == ("expected", 0)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("This reverts commit 0123456789abcdef0123456789abcdef01234567.", ["0123456789abcdef0123456789abcdef01234567"]),
        ("Because of load.\n\nthis reverts commit 0123456, and more", ["0123456"]),
        ("This reverts commit 012345.", []),
        ("This reverts the commit of Monday", []),
        (
            "A\nThis reverts commit aaaaaaa.\nThis reverts commit bbbbbbb.\nThis reverts commit aaaaaaa.",
            ["aaaaaaa", "bbbbbbb"],
        ),
    ],
)
def test_what_a_message_says_that_it_reverts(body: str, found: list[str]) -> None:
    words = ["a" * 40, "", "Ada", "a@b", "1", "1", "Revert it", body]
    assert git.parse_revision(words).reverts == found
