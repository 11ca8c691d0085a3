"""What would have been reported when, and why: the command, and the words it has from the database."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.triage import reasons, replay
from speedtrack.notices.models import Outbox
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Run, Series
from speedtrack.tests import builders

from .conftest import World

CPU = "server_cpu_ns_per_request"


@pytest.fixture
def slowed(world: World) -> World:
    world.shas += world.repository.commits(8)
    world.factors = {world.shas[14]: 1.3}
    builders.track(world.repository, emails=["dev@example.org"])
    world.until_quiet()
    return world


def told(*arguments: str) -> str:
    out = StringIO()
    call_command("detect", *arguments, stdout=out)
    return out.getvalue()


def test_a_dry_run_says_what_when_and_why_and_writes_nothing(slowed: World) -> None:
    before = list(ChangePoint.objects.order_by("id").values())
    text = told("--replay", "repository", "--dry-run")
    assert f"suspected: get-p1, Server CPU per request on m1 at {slowed.shas[14][:10]}" in text
    assert "exceeds" in text and "score" in text
    assert "different" in text and "confirmed: measured again over" in text
    assert f"alert {Alert.objects.get().pk}, confirmed; news: reported at once" in text
    assert "2 suspicions" in text
    assert list(ChangePoint.objects.order_by("id").values()) == before
    assert not Run.objects.unfinished().exists()


def test_the_replay_is_in_the_order_of_the_commits_that_show_it(slowed: World) -> None:
    entries = replay.replay(Project.objects.get())
    assert [e.seen.number for e in entries] == sorted(e.seen.number for e in entries)
    assert all(e.seen.number >= e.place.number for e in entries)


def test_since_leaves_out_what_older_commits_show(slowed: World) -> None:
    late = Commit.objects.get(sha=slowed.shas[19]).committed_at
    assert not any(entry.suspected for entry in replay.replay(Project.objects.get(), late))


def test_looking_again_finds_the_past_and_mails_nobody(slowed: World) -> None:
    """As after a better detector came: what the old one had not seen is raised, and told in a digest."""
    Outbox.objects.all().delete()
    Alert.objects.all().delete()
    ChangePoint.objects.all().delete()
    text = told("--replay", "repository")
    assert "2 new suspicions" in text
    slowed.until_quiet()
    alert = Alert.objects.get()
    assert alert.commit.sha == slowed.shas[14]
    assert alert.events.get(kind="raised").past
    assert not Outbox.objects.exists()


def test_looking_again_at_what_is_known_finds_nothing(slowed: World) -> None:
    assert replay.detect_again(Project.objects.get()) == 0


def test_an_unknown_project(db: None) -> None:
    with pytest.raises(CommandError, match="there is no project 'none'; tracked are: none"):
        told("--replay", "none")


def test_the_reasons_of_any_commit(slowed: World) -> None:
    series = Series.objects.get(benchmark__name="get-p1", metric=CPU)
    branch = series.project.branches.get()
    changed = reasons.why(series, branch, 14)
    assert changed and changed.suspicious and "alert" in changed.steps[-1]
    quiet = reasons.why(series, branch, 8)
    assert quiet and not quiet.suspicious and not quiet.steps
    assert "does not exceed" in quiet.judgement or "must" in quiet.judgement
    assert reasons.why(series, branch, 99) is None
    first = reasons.why(series, branch, 0)
    assert first and "nothing to compare it with" in first.judgement


def test_a_refuted_suspicion_says_by_how_many_pairs(world: World) -> None:
    builders.track(world.repository)

    def unlucky(sha: str, benchmark: str, trial: int) -> float:
        """A machine that was slower from the eighth commit on, but not when the pairs were measured."""
        paired = Run.objects.active().exclude(base=None).exists()
        return 5000 * (1.3 if world.shas.index(sha) >= 7 and not paired else 1) * world.rng.gauss(1, 0.01)

    world.until_quiet(unlucky)
    cp = ChangePoint.objects.first()
    assert cp
    steps = reasons.steps_of(cp)
    assert any("pairs of" in step and step.endswith("same") for step in steps)
    assert steps[-1].startswith("refuted: measured again over")
