"""Writes a dump of a small installation of this release, from which later releases are tested (docs/releasing.md).

    .venv/bin/python -m pytest speedtrack/tests/upgrades/dump.py

It is a plain text: what PostgreSQL needs to make the tables as this release makes them, and a row in most of them.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from speedtrack import __version__
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Annotation, Project
from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import Machine, MachineToken
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.tests.upgrades.installation import CHANNEL, HOOK_SECRET, KEY, MACHINE_TOKEN, PASSWORD, PLACE
from speedtrack.upkeep.pgprograms import program, server_version
from speedtrack.web.tests.world import World, slowed

DUMPS = Path(__file__).parent
# What a dump need not say, or says otherwise in another release of PostgreSQL.
NOT_NEEDED = re.compile(
    r"^(--|-- (Name|Data for Name|Dumped|PostgreSQL).*|SET \w+ = .*;|\\.*|SELECT pg_catalog\.set_config.*)\n", re.M
)
FORM = ("--no-owner", "--no-acl", "--inserts", "--rows-per-insert=100")


@pytest.mark.django_db(transaction=True)
def test_it_is_written(settings: Any, tmp_path: Path) -> None:
    settings.SPEEDTRACK_ENCRYPTION_KEYS = [KEY]
    world, _ = slowed(settings, tmp_path)
    fill(world)
    file = DUMPS / f"{__version__}.sql"
    file.write_text(dump().replace(str(tmp_path), PLACE))
    print(f"{file}: {file.stat().st_size:,} bytes")


def fill(world: World) -> None:
    """What the history of the pages' tests lacks: a run under way, waiting ones, people, webhooks, secrets."""
    machine = world.machines[0]
    user = User.objects.create_user("ada", "ada@example.org", PASSWORD, is_superuser=True)
    Annotation.objects.create(project=world.project, commit=world.commit(1), text="*a note*", author=user)
    Channel.objects.create(
        project=world.project, kind="webhook", url=Secret.of(CHANNEL), origin="https://example.org", name="x"
    )
    keep_secret(world.project)
    keep_token(machine)
    world.push(3)
    run = queue.claim(machine)
    assert run
    queue.keep_log(machine, run.pk, LogPiece(token=run.lease_token, seq=0, phase="build", text="cc kvd.c\nlinked"))
    builders.send_build(run, run.commit)


def dump(*options: str) -> str:
    variables = {
        f"PG{key}": value for key, value in connection.settings_dict.items() if key in ("HOST", "PORT", "USER")
    }
    variables |= {"PGPASSWORD": connection.settings_dict["PASSWORD"], "PGDATABASE": connection.settings_dict["NAME"]}
    argv = [
        program("pg_dump", server_version()),
        "--no-owner",
        "--no-acl",
        "--inserts",
        "--rows-per-insert=100",
        *options,
    ]
    environment = {**os.environ, **{name: str(value) for name, value in variables.items() if value}}
    process = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True)
    return re.sub(r";\n\n+", ";\n\n", NOT_NEEDED.sub("", process.stdout))


def keep_secret(project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(hook_secret=Secret.of(HOOK_SECRET))


def keep_token(machine: Machine) -> None:
    machine.tokens.all().delete()
    MachineToken.store(machine, MachineToken.parse_used(MACHINE_TOKEN))
