"""Schemathesis calls every operation as its OpenAPI describes it, and as it does not: the answers are those described.

Of each operation a few cases, the same ones each time, half of them with identifiers of rows that exist.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from speedtrack.accounts.models import Role
from speedtrack.alerts.models import Alert, Bisection
from speedtrack.alerts.triage import muting
from speedtrack.api.runner import api as runner_api
from speedtrack.api.v1.published.pages import schema as people_schema
from speedtrack.api.v1.tests.conftest import evidence_of, program
from speedtrack.projects.models import Annotation
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Import, Measurement, PairedComparison, Profile, Run
from speedtrack.runs.queue import queue
from speedtrack.web.tests.world import World, world

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 4  # of each operation, in each mode


@pytest.fixture
def kvd(db: None, settings: Any, tmp_path: Path) -> Iterator[World]:
    """Three measured commits, and a fourth that waits."""
    made = world(settings, tmp_path, commits=3)
    made.measure()
    made.push(1)
    settings.API_RATE = settings.API_RATE_ANONYMOUS = 0
    for signal in (request_started, request_finished):  # as Django's own client: the transaction of the test goes on
        signal.disconnect(close_old_connections)
    yield made
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def operations(document: dict[str, Any]) -> Iterator[Any]:
    schema = schemathesis.openapi.from_dict(document)
    schema.app = get_wsgi_application()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        yield found.ok()


def failures(document: dict[str, Any], headers: dict[str, str], known: dict[str, Any]) -> list[str]:
    """What any operation answers that its description does not know. ``known``: values of parameters by name."""
    failed = []
    for operation in operations(document):
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                call_some(operation, mode, headers, known)
            except Unsatisfiable:
                continue  # without parameters, every request is as described
            except (Exception, FailureGroup) as e:
                failed.append(f"{operation.label}: {e!s:.1500}")
    return failed


def call_some(operation: Any, mode: GenerationMode, headers: dict[str, str], known: dict[str, Any]) -> None:
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode), is_real=st.booleans())
    def call(case: Any, is_real: bool) -> None:
        if is_real:
            for given_ones in (case.path_parameters or {}, case.query or {}):
                given_ones.update((name, known[name]) for name in given_ones.keys() & known.keys())
            if isinstance(case.body, dict) and "token" in case.body and "lease" in known:
                case.body["token"] = known["lease"]
        # werkzeug's client, which calls the application, does not decompress
        case.call_and_validate(headers={**headers, "Accept-Encoding": "identity"}, checks=CHECKS)

    call()


def test_api_of_programs(kvd: World) -> None:
    owner = program("ada", project=kvd.project, role=Role.OWNER)
    measured = Measurement.objects.order_by("pk")[0]
    note = Annotation.objects.create(project=kvd.project, commit=kvd.commit(0), text="note")
    evidence_of(kvd)
    alert = Alert.objects.create(
        project=kvd.project,
        branch=kvd.project.branches.get(),
        before=kvd.commit(0),
        commit=kvd.commit(1),
        status=Alert.Status.CONFIRMED,
    )
    quiet = muting.MuteRequest("set-p1", "", None, "noise", 1)
    waiting = PairedComparison.objects.create(
        project=kvd.project, base_name="main", head_name=kvd.shas[0], machine=kvd.machines[0]
    )
    known = {
        "slug": "kvd",
        "name": "kvd-m1",
        "revision": "main",
        "series_id": measured.series_id,
        "measurement_id": measured.pk,
        "run_id": Run.objects.latest("pk").pk,
        "annotation_id": note.pk,
        "alert_id": alert.pk,
        "mute_id": muting.mute(kvd.project, quiet, User.objects.get(username="ada")).pk,
        "comparison_id": waiting.pk,
        "import_id": Import.objects.get().pk,
        "bisection_id": Bisection.objects.get().pk,
        "profile_id": Profile.objects.get().pk,
        **{"machine": "kvd-m1", "benchmark": "get-p1", "commit": "main", "base": kvd.shas[0], "head": "main"},
    }
    assert failures(people_schema(), {"Authorization": f"Bearer {owner.token}"}, known) == []


def test_api_of_runners(kvd: World) -> None:
    token = machines.renew_token("kvd-m1")
    run = queue.claim(kvd.machines[0])
    assert run
    known = {"run_id": run.pk, "sha": run.commit.sha, "lease": run.lease_token}
    document = dict(runner_api.get_openapi_schema(path_prefix="/api/runner/"))
    assert failures(document, {"Authorization": f"Bearer {token}"}, known) == []
