"""Write all data of a project into a file."""

import json
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.contrib.auth.models import User
from django.db import connections, models, transaction
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

import speedtrack
from speedtrack.ground.postgres import pgsession
from speedtrack.projects.models import Project
from speedtrack.upkeep.archive.files import (
    MANIFEST,
    PEOPLE_FILE,
    ArchiveError,
    ArchiveManifest,
    Content,
    LineFile,
    columns_of,
)
from speedtrack.upkeep.archive.tables import PEOPLE, TABLES, Table
from speedtrack.upkeep.backup import complete_file
from speedtrack.upkeep.pgprograms import BackupError

Progress = Callable[[str, int], None]  #: called with the name of a table, and the number of its rows so far
TOLD_EVERY = 10_000  # rows


def write(project: Project, file: Path, progress: Progress = lambda *_: None) -> ArchiveManifest:
    """Write one snapshot of the project. The file is complete, or not written. Raises ArchiveError."""
    if file.exists():
        raise ArchiveError(f"{file} exists: name another file")
    try:
        with (
            complete_file(file) as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive,
        ):
            return fill(archive, project, progress)
    except BackupError as e:
        raise ArchiveError(str(e)) from e


def fill(archive: zipfile.ZipFile, project: Project, progress: Progress) -> ArchiveManifest:
    alias = pgsession.session().alias
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL TIME ZONE 'UTC'; SET LOCAL extra_float_digits = 1")
        files = {table.file: write_table(archive, table, project, alias, progress) for table in TABLES}
        files[PEOPLE_FILE] = write_people(archive, project, alias)
        manifest = ArchiveManifest(
            project=project.slug,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            version=speedtrack.__version__,
            migrations=sorted(map(list, MigrationRecorder(connections[alias]).applied_migrations())),
            files=files,
        )
    archive.writestr(MANIFEST, manifest.text())
    return manifest


def write_table(archive: zipfile.ZipFile, table: Table, project: Project, alias: str, progress: Progress) -> Content:
    with archive.open(table.file, "w", force_zip64=True) as stream:
        file = LineFile(stream, columns_of(table))
        for line in rows_as_json(table, project, alias):
            file.write(line)
            if file.rows % TOLD_EVERY == 0:
                progress(table.name, file.rows)
    progress(table.name, file.rows)
    return file.content()


def rows_as_json(table: Table, project: Project, alias: str) -> Iterator[str]:
    """The rows of a project in the order of their keys, each as a line of JSON that PostgreSQL makes."""
    keys = [model_field.attname for model_field in table.model._meta.pk_fields]
    rows = table.model._default_manager.using(alias).filter(table.of(project)).order_by(*keys)
    names = [model_field.attname for model_field in table.fields]
    query, parameters = rows.values_list(*names).query.sql_with_params()
    statement = sql.SQL("COPY (SELECT row_to_json(one) FROM ({}) AS one ({})) TO STDOUT").format(
        sql.SQL(query), sql.SQL(", ").join(map(sql.Identifier, columns_of(table)))
    )
    with connections[alias].connection.cursor() as cursor, cursor.copy(statement, parameters) as copy:
        for (line,) in copy.rows():
            yield line


def write_people(archive: zipfile.ZipFile, project: Project, alias: str) -> Content:
    """Write the names of the people in the rows."""
    user_ids: set[int] = set()
    for table in TABLES:
        rows = table.model._default_manager.using(alias).filter(table.of(project))
        for model_field in table.fields:
            if isinstance(model_field, models.ForeignKey) and model_field.related_model is PEOPLE:
                user_ids |= set(
                    rows.exclude(**{model_field.name: None}).values_list(model_field.attname, flat=True).distinct()
                )
    with archive.open(PEOPLE_FILE, "w") as stream:
        file = LineFile(stream, ["id", "username"])
        for pk, name in User.objects.using(alias).filter(pk__in=user_ids).order_by("pk").values_list("pk", "username"):
            file.write(json.dumps({"id": pk, "username": name}))
    return file.content()
