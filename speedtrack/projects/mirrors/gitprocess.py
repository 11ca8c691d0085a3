"""Run git. All of the server's work on repositories starts git here.

Every call goes through ``run_git_raw`` or ``archive_blocks``, whose guards answer attacks that were tried:
``--end-of-options`` stops a "revision" that begins with a dash from writing files, an empty environment and no hooks
stop configuration from running commands, and the list of protocols stops ``ext::`` addresses.
"""

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from django.conf import settings

from speedtrack.projects.errors import (
    GitFailed,
    Interrupted,
    NoSuchCommit,
    NotFetched,
    RepositoryError,
    RepositoryUnreachable,
)
from speedtrack.projects.mirrors.transports import Transport

log = logging.getLogger(__name__)

GUARDS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "transfer.fsckObjects": "true",
    # Harmless faults of old tools in the histories of Redis, Valkey and others.
    **{
        f"fetch.fsck.{fault}": "warn"
        for fault in ("zeroPaddedFilemode", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "badTimezone")
    },
    "transfer.bundleURI": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "gc.auto": "0",
    "core.warnAmbiguousRefs": "false",  # a branch with a commit id as its name would make every use of that id fail
    "safe.directory": "*",
}
BOUNDED = 'ulimit -f "$1" && ulimit -v "$2" && shift 2 && exec "$@"'  # files in units of 512 bytes, memory in KiB
LISTING_MB = 512  # of memory for a list of references, and for git itself
BLOCK = 1 << 16  # bytes
NO_PROTOCOL = "none"
NOWHERE = Transport(NO_PROTOCOL)  # of commands without a remote
COMPLAINTS = ("error:", "fatal:", "remote: error:", "remote: fatal:")

ending = threading.Event()  # set when this process is about to end
running: set[int] = set()  # process groups that ``run_to_end`` waits for


def git_environment(transport: Transport) -> dict[str, str]:
    """The whole environment of a git process: it can reach a remote only by the protocol of its transport."""
    is_allowed = transport.protocol != "file" or settings.ALLOW_LOCAL_REPOSITORIES
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": transport.protocol if is_allowed else NO_PROTOCOL,
        **transport.environment,
    }


def git_command(arguments: list[str], directory: Path | None, transport: Transport) -> list[str]:
    guards = [argument for key, value in (GUARDS | transport.config).items() for argument in ("-c", f"{key}={value}")]
    directory_option = ["-C", str(directory)] if directory else []
    return ["git", *directory_option, *guards, *arguments]


def bounded(command: list[str], directory: Path | None) -> list[str]:
    """The same command with limits that the kernel enforces, because a remote may send without end.

    With a mirror no file may become larger than GIT_MOST_MB; without one, git only lists references, in LISTING_MB of
    memory.
    """
    memory_kb = str(LISTING_MB << 10) if directory is None else "unlimited"
    return ["sh", "-c", BOUNDED, "sh", str(settings.GIT_MOST_MB << 11), memory_kb, *command]


deadline: ContextVar[float | None] = ContextVar("deadline", default=None)  # of the monotonic clock


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the total seconds that the git commands of this block may wait for a remote."""
    token = deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        deadline.reset(token)


def time_left_s() -> float:
    """Seconds until the end of the surrounding ``within``. Raises RepositoryUnreachable if it is over."""
    until = deadline.get()
    remaining_s = float("inf") if until is None else until - time.monotonic()
    if remaining_s <= 0:
        raise RepositoryUnreachable("the repository took too long to answer")
    return remaining_s


def run_git(
    *arguments: str,
    directory: Path | None = None,
    timeout_s: float | None = None,
    stdin: str = "",
    transport: Transport = NOWHERE,
) -> str:
    """Run git with this standard input and return its standard output. Raises RepositoryError with git's message.

    Split the output at "\\n" or NUL only: names and subjects may contain Unicode line breaks.
    """
    out = run_git_raw(*arguments, directory=directory, timeout_s=timeout_s, stdin=stdin.encode(), transport=transport)
    return out.decode("utf-8", "replace")


def run_git_raw(
    *arguments: str,
    directory: Path | None = None,
    timeout_s: float | None = None,
    stdin: bytes = b"",
    transport: Transport = NOWHERE,
) -> bytes:
    """Run git as ``run_git`` does, on bytes: files may have any encoding."""
    if any("\0" in argument for argument in arguments):
        raise NoSuchCommit(f"git {arguments[0]}: a name contains a zero byte: check the spelling")
    if directory is not None and not directory.is_dir():
        raise NotFetched(
            f"the repository of {directory.stem} is not on this server: it comes with the next look at it; a project "
            "that was imported has none, until its repository is tracked"
        )
    command = git_command(list(arguments), directory, transport)
    limit_s = timeout_s or settings.GIT_TIMEOUT_S
    if transport.protocol != NO_PROTOCOL:
        command, limit_s = bounded(command, directory), min(limit_s, time_left_s())
    try:
        returncode, out, err = run_to_end(command, git_environment(transport), limit_s, stdin)
    except FileNotFoundError as e:
        raise RepositoryError("git is not installed on this machine: install it and try again") from e
    except subprocess.TimeoutExpired as e:
        is_usual = timeout_s is None and limit_s == settings.GIT_TIMEOUT_S
        remedy = ": raise GIT_TIMEOUT_S for so large a repository" if is_usual else ""
        raise RepositoryUnreachable(f"git {arguments[0]} took longer than {e.timeout:.0f} s{remedy}") from e
    if returncode:
        stderr = transport.without_secrets(err.decode("utf-8", "replace").strip())
        lines = [line.strip() for line in stderr.split("\n")]
        faults = [line for line in lines if line.startswith(COMPLAINTS)] or lines[-1:]
        words_of_git = "; ".join(filter(None, faults[:3])) or f"exit code {returncode}"
        if directory is not None:  # only the log has its local path
            log.warning("git %s in %s: %s", arguments[0], directory, stderr)
            words_of_git = words_of_git.replace(str(directory), "its mirror")
        raise GitFailed(f"git {arguments[0]}: {words_of_git}", returncode, stderr)
    return out


def run_to_end(
    command: list[str], environment: dict[str, str], timeout_s: float, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run a program and return its exit code, output and errors.

    If the wait is interrupted, all its processes are killed.
    """
    if ending.is_set():
        raise Interrupted("this process ends")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        running.add(process.pid)
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()  # returns when the last process has closed its end of the pipes
            raise
        finally:
            running.discard(process.pid)
    if ending.is_set() and process.returncode < 0:
        raise Interrupted("this process ends")
    return process.returncode, out, err


def end_all() -> None:
    """Kill every git process that this process waits for, and start no more, because the process is about to end."""
    ending.set()
    for group in list(running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def archive_blocks(directory: Path, sha: str, transport: Transport) -> Iterator[bytes]:
    """The files of a commit as an uncompressed tar, in blocks. Raises RepositoryError at the end if git failed."""
    process = subprocess.Popen(
        git_command(["archive", "--format=tar", sha], directory, transport),
        env=git_environment(transport),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process, process.stdout as stream:
        while block := stream.read(BLOCK):
            yield block
    if process.returncode:
        raise RepositoryError(f"git archive of {sha} failed with exit code {process.returncode}")
