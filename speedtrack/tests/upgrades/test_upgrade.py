"""Every release's data goes on working: its dump (dump.py) is loaded, migrated, and used as it was used before."""

import contextlib
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client

from speedtrack import __version__
from speedtrack.accounts.models import Membership, Role
from speedtrack.alerts.models import Alert
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Delivery, Position, Project
from speedtrack.runs.models import LogChunk, Machine, MachineToken, Measurement, Run, Status
from speedtrack.runs.planning import pushes
from speedtrack.runs.scheduling import versions
from speedtrack.runs.scheduling.versions import PROTOCOL
from speedtrack.tests import builders
from speedtrack.tests.clusters import copied_database, databases, empty_database
from speedtrack.tests.test_fsck import run_fsck
from speedtrack.tests.upgrades.dump import dump
from speedtrack.tests.upgrades.installation import CHANNEL, HOOK_SECRET, KEY, MACHINE_TOKEN, PASSWORD, PLACE
from speedtrack.web.tests.world import HOSTILE

HERE = Path(__file__).parent
RELEASES = sorted(file.stem for file in HERE.glob("*.sql"))
WITH_CALLS = sorted(file.name.removesuffix(".calls.json") for file in HERE.glob("*.calls.json"))
PAGES = [
    *("/", "/p/kvd/", "/p/kvd.json", "/p/kvd/timeline/get-p1/server_cpu_ns_per_request"),
    *("/alerts/", "/queue/", "/machines/", "/machines/kvd-m1/", "/annotations/"),
]
TABLES = """
    SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'public' AND relkind = 'r'
"""


@dataclass
class Installation:
    """The database of an earlier release after `manage.py migrate`."""

    release: str
    before: dict[str, int]  #: rows of each table
    database: str

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What that release's runner sends for the run under way, and then when it starts."""
        file = HERE / f"{self.release}.calls.json"
        found: list[dict[str, Any]] = json.loads(file.read_text())
        return found


def rows_of_tables() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        names = [row[0] for row in cursor.fetchall()]
        counts = {}
        for name in names:
            cursor.execute(f'SELECT count(*) FROM "{name}"')
            counts[name] = cursor.fetchone()[0]
        if "alerts_comparisonbatch" in counts:
            cursor.execute("SELECT sum(cardinality(series)) FROM alerts_comparisonbatch")
            counts["alerts_commitcomparison"] = cursor.fetchone()[0]  # the rows of release 1.0
    return counts


def same_history(directory: Path) -> None:
    """The repository that was tracked: git names its commits as it did then."""
    repository = builders.Repository(directory / "kvd")
    repository.commits(5)
    for subject in (HOSTILE, "", "", "", "", ""):
        repository.commit(subject)


@pytest.fixture(scope="module")
def bring_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Installation]]:
    """Load the dump of a release into a database and migrate it: once for all tests, which work with copies of it."""
    with contextlib.ExitStack() as stack:

        @cache
        def bring_up(release: str) -> Installation:
            folder = tmp_path_factory.mktemp("upgraded")
            address = stack.enter_context(empty_database(f"upgraded_{release}"))
            with psycopg.connect(address) as other:
                other.execute((HERE / f"{release}.sql").read_text().replace(PLACE, str(folder)))
            same_history(folder)
            with databases(DATABASE_URL=address):
                before = rows_of_tables()
                call_command("migrate", verbosity=0)
                return Installation(release, before, connection.settings_dict["NAME"])

        yield bring_up


@pytest.fixture(params=RELEASES)
def upgraded(
    request: pytest.FixtureRequest,
    settings: Any,
    tmp_path: Path,
    db: None,
    bring_up: Callable[[str], Installation],
) -> Iterator[Installation]:
    builders.use_suite(settings, tmp_path / "suites")
    settings.SPEEDTRACK_ENCRYPTION_KEYS = [KEY]
    installation = bring_up(request.param)
    with copied_database("upgraded", installation.database) as address, databases(DATABASE_URL=address):
        yield installation


pytestmark = pytest.mark.django_db(transaction=True)


def test_all_is_kept_and_shown(upgraded: Installation) -> None:
    now = rows_of_tables() | {"projects_position": Position.objects.count()}
    for table, count in upgraded.before.items():
        if not table.startswith(("django_", "auth_permission")):
            assert (table, now[table]) == (table, count)
    pushes.sync_and_plan(Project.objects.get())  # the mirror is no part of the database
    assert run_fsck() == (0, [])
    client = Client()
    run, alert = Run.objects.active().get(), Alert.objects.get()
    for page in (*PAGES, f"/runs/{run.pk}/", f"/runs/{run.pk}/log/", f"/alerts/{alert.pk}/"):
        assert (page, client.get(page).status_code) == (page, 200)
    user = User.objects.get(username="ada")
    assert user.check_password(PASSWORD)
    assert Membership.objects.get(user=user, project=Project.objects.get()).role == Role.OWNER
    client.force_login(user)
    for page in ("/settings/", "/p/kvd/policies/", "/p/kvd/deliveries/", "/settings/machines/"):
        assert (page, client.get(page).status_code) == (page, 200)


# PostgreSQL writes a cast of a list in one of two ways, depending on whether it has read that list from a dump.
CASTS = re.compile(r"::(character varying|text)(\[\])?|[()]")


@pytest.fixture
def tables_of_new_installation(db: None) -> str:
    return dump("--schema-only")


def test_it_has_the_tables_of_a_new_installation(tables_of_new_installation: str, upgraded: Installation) -> None:
    """It got them by many migrations, a new one by those that replace these. Columns have the same order, too."""
    here, there = (CASTS.sub("", text).splitlines() for text in (dump("--schema-only"), tables_of_new_installation))
    assert here == there and len(here) > 2000


def test_secrets_still_open_what_they_opened(upgraded: Installation) -> None:
    project = Project.objects.get()
    assert project.hook_secret.reveal() == HOOK_SECRET
    with connection.cursor() as cursor:
        cursor.execute("SELECT hook_secret FROM projects_project")
        assert HOOK_SECRET not in cursor.fetchone()[0]
    assert Channel.objects.get().url.reveal() == CHANNEL and Channel.objects.get().former_document
    body = b'{"ref": "refs/heads/main"}'
    signature = hmac.new(HOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "after", "X-Hub-Signature-256": f"sha256={signature}"}
    answer = Client().post(f"/hooks/{project.hook_id}", body, content_type="application/json", headers=headers)
    assert answer.status_code == 202
    assert Delivery.objects.get(delivery_id="d1").size == len(Delivery.objects.get(delivery_id="d1").body)


def post(path: str, body: Any, token: str = MACHINE_TOKEN) -> Any:
    return Client().post(path, body, content_type="application/json", headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("upgraded", WITH_CALLS, indirect=True)
def test_a_runner_of_that_release_finishes_its_run_and_gets_the_next_one_or_is_told_to_update(
    upgraded: Installation,
) -> None:
    run = Run.objects.active().get()
    *under_way, claim, hello = upgraded.calls
    for call in under_way:
        answer = post(call["path"], call["body"])
        assert (call["path"], answer.status_code) == (call["path"], 200), answer.content
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED
    assert Measurement.objects.filter(attempt__run=run, accepted=True).exists()
    assert LogChunk.objects.filter(attempt__run=run).count() == 2
    refusal = versions.refusal_of(hello["body"]["version"], hello["body"].get("protocol"))
    for call in (hello, claim):
        answer = post(call["path"], call["body"])
        assert (answer.status_code, refusal in answer.content.decode()) == (426 if refusal else 200, True)
    assert Run.objects.active().exists() == (not refusal)  # no run is given to a runner that cannot do it
    if not refusal:
        work_on(Run.objects.active().get(), answer.json(), under_way)


def work_on(run: Run, job: Any, calls: list[dict[str, Any]]) -> None:
    """The runner does the job that it was given, by the calls that it made for the one before."""
    assert (job["run"], job["token"]) == (run.pk, run.lease_token)
    builders.send_build(run, run.commit)
    for call in calls:
        name = call["path"].rpartition("/")[2]
        body = call["body"] | {"token": run.lease_token}
        if name == "measurement":
            body |= {"sha": run.commit.sha, "artifacts": {"kvd": builders.digest_of_binary(run.commit.sha)}}
        for benchmark in job["benchmarks"] if name == "measurement" else [None]:
            if benchmark:
                body["benchmark"] = {"name": benchmark["name"], "digest": benchmark["digest"]}
            answer = post(f"/api/runner/runs/{run.pk}/{name}", body)
            assert (name, answer.status_code) == (name, 200), answer.content
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED


def test_its_machine_measures_on_with_the_token_it_has(upgraded: Installation) -> None:
    machine = Machine.objects.get()
    for run in Run.objects.active():
        builders.expire_lease(run)
    said = {"version": __version__, "protocol": PROTOCOL}
    assert post("/api/runner/claim", {**said, "instance": "another"}).status_code == 200
    run = Run.objects.active().latest("pk")
    builders.send_build(run, run.commit)
    builders.measure(run)
    assert post(f"/api/runner/runs/{run.pk}/complete", {"token": run.lease_token}).status_code == 200
    successor = MachineToken.new_text()
    assert post("/api/runner/token", {"token": successor.text}).status_code == 200
    assert post("/api/runner/beat", {"unable": ""}, successor.text).status_code == 200
    wrong = MACHINE_TOKEN[:-1] + "1"
    assert post("/api/runner/beat", {"unable": ""}, wrong).status_code == 401
    assert machine.tokens.count() == 2


def test_there_is_a_dump_of_the_release_before() -> None:
    """docs/releasing.md says how one is made."""
    released = re.findall(r"^## (\d+\.\d+\.\d+)$", (HERE.parents[2] / "CHANGELOG.md").read_text(), re.M)
    assert set(released) - {__version__} <= set(RELEASES)
