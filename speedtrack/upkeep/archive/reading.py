"""Restore a project from a file, all or nothing, in one transaction.

Each table is first read into a temporary one. Then each of its rows gets an id, a new one or that of the equal row
here, and finally the rows are stored with these ids. Foreign keys are checked when the transaction ends: rows may refer
to later ones of their own table.
"""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connections, models, transaction
from psycopg import sql

from speedtrack.ground.postgres import pgsession
from speedtrack.ground.secrets.sealed import SealedField, Secret
from speedtrack.monitoring.health import own_migrations
from speedtrack.projects.former import into_chains
from speedtrack.projects.models import Project, new_hook_id, new_hook_secret
from speedtrack.runs.models import Machine
from speedtrack.upkeep.archive.files import (
    PEOPLE_FILE,
    ArchiveError,
    ArchiveManifest,
    check,
    lines,
    manifest_of,
    open_archive,
)
from speedtrack.upkeep.archive.tables import PEOPLE, TABLES, Table

# Release 1.0 had a row for each commit and series.
FORMER_COMPARISONS = "alerts_commitcomparison.ndjson"
IN_BATCHES = """
    INSERT INTO alerts_comparisonbatch (commit_id, series, distances, old, ratios, lows, highs, answers)
    SELECT c.new, array_agg(s.new), array_agg(r.distance), array_agg(r.old), array_agg(r.ratio), array_agg(r.low),
           array_agg(r.high), string_agg(left(r.answer, 1), '')
      FROM former_comparisons f
     CROSS JOIN LATERAL json_to_record(f.row) AS r (commit_id bigint, series_id bigint, distance smallint, old float8,
                                                    ratio real, low real, high real, answer text)
      JOIN numbers_projects_commit c ON c.old = r.commit_id
      JOIN numbers_runs_series s ON s.old = r.series_id
  GROUP BY c.new
"""
# A former release had a row for each commit of each branch.
FORMER_POSITIONS = "projects_position.ndjson"
AS_TABLE = """
    CREATE TEMPORARY TABLE former_position ON COMMIT DROP AS
    SELECT b.new AS branch_id, r.number, c.new AS commit_id
      FROM former_positions f
     CROSS JOIN LATERAL json_to_record(f.row) AS r (branch_id bigint, number int, commit_id bigint)
      JOIN numbers_projects_branch b ON b.old = r.branch_id
      JOIN numbers_projects_commit c ON c.old = r.commit_id;
"""
# A former release had other names for chains and their commits.
FORMER_FILES = {
    "projects_chain.ndjson": "projects_line.ndjson",
    "projects_chaincommit.ndjson": "projects_place.ndjson",
}
FORMER_COLUMNS = {"line_id": "chain_id"}
RENAME_COLUMN = """
    UPDATE {incoming}
       SET row = (row::jsonb - %(former)s || jsonb_build_object(%(name)s::text, row -> %(former)s))::json
"""
Progress = Callable[[str, int], None]
SQL = sql.Composable


@dataclass(frozen=True)
class Choices:
    """A person's decisions about names that are taken here.

    ``same_machines``: machines with equal names are the same; otherwise those of the archive get ``machine_prefix``.
    ``match_people``: people with equal names are the same; otherwise nobody is named.
    """

    slug: str
    same_machines: bool = False
    machine_prefix: str = ""
    match_people: bool = False


@dataclass
class RestoredProject:
    project: Project
    manifest: ArchiveManifest
    notes: list[str] = field(default_factory=list)


def restore(file: Path, choices: Choices, progress: Progress = lambda *_: None) -> RestoredProject:
    """Restore a project. If it raises ArchiveError, nothing has changed."""
    with open_archive(file) as archive:
        manifest = manifest_of(archive)
        check_fits(manifest)
        check(archive, manifest)
        alias = pgsession.session().alias
        try:
            with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
                Restoring(archive, manifest, choices, cursor, progress).restore()
        except (DatabaseError, psycopg.Error) as e:  # COPY bypasses Django
            raise ArchiveError(f"PostgreSQL refuses the archive's content: {str(e).splitlines()[0][:300]}") from e
    project = Project.objects.get(slug=choices.slug)
    return RestoredProject(project, manifest, list(notes_on(project)))


def check_fits(manifest: ArchiveManifest) -> None:
    migrations = own_migrations()
    labels = {app for app, _ in migrations}
    newer = [f"{app}.{name}" for app, name in manifest.migrations if app in labels and (app, name) not in migrations]
    if newer:
        raise ArchiveError(
            f"the archive is of a newer release, {manifest.version} ({newer[-1]}): install that release first"
        )
    if missing := [table.file for table in TABLES if table.file not in manifest.files and needed(table)]:
        raise ArchiveError(f"the archive has no {missing[0]}: write it again by `manage.py export`")


def needed(table: Table) -> bool:
    return table.model in (Project, Machine)


def notes_on(project: Project) -> Iterator[str]:
    yield "it is not looked at: resume tracking in its settings, assign machines, and give its forge the new webhook"
    yield "its machines are retired here, and what was queued or being settled has ended"
    if not project.is_public:
        yield "it is private and has no members yet: operators see it"


@dataclass
class Restoring:
    archive: zipfile.ZipFile
    manifest: ArchiveManifest
    choices: Choices
    cursor: Any
    progress: Progress

    def restore(self) -> None:
        self.cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL TIME ZONE 'UTC'")
        try:
            Project._meta.get_field("slug").run_validators(self.choices.slug)
        except ValidationError as e:
            raise ArchiveError(f"{self.choices.slug[:60]!r} is no name: {e.messages[0]}") from e
        if Project.objects.filter(slug=self.choices.slug).exists():
            raise ArchiveError(f"there is a project {self.choices.slug!r} here: name another one")
        self.number_people()
        for table in TABLES:
            self.read(table)
            if table.has_number:
                self.number(table)
            self.check_references(table)
            self.store(table)
            self.progress(table.name, self.cursor.rowcount)
        if FORMER_COMPARISONS in self.manifest.files:
            self.read_former(FORMER_COMPARISONS, "former_comparisons")
            self.cursor.execute(IN_BATCHES)
        if FORMER_POSITIONS in self.manifest.files:
            self.read_former(FORMER_POSITIONS, "former_positions")
            self.cursor.execute(AS_TABLE + into_chains())

    def read_former(self, file: str, table: str) -> None:
        self.run("CREATE TEMPORARY TABLE {table} (row json) ON COMMIT DROP", table=sql.Identifier(table))
        self.copy_in(file, sql.Identifier(table))

    def run(self, statement: str, parameters: Any = None, /, **clauses: SQL) -> None:
        self.cursor.execute(sql.SQL(statement).format(**clauses), parameters)

    def read(self, table: Table) -> None:
        """Read a table's rows into its temporary table, with their positions."""
        self.run(
            "CREATE TEMPORARY TABLE {incoming} (place bigint GENERATED ALWAYS AS IDENTITY, row json) ON COMMIT DROP",
            incoming=incoming(table),
        )
        if content := self.manifest.files.get(file := self.file_of(table)):
            self.copy_in(file, incoming(table))
            for former in FORMER_COLUMNS.keys() & content.columns:
                self.run(RENAME_COLUMN, {"former": former, "name": FORMER_COLUMNS[former]}, incoming=incoming(table))
        if table.model is Machine:
            self.name_machines(table)
        self.run("ANALYZE {incoming}", incoming=incoming(table))

    def copy_in(self, name: str, into: SQL) -> None:
        statement = sql.SQL("COPY {} (row) FROM STDIN").format(into)
        with self.archive.open(name) as stream, self.cursor.connection.cursor() as link, link.copy(statement) as copy:
            for line in lines(stream, name):
                copy.write_row((line,))

    def name_machines(self, table: Table) -> None:
        self.run(
            "UPDATE {incoming} SET row = (jsonb_set(row::jsonb, '{{name}}', to_jsonb(%s || (row->>'name'))))::json",
            [self.choices.machine_prefix],
            incoming=incoming(table),
        )
        self.run("SELECT row->>'name' FROM {incoming} ORDER BY place", incoming=incoming(table))
        namesakes = Machine.objects.filter(name__in=[name for (name,) in self.cursor.fetchall()]).order_by("name")
        names = list(namesakes.values_list("name", flat=True))
        if names and not self.choices.same_machines:
            raise ArchiveError(
                f"there are machines of these names here: {', '.join(names[:5])}: say --same-machines if they are the "
                "same, or --machine-prefix for other names"
            )

    def number_people(self) -> None:
        """Give the people of the archive the ids of users with equal names, if the choices say so."""
        self.run("CREATE TEMPORARY TABLE {numbers} (old bigint, new bigint) ON COMMIT DROP", numbers=numbers(PEOPLE))
        if not self.choices.match_people:
            return
        self.cursor.execute("CREATE TEMPORARY TABLE incoming_people (row json) ON COMMIT DROP")
        self.copy_in(PEOPLE_FILE, sql.Identifier("incoming_people"))
        self.run(
            "INSERT INTO {numbers} SELECT (row->>'id')::bigint, known.id FROM incoming_people"
            " JOIN auth_user known ON known.username = row->>'username'",
            numbers=numbers(PEOPLE),
        )

    def number(self, table: Table) -> None:
        """Give each row an id: that of the equal row here, or a new one, in the order of the old ids."""
        self.run(
            "CREATE TEMPORARY TABLE {numbers} (old bigint PRIMARY KEY, new bigint NOT NULL) ON COMMIT DROP",
            numbers=numbers(table.model),
        )
        if table.known_by:
            self.run(
                "INSERT INTO {numbers} SELECT (row->>'id')::bigint, known.id FROM {incoming} AS i"
                " CROSS JOIN LATERAL json_populate_record(NULL::{table}, i.row) r {joins} JOIN {table} known ON {same}",
                numbers=numbers(table.model),
                incoming=incoming(table),
                table=sql.Identifier(table.name),
                joins=self.joins(table),
                same=sql.SQL(" AND ").join(
                    sql.SQL("known.{} = {}").format(sql.Identifier(model_field.column), self.value(table, model_field))
                    for model_field in table.fields
                    if model_field.name in table.known_by
                ),
            )
        self.run(
            "INSERT INTO {numbers} SELECT old, nextval(pg_get_serial_sequence({name}, 'id')) FROM"
            " (SELECT (row->>'id')::bigint AS old FROM {incoming} ORDER BY place) AS given"
            " WHERE old NOT IN (SELECT old FROM {numbers})",
            numbers=numbers(table.model),
            name=sql.Literal(table.name),
            incoming=incoming(table),
        )
        self.run("ANALYZE {numbers}", numbers=numbers(table.model))

    def check_references(self, table: Table) -> None:
        """Raise ArchiveError if a row refers to one that the archive does not contain."""
        for reference in references(table):
            if reference.related_model is PEOPLE:
                continue
            self.run(
                "SELECT place FROM {incoming} LEFT JOIN {numbers} AS known ON known.old = (row->>{column})::bigint"
                " WHERE row->>{column} IS NOT NULL AND known.new IS NULL ORDER BY place LIMIT 1",
                incoming=incoming(table),
                numbers=numbers(reference.related_model),
                column=sql.Literal(reference.column),
            )
            if missing := self.cursor.fetchone():
                raise ArchiveError(
                    f"line {missing[0]} of {table.file} refers by {reference.column} to a row that is not there"
                )

    def store(self, table: Table) -> None:
        columns: list[Any] = [
            model_field
            for model_field in table.model._meta.concrete_fields
            if model_field.column and not model_field.generated
        ]
        assignments = [
            (model_field, value) for model_field in columns if (value := self.value(table, model_field)) is not None
        ]
        self.run(
            "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {incoming} AS i"
            " CROSS JOIN LATERAL json_populate_record(NULL::{table}, i.row) r {joins} {new} ORDER BY i.place",
            table=sql.Identifier(table.name),
            columns=sql.SQL(", ").join(sql.Identifier(model_field.column) for model_field, _ in assignments),
            values=sql.SQL(", ").join(value for _, value in assignments),
            incoming=incoming(table),
            joins=self.joins(table),
            new=self.only_new(table),
        )

    def only_new(self, table: Table) -> SQL:
        """The SQL condition that leaves out rows that exist here."""
        if not table.known_by:
            return sql.SQL("")
        return sql.SQL("WHERE NOT EXISTS (SELECT FROM {} there WHERE there.id = own.new)").format(
            sql.Identifier(table.name)
        )

    def joins(self, table: Table) -> SQL:
        """The SQL joins that give the new ids of the rows that a row refers to, by the name of the column.

        The row's own new id is called ``own``.
        """
        clauses = [
            sql.SQL("LEFT JOIN {} AS {} ON {}.old = r.{}").format(
                numbers(reference.related_model), alias(reference), alias(reference), sql.Identifier(reference.column)
            )
            for reference in references(table)
        ]
        if table.has_number:
            clauses.append(sql.SQL("LEFT JOIN {} AS own ON own.old = r.id").format(numbers(table.model)))
        return sql.SQL(" ").join(clauses)

    def value(self, table: Table, model_field: Any) -> SQL | None:
        """The SQL of a column's restored value; None for the column's own default."""
        if table.model is Project and model_field.name in (values := project_values(self.choices)):
            return sql.Literal(values[model_field.name])
        if model_field.column in table.restored:
            return sql.SQL(table.restored[model_field.column])
        if model_field.column in table.arrays:
            return renumbered(model_field.column, table.arrays[model_field.column])
        if model_field.primary_key and table.has_number:
            return sql.SQL("own.new")
        if model_field in references(table):
            return sql.SQL("{}.new").format(alias(model_field))
        if isinstance(model_field, SealedField) or model_field.column not in self.columns(table):
            return default_of(model_field)
        return sql.SQL("r.{}").format(sql.Identifier(model_field.column))

    def columns(self, table: Table) -> list[str]:
        content = self.manifest.files.get(self.file_of(table))
        return [FORMER_COLUMNS.get(column, column) for column in content.columns] if content else []

    def file_of(self, table: Table) -> str:
        return table.file if table.file in self.manifest.files else FORMER_FILES.get(table.file, table.file)


def project_values(choices: Choices) -> dict[str, Any]:
    """The columns of the project that are not restored unchanged.

    These are its name, its webhook, and its state: it is not fetched until a person decides so.
    """
    return {
        "slug": choices.slug,
        "hook_id": new_hook_id(),
        "hook_secret": new_hook_secret().token,
        "former_hook_secret": Secret().token,
        "former_hook_secret_until": None,
        "untracked_at": "now",
        "polled_at": None,
        "error": "",
        "failures": 0,
    }


def default_of(model_field: Any) -> SQL | None:
    """The SQL for a column that the archive of an older release lacks; None if the database has a default."""
    if model_field.has_db_default():
        return None
    return sql.Literal(model_field.get_db_prep_save(model_field.get_default(), pgsession.session()))


def renumbered(column: str, model: Any) -> SQL:
    return sql.SQL(
        "ARRAY(SELECT known.new FROM unnest(r.{}) WITH ORDINALITY AS one (old, place) LEFT JOIN {} AS known"
        " ON known.old = one.old ORDER BY one.place)"
    ).format(sql.Identifier(column), numbers(model))


def references(table: Table) -> list[Any]:
    """The table's foreign keys to rows that an archive contains, and to people."""
    archived_models = {archived.model for archived in TABLES} | {PEOPLE}
    return [
        model_field
        for model_field in table.fields
        if isinstance(model_field, models.ForeignKey) and model_field.related_model in archived_models
    ]


def incoming(table: Table) -> sql.Identifier:
    return sql.Identifier(f"incoming_{table.name}")


def numbers(model: Any) -> sql.Identifier:
    return sql.Identifier(f"numbers_{model._meta.db_table}")


def alias(model_field: Any) -> sql.Identifier:
    return sql.Identifier(f"of_{model_field.column}")
