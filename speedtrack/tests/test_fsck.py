"""Each fault that fsck finds, made by hand; and its remedies, where they are statements."""

import re
from collections import defaultdict
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.models import Branch, Chain, ChainCommit, Commit, Position, Segment
from speedtrack.retention.tests.ages import let_pass, measure_fully, prune
from speedtrack.runs.models import Attempt, Canary, LogChunk, Measurement, Result, Run, Samples, Series, Trial
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.runs.scheduling import canary
from speedtrack.runs.scheduling.canary import FrozenCommit
from speedtrack.runs.tests.canaries import LEVEL, measure_canary
from speedtrack.tests import builders
from speedtrack.tests.plans import scans
from speedtrack.upkeep import fsck
from speedtrack.web.tests.world import World, slowed
from speedtrack.web.tests.world import kvd as kvd  # a fixture


def run_fsck(*only: str) -> tuple[int, list[str]]:
    """The exit code of the command, and its lines about faults."""
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("fsck", *(["--only", *only] if only else []), stdout=out)
    lines = out.getvalue().splitlines()
    assert all(line.startswith(("ok  ", "BAD ")) for line in lines)
    return int(ended.value.code), [line for line in lines if line.startswith("BAD   ")]


def faults(name: str) -> list[str]:
    check = fsck.checks()[name]
    return list(check.find(check))


def follow_remedy(fault: str) -> None:
    """Run the statement that the remedy names."""
    (statement,) = re.findall(r"`((?:UPDATE|DELETE|INSERT) [^`]+)`", fault)
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_sound_database_has_no_faults(kvd: World) -> None:
    assert run_fsck() == (0, [])


def test_after_alerts_canaries_and_retention_it_is_still_sound(db: None, settings: Any, tmp_path: Path) -> None:
    made, _ = slowed(settings, tmp_path)
    made.push(1)
    measure_fully(builders.claim(made.machines[0]))
    made.push(1)
    made.fail()
    freeze(made)
    assert run_fsck() == (0, [])
    let_pass(10_000)
    prune()
    assert run_fsck() == (0, [])


def test_it_says_what_it_looked_at(kvd: World) -> None:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("fsck", stdout=out)
    lines = out.getvalue().splitlines()
    assert re.match(
        r"ok    positions   4 positions of branches against the first parents in the mirrors, \d+\.\d s", lines[0]
    )
    assert len(lines) == len(fsck.checks())


def swap_positions() -> None:
    first, second = ChainCommit.objects.order_by("number")[1:3]
    for place, number in ((first, 99), (second, first.number), (first, second.number)):
        ChainCommit.objects.filter(commit=place.commit_id).update(number=number)


def lose_last_position() -> None:
    ChainCommit.objects.order_by("-number")[:1].get().delete()


def add_position() -> None:
    stranger = Commit.objects.create(
        project=Branch.objects.get().project,
        sha="f" * 40,
        author_name="a",
        author_email="a@example.org",
        authored_at="2026-01-01T00:00Z",
        committed_at="2026-01-01T00:00Z",
        subject="s",
    )
    ChainCommit.objects.create(chain=Chain.objects.get(), commit=stranger, number=4)
    Segment.objects.update(last=4)


@pytest.mark.parametrize("spoil", [swap_positions, lose_last_position, add_position])
def test_positions_that_are_not_those_of_git(kvd: World, spoil: Callable[[], None]) -> None:
    before = list(Position.objects.order_by("number").values_list("number", "commit__sha"))
    spoil()
    code, (fault, summary) = run_fsck("positions")
    assert code == 1 and "in place" in fault and "kvd, branch main" in fault
    assert "positions of branches" in summary
    follow_remedy(fault)
    pushes.look_for_news(kvd.project)
    assert run_fsck("positions") == (0, [])
    assert list(Position.objects.order_by("number").values_list("number", "commit__sha")) == before


def test_a_head_that_the_mirror_lacks(kvd: World) -> None:
    Commit.objects.filter(sha=kvd.shas[-1]).update(sha="e" * 40)
    (fault,) = faults("positions")
    assert "its head is not in the mirror" in fault and f"remove {mirror_of('kvd')}" in fault


def test_a_mirror_that_is_gone(kvd: World) -> None:
    mirror_of("kvd").rename(mirror_of("other"))
    Branch.objects.create(project=kvd.project, name="other")
    (fault,) = faults("positions")
    assert "kvd: there is no mirror in" in fault and "the next look at the repository clones it anew" in fault


def test_measurements_shown_of_an_attempt_that_did_not_end_well(kvd: World) -> None:
    run = Run.objects.order_by("pk").first()
    Attempt.objects.filter(run=run).update(outcome="queued")
    (fault,) = faults("acceptance")
    assert f"run {run.pk}: 4 measurements of attempt" in fault and "are shown, but it is queued" in fault
    follow_remedy(fault)
    assert faults("acceptance") == []


def test_measurements_hidden_of_an_attempt_that_ended_well(kvd: World) -> None:
    run = Run.objects.order_by("pk").first()
    Measurement.objects.filter(attempt__run=run).update(accepted=False)
    (fault,) = faults("acceptance")
    assert "are hidden, but it succeeded" in fault
    follow_remedy(fault)
    assert faults("acceptance") == []


def test_an_attempt_that_nobody_holds(kvd: World) -> None:
    run = Run.objects.order_by("pk").first()
    Attempt.objects.filter(run=run).update(ended_at=None)
    (fault,) = faults("attempts")
    assert f"run {run.pk}: attempt " in fault and "has not ended, but nobody holds it" in fault
    follow_remedy(fault)
    assert faults("attempts") == []


def test_a_run_at_work_whose_attempt_has_ended(kvd: World) -> None:
    kvd.push(1)
    run = builders.claim(kvd.machines[0])
    assert run_fsck("attempts", "events") == (0, [])
    Attempt.objects.filter(run=run).update(ended_at="2026-01-01T00:00Z", outcome="queued")
    (fault,) = faults("attempts")
    assert "it is leased, but its attempt" in fault
    follow_remedy(fault)
    assert queue.reap() == 1
    assert faults("attempts") == []


def test_a_run_that_shows_two_attempts(kvd: World) -> None:
    run = Run.objects.order_by("pk").first()
    first = run.attempts.get()
    Attempt.objects.create(run=run, number=2, token=first.token + 1, ended_at=first.ended_at, outcome="succeeded")
    Measurement.objects.filter(attempt=first, series__metric="throughput_rps").update(attempt=run.attempts.latest("id"))
    (fault,) = faults("attempts")
    assert "measurements of 2 attempts are shown" in fault
    follow_remedy(fault)
    assert faults("attempts") == []


def test_a_change_that_went_past_the_events(kvd: World) -> None:
    kvd.push(1)
    run = Run.objects.latest("pk")
    builders.claim(kvd.machines[0])
    Run.objects.filter(pk=run.pk).update(status="running")
    (fault,) = faults("events")
    assert f"run {run.pk} is running, but its last event says leased" in fault
    follow_remedy(fault)
    assert faults("events") == []
    run.events.filter(after="running").delete()
    Run.objects.filter(pk=run.pk).update(status="leased")
    builders.expire_lease(run)
    queue.reap()
    run.events.filter(after="queued").update(before="running")
    (fault,) = faults("events")
    assert "goes from running to queued, but the one before it went to leased" in fault
    follow_remedy(fault)
    assert faults("events") == []


def freeze(kvd: World) -> Run:
    """The machine's canary, and its first run."""
    run = Run.objects.order_by("pk").first()
    canary.replace_canary(kvd.machines[0], FrozenCommit(run.project, run.commit, run.suite, run.benchmark_set))
    return measure_canary(kvd.machines[0], LEVEL)


def test_a_canary_on_the_charts(kvd: World) -> None:
    run = freeze(kvd)
    Measurement.objects.filter(attempt__run=run).update(accepted=True)
    (fault,) = faults("canaries")
    assert f"run {run.pk} is of a canary, and its measurements are on charts" in fault
    follow_remedy(fault)
    assert run_fsck("canaries", "acceptance") == (0, [])


def test_samples_that_their_summary_does_not_summarise(kvd: World) -> None:
    samples = Samples.objects.filter(measurement__n=5).first()
    Samples.objects.filter(pk=samples.pk).update(values=[1.0, 2.0, 3.0, 4.0, 5.0])
    (fault,) = faults("summaries")
    assert "of 5 samples; those that are stored give 3 of 5" in fault
    Samples.objects.filter(pk=samples.pk).update(values=[1.0])
    assert "give 1 of 1" in faults("summaries")[0]
    Samples.objects.filter(pk=samples.pk).update(values=[None])
    assert "give nothing of 0" in faults("summaries")[0]
    follow_remedy(faults("summaries")[0])
    assert faults("summaries") == []


def test_flagged_samples_do_not_count_unless_all_are(kvd: World) -> None:
    kvd.push(1)
    run = builders.claim(kvd.machines[0])
    for name, flagged in zip(builders.measured(run), ([4], [0, 1, 2, 3, 4]), strict=True):
        flags = [["client_bound", "steal"] if i in flagged else [] for i in range(5)]
        document = builders.result(run, name, run.commit, [1.0, 2.0, 3.0, 4.0, 50.0], flags=flags)
        results.accept_result(run.machine, run.pk, document)
    assert set(Measurement.objects.filter(attempt__run=run).values_list("n", flat=True)) == {4, 5}
    assert faults("summaries") == []


def test_documents_that_are_not_those_of_the_trials(kvd: World) -> None:
    Trial.objects.filter(result=Result.objects.first(), number=3).delete()
    (fault,) = faults("trials")
    assert "documents of the trials [0, 1, 2, 3, 4], but rows of the trials [0, 1, 2, 4]" in fault
    follow_remedy(fault)
    assert faults("trials") == []


def newest_measured() -> Result:
    return Result.objects.order_by("-pk").first()


def lose_result() -> None:
    newest_measured().delete()


def lose_all_metrics() -> None:
    result = newest_measured()
    Measurement.objects.filter(attempt=result.attempt, series__benchmark=result.benchmark).delete()


def lose_samples_of_a_metric() -> None:
    result = newest_measured()
    own = Measurement.objects.filter(attempt=result.attempt, series__benchmark=result.benchmark)
    Samples.objects.filter(measurement=own.exclude(series__metric="throughput_rps").first()).delete()


def lose_build() -> None:
    newest_measured().attempt.builds.all().delete()


@pytest.mark.parametrize(
    ("lose", "sentence"),
    [
        (lose_result, "there is no result of "),
        (lose_all_metrics, "there are no measurements of "),
        (lose_samples_of_a_metric, "only 1 of 2 metrics have samples of "),
        (lose_build, "there is no build of "),
    ],
)
def test_a_run_that_succeeded_and_lacks_a_part(kvd: World, lose: Callable[[], None], sentence: str) -> None:
    assert faults("results") == []
    lose()
    found = faults("results")
    assert found and all(sentence in fault and "measure the commit again" in fault for fault in found)


def test_a_log_with_a_gap(kvd: World) -> None:
    attempt = Attempt.objects.order_by("pk").first()
    LogChunk.objects.filter(attempt=attempt).delete()
    for seq in (0, 1, 2):
        LogChunk.objects.create(attempt=attempt, seq=seq, phase="measure", text="a line\n")
    assert faults("logs") == []
    LogChunk.objects.filter(attempt=attempt, seq=1).delete()
    (fault,) = faults("logs")
    assert f"the log of attempt {attempt.pk} has 2 of the pieces 0 to 2" in fault


def test_documents_that_cannot_be_read(kvd: World) -> None:
    result = Result.objects.first()
    for broken in (b"nonsense", bytes(result.documents)[:-20], b""):
        Result.objects.filter(pk=result.pk).update(documents=broken)
        (fault,) = faults("trials")
        assert "the documents of its trials cannot be read" in fault


def test_samples_of_trials_that_there_are_not(kvd: World) -> None:
    samples = Samples.objects.filter(measurement__n=5).first()
    Samples.objects.filter(pk=samples.pk).update(values=[*samples.values, 5000.0])
    (fault,) = faults("trials")
    assert f"measurement {samples.pk} has samples of the trials [5], which have no row" in fault


def test_what_retention_has_deleted_is_no_fault(kvd: World, settings: Any) -> None:
    settings.KEEP_DAYS = settings.KEEP_DAYS | {"documents": 0}
    let_pass(10_000)
    prune()
    assert Result.objects.filter(documents__isnull=False).exists() and not Trial.objects.exists()
    assert run_fsck() == (0, [])


def test_open_changes_whose_commits_left_the_branch(kvd: World) -> None:
    branch, before, commit = Branch.objects.get(), kvd.commit(-2), kvd.commit(-1)
    place = {"branch": branch, "before": before, "commit": commit}
    levels = {"ratio": 1.1, "low": 1.05, "high": 1.15, "score": 2.0}
    cp = ChangePoint.objects.create(series=Series.objects.first(), **place, **levels)
    alert = Alert.objects.create(project=kvd.project, status="confirmed", **place)
    assert faults("changes") == []
    other = Branch.objects.create(project=kvd.project, name="other")
    segment = Segment.objects.get(branch=branch)
    Segment.objects.create(branch=other, chain=segment.chain, first=0, last=segment.last)
    Segment.objects.filter(branch=branch).update(last=segment.last - 1)
    assert faults("changes") == [], "another branch has them"
    Branch.objects.filter(pk=other.pk).update(deleted_at="2026-01-01T00:00Z")
    first, second = faults("changes")
    assert first.startswith(f"change point {cp.pk} of ") and "no branch has" in first
    assert second.startswith(f"alert {alert.pk}: ") and f"/alerts/{alert.pk}/" in second
    follow_remedy(first)
    Alert.objects.update(status="invalid")
    assert faults("changes") == []


def test_a_canary_whose_runs_build_something_else(kvd: World) -> None:
    freeze(kvd)
    assert faults("artifacts") == []
    Canary.objects.update(artifacts={"kvd": "sha256:gone"})
    (fault,) = faults("artifacts")
    assert "it is frozen as {'kvd': 'sha256:gone'}, but its runs build" in fault
    assert "`manage.py machine canary kvd-m1` freezes a new one" in fault


def test_a_canary_that_was_lost(kvd: World) -> None:
    freeze(kvd)
    Run.objects.filter(canary__isnull=False, ended_at__isnull=False).update(
        status="failed", error="the canary's server was lost\nmore"
    )
    (fault,) = faults("artifacts")
    assert "its frozen artifacts could not be measured by run" in fault and "(the canary's server was lost)" in fault


def test_many_faults_are_counted(kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsck, "MOST", 2)
    Attempt.objects.update(outcome="queued")
    code, lines = run_fsck("acceptance")
    assert code == 1 and len(lines) == 4
    assert lines[2].split() == ["BAD", "acceptance", "and", "2", "more"]


@pytest.mark.parametrize("size", [1, 3])
def test_tables_are_read_in_chunks_without_gaps(kvd: World, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    covered = [pk for ids in fsck.chunks(Attempt, size) for pk in range(ids["first"], ids["last"] + 1)]
    assert set(covered) >= set(Attempt.objects.values_list("pk", flat=True)) and len(set(covered)) == len(covered)
    assert all(ids["last"] - ids["first"] < size for ids in fsck.chunks(Attempt, size))


JOINED = {
    "ACCEPTANCE": {"runs_attempt", "runs_measurement"},
    "ATTEMPTS": {"runs_run", "runs_attempt"},
    "EVENTS": {"runs_run", "runs_runevent"},
    "SUMMARIES": {"runs_measurement", "runs_samples"},
    "INCOMPLETE": {"runs_attempt", "runs_measurement", "runs_result", "runs_build"},
    "LOGS": {"runs_attempt", "runs_logchunk"},
}


@pytest.mark.parametrize("statement", JOINED)
def test_each_table_of_a_chunk_has_its_range(db: None, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {getattr(fsck, statement)}", {"first": 765_432, "last": 765_439})
        (plan,) = cursor.fetchone()[0]
    conditions: dict[str, str] = defaultdict(str)
    for node in scans(plan["Plan"]):
        own = (node.get(name, "") for name in ("Index Cond", "Recheck Cond", "Filter"))
        conditions[node.get("Relation Name", "")] += " ".join(own)
    assert {table for table in JOINED[statement] if "765439" in conditions[table]} == JOINED[statement]
