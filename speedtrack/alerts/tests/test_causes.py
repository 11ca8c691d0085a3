"""A commit that one series has named is tried first as the cause of a change of others near by."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.pairs.sizes import bracket_verdict, is_part_of
from speedtrack.alerts.settling import confirm
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Reason, Run, Series, Side
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.results import results
from speedtrack.tests import builders, worlds

from .conftest import World, failure, make_slowed, paired_runs
from .test_counts import Counting, counting

__all__ = ["counting"]
Status = ChangePoint.Status
METRIC = "server_cpu_ns_per_request"


def late_suspicion(world: World, first: int, last: int) -> ChangePoint:
    """A suspicion of the other benchmark, raised after all else was settled."""
    named = ChangePoint.objects.get(status=Status.CONFIRMED, series__metric=METRIC)
    other = Series.objects.exclude(benchmark__name=world.only).get(metric=METRIC)
    before, commit = (Commit.objects.get(sha=world.shas[place]) for place in (first, last))
    return ChangePoint.objects.create(
        series=other, branch=named.branch, before=before, commit=commit, ratio=1.25, low=1.2, high=1.3, score=2.0
    )


def speed_of(world: World, cause: int) -> Callable[[str, str, int], float]:
    """get-p1 is slower from commit 6 on, the other benchmark from this commit on, in pairs alone."""

    def speed(sha: str, benchmark: str, trial: int) -> float:
        place = world.shas.index(sha)
        return 5000 * (1.3 if place >= (6 if benchmark == world.only else cause) else 1.0) * world.rng.gauss(1, 0.01)

    return speed


@worlds.shared
def named(settings: Any, directory: Path) -> World:
    """One benchmark has become slower by commit 6, which is settled."""
    world, alert = make_slowed(settings, directory, at=6)
    assert alert.commit.sha == world.shas[6]
    return world


def test_a_late_suspicion_near_a_named_commit_is_settled_by_that_commit_alone(named: World) -> None:
    before = paired_runs()
    cp = late_suspicion(named, 6, 7)
    named.until_quiet(speed_of(named, 6))
    cp.refresh_from_db()
    assert (cp.status, cp.before.sha, cp.commit.sha) == (Status.CONFIRMED, named.shas[5], named.shas[6])
    assert paired_runs()[len(before) :] == [(Reason.CONFIRM, named.shas[5], named.shas[6])]
    assert Alert.objects.get() == cp.alert


def test_a_named_commit_that_is_not_the_cause_is_tried_once(named: World) -> None:
    before = paired_runs()
    cp = late_suspicion(named, 6, 8)
    named.until_quiet(speed_of(named, 8))
    cp.refresh_from_db()
    assert (cp.status, cp.commit.sha) == (Status.CONFIRMED, named.shas[8])
    tried = [ends for _, *ends in paired_runs()[len(before) :]]
    assert tried[0] == [named.shas[5], named.shas[6]]
    assert tried.count(tried[0]) == 1 and len(tried) > 1


@pytest.mark.parametrize("ending", ["failed", "cancelled", "flagged", "undecided"])
def test_a_named_commit_whose_pairs_tell_nothing_leaves_the_suspicion_to_its_own_bracket(
    named: World, ending: str
) -> None:
    cp = late_suspicion(named, 6, 8)
    confirm.step()
    run = builders.claim(named.machine)
    assert run.base and (run.base.sha, run.commit.sha) == (named.shas[5], named.shas[6])
    if ending == "failed":
        queue.fail(named.machine, run.pk, failure(run, "the server ended"))
    elif ending == "cancelled":
        queue.cancel(run, "by hand")
        queue.fail(named.machine, run.pk, failure(run, "it was cancelled"))
    else:
        if ending == "undecided":
            Run.objects.filter(pk=run.pk).update(trials=80)
            run.refresh_from_db()
        for side, commit in builders.sides_of(run):
            builders.send_build(run, commit, side=side)
            is_head = side == Side.HEAD and ending == "undecided"
            values = [5000 * ((1.5, 0.8)[trial % 2] if is_head else 1) for trial in range(run.trials)]
            flags = [["steal"] if ending == "flagged" else []] * run.trials
            document = builders.result(run, "set-p1", commit, values, flags=flags, side=side)
            results.accept_result(named.machine, run.pk, document)
        queue.complete(named.machine, run.pk, run.lease_token)
    confirm.step()
    named.until_quiet(speed_of(named, 8))
    cp.refresh_from_db()
    assert (cp.status, cp.commit.sha) == (Status.CONFIRMED, named.shas[8])


def test_a_suspicion_without_a_change_is_refuted_after_the_named_commit_was_tried(named: World) -> None:
    cp = late_suspicion(named, 6, 7)
    named.until_quiet(speed_of(named, 99))
    cp.refresh_from_db()
    assert cp.status == Status.REFUTED


def test_times_follow_the_commit_that_counts_have_named(counting: Counting) -> None:
    """Counts and pairs are runs apart: the pairs begin where the counts have ended."""
    guilty = counting.world.shas[9]
    counting.world.factors, counting.factors = {guilty: 1.3}, {guilty: 1.9}
    counting.world.only = "set-p1"  # counted is get-p1
    builders.track(counting.world.repository)
    counting.until_quiet()
    assert {cp.commit.sha for cp in ChangePoint.objects.filter(status=Status.CONFIRMED)} == {guilty}
    pairs = [run for run in Run.objects.filter(reason=Reason.BISECT).order_by("id") if not jobs.is_counted(run)]
    assert [(run.base.sha, run.commit.sha) for run in pairs if run.base] == [(counting.world.shas[8], guilty)]


def test_what_lies_beside_a_named_commit_is_measured_on_both_sides_of_it(counting: Counting) -> None:
    """Two changes of the times in one bracket, one of them named by counts: the other is found as well."""
    shas = counting.world.shas
    counting.factors = {shas[9]: 1.9}
    counting.world.factors, counting.world.only = {shas[7]: 1.3, shas[9]: 1.3}, "set-p1"
    builders.track(counting.world.repository)
    counting.until_quiet()
    times = ChangePoint.objects.filter(status=Status.CONFIRMED, series__metric=METRIC)
    assert {cp.commit.sha: round(cp.ratio, 1) for cp in times.select_related("commit")} == {shas[7]: 1.3, shas[9]: 1.3}
    for cp in times:
        # What the pairs of both changes together show is named as such, in the note and on the page.
        whole = cp.verdicts.filter(answer="different").latest("id")
        assert whole.ratio == pytest.approx(1.69, abs=0.1) or not is_part_of(cp, whole)
        is_named = "before splitting, with a change beside it: measured again over" in cp.note
        assert is_named == is_part_of(cp, whole)
        page = " ".join(Client().get(f"/alerts/{cp.alert_id}/").content.decode().split())
        members = cp.alert.change_points.all() if cp.alert else []
        assert ("before splitting" in page) == any(is_part_of(one, bracket_verdict(one)) for one in members)
    assert any("before splitting" in cp.note for cp in times)
