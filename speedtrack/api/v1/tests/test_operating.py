"""What operators and owners change by the API; with `dry_run` they are only told what would change."""

import zlib
from typing import Any

import pytest

from speedtrack.accounts.models import AuditEntry, Role, Scope
from speedtrack.alerts.models import Bisection
from speedtrack.api.v1.tests.conftest import Program, program
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs.models import Machine, PlanningPolicy, Run, Status
from speedtrack.runs.planning import choosing
from speedtrack.web.tests.world import World


@pytest.fixture
def operator(kvd: World, django_user_model: Any) -> Program:
    django_user_model.objects.create_superuser("olga")
    return program("olga")


@pytest.fixture
def maintainer(kvd: World) -> Program:
    return program("mia", project=kvd.project, role=Role.MAINTAINER)


def machine() -> Machine:
    return Machine.objects.get()


def delivery(project: Project, number: int) -> Delivery:
    return Delivery.objects.create(
        project=project,
        provider="generic",
        delivery_id=str(number),
        event="push",
        headers={},
        packed_body=zlib.compress(b"{}"),
        body_digest=str(number),
        status=Delivery.Status.IGNORED,
    )


def test_operators_pause_machines_and_set_windows_and_shares(kvd: World, operator: Program) -> None:
    name = machine().name
    path = f"machines/{name}"
    tried = operator.write("POST", f"{path}/pause", {"dry_run": True})
    assert tried["dry_run"] and tried["message"].startswith(f"machine {name} is paused")
    assert not machine().paused and not AuditEntry.objects.filter(action="machine.pause").exists()
    assert "finishes its run" in operator.write("POST", f"{path}/pause", {})["message"]
    assert machine().paused and AuditEntry.objects.filter(action="machine.pause").count() == 1
    operator.write("POST", f"{path}/resume", {"dry_run": True})
    assert machine().paused
    operator.write("POST", f"{path}/resume")
    assert not machine().paused
    for setting, order in (("windows", {"windows": ["22:00-06:00"]}), ("shares", {"shares": {"backfill": 20}})):
        operator.write("PUT", f"{path}/{setting}", order | {"dry_run": True})
        assert not getattr(machine(), setting)
        operator.write("PUT", f"{path}/{setting}", order)
        assert getattr(machine(), setting)
    assert operator.refused("PUT", f"{path}/windows", {"windows": ["never"]})["status"] == 422
    assert operator.refused("PUT", f"{path}/shares", {"shares": {"sleep": 5}})["status"] == 422
    assert operator.refused("POST", "machines/none/pause", {})["status"] == 404


def test_who_may_not_is_refused(kvd: World, maintainer: Program, anybody: Program) -> None:
    path = f"machines/{machine().name}/pause"
    assert maintainer.refused("POST", path, {"dry_run": True})["status"] == 403
    assert maintainer.refused("POST", "projects/kvd/untrack")["status"] == 403
    reader = program("rob", Scope.READ, project=kvd.project, role=Role.MAINTAINER)
    for method, one in (("POST", "hook/rotate"), ("PUT", "policies"), ("DELETE", "policies")):
        assert reader.refused(method, f"projects/kvd/{one}", {"dry_run": True})["status"] == 403
    assert anybody.call("GET", "/api/v1/projects/kvd/deliveries").status_code == 403
    assert anybody.call("GET", "/api/v1/projects/kvd/policies").status_code == 403


def test_secrets_are_rotated_and_deliveries_replayed_and_purged(kvd: World, maintainer: Program) -> None:
    old = kvd.project.hook_secret.reveal()
    tried = maintainer.write("POST", "projects/kvd/hook/rotate", {"dry_run": True})
    assert tried["secret"] is None and Project.objects.get().hook_secret.reveal() == old
    key = {"Idempotency-Key": "one"}
    assert maintainer.refused("POST", "projects/kvd/hook/rotate", {}, **key)["status"] == 422
    made = maintainer.write("POST", "projects/kvd/hook/rotate", {})
    assert Project.objects.get().hook_secret.reveal() == made["secret"] != old
    assert made["secret"] not in str(list(AuditEntry.objects.values()))

    numbers = [delivery(kvd.project, number).pk for number in range(2)]
    assert [one["id"] for one in maintainer.read("projects/kvd/deliveries")["items"]] == numbers[::-1]
    replay = {"deliveries": numbers[:1]}
    assert (
        "1 delivery is replayed"
        in maintainer.write("POST", "projects/kvd/deliveries/replay", replay | {"dry_run": True})["message"]
    )
    assert not Delivery.objects.filter(status="received").exists()
    maintainer.write("POST", "projects/kvd/deliveries/replay", replay)
    assert Delivery.objects.get(status="received").pk == numbers[0]
    purge = {"older_than_days": 0}
    assert (
        "1 deliveries"
        in maintainer.write("POST", "projects/kvd/deliveries/purge", purge | {"dry_run": True})["message"]
    )
    assert Delivery.objects.count() == 2
    maintainer.write("POST", "projects/kvd/deliveries/purge", purge)
    assert Delivery.objects.get().pk == numbers[0]
    assert maintainer.refused("POST", "projects/kvd/deliveries/replay", {"deliveries": [987654]})["status"] == 409


def test_policies_are_set_listed_and_removed(kvd: World, maintainer: Program) -> None:
    order = {"every": 3, "ignored_paths": ["docs/**"]}
    assert "one commit in 3" in maintainer.write("PUT", "projects/kvd/policies", order | {"dry_run": True})["message"]
    assert not PlanningPolicy.objects.exists()
    maintainer.write("PUT", "projects/kvd/policies", order)
    [policy] = maintainer.read("projects/kvd/policies")
    assert (policy["branches"], policy["every"], policy["ignored_paths"]) == ("", 3, ["docs/**"])
    assert maintainer.refused("PUT", "projects/kvd/policies", {"ignored_paths": ["*"]})["status"] == 422
    branch = kvd.project.branches.get()
    commit = branch.positions.first().commit
    Run.objects.filter(commit=commit).delete()
    choosing.store_deferrals(branch, {commit.pk: (choosing.Why.STEP, "one in three")})
    tried = maintainer.write("DELETE", "projects/kvd/policies", {"dry_run": True})
    assert [one["queued"] for one in tried["machines"]] == [1] and tried["commits"] == 1
    maintainer.write("DELETE", "projects/kvd/policies", {})
    assert not PlanningPolicy.objects.exists() and Run.objects.filter(status=Status.QUEUED).count() == 1
    assert maintainer.refused("DELETE", "projects/kvd/policies", {})["status"] == 422


def test_runs_are_tried_before_they_are_queued_raised_or_cancelled(kvd: World, maintainer: Program) -> None:
    before = Run.objects.count()
    tried = maintainer.write("POST", "projects/kvd/runs", {"range": "main", "dry_run": True})
    assert (tried["message"], tried["machines"][0]["queued"]) == ("1 run of 1 commit queued", 1)
    assert tried["machines"][0]["seconds"] is not None
    assert Run.objects.count() == before
    [made] = maintainer.write("POST", "projects/kvd/runs", {"range": "main"}, 201)["runs"]
    for what, word in (("raise", "measured next"), ("cancel", "1 waiting run taken")):
        answer = maintainer.write("POST", f"runs/{made}/{what}", {"dry_run": True})
        assert word in answer["message"] and answer["run"]["status"] == "queued"
    maintainer.write("POST", f"runs/{made}/cancel")
    assert "1 run queued" in maintainer.write("POST", f"runs/{made}/retry", {"dry_run": True})["message"]
    assert Run.objects.get(pk=made).status == Status.CANCELLED


def test_owners_untrack(kvd: World) -> None:
    owner = program("olaf", project=kvd.project, role=Role.OWNER)
    owner.write("POST", "projects/kvd/untrack", {"dry_run": True})
    assert Project.objects.get().untracked_at is None
    owner.write("POST", "projects/kvd/untrack")
    assert Project.objects.get().untracked_at is not None
    assert owner.refused("POST", "projects/kvd/untrack")["status"] == 409


def test_bisections_are_begun_and_ended(kvd: World, maintainer: Program) -> None:
    kvd.machines[0].note_call()
    order = {"before": kvd.shas[0], "commit": "main", "benchmarks": ["get-p1"]}
    path = "projects/kvd/bisections"
    tried = maintainer.write("POST", path, order | {"dry_run": True})
    assert tried["dry_run"] and tried["message"].endswith("3 steps at most")
    assert tried["machines"][0]["queued"] == 1 and tried["machines"][0]["seconds"] > 0
    assert not Bisection.objects.exists() and not AuditEntry.objects.exists()
    made = maintainer.write("POST", path, order, status=201)
    assert (made["before"], made["commit"], made["commits"]) == (kvd.shas[0], kvd.shas[3], 3)
    assert made["asked_by"] == "mia" and made["ended_at"] is None
    assert maintainer.write("POST", path, order, status=201) == made, "it is under way already"
    read = maintainer.read(f"bisections/{made['id']}")
    assert read["steps_left"] == 3 and read["seconds_left"] > 0 and len(read["runs"]) == 1
    end = f"bisections/{made['id']}/end"
    assert maintainer.write("POST", end, {"dry_run": True})["machines"][0]["gone"] == 1
    assert Run.objects.unfinished().count() == 1
    assert "has ended" in maintainer.write("POST", end)["message"]
    assert not Run.objects.unfinished().exists()
    read = maintainer.read(f"bisections/{made['id']}")
    assert read["note"] == "stopped by mia" and read["steps_left"] == 0 and read["seconds_left"] is None
    assert maintainer.refused("POST", end)["status"] == 409
    assert [one.action for one in AuditEntry.objects.order_by("pk")][-1] == "bisection.stop"
    for wrong in ({"before": "nowhere"}, {"before": "main"}, {"machine": "none"}, {"benchmarks": ["gone"]}):
        assert maintainer.refused("POST", path, order | wrong)["status"] == 422
    for other in (program("tia", project=kvd.project, role=Role.TRIAGER), program("rob", Scope.READ)):
        assert other.refused("POST", path, order)["status"] == other.refused("POST", end)["status"] == 403
