"""Hunks of a named commit are taken back and counted, and those that changed its instructions are named."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from speedtrack.alerts.hunks import commits, trials
from speedtrack.alerts.hunks.findings import HunkEvidence, HunkFinding, HunkState, hunks_of, names_of, sentence_of
from speedtrack.alerts.models import Alert, AlertEvent, HunkStep, HunkTrial
from speedtrack.alerts.triage import triage
from speedtrack.notices import mail
from speedtrack.notices.models import Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.processes import dispatch
from speedtrack.projects.mirrors import git, hunks
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.gitprocess import run_git
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine, Reason, Run, Status
from speedtrack.runs.queue import queue
from speedtrack.tasks import worker
from speedtrack.tests import builders, worlds

from .conftest import World, failure
from .test_counts import SUITE, Counting

PLACES = (5, 20, 40, 60, 75)
GUILTY = 9
EXACT = 0.00002


def source(*pieces: int) -> str:
    """A file with a piece of work at these of the five places, counted from 1."""
    work = {PLACES[number - 1]: f"work {number};" for number in pieces}
    return "".join(f"{work.get(at, f'// line {at}')}\n" for at in range(80))


@dataclass
class Tried(Counting):
    """A counting world whose guilty commit has five hunks; ``costs``: the instructions that each of them adds.

    ``needs``: hunks of which a commit with some, but not all, does not build.
    """

    costs: dict[int, float] = field(default_factory=dict)
    needs: frozenset[int] = frozenset()

    def pieces_of(self, sha: str) -> set[int]:
        slug = Project.objects.get().slug
        text = run_git("show", f"{sha}:file.txt", directory=mirror_of(slug))
        return {number for number in range(1, 6) if f"work {number};" in text}

    def exact(self, sha: str) -> float:
        return 4000 + sum(cost for number, cost in self.costs.items() if number in self.pieces_of(sha))

    def count(self, sha: str) -> float:
        return self.exact(sha) * self.rng.gauss(1, self.noise)

    def measure(self, run: Run, count: Any) -> None:
        lacking = self.needs - self.pieces_of(run.commit.sha)
        if lacking and lacking != self.needs:
            builders.send_build(run, run.base, side="base")
            builders.send_build(run, run.commit, succeeded=False, side="head")
            queue.fail(self.world.machine, run.pk, failure(run, "build failed: make exited with code 2"))
        else:
            super().measure(run, count)

    def until_found(self) -> HunkFinding:
        """Try the hunks until nothing is left to do."""
        for _ in range(30):
            trials.step()
            if not self.work(self.count) and not HunkTrial.objects.under_way().exists():
                (finding,) = hunks_of(Alert.objects.get())
                return finding
        raise AssertionError("the trial never ends")


@worlds.shared
def tried(settings: Any, directory: Path) -> Tried:
    """The alert that a commit of five hunks costs 63 instructions more; its hunks are not tried yet."""
    builders.use_suite(settings, directory / "suites", SUITE)
    world = World(builders.Repository(directory / "repository"), builders.machine())
    world.shas = [world.repository.commit(text=source(*range(1, 6)) if at >= GUILTY else source()) for at in range(16)]
    counting = Tried(world, noise=EXACT, costs={2: 63.0})
    builders.track(world.repository, emails=["dev@example.org"])
    counting.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[GUILTY]
    return counting


def hunk_runs() -> list[Run]:
    return list(Run.objects.filter(reason=Reason.HUNKS).order_by("pk"))


def mails() -> list[Any]:
    return [mail.message_of(row) for row in Outbox.objects.exclude(alert=None).order_by("pk")]


def test_the_hunk_that_did_it_is_named_in_the_document_and_in_the_thread(tried: Tried, client: Client) -> None:
    finding = tried.until_found()
    assert finding.state == HunkState.FOUND and finding.growth == pytest.approx(63, abs=1)
    assert finding.sentence.endswith("instructions per request come from the second hunk of file.txt")
    assert finding.sentence.startswith("get-p1: all of +6")
    (named,) = finding.hunks
    assert (named.number, named.line, named.text.count("work 2;")) == (2, 18, 1)
    assert [round(hunk.instructions or 0) for hunk in finding.others] == pytest.approx([0] * 4, abs=1)
    assert (finding.pieces, finding.builds) == (5, 6)
    tell_subscribers()
    first, second = mails()
    assert second.extra_headers["In-Reply-To"] == first.extra_headers["Message-ID"]
    assert finding.sentence in " ".join(second.body.split())
    alert = Alert.objects.get()
    (document,) = client.get(f"/api/v1/alerts/{alert.pk}").json()["hunks"]
    assert document["sentence"] == finding.sentence and document["hunks"][0]["name"] == named.name
    assert client.get(f"/alerts/{alert.pk}/").status_code == 200


def test_its_runs_count_what_no_branch_has_when_nothing_else_waits(tried: Tried) -> None:
    trials.step()
    (first,) = hunk_runs()
    alert = Alert.objects.get()
    assert (first.base, first.commit, first.trials) == (alert.commit, alert.before, trials.COUNTS)
    tried.work(tried.count)
    trials.step()
    runs = hunk_runs()[1:]
    slug = Project.objects.get().slug
    assert len(runs) == 5 and hunks.kept(slug) == git.unreachable(slug, [run.commit.sha for run in runs])
    assert {run.base for run in runs} == {alert.commit}
    world = tried.world
    world.shas.append(world.repository.commit(text=source(1, 2, 3, 4, 5)))
    builders.track(world.repository)
    claimed = builders.claim(world.machine)
    assert claimed.commit.sha == world.shas[-1]


def test_two_hunks_are_named_that_each_cost_a_part(tried: Tried) -> None:
    tried.costs = {1: 30.0, 4: 33.0}
    finding = tried.until_found()
    assert [hunk.number for hunk in finding.hunks] == [1, 4] and finding.state == HunkState.FOUND
    assert "come from the first hunk of file.txt and the fourth hunk of file.txt" in finding.sentence


def test_a_hunk_without_which_nothing_builds_is_a_refusal(tried: Tried) -> None:
    tried.needs = frozenset({1, 2, 5})
    finding = tried.until_found()
    assert [hunk.number for hunk in finding.hunks] == [1, 2, 5] and finding.explained == pytest.approx(63, abs=1)
    assert all(
        hunk.refusal == "the rest does not build without it: build failed: make exited with code 2"
        for hunk in finding.hunks
    )
    assert [hunk.number for hunk in finding.others] == [3, 4]


def test_costs_that_cancel_out_are_said(tried: Tried) -> None:
    tried.costs = {3: 100.0, 5: -37.0}
    finding = tried.until_found()
    assert [hunk.number for hunk in finding.hunks] == [3]
    assert "+100 instructions per request (of +6" in finding.sentence


def test_a_budget_that_ends_names_what_is_left(tried: Tried, settings: Any) -> None:
    settings.HUNK_BUILDS = 6
    tried.needs = frozenset({1, 2})
    finding = tried.until_found()
    assert finding.state == HunkState.IMPOSSIBLE and finding.builds == 6
    assert finding.sentence.endswith(
        "the budget of 6 builds ended before fewer hunks than all of them explained the change"
    )
    assert not AlertEvent.objects.filter(kind="traced").exists()
    settings.HUNK_BUILDS = 7
    HunkTrial.objects.update(ended_at=None)
    finding = tried.until_found()
    assert (finding.state, [hunk.number for hunk in finding.hunks]) == (HunkState.FOUND, [1, 2])


def test_instructions_that_did_not_change_are_not_searched(tried: Tried) -> None:
    tried.costs, tried.noise = {}, 0.0
    finding = tried.until_found()
    assert finding.state == HunkState.IMPOSSIBLE and finding.builds == 1
    assert finding.sentence == "get-p1: counted again, the commit changes no instructions"


def test_a_commit_that_does_not_build_any_more_is_said(tried: Tried) -> None:
    trials.step()
    (run,) = hunk_runs()
    queue.cancel(run, "no time")
    finding = tried.until_found()
    assert finding.sentence == f"get-p1: its hunks were not tried: its run {run.pk} was cancelled"


def test_a_commit_that_changes_no_file_has_no_hunks(tried: Tried) -> None:
    alert = Alert.objects.get()
    Alert.objects.update(commit=alert.before, before=before_of(alert, 2))
    assert tried.until_found().sentence == "get-p1: its hunks were not tried: the commit changes no file"
    assert not hunk_runs()


def before_of(alert: Alert, steps: int) -> Any:
    return alert.branch.positions.get(number=alert.ends[1] - steps).commit


def test_an_alert_that_is_settled_ends_its_trial(tried: Tried, admin_user: Any) -> None:
    trials.step()
    alert = Alert.objects.get()
    triage.decide(alert, triage.Decision("confirmed", "expected", None, "meant"), admin_user)
    trials.end_unwanted()
    assert [run.status for run in hunk_runs()] == [Status.CANCELLED]
    trial = HunkTrial.objects.get()
    assert trial.ended_at and trial.note == "no open alert names the commit any more"
    trials.step()
    assert len(hunk_runs()) == 1


def test_no_trial_begins_without_a_budget_or_a_named_commit(tried: Tried, settings: Any) -> None:
    settings.HUNK_BUILDS = 0
    trials.step()
    settings.HUNK_BUILDS = 24
    alert = Alert.objects.get()
    Alert.objects.update(before=before_of(alert, 3))
    trials.step()
    assert not HunkTrial.objects.exists() and hunks_of(alert) == []


def test_a_trial_that_is_broken_off_anywhere_goes_on(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    trials.step()
    tried.work(tried.count)
    calls = 0

    def plan(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt  # as a process that is killed
        return real(*arguments)

    real = trials.plan_pairs
    monkeypatch.setattr(trials, "plan_pairs", plan)
    with pytest.raises(KeyboardInterrupt):
        trials.step()
    assert len(hunk_runs()) == 1 and HunkStep.objects.get().growths is None
    assert "detect" in dispatch.duties_with_work()
    worker.detect()
    assert len(hunk_runs()) == 6
    trials.step()
    assert len(hunk_runs()) == 6
    assert tried.until_found().state == HunkState.FOUND


def test_a_defect_ends_one_trial_and_says_so(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "facts_of", lambda piece: 1 / 0)
    trials.step()
    assert HunkTrial.objects.get().note.startswith("ZeroDivisionError")
    (finding,) = hunks_of(Alert.objects.get())
    assert finding.state == HunkState.IMPOSSIBLE and "a defect of SpeedTrack" in finding.sentence


def test_a_repository_that_is_gone_is_said(tried: Tried, settings: Any, tmp_path: Path) -> None:
    settings.MIRRORS = tmp_path / "elsewhere"
    trials.step()
    (finding,) = hunks_of(Alert.objects.get())
    assert "is not on this server" in finding.sentence and finding.state == HunkState.IMPOSSIBLE


def test_commits_of_a_trial_are_forgotten_long_after_its_end(tried: Tried) -> None:
    tried.until_found()
    project = Project.objects.get()
    commits.forget_commits(project)
    assert len(hunks.kept(project.slug)) == 5
    HunkTrial.objects.update(ended_at=Now() - commits.KEPT_FOR)
    commits.forget_commits(project)
    assert hunks.kept(project.slug) == set()


def test_a_finding_takes_three_statements(tried: Tried) -> None:
    alert = Alert.objects.get()
    tried.until_found()
    with CaptureQueriesContext(connection) as queries:
        hunks_of(alert)
    assert len(queries) <= 3


def test_a_retired_machine_counts_nothing_more(tried: Tried) -> None:
    trials.step()
    tried.work(tried.count)
    Machine.objects.update(retired_at=Now(), paused=True)
    trials.step()
    assert HunkTrial.objects.get().note == "m1 is not in service"


def evidence(growths: dict[tuple[int, ...], float], count: int, **changes: Any) -> HunkEvidence:
    """What steps with these growths show about a commit with so many hunks of a.c, in a trial that has ended."""
    facts = {"path": "a.c", "kind": "hunk", "count": count, "line": 1, "before_line": 1, "header": ""}
    trial = HunkTrial(pieces=[facts | {"number": at + 1} for at in range(count)], ended_at=timezone.now(), **changes)
    steps = [HunkStep(pieces=list(pieces), growths={"get": growth}) for pieces, growth in growths.items()]
    return HunkEvidence(trial, steps, "get")


SENTENCES = [
    ({}, 1, "the commit consists of the only hunk of a.c"),
    ({(0, 1): 63, (0,): 60, (1,): 3}, 2, "95% of +63 instructions per request come from the first hunk of a.c"),
    ({(0, 1): -6.3, (0,): 0, (1,): -6.3}, 2, "all of −6.3 instructions per request come from the second hunk of a.c"),
    (
        {(0, 1): 63, (0,): 30, (1,): 33},
        2,
        "all of +63 instructions per request come from all 2 hunks of the commit together: no fewer of them explain it",
    ),
    (
        {tuple(range(20)): 63, tuple(range(10)): 63},
        20,
        "all of +63 instructions per request lie within 10 hunks of a.c, and perhaps in fewer: the budget of 2 builds "
        "ended",
    ),
]


@pytest.mark.parametrize(("growths", "count", "sentence"), SENTENCES)
def test_a_finding_is_a_sentence(growths: dict[tuple[int, ...], float], count: int, sentence: str) -> None:
    assert sentence_of(evidence(growths, count)) == sentence


def test_many_hunks_are_named_by_their_files() -> None:
    pieces = [{"path": f"{at % 5}.c", "kind": "hunk", "number": 1 + at // 5, "count": 4} for at in range(20)]
    assert names_of(pieces[:3]) == "the first hunk of 0.c, the first hunk of 1.c and the first hunk of 2.c"
    assert names_of(pieces) == "20 hunks of 0.c, 1.c, 2.c and 2 more files"
