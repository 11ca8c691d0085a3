"""Each named constraint holds against attacks by SQL or the ORM that bypass the verbs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.db.models.functions import Now

from speedtrack.benchmarks.models import BenchmarkSet, SetMember
from speedtrack.projects.models import (
    Branch,
    Chain,
    ChainCommit,
    Commit,
    Delivery,
    Project,
    PullRequest,
    Refusal,
    Segment,
    Tag,
)
from speedtrack.runs.models import (
    MOVES,
    Attempt,
    Build,
    Environment,
    LogChunk,
    Machine,
    MachineToken,
    Measurement,
    Result,
    Run,
    Samples,
    Series,
    Status,
    Trial,
)
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders


@pytest.fixture
def run(tracked: Tracked, machine: Machine) -> Run:
    """A leased run with all its measurements, a build and a piece of log."""
    run = builders.claim(machine)
    builders.send_build(run, run.commit)
    builders.measure(run)
    LogChunk.objects.create(attempt=run.attempts.get(), seq=0, phase="measure", text="x")
    return run


def refuses(constraint: str, act: Callable[[], Any]) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        act()


def again(row: Any, **changes: Any) -> Callable[[], Any]:
    """Insert the row a second time, under another primary key."""

    def insert() -> None:
        row.pk = None
        row._state.adding = True
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(force_insert=True)

    return insert


def sql(text: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)


@pytest.mark.parametrize("status", ["leased", "running"])
def test_a_machine_never_has_two_active_runs(run: Run, status: str) -> None:
    refuses(
        "one_active_run_per_machine",
        lambda: sql(
            "UPDATE runs_run SET status = %s, lease_until = now() WHERE machine_id = %s", status, run.machine_id
        ),
    )


def test_an_active_run_has_a_lease(run: Run) -> None:
    refuses("an_active_run_has_a_lease", lambda: Run.objects.filter(pk=run.pk).update(lease_until=None))
    refuses(
        "an_active_run_has_a_lease", lambda: sql("UPDATE runs_run SET status = 'running' WHERE lease_until IS NULL")
    )


def test_a_run_stands_once_per_commit_machine_benchmarks_reason_and_round(run: Run) -> None:
    name = "a_run_once_per_commit_machine_benchmarks_reason_round"
    refuses(name, again(Run.objects.get(pk=run.pk), status="cancelled"))
    again(Run.objects.get(pk=run.pk), status="queued", round=1)()
    again(Run.objects.get(pk=run.pk), status="queued", reason="manual")()


def test_a_benchmark_set_stands_once_per_project_and_a_benchmark_once_in_it(run: Run) -> None:
    refuses("a_benchmark_set_once_per_project", again(BenchmarkSet.objects.get()))
    refuses("a_benchmark_once_in_a_set", again(SetMember.objects.all()[0]))


def test_a_benchmark_that_a_run_measures_is_not_deleted(run: Run) -> None:
    with pytest.raises(ProtectedError):
        BenchmarkSet.objects.get().delete()


def test_a_paired_run_stands_once_and_beside_the_plain_one(run: Run) -> None:
    base = Commit.objects.exclude(pk=run.commit_id)[0]
    again(Run.objects.get(pk=run.pk), status="queued", base=base)()
    refuses(
        "a_run_once_per_commit_machine_benchmarks_reason_round",
        again(Run.objects.get(pk=run.pk), status="queued", base=base),
    )


def test_an_attempt_stands_once_per_lease(run: Run) -> None:
    refuses("an_attempt_once_per_lease", again(Attempt.objects.get(), number=9))


def test_a_log_chunk_stands_once(run: Run) -> None:
    refuses("a_log_chunk_once", again(LogChunk.objects.get(), text="other"))


def test_a_build_stands_once_per_attempt_and_side(run: Run) -> None:
    refuses("a_build_once_per_attempt_and_side", again(Build.objects.get(), succeeded=False))


def test_a_series_stands_once(run: Run) -> None:
    refuses("a_series_once", again(Series.objects.all()[0]))


def test_an_environment_stands_once_per_machine(run: Run) -> None:
    refuses("an_environment_once_per_machine", again(Environment.objects.get(), facts={}))
    again(Environment.objects.get(), machine=builders.machine("m2"))()


def test_a_measurement_stands_once_per_attempt(run: Run) -> None:
    refuses("a_measurement_once_per_attempt", again(Measurement.objects.all()[0], value=1.0))


def test_a_trial_stands_once_per_attempt(run: Run) -> None:
    refuses("a_result_once_per_attempt", again(Result.objects.all()[0]))
    trial = {name: getattr(Trial.objects.all()[0], name) for name in ("result", "number", "started_at", "seconds")}
    refuses("runs_trial_pkey", lambda: Trial.objects.create(**trial, order=99))


def test_a_sample_stands_once_per_measurement_and_trial(run: Run) -> None:
    """Samples are stored once per measurement, and with their trials, each of which stands once per attempt."""
    samples = Samples.objects.all()[0]
    refuses("runs_samples_pkey", lambda: Samples.objects.create(measurement=samples.measurement, values=[1.0]))


def test_a_commit_a_branch_and_a_tag_stand_once_per_project(run: Run) -> None:
    refuses("a_commit_once_per_project", again(Commit.objects.all()[0], subject="other"))
    refuses("a_branch_once_per_project", again(Branch.objects.get()))
    Tag.objects.create(project=run.project, name="v1", sha="0" * 40)
    refuses("a_tag_once_per_project", again(Tag.objects.get(), sha="1" * 40))


def test_a_chain_has_one_commit_of_a_number_and_a_commit_is_on_one_chain(run: Run) -> None:
    root = ChainCommit.objects.get(number=0)
    aside = Commit.objects.get(pk=root.commit_id)
    again(aside, sha="f" * 40)()
    store = partial(ChainCommit.objects.create, chain=root.chain)
    refuses("projects_chaincommit_pkey", partial(store, number=0, commit=aside))
    refuses("projects_chaincommit_commit_id_key", partial(store, number=99, commit=root.commit))


def test_a_branch_has_one_segment_of_a_chain_and_it_has_a_commit(run: Run) -> None:
    segment = Segment.objects.get()
    again = partial(Segment.objects.create, branch=segment.branch, first=1)
    refuses("projects_segment_pkey", partial(again, chain=segment.chain, last=1))
    other = Chain.objects.create(project=run.project)
    refuses("a_segment_has_a_commit", partial(again, chain=other, last=0))


def test_a_delivery_stands_once_per_id_and_waits_once_per_body(run: Run) -> None:
    Delivery.objects.create(
        project=run.project,
        provider="github",
        delivery_id="1",
        event="push",
        headers={},
        packed_body=b"",
        body_digest="d",
    )
    refuses("a_delivery_once_per_id", again(Delivery.objects.get(), body_digest="e"))
    refuses("one_waiting_delivery_per_body", again(Delivery.objects.get(), delivery_id="2"))


def test_a_pull_request_stands_once_per_number_with_head_and_base(run: Run) -> None:
    PullRequest.objects.create(
        project=run.project, number=1, head_sha="a" * 40, base_ref="main", state="open", updated_at=Now()
    )
    refuses("a_pull_request_once_per_number", again(PullRequest.objects.get()))
    for wrong in ({"number": 0}, {"head_sha": ""}, {"base_ref": ""}):
        refuses("a_pull_request_has_a_head_and_a_base", again(PullRequest.objects.get(), **({"number": 2} | wrong)))


def test_refused_calls_are_one_row_per_hour_and_reason(run: Run) -> None:
    Refusal.objects.create(project=run.project, hour=run.created, reason="wrong")
    refuses("refusals_once_per_hour_and_reason", again(Refusal.objects.get(), count=7))


def test_machine_names_and_token_ids_and_hooks_stand_once(run: Run) -> None:
    refuses("runs_machine_name", again(Machine.objects.get()))
    refuses("runs_machinetoken_key", again(MachineToken.objects.get(), digest="other"))
    refuses("projects_project_hook_id", again(Project.objects.get(), slug="other"))


def test_a_run_that_has_moved_is_not_moved_again(run: Run) -> None:
    stale = Run.objects.get(pk=run.pk)
    assert run.move(Status.QUEUED, "first", lease_until=None)
    assert not stale.move(Status.FAILED, "second", lease_until=None)
    assert builders.moves(run) == [("queued", "leased"), ("leased", "queued")]


def test_a_run_that_was_taken_again_is_not_moved_by_the_old_holder(run: Run) -> None:
    stale = Run.objects.get(pk=run.pk)
    Run.objects.filter(pk=run.pk).update(lease_token=run.lease_token + 1, lease_until=Now())
    assert not stale.move(Status.FAILED, "late", lease_until=None)


@pytest.mark.parametrize(
    ("before", "after"), [(a, b) for a in Status for b in Status if b not in MOVES[a]], ids=lambda s: str(s)
)
def test_a_move_that_is_not_in_the_table_raises(before: Status, after: Status) -> None:
    with pytest.raises(ValueError, match=f"cannot move from {before} to {after}"):
        Run(pk=1, status=before).move(after, "why")


@pytest.mark.parametrize("column", ["base", "canary", "linked", "imported"])
def test_a_reference_that_most_runs_lack_has_a_partial_index_that_deletes_use(db: None, column: str) -> None:
    (index,) = [index for index in Run._meta.indexes if index.fields == [column]]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN SELECT FROM runs_run WHERE {column}_id = 1 FOR KEY SHARE")
        assert index.name in str(cursor.fetchall())
        cursor.execute("SELECT pg_get_indexdef(%s::regclass)", [index.name])
        assert f"WHERE ({column}_id IS NOT NULL)" in cursor.fetchone()[0]
