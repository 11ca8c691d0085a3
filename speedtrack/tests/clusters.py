"""PostgreSQL servers beside the one of the test session: copies, streaming replicas, and a pool before one."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import psutil
import psycopg
from django.db import connection, connections

from runners.tests.ports import free_port
from speedtrack.benchmarks import storing
from speedtrack.ground.postgres import databases as product_databases
from speedtrack.processes import pgcluster, postgresql
from speedtrack.runs.queue import jobs
from speedtrack.tests import worlds
from speedtrack.upkeep.pgprograms import PROGRAMS_OF_DEBIAN

PATIENCE_S = 120

POOL = """
[databases]
* = host={host} user=postgres
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
unix_socket_dir = {directory}
listen_port = 6432
auth_type = any
ignore_startup_parameters = {ignored}
logfile = {directory}/log
"""


def until(fact: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(cluster: pgcluster.Cluster) -> None:
    """End a server as a crash would: without a checkpoint."""
    if process := postgresql.postmaster(cluster):
        process.send_signal(signal.SIGQUIT)
        until(lambda: postgresql.postmaster(cluster) is None)


class Cluster:
    """A copy of a running PostgreSQL server, made by pg_basebackup; with ``--write-recovery-conf`` its replica."""

    def __init__(self, directory: Path, original: str, *options: str) -> None:
        self.server = pgcluster.Cluster(directory.resolve(), postgresql.programs(), postgresql.system_user())
        directory.mkdir(mode=0o700)
        self.server.hand_over(directory)
        pgcluster.open_the_way(self.server)  # another session of pytest closes the folder of all
        program = str(self.server.programs / "pg_basebackup")
        arguments = ("--dbname", original, "--pgdata", str(directory), "--checkpoint", "fast", "--no-sync", *options)
        subprocess.run([program, *arguments], check=True, **self.server.as_user)
        for left_over in directory.glob(".s.PGSQL.*"):  # the original's socket is in its data directory
            left_over.unlink()
        self.start()

    def start(self) -> None:
        self.lines = postgresql.launch(self.server)

    def stop(self) -> None:
        for process in self.processes():
            process.resume()
        kill(self.server)

    def processes(self) -> list[psutil.Process]:
        postmaster = postgresql.postmaster(self.server)
        return [postmaster, *postmaster.children()] if postmaster else []

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """No process of the server does anything; the kernel still accepts connections for it."""
        processes = self.processes()
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)

    @property
    def url(self) -> str:
        server, name = urlsplit(postgresql.url_of(self.lines)), connection.settings_dict["NAME"]
        return server._replace(path=f"/{name}").geturl()

    def ask(self, statement: str) -> object:
        with psycopg.connect(self.url, autocommit=True) as link:
            cursor = link.execute(statement)
            row = cursor.fetchone() if cursor.description else None
            return row and row[0]

    def position(self) -> object:
        return self.ask("SELECT pg_current_wal_lsn()::text")

    def has(self, position: object) -> bool:
        return bool(self.ask(f"SELECT pg_last_wal_replay_lsn() >= '{position}'"))


class DebianServer:
    """A PostgreSQL of Debian's package, older than the embedded one, where passwords are asked for by TCP."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.programs = max(PROGRAMS_OF_DEBIAN.glob("*/bin/initdb"), key=lambda file: int(file.parts[-3])).parent
        self.user = "postgres" if os.geteuid() == 0 else None
        self.port = free_port()
        if self.user:
            shutil.chown(directory, self.user)

    def run(self, program: str, *arguments: str) -> None:
        with (self.directory / "log").open("ab") as log:
            command = [str(self.programs / program), "--pgdata", str(self.directory / "data"), *arguments]
            subprocess.run(command, user=self.user, cwd=self.directory, stdout=log, stderr=log, check=True)

    def start(self) -> None:
        options = (
            "--username=postgres --encoding=UTF8 --locale=C --auth-local=trust --auth-host=scram-sha-256 --no-sync"
        )
        self.run("initdb", *options.split())
        settings = f"-c port={self.port} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.run("pg_ctl", "--wait", "-o", f"{settings} -c unix_socket_directories={self.directory}", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "--mode", "immediate", "stop")

    def url(self, role: str = "postgres", database: str = "postgres", password: str = "") -> str:
        """By the socket, which trusts each role; with a password by TCP, where it counts."""
        if password:
            return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}"
        return f"postgresql://{role}@/{database}?host={self.directory}&port={self.port}"

    def ask(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database=database), autocommit=True) as link:
            for statement in statements:
                link.execute(statement)


@contextmanager
def debian_server() -> Iterator[DebianServer]:
    with tempfile.TemporaryDirectory(prefix="debian-pg-") as name:  # tmp_path may be too long for a socket's path
        server = DebianServer(Path(name))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def pool_before(host: str, ignored: str = "options") -> Iterator[str]:
    """The directory of the socket of a pgbouncer in transaction mode, before the PostgreSQL at another socket.

    ``ignored``: the parameters of a connection that it ignores; it refuses others.
    """
    with tempfile.TemporaryDirectory(prefix="pool-") as name:
        directory = Path(name)
        file = directory / "pgbouncer.ini"
        file.write_text(POOL.format(host=host, directory=directory, ignored=ignored))
        owner = Path(host).owner() if os.geteuid() == 0 else None  # pgbouncer refuses to run as root
        if owner:
            shutil.chown(directory, owner)
        process = subprocess.Popen(["pgbouncer", "--quiet", str(file)], user=owner, stdin=subprocess.DEVNULL)
        try:
            until((directory / ".s.PGSQL.6432").exists)
            yield name
        finally:
            process.terminate()
            process.wait()


@contextmanager
def databases(**urls: str) -> Iterator[None]:
    """The connections of this thread are those that the product's settings make of these variables."""
    forget_rows()
    former_settings, own = dict(connections.settings), connections["default"]
    with patch.dict(os.environ, urls):
        new_settings = connections.configure_settings(product_databases.from_environment())
    connections.settings.update(new_settings)
    for alias in new_settings:
        connections[alias] = connections.create_connection(alias)
        connections[alias].alias = "default"  # Django lets a test connect to the databases that it was marked with
    try:
        yield
    finally:
        for alias in new_settings:
            connections[alias].close()
            del connections[alias]
        connections.settings.clear()
        connections.settings.update(former_settings)
        connections["default"] = own
        forget_rows()


@contextmanager
def empty_database(suffix: str) -> Iterator[str]:
    """The address of an empty database beside that of the test, which is dropped afterwards."""
    name = f"{connection.settings_dict['NAME']}_{suffix}"
    with psycopg.connect(address_of("postgres"), autocommit=True) as link:
        link.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        link.execute(f'CREATE DATABASE "{name}"')
        try:
            yield address_of(name)
        finally:
            link.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def copied_database(suffix: str) -> Iterator[str]:
    """The address of a copy of the test's database, which is dropped afterwards."""
    name = f"{connection.settings_dict['NAME']}_{suffix}"
    worlds.copy_database(name)
    try:
        yield address_of(name)
    finally:
        with psycopg.connect(address_of("postgres"), autocommit=True) as link:
            link.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def address_of(database: str) -> str:
    """The address of a database of the server of the test session."""
    known = connection.settings_dict
    parts = {key: known[key.upper()] for key in ("host", "port", "user", "password") if known[key.upper()]}
    return psycopg.conninfo.make_conninfo("", dbname=database, **parts)


def forget_rows() -> None:
    """What a process remembers of rows by their numbers, which are those of others in another database."""
    for remembered in (storing.definition_of, jobs.sections_of, jobs.members_of):
        remembered.cache_clear()
    jobs.KEPT.clear()
