"""Can this release use its database? Each obstacle is a sentence with its remedy, found before anything changes."""

import re
from typing import Any

from django.apps import apps
from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader

OLDEST_POSTGRESQL = 15
INSUFFICIENT_PRIVILEGE = "42501"
OWN = "speedtrack."
TAKE_OVER = 'ALTER DATABASE "{database}" OWNER TO "{role}"; ALTER SCHEMA "{schema}" OWNER TO "{role}"'
STANDING = """
SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),
       current_setting('transaction_read_only'), pg_encoding_to_char(encoding),
       current_user, current_database(), current_schema(), has_schema_privilege(current_schema(), 'CREATE')
FROM pg_database WHERE datname = current_database()
"""
OF_OTHERS = """
SELECT relname, pg_get_userbyid(relowner) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s) AND NOT pg_has_role(relowner, 'USAGE') LIMIT 1
"""
COLUMNS = """
SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = current_schema()::regnamespace AND attnum > 0 AND NOT attisdropped
"""
#: The schema that holds the content that a restore replaces, until the restored one is complete.
BEFORE_RESTORE = "before_restore"
#: Messages of PostgreSQL and libpq about a failed connection, and the remedies.
REFUSALS = {
    "no password supplied": "write the password into DATABASE_URL or DATABASE_PASSWORD",
    "password authentication failed": (
        "DATABASE_URL (or DATABASE_PASSWORD) has another password than the role: correct it there, or as PostgreSQL's "
        "superuser `ALTER ROLE \"{role}\" PASSWORD '...'`"
    ),
    "authentication failed": (
        "by this socket the operating system's user must have the name of the role: run this as the user {role}, or "
        "name a host and a password in DATABASE_URL"
    ),
    'role ".*" does not exist': "as PostgreSQL's superuser `CREATE ROLE \"{role}\" LOGIN PASSWORD '...'`",
    "not permitted to log in": 'as PostgreSQL\'s superuser `ALTER ROLE "{role}" LOGIN`',
    'database ".*" does not exist': (
        'as PostgreSQL\'s superuser `CREATE DATABASE "{database}" OWNER "{role}" ENCODING \'UTF8\' TEMPLATE template0`'
    ),
    "permission denied for database": (
        'as PostgreSQL\'s superuser `GRANT CONNECT ON DATABASE "{database}" TO "{role}"`'
    ),
    "pg_hba.conf": "allow host, role and database in the server's pg_hba.conf, or ask for TLS by ?sslmode=require",
    "too many|connection slots": "raise max_connections there, or put a pool before it (docs/scale.md)",
    "starting up|shutting down|not accepting|not yet accepting": "wait until it has started",
    "unsupported startup parameter": "DATABASE_URL leads to a pool: set DATABASE_SESSION_URL to PostgreSQL itself",
    "translate host name|resolve host": "correct the host in DATABASE_URL",
    "SSL|certificate": "correct sslmode and sslrootcert in DATABASE_URL",
}
SILENCE = re.compile("No such file or directory|Connection refused|timeout expired|closed the connection")


def of_error(error: Exception, connection: BaseDatabaseWrapper) -> str:
    """The meaning and the remedy of an error of the database."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    message = next((line for line in lines if "FATAL:" in line), lines[0])
    if getattr(error.__cause__, "sqlstate", None) == INSUFFICIENT_PRIVILEGE:
        return f"the role of DATABASE_URL may not do this ({message}): {take_over(connection)}"
    if SILENCE.search(message):
        return f"the database does not answer ({message}): check DATABASE_URL, and that PostgreSQL runs there"
    names = {"role": connection.settings_dict["USER"] or "USER", "database": connection.settings_dict["NAME"]}
    remedy = next((text for pattern, text in REFUSALS.items() if re.search(pattern, message)), "")
    remedy = remedy.format(**names) or "check DATABASE_URL, and that PostgreSQL runs there"
    return f"the database cannot be used ({message}): {remedy}"


def take_over(connection: BaseDatabaseWrapper, schema: str = "public") -> str:
    """The statements that give the role its rights, on one line."""
    credentials = connection.settings_dict
    statements = TAKE_OVER.format(database=credentials["NAME"], role=credentials["USER"] or "USER", schema=schema)
    return f"as PostgreSQL's superuser, in this database, `{statements}`"


def obstacle(connection: BaseDatabaseWrapper) -> str:
    """Why migrations of this release must not be applied there; "" if they may."""
    return of_server(connection) or of_restore(connection) or of_history(connection) or of_owner(connection)


def of_restore(connection: BaseDatabaseWrapper) -> str:
    """A fault if a restore was killed before it had replaced the content; "" if not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", [BEFORE_RESTORE])
        if cursor.fetchall():
            return (
                f"a restore was interrupted, and the schema {BEFORE_RESTORE} holds what was there before: run "
                "`manage.py restore FILE --replace` again"
            )
    return ""


def of_server(connection: BaseDatabaseWrapper) -> str:
    """The fault of the server, the database or the rights of the role; "" if there is none."""
    with connection.cursor() as cursor:
        cursor.execute(STANDING)
        version, is_standby, read_only, encoding, role, database, schema, may_create = cursor.fetchone()
    if version < OLDEST_POSTGRESQL:
        return f"the server is PostgreSQL {version}: use {OLDEST_POSTGRESQL} or newer"
    if is_standby:
        return "DATABASE_URL leads to a standby, which takes no changes: name the primary, or promote the standby"
    if read_only == "on":
        return f'the database takes no changes: `ALTER DATABASE "{database}" RESET default_transaction_read_only`'
    if encoding != "UTF8":
        return (
            f"the database {database} has the encoding {encoding}, which lacks characters of names and messages: make "
            f'one by `CREATE DATABASE "NAME" OWNER "{role}" ENCODING \'UTF8\' TEMPLATE template0`, and name it in '
            "DATABASE_URL"
        )
    if not may_create:
        statements = TAKE_OVER.format(database=database, role=role, schema=schema or "public")
        return (
            f"the role {role} may not make tables in the schema {schema or 'public'} (since PostgreSQL 15 only its "
            f"owner may): as PostgreSQL's superuser, in this database, `{statements}`"
        )
    return ""


def of_owner(connection: BaseDatabaseWrapper) -> str:
    """A fault if our tables belong to another role, so that this one cannot change them; "" if not."""
    with connection.cursor() as cursor:
        cursor.execute(OF_OTHERS, [connection.introspection.django_table_names()])
        for table, owner in cursor.fetchall():
            return f"the table {table} belongs to {owner}, who alone can change it: name that role in DATABASE_URL"
    return ""


def of_history(connection: BaseDatabaseWrapper) -> str:
    """A fault if something other than releases up to this one made the tables; "" if not."""
    loader = MigrationLoader(connection)
    applied, own = set(loader.applied_migrations), set(loader.disk_migrations)
    if unknown := unknown_migrations(applied, own):
        app, name = unknown[-1]
        if all(key in applied for key in own if key[0] == app):
            return newer_text(app, name)
        return before_first_release(f"it has the migration {app}.{name}, which no release has")
    if own <= applied:
        return ""
    if lack := lacking(connection, loader):
        return before_first_release(lack)
    return ""


def unknown_migrations(applied: Any, own: Any) -> list[tuple[str, str]]:
    """(app, name) of applied migrations that this release lacks, for the apps that it has."""
    labels = {app.label for app in apps.get_app_configs()}
    return sorted((app, name) for app, name in applied if app in labels and (app, name) not in own)


def newer_text(app: str, name: str) -> str:
    return (
        f"the database is of a newer release (it has the migration {app}.{name}): install that release, or restore "
        "a backup of this one"
    )


def before_first_release(cause: str) -> str:
    return (
        f"the database was made by a checkout before 1.0.0 ({cause}), and is not brought up to date; nothing was "
        "changed: name an empty database in DATABASE_URL, and track the repositories again"
    )


def lacking(connection: BaseDatabaseWrapper, loader: MigrationLoader) -> str:
    """A missing table or column that the applied migrations make; "" if all exist."""
    nodes = [key for key in loader.applied_migrations if key in loader.graph.nodes]
    state = loader.project_state(nodes, at_end=True) if nodes else None
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        there = set(cursor.fetchall())
    tables = {table for table, _ in there}
    for model in state.apps.get_models() if state else ():
        options = model._meta
        if not options.managed or not apps.get_app_config(options.app_label).name.startswith(OWN):
            continue
        if options.db_table not in tables:
            return f"the table {options.db_table} is missing"
        for column in (field.column for field in options.local_concrete_fields):
            if (options.db_table, column) not in there:
                return f"the table {options.db_table} has no column {column}"
    return ""


def is_about_rights(error: Error) -> bool:
    return getattr(error.__cause__, "sqlstate", None) == INSUFFICIENT_PRIVILEGE
