import random
from datetime import timedelta

import pytest

from speedtrack.alerts.detection import detection, drift, driftreferences, driftsteps
from speedtrack.alerts.lines.trials import TrialLine, TrialPoint
from speedtrack.alerts.lines.windows import Window
from speedtrack.alerts.models import Alert, AlertEvent, BestLevel, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.triage import triage
from speedtrack.alerts.triage.triage import Decision
from speedtrack.notices.mail import alert_message
from speedtrack.notices.models import Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.projects.models import Commit, Tag
from speedtrack.runs.models import Reason, Run, Series
from speedtrack.stats.changes.drift import Drift
from speedtrack.tests import builders
from speedtrack.tests.histories import BEGUN, History

from .conftest import World

Kind = ChangePoint.Kind
Status = ChangePoint.Status


@pytest.fixture
def history(db: None) -> History:
    return History()


def drifting(world: World, commits: int, per_commit: float = 0.003) -> None:
    """A world of so many commits, each a little slower than the last from the eleventh on; the tenth is a release."""
    world.shas += world.repository.commits(commits - len(world.shas))
    world.noise, world.rng = 0.006, random.Random(3)
    world.factors = dict.fromkeys(world.shas[10:], 1 + per_commit)
    tracked = builders.track(world.repository, emails=["dev@example.org"])
    Tag.objects.create(project=tracked.project, name="7.4.0", sha=world.shas[9])


def push_by_push(world: World) -> None:
    """The commits are measured oldest first, each looked at and settled before the next."""
    builders.oldest_first()
    for _ in range(400):
        if not builders.work(world.machine, world.speed, until=1):
            return
        detection.detect()
        confirm.step()
        tell_subscribers()
    raise AssertionError("the work never ends")


def test_a_drift_is_one_alert_since_its_reference_before_it_sums_to_a_tenth(world: World) -> None:
    drifting(world, 42)
    push_by_push(world)
    world.until_quiet()
    drifts = ChangePoint.objects.filter(kind=Kind.DRIFT, status=Status.CONFIRMED)
    found = drifts.filter(series__metric="server_cpu_ns_per_request").earliest("id")
    assert world.shas.index(found.before.sha) <= 10
    assert 1.003 ** (world.shas.index(found.commit.sha) - 9) < 1.10
    assert found.low <= 1.003 ** (world.shas.index(found.commit.sha) - world.shas.index(found.before.sha)) * 1.005
    alert = Alert.objects.get(change_points=found)
    assert Alert.objects.filter(change_points__kind=Kind.DRIFT).distinct().count() == 1
    raised = alert.events.get(kind=AlertEvent.Kind.RAISED)
    assert f"since {found.reference} (" in raised.note
    assert raised.note.endswith("commits ago), without a single step")
    mail = alert_message(Outbox.objects.get(alert=alert))
    assert f"little by little since {found.reference}, without a single step" in " ".join(mail.body.split())
    assert "could not be told" not in mail.body
    assert not Run.objects.filter(reason=Reason.BISECT, change_points=found).exists()


def test_a_confirmed_step_is_no_drift(world: World) -> None:
    world.shas += world.repository.commits(28)
    world.noise = 0.004
    world.factors = {world.shas[20]: 1.1}
    tracked = builders.track(world.repository)
    Tag.objects.create(project=tracked.project, name="7.4.0", sha=world.shas[10])
    push_by_push(world)
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[20]
    assert not ChangePoint.objects.filter(kind=Kind.DRIFT, status=Status.CONFIRMED).exists()
    # What the pairs of a suspected drift show of the step is not the drift's.
    step = ChangePoint.objects.filter(status=Status.CONFIRMED).earliest("id")
    ends = {"before": Commit.objects.get(sha=world.shas[10]), "commit": Commit.objects.get(sha=world.shas[-1])}
    suspicion = ChangePoint.objects.create(
        series=step.series,
        branch=step.branch,
        kind=Kind.DRIFT,
        reference="7.4.0",
        ratio=1.04,
        low=1.02,
        high=1.06,
        score=2,
        **ends,
    )
    assert not driftsteps.waits_for_a_step(suspicion)
    ChangePoint.objects.filter(pk=step.pk).update(status=Status.SETTLING)
    assert driftsteps.waits_for_a_step(suspicion)
    ChangePoint.objects.filter(pk=step.pk).update(status=Status.CONFIRMED)
    world.until_quiet()
    suspicion.refresh_from_db()
    assert suspicion.status == Status.REFUTED
    found = suspicion.verdicts.latest("id")
    assert found.ratio == pytest.approx(1, abs=0.02), "the step of 10% is not in it"


def drift_beside_a_step(world: World, metric: str) -> tuple[ChangePoint, list[int]]:
    """A confirmed drift that is mailed, and the ids of the steps that explain it: they count as open meanwhile.

    Only CPU time has steps.
    """
    world.shas += world.repository.commits(2)
    world.factors = {world.shas[6]: 1.1}
    builders.track(world.repository, pushed=True, emails=["dev@example.org"])
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[6]
    ChangePoint.objects.exclude(series__metric="server_cpu_ns_per_request").delete()
    step = ChangePoint.objects.get(status=Status.CONFIRMED)
    ChangePoint.objects.filter(pk=step.pk).update(status=Status.UNSETTLED)
    series = Series.objects.get(metric=metric, benchmark__name="get-p1")
    ends = {"before": Commit.objects.get(sha=world.shas[2]), "commit": Commit.objects.get(sha=world.shas[-1])}
    ratio = 1.1 if series == step.series else 1 / 1.1
    sizes = {"ratio": ratio, "low": ratio - 0.02, "high": ratio + 0.02, "score": 2.0}
    suspicion = ChangePoint.objects.create(
        series=series, branch=step.branch, kind=Kind.DRIFT, reference="7.4.0", **sizes, **ends
    )
    world.until_quiet()
    suspicion.refresh_from_db()
    assert suspicion.status == Status.CONFIRMED and suspicion.alert
    return suspicion, [step.pk]


@pytest.mark.parametrize("metric", ["server_cpu_ns_per_request", "throughput_rps"])
def test_a_confirmed_drift_joins_the_steps_that_are_confirmed_later_and_explain_it(
    world: World, metric: str, django_user_model: type
) -> None:
    cp, steps = drift_beside_a_step(world, metric)
    alert = cp.alert
    assert alert is not None
    steps_alert = Alert.objects.exclude(pk=alert.pk).get()
    mails = Outbox.objects.filter(alert=alert)
    assert mails.count() == 1
    ChangePoint.objects.filter(pk__in=steps).update(status=Status.CONFIRMED)
    for _ in range(2):
        confirm.step()
        tell_subscribers()
    cp.refresh_from_db()
    alert.refresh_from_db()
    assert (cp.status, alert.merged_into) == (Status.REFUTED, steps_alert)
    assert cp.ratio == pytest.approx(1, abs=0.02)
    event = alert.events.latest("id")
    assert event.kind == AlertEvent.Kind.MERGED
    assert f"explained by the steps of {world.shas[6][:10]} (" in event.note
    assert mails.count() == 2, "one sentence in its thread"
    answer = alert_message(mails.latest("id"))
    assert answer.subject.startswith("Re: ") and "explained by the steps of" in " ".join(str(answer.body).split())
    # What a person calls invalid explains nothing: the drift is back, with its size.
    ada = django_user_model.objects.create(username="ada")  # type: ignore[attr-defined]
    triage.decide(steps_alert, Decision("confirmed", "invalid", None, "the machine"), ada)
    for _ in range(2):
        confirm.step()
        tell_subscribers()
    cp.refresh_from_db()
    alert.refresh_from_db()
    assert (cp.status, alert.status, alert.merged_into) == (Status.CONFIRMED, "confirmed", None)
    assert abs(cp.ratio - 1) == pytest.approx(0.1, abs=0.03)
    assert alert.events.latest("id").kind == AlertEvent.Kind.REOPENED


def test_what_steps_leave_of_a_confirmed_drift_gets_its_own_size(world: World) -> None:
    cp, steps = drift_beside_a_step(world, "server_cpu_ns_per_request")
    before = cp.ratio
    ChangePoint.objects.filter(pk__in=steps).update(status=Status.CONFIRMED, ratio=1.04)
    for _ in range(2):
        confirm.step()
    cp.refresh_from_db()
    assert cp.status == Status.CONFIRMED and cp.ratio == pytest.approx(before / 1.04)
    assert cp.low < cp.ratio < cp.high
    assert cp.note.endswith(f"without the steps of {world.shas[6][:10]} (+4.0%)") and f"{cp.ratio - 1:+.1%}" in cp.note
    assert cp.alert and cp.alert.events.filter(kind=AlertEvent.Kind.NOTED).count() == 1


def test_a_drift_whose_steps_have_no_alert_is_closed_with_a_sentence(world: World) -> None:
    cp, steps = drift_beside_a_step(world, "server_cpu_ns_per_request")
    ChangePoint.objects.filter(pk__in=steps).update(status=Status.HISTORY, alert=None)
    confirm.step()
    assert cp.alert
    alert = Alert.objects.get(pk=cp.alert.pk)
    assert (alert.status, alert.merged_into) == ("invalid", None)
    assert "no drift since 7.4.0" in alert.events.latest("id").note


def test_a_fresh_step_is_not_taken_for_a_drift(history: History) -> None:
    """Where runs differ, a drift against the release would be seen before the step itself."""
    commits = history.commits(60)
    rng, series = random.Random(2), [history.series(f"b{i}") for i in range(8)]
    Tag.objects.create(project=history.project, name="1.0", sha=commits[10].sha)
    for i, commit in enumerate(commits):
        levels = [5000 * (1.05 if i >= 46 else 1) * rng.gauss(1, 0.013) for _ in series]
        history.measure(series, {commit.pk: [[level * rng.gauss(1, 0.004) for _ in range(5)] for level in levels]})
        detection.detect()
    assert not ChangePoint.objects.filter(kind=Kind.DRIFT).exists()
    assert ChangePoint.objects.filter(kind=Kind.STEP, commit__in=commits[44:49]).count() >= 6


@pytest.mark.parametrize("pushed", [True, False])
def test_a_drift_of_commits_that_no_push_measured_is_the_past(history: History, pushed: bool) -> None:
    commits = history.commits(60)
    rng, series = random.Random(2), history.series()
    Tag.objects.create(project=history.project, name="1.0", sha=commits[10].sha)
    levels = [5000 * 1.003 ** max(0, i - 10) * rng.gauss(1, 0.004) for i in range(60)]
    trials = {
        commit.pk: [[level * rng.gauss(1, 0.004) for _ in range(5)]]
        for commit, level in zip(commits, levels, strict=True)
    }
    history.measure([series], trials)
    if not pushed:
        Run.objects.update(reason=Reason.BACKFILL)
    detection.detect()
    assert [cp.past for cp in ChangePoint.objects.filter(kind=Kind.DRIFT)] == [not pushed]


def test_the_references_are_the_release_the_commits_of_so_many_days_before_and_the_best_level(history: History) -> None:
    commits = history.commits(140)  # one per hour
    for i, commit in enumerate(commits):
        commit.committed_at = BEGUN + timedelta(days=i)
    Commit.objects.bulk_update(commits, ["committed_at"])
    Tag.objects.create(project=history.project, name="1.0", sha=commits[70].sha)
    Tag.objects.create(project=history.project, name="0.9", sha=commits[20].sha)
    series = history.series()
    history.measure([series], {commit.pk: [[5000.0 + i] * 5] for i, commit in enumerate(commits) if i % 2 == 0})
    head = TrialPoint(138, commits[138].pk, (1.0,), 1.0)
    line = driftreferences.Heading(Window(series, history.branch, TrialLine.of([head]), frozenset()), 0.01, [])
    found = {r.name: r for r in driftreferences.references([line], [commits[40].pk])[0]}
    assert {name: r.position for name, r in found.items()} == {
        "1.0": 70,
        "30 days before": 108,
        "90 days before": 48,
        "its best level": 40,
    }
    assert found["1.0"].begin == 56 and found["1.0"].values == [5056.0 + 2 * i for i in range(8)]
    assert found["30 days before"].commit_id == commits[108].pk


def test_a_steady_line_has_a_best_level_and_no_drift(world: World) -> None:
    drifting(world, 30, per_commit=0.0)
    push_by_push(world)
    assert not ChangePoint.objects.filter(kind=Kind.DRIFT).exists()
    assert BestLevel.objects.count() == 4  # the watched series of both benchmarks


@pytest.mark.parametrize(("low", "news"), [(1.04, False), (1.06, False), (1.15, True)])
def test_a_drift_has_grown_only_where_noise_does_not_explain_it(history: History, low: float, news: bool) -> None:
    commits = history.commits(60)
    series = history.series()
    ChangePoint.objects.create(
        series=series,
        branch=history.branch,
        kind=Kind.DRIFT,
        status=Status.CONFIRMED,
        reference="1.0",
        before=commits[10],
        commit=commits[50],
        ratio=1.05,
        low=1.04,
        high=1.06,
        score=2,
    )
    reference = driftreferences.DriftReference("1.0", 3, 10, commits[10].pk, [5000.0] * 8)
    found = Drift(ratio=low + 0.05, low=low, high=low + 0.1, score=2)
    points = [TrialPoint(i, commits[i].pk, (5250.0,), 5250.0) for i in range(60)]
    line = driftreferences.Heading(
        Window(series, history.branch, TrialLine.of(points), frozenset([commits[-1].pk])), 0.01, []
    )
    assert drift.is_news(line, reference, found) is news


@pytest.mark.parametrize(("shown", "since", "news"), [(1.15, 9, False), (1.05, 9, True), (1.05, 5, False)])
def test_a_drift_that_looked_larger_than_its_pairs_found_it_has_not_grown(
    history: History, shown: float, since: int, news: bool
) -> None:
    """The line has shown so much at the earlier examination, so many commits ago, whose pairs found 5%."""
    commits = history.commits(60)
    examined = commits[-1 - since]
    ChangePoint.objects.create(
        series=history.series(),
        branch=history.branch,
        kind=Kind.DRIFT,
        status=Status.CONFIRMED,
        reference="1.0",
        before=commits[10],
        commit=examined,
        ratio=1.05,
        low=1.04,
        high=1.06,
        score=2,
    )
    series = ChangePoint.objects.get().series
    reference = driftreferences.DriftReference("1.0", 3, 10, commits[10].pk, [5000.0] * 8)
    values = [5000.0 * (shown if i <= 59 - since else 1.2) for i in range(60)]
    points = [TrialPoint(i, commits[i].pk, (value,), value) for i, value in enumerate(values)]
    line = driftreferences.Heading(
        Window(series, history.branch, TrialLine.of(points), frozenset([commits[-1].pk])), 0.01, []
    )
    found = Drift(ratio=1.2, low=1.15, high=1.25, score=2)
    assert drift.is_news(line, reference, found) is news


@pytest.mark.parametrize(
    ("metric", "ratio", "words"),
    [
        ("server_cpu_ns_per_request", 1.05, "slower: +5.0%"),
        ("throughput_rps", 1.05, "faster: +5.0%"),
        ("peak_rss_bytes", 1.05, "more memory: +5.0%"),
        ("counted_instructions_per_request", 0.95, "fewer instructions: −5.0%"),
    ],
)
def test_the_sentence_of_a_drift_has_the_words_of_its_metric(
    history: History, metric: str, ratio: float, words: str
) -> None:
    commits = history.commits(9)
    found = ChangePoint.objects.create(
        series=history.series(metric=metric),
        branch=history.branch,
        kind=Kind.DRIFT,
        reference="1.0",
        before=commits[0],
        commit=commits[8],
        ratio=ratio,
        low=ratio,
        high=ratio,
        score=2,
    )
    sentence = drift.drift_in_words(found)
    assert sentence.startswith(f"{words} (") and sentence.endswith("since 1.0 (8 commits ago), without a single step")
