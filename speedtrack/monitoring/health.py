"""Is this installation ready to serve? The checks of ``/readyz``: cheap, bounded in time, few.

``manage.py doctor`` has more checks, and remedies.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from runners import probing
from speedtrack.celery import app, broker
from speedtrack.ground.postgres import databasefitness
from speedtrack.monitoring import heartbeats
from speedtrack.monitoring.heartbeats import DISPATCHER
from speedtrack.monitoring.remembered import Remembered, StillComputing

DATABASE_ERRORS = (OperationalError, InterfaceError)
REMEMBERED_S = 3.0
MB = 1024 * 1024


@dataclass(frozen=True)
class Diagnosis:
    """``state``: good, note (it works, but could be better) or bad."""

    name: str
    state: str
    words: str


def findings() -> list[Diagnosis]:
    """The findings of the checks, at most a few seconds old."""
    try:
        return newest.get()
    except StillComputing as e:
        return [Diagnosis("database", "bad", str(e))]


def is_ready(results: list[Diagnosis]) -> bool:
    return all(finding.state != "bad" for finding in results)


def examine() -> list[Diagnosis]:
    """Run all checks in order; each check that needs the database runs only if the one before is good."""
    results: list[Diagnosis] = []
    for check in NEED_DATABASE:
        if is_ready(results):
            results.append(check())
    return results + [check() for check in OTHERS]


def check_database() -> Diagnosis:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DATABASE_ERRORS as e:
        connection.close()
        return Diagnosis("database", "bad", f"does not answer ({str(e).strip().splitlines()[0]})")
    return Diagnosis("database", "good", "answers")


def check_migrations() -> Diagnosis:
    applied = MigrationRecorder(connection).applied_migrations()
    if unknown := databasefitness.unknown_migrations(applied, own_migrations()):
        return Diagnosis("migrations", "bad", databasefitness.newer_text(*unknown[-1]))
    if missing := own_migrations().difference(applied):
        return Diagnosis("migrations", "bad", f"{len(missing)} are missing: run `manage.py migrate`")
    return Diagnosis("migrations", "good", "all applied")


def missing_migrations() -> frozenset[tuple[str, str]]:
    """(app, name) of the migrations of this release that the database lacks."""
    return own_migrations().difference(MigrationRecorder(connection).applied_migrations())


@cache
def own_migrations() -> frozenset[tuple[str, str]]:
    """(app, name) of this release's migrations; also of replaced ones, as `migrate` notes both as applied."""
    return frozenset(MigrationLoader(None).disk_migrations)


def check_dispatcher() -> Diagnosis:
    """The dispatcher is alive: without it pushes are stored but not processed, and nothing happens automatically."""
    age_s = heartbeats.age_s(DISPATCHER)
    if age_s is None:
        return Diagnosis(DISPATCHER, "bad", "has never run: start `manage.py dispatch`")
    if age_s > heartbeats.LATE_S:
        return Diagnosis(
            DISPATCHER, "bad", f"silent for {age_s:.0f} s: start `manage.py dispatch`, or look into its log"
        )
    return Diagnosis(DISPATCHER, "good", f"its last look was {max(age_s, 0):.0f} s ago")


def check_broker() -> Diagnosis:
    """The broker accepts a message and returns it.

    An absent broker is only a note: work waits until it is back, and pages, webhooks and runners that poll go on. A
    broker that answers but refuses messages needs a person.
    """
    try:
        probing.probe(broker(), app.connection_for_write())
    except probing.Refusing as e:
        return Diagnosis("broker", "bad", str(e))
    except probing.Unavailable as e:
        return Diagnosis("broker", "note", str(e))
    return Diagnosis("broker", "good", "takes messages")


def check_disk() -> Diagnosis:
    free_mb = shutil.disk_usage(settings.HOME).free // MB
    if free_mb < settings.LEAST_FREE_MB:
        sentence = (
            f"{free_mb} MB are free at {settings.HOME}, less than LEAST_FREE_MB={settings.LEAST_FREE_MB}: make room"
        )
        return Diagnosis("disk", "bad", sentence)
    return Diagnosis("disk", "good", f"{free_mb} MB are free at {settings.HOME}")


NEED_DATABASE: tuple[Callable[[], Diagnosis], ...] = (check_database, check_migrations, check_dispatcher)
OTHERS: tuple[Callable[[], Diagnosis], ...] = (check_broker, check_disk)
newest = Remembered(examine, REMEMBERED_S)
