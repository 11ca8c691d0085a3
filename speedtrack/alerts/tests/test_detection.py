import pytest

from speedtrack.alerts.detection import detection
from speedtrack.alerts.lines import windows
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Reason, Run, Series
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import byhand
from speedtrack.tests import builders

from .conftest import World

Status = ChangePoint.Status


def test_a_window_that_slides_over_a_steady_history_suspects_no_old_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the edge of the window nothing is known of the noise before it."""
    monkeypatch.setattr(windows, "BEFORE", 60)
    levels: dict[tuple[str, str], float] = {}

    def layout(sha: str, benchmark: str, trial: int) -> float:
        """Each commit has a level of its own, which its trials share."""
        level = levels.setdefault((sha, benchmark), 5000 * (1 + 0.01 * world.rng.gauss(0, 1)))
        return level * (1 + 0.006 * world.rng.gauss(0, 1))

    world.repository.commits(48)
    tracked = builders.track(world.repository)
    builders.work(world.machine, layout)
    detection.detect()
    known = set(ChangePoint.objects.values_list("series_id", "commit_id"))
    for _ in range(25):
        world.repository.commit()
        pushes.sync_and_plan(Project.objects.get())
        builders.work(world.machine, layout)
        detection.detect()
    newest = set(tracked.branch.positions.order_by("-number").values_list("commit_id", flat=True)[:45])
    late = set(ChangePoint.objects.values_list("series_id", "commit_id")) - known
    assert {commit for _, commit in late} <= newest


def test_a_refuted_commit_that_moves_the_other_way_is_suspected_anew(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    detection.detect()
    ChangePoint.objects.update(status=Status.REFUTED, ratio=0.9, note="measured again")
    ChangePoint.objects.filter(series__metric="throughput_rps").update(ratio=1.1)
    Series.objects.update(undetected_since="2026-01-01T00:00Z")
    detection.detect()
    open_ones = ChangePoint.objects.filter(status=Status.SUSPECTED)
    assert {(cp.series.metric, cp.is_slowdown, cp.note) for cp in open_ones} == {
        ("server_cpu_ns_per_request", True, ""),
        ("throughput_rps", True, ""),
    }


def test_a_confirmed_change_stays_as_it_was_measured(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    world.until_quiet()
    before = list(ChangePoint.objects.order_by("id").values())
    world.shas += world.repository.commits(2)
    pushes.sync_and_plan(Project.objects.get())
    world.until_quiet()
    assert list(ChangePoint.objects.order_by("id").values()) == before


def test_commits_that_left_the_branch_during_a_bisection_alert_nobody(world: World) -> None:
    world.factors = {world.shas[6]: 1.3}
    tracked = builders.track(world.repository, last=1, emails=["dev@example.org"])
    first = Commit.objects.get(sha=world.shas[0])
    builders.work(world.machine, world.speed)
    byhand.queue_by_hand(byhand.choose(tracked.project.slug, first.sha, [], None))
    builders.work(world.machine, world.speed)
    detection.detect()
    confirm.step()
    builders.work(world.machine, world.speed)
    confirm.step()
    assert Run.objects.filter(reason=Reason.BISECT, status="queued").exists()
    world.repository.git("reset", "--quiet", "--hard", first.sha)
    world.repository.commit()
    pushes.sync_and_plan(Project.objects.get())
    world.shas.append(world.repository.git("rev-parse", "HEAD"))
    world.factors = {}
    world.until_quiet()
    assert not Alert.objects.exists()
    assert any("no longer on main" in cp.note for cp in ChangePoint.objects.all())
