"""The recipe gives the repository that the table promises, and the last commit is a server that answers right."""

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from runners.sample import EFFECTS, HISTORY, HistoryError, commits, export_history, write_history

TIMEOUT_SECONDS = 20
ROOT = Path(__file__).parents[3]


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS).stdout.strip()


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runners.sample", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# The recipe.


def test_two_destinations_get_the_same_commits_and_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_history(tmp_path / "a")
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.autocrlf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = write_history(tmp_path / "b")
    monkeypatch.undo()
    assert first == second
    assert git(tmp_path / "a", "show-ref") == git(tmp_path / "b", "show-ref")
    assert git(tmp_path / "a", "log", "--format=%cn %cd") == git(tmp_path / "b", "log", "--format=%cn %cd")


def test_the_first_commit_is_the_known_one(tmp_path: Path) -> None:
    """Pins the SHA itself: a git that makes another one would break every address of a commit."""
    assert write_history(tmp_path / "kvd", upto=1) == ["51d99f90ff20852f43345540b049282c231d9f92"]


def test_all_after_upto_is_a_fast_forward(tmp_path: Path) -> None:
    part = write_history(tmp_path / "kvd", upto=6)
    assert git(tmp_path / "kvd", "tag").split() == ["v1.0"]
    head = git(tmp_path / "kvd", "rev-parse", "HEAD")
    whole = write_history(tmp_path / "kvd")
    assert whole[:6] == part
    assert head == part[-1]
    assert git(tmp_path / "kvd", "rev-parse", "main") == whole[-1]
    assert git(tmp_path / "kvd", "status", "--porcelain") == ""
    assert git(tmp_path / "kvd", "tag").split() == ["v1.0", "v1.1", "v1.2"]
    assert git(tmp_path / "kvd", "reflog", "--format=%gs").splitlines()[0].endswith("Fast-forward")


def test_a_complete_repository_is_left_alone(tmp_path: Path) -> None:
    destination = tmp_path / "kvd"
    assert "went from 0 to 14 commits" in run_module(str(destination)).stdout
    before = snapshot(destination / ".git" / "refs"), git(destination, "reflog")
    for arguments in ((str(destination),), (str(destination), "--upto", "3")):
        again = run_module(*arguments)
        assert again.returncode == 0
        assert "already has 14 commits: nothing to do" in again.stdout
    assert (snapshot(destination / ".git" / "refs"), git(destination, "reflog")) == before


def fill_with_files(destination: Path) -> str:
    destination.mkdir()
    (destination / "letter.txt").write_text("mine")
    return "not a git repository"


def fill_with_another_repository(destination: Path) -> str:
    destination.mkdir()
    git(destination, "init", "--quiet", "--initial-branch=main")
    author = ("-c", "user.name=Me", "-c", "user.email=me@example.org")
    git(destination, *author, "commit", "--quiet", "--allow-empty", "-m", "mine")
    return "not of this history"


def fill_with_a_dirty_tree(destination: Path) -> str:
    write_history(destination, upto=2)
    (destination / "README.md").write_text("mine")
    return "uncommitted changes"


def fill_with_another_branch(destination: Path) -> str:
    write_history(destination, upto=2)
    git(destination, "checkout", "--quiet", "-b", "mine")
    return "not on the branch main"


@pytest.mark.parametrize(
    "fill", [fill_with_files, fill_with_another_repository, fill_with_a_dirty_tree, fill_with_another_branch]
)
def test_a_destination_with_something_else_is_refused_and_kept(tmp_path: Path, fill: Callable[[Path], str]) -> None:
    destination = tmp_path / "kvd"
    reason = fill(destination)
    before = {name: content for name, content in snapshot(destination).items() if name != ".git/index"}
    refused = run_module(str(destination))
    assert refused.returncode == 1
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr
    assert {name: content for name, content in snapshot(destination).items() if name != ".git/index"} == before


@pytest.mark.parametrize("upto", [0, -1, 15])
def test_a_commit_that_does_not_exist_is_refused(tmp_path: Path, upto: int) -> None:
    with pytest.raises(HistoryError, match="1 to 14"):
        write_history(tmp_path / "kvd", upto=upto)
    assert not (tmp_path / "kvd").exists()


def test_export_gives_back_the_patches_and_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "history"
    shutil.copytree(HISTORY, copy)
    monkeypatch.setattr("runners.sample.HISTORY", copy)
    monkeypatch.setattr("runners.sample.TABLE", copy / "history.toml")
    write_history(tmp_path / "kvd")
    export_history(tmp_path / "kvd")
    assert snapshot(copy) == snapshot(HISTORY)


# The table.


def test_the_table_matches_the_patches(tmp_path: Path) -> None:
    write_history(tmp_path / "kvd")
    entries = commits()
    assert [entry.patch.name for entry in entries] == sorted(path.name for path in HISTORY.glob("*.patch"))
    assert [entry.number for entry in entries] == list(range(1, 15))
    assert [entry.subject for entry in entries] == git(tmp_path / "kvd", "log", "--reverse", "--format=%s").splitlines()


def test_the_story_has_one_of_each_effect_and_quiet_between() -> None:
    effects = [entry.effect for entry in commits()]
    for effect in EFFECTS[1:]:
        assert effects.count(effect) == 1
    slower, faster = effects.index("slower"), effects.index("faster")
    assert effects[slower + 1 : faster].count("none") >= 3
    assert effects[faster + 1 :].count("none") >= 3
    assert effects[effects.index("does-not-compile") + 1] == "none"


# The builds.


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("history") / "kvd"
    write_history(destination)
    return destination


def build(source: Path, sha: str) -> subprocess.CompletedProcess[str]:
    """Build the commit in the one directory, from nothing, with warnings as errors."""
    git(source, "checkout", "--quiet", "--force", sha)
    subprocess.run(["make", "-s", "clean"], cwd=source, check=True, timeout=TIMEOUT_SECONDS)
    command = ["make", "-j2", "CFLAGS=-O2 -Werror"]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def binaries(repository: Path) -> dict[int, bytes | None]:
    """The binary of each commit; None if it does not compile."""
    shas = git(repository, "rev-list", "--reverse", "main").split()
    built: dict[int, bytes | None] = {}
    for number, sha in enumerate(shas, start=1):
        done = build(repository, sha)
        built[number] = (repository / "kvd").read_bytes() if done.returncode == 0 else None
    return built


def test_only_the_broken_commit_does_not_compile(binaries: dict[int, bytes | None]) -> None:
    broken = [number for number, binary in binaries.items() if binary is None]
    assert broken == [entry.number for entry in commits() if entry.effect == "does-not-compile"]


def test_the_broken_commit_lacks_a_header(repository: Path) -> None:
    broken = next(entry.number for entry in commits() if entry.effect == "does-not-compile")
    sha = git(repository, "rev-list", "--reverse", "main").split()[broken - 1]
    assert "stats.h: No such file" in build(repository, sha).stderr


def test_only_the_readme_commit_gives_its_parents_binary(repository: Path, binaries: dict[int, bytes | None]) -> None:
    compiled = [number for number, binary in binaries.items() if binary is not None]
    same = [number for before, number in pairwise(compiled) if binaries[number] == binaries[before]]
    assert same == [entry.number for entry in commits() if entry.effect == "same-binary"]
    sha = git(repository, "rev-list", "--reverse", "main").split()[same[0] - 1]
    assert git(repository, "show", "--name-only", "--format=", sha) == "README.md"


# The server of the last commit.


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    path: Path

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(TIMEOUT_SECONDS)
        connection.connect(str(self.path))
        return connection

    def ask(self, request: bytes) -> bytes:
        """Send the request, say that there is no more, and return all that comes back."""
        with self.connect() as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def read_exactly(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length and (piece := connection.recv(length - len(received))):
        received += piece
    return received


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


@pytest.fixture(scope="module")
def program(binaries: dict[int, bytes | None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    binary = binaries[len(binaries)]
    assert binary is not None
    path = tmp_path_factory.mktemp("program") / "kvd"
    path.write_bytes(binary)
    path.chmod(0o755)
    return path


def start(program: Path, path: Path, *options: str) -> Server:
    arguments = [str(program), "--port", "0", "--unixsocket", str(path), *options]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "kvd 1.2.0 ready\n"
    return Server(process, path)


def stop(server: Server) -> None:
    server.process.kill()
    server.process.wait(TIMEOUT_SECONDS)
    assert server.process.stdout is not None
    server.process.stdout.close()


@pytest.fixture
def server(program: Path, tmp_path: Path) -> Iterator[Server]:
    running = start(program, tmp_path / "kvd.sock")
    yield running
    stop(running)


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (b"PING\r\n", b"+PONG\r\n"),
        (b"ping\n", b"+PONG\r\n"),
        (b"\r\nPING hello\r\n", b"$5\r\nhello\r\n"),
        (b"*0\r\n*-1\r\n" + command(b"PiNg"), b"+PONG\r\n"),
        (command(b"SET", b"k", b"a\r\n\0b") + command(b"GET", b"k"), b"+OK\r\n$5\r\na\r\n\0b\r\n"),
        (command(b"SET", b"\0\r\n", b"") + command(b"GET", b"\0\r\n"), b"+OK\r\n$0\r\n\r\n"),
        (b"GET nothing\r\n", b"$-1\r\n"),
        (b"INCR n\r\nINCR n\r\nGET n\r\nDECR n\r\n", b":1\r\n:2\r\n$1\r\n2\r\n:1\r\n"),
        (b"SET n -9\r\nINCR n\r\nINCRBY n -2\r\n", b"+OK\r\n:-8\r\n:-10\r\n"),
        (b"SET a 1\r\nSET b 2\r\nDBSIZE\r\nDEL a b c\r\nDBSIZE\r\n", b"+OK\r\n+OK\r\n:2\r\n:2\r\n:0\r\n"),
        (b"SET a 1\r\nFLUSHALL\r\nGET a\r\nSET a 2\r\nGET a\r\n", b"+OK\r\n+OK\r\n$-1\r\n+OK\r\n$1\r\n2\r\n"),
        (b"SET a xyz\r\nSTRLEN a\r\nSTRLEN b\r\nEXISTS a a b\r\n", b"+OK\r\n:3\r\n:0\r\n:2\r\n"),
        (b"SET a 1\r\nGET a\r\nSET b 1\r\nHOTKEYS 1\r\n", b"+OK\r\n$1\r\n1\r\n+OK\r\n*2\r\n$1\r\na\r\n:2\r\n"),
        (b"CONFIG GET save\r\nCOMMAND\r\n", b"*0\r\n*0\r\n"),
    ],
)
def test_replies(server: Server, request_bytes: bytes, reply: bytes) -> None:
    assert server.ask(request_bytes) == reply


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (b"FOO bar\r\n", b"-ERR unknown command 'FOO'\r\n"),
        (command(b"A\r\n+OK"), b"-ERR unknown command 'A  +OK'\r\n"),
        (b"GET\r\n", b"-ERR wrong number of arguments for 'get' command\r\n"),
        (b"SET a\r\n", b"-ERR wrong number of arguments for 'set' command\r\n"),
        (b"SET a b c\r\n", b"-ERR wrong number of arguments for 'set' command\r\n"),
        (b"PING a b\r\n", b"-ERR wrong number of arguments for 'ping' command\r\n"),
        (b"SET a +5\r\nINCR a\r\n", b"+OK\r\n-ERR value is not an integer or out of range\r\n"),
        (b"SET a 9223372036854775808\r\nINCR a\r\n", b"+OK\r\n-ERR value is not an integer or out of range\r\n"),
        (b"SET a 9223372036854775807\r\nINCR a\r\n", b"+OK\r\n-ERR increment or decrement would overflow\r\n"),
        (b"INCRBY a 1.5\r\n", b"-ERR value is not an integer or out of range\r\n"),
    ],
)
def test_an_error_reply_leaves_the_connection_usable(server: Server, request_bytes: bytes, reply: bytes) -> None:
    assert server.ask(request_bytes + b"PING\r\n") == reply + b"+PONG\r\n"


# One byte more than a request may have, and still incomplete.
TOO_LARGE = (b"*8\r\n" + (b"$1048576\r\n" + b"x" * (1 << 20) + b"\r\n") * 5)[: (4 << 20) + 1]


@pytest.mark.parametrize(
    ("request_bytes", "error"),
    [
        (b"*x\r\n", b"invalid multibulk length"),
        (b"*1025\r\n", b"invalid multibulk length"),
        (b"*99999999999\r\n", b"invalid multibulk length"),
        (b"*1\r\n:1\r\n", b"expected '$'"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*2\r\n$3\r\nGET\r\n$1048577\r\n", b"invalid bulk length"),
        (b"*1\r\n$4\r\nPINGxx", b"bulk string without CRLF at its end"),
        (b"A" * 65536, b"too big inline request"),
        (TOO_LARGE, b"request too large"),
    ],
)
def test_a_protocol_error_is_named_and_ends_the_connection(server: Server, request_bytes: bytes, error: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(b"PING\r\n" + request_bytes)
        assert read_all(connection) == b"+PONG\r\n-ERR Protocol error: " + error + b"\r\n"
    assert server.ask(b"PING\r\n") == b"+PONG\r\n"


def test_a_request_may_arrive_byte_by_byte(server: Server) -> None:
    with server.connect() as connection:
        for byte in command(b"SET", b"key", b"v\r\n1") + command(b"GET", b"key") + b"PING\r\n":
            connection.sendall(bytes([byte]))
        assert read_exactly(connection, len(b"+OK\r\n$4\r\nv\r\n1\r\n+PONG\r\n")) == b"+OK\r\n$4\r\nv\r\n1\r\n+PONG\r\n"


def test_a_pipeline_is_answered_in_order_through_resizes_of_the_table(server: Server) -> None:
    keys = [b"key:%d" % number for number in range(20_000)]
    for first in range(0, len(keys), 1000):
        some = keys[first : first + 1000]
        assert server.ask(b"".join(command(b"SET", key, key * 2) for key in some)) == b"+OK\r\n" * len(some)
    for first in range(0, len(keys), 1000):
        some = keys[first : first + 1000]
        fetched = server.ask(b"".join(command(b"GET", key) for key in some))
        assert fetched == b"".join(b"$%d\r\n%s\r\n" % (2 * len(key), key * 2) for key in some)
    assert b"\r\n# Keyspace\r\ndb0:keys=20000,expires=0,avg_ttl=0\r\n" in server.ask(b"INFO\r\n")


def test_a_client_that_does_not_read_is_answered_later_and_in_full(server: Server) -> None:
    value = b"v" * (1 << 20)
    count = 20
    assert server.ask(command(b"SET", b"big", value)) == b"+OK\r\n"
    with server.connect() as connection:
        connection.sendall(command(b"GET", b"big") * count + b"PING\r\n")
        assert server.ask(b"PING\r\n") == b"+PONG\r\n"
        expected = (b"$1048576\r\n" + value + b"\r\n") * count + b"+PONG\r\n"
        assert read_exactly(connection, len(expected)) == expected


def test_info_names_the_process_and_counts_the_keys(server: Server) -> None:
    empty = server.ask(b"INFO\r\n").split(b"\r\n", 1)[1]
    assert empty.startswith(b"# Server\r\n")
    assert b"\r\nkvd_version:1.2.0\r\n" in empty
    assert b"\r\nprocess_id:%d\r\n" % server.process.pid in empty
    assert b"db0" not in empty
    server.ask(b"SET a 1\r\nSET b 1\r\nSET a 2\r\n")
    assert b"\r\n# Keyspace\r\ndb0:keys=2,expires=0,avg_ttl=0\r\n" in server.ask(b"INFO\r\n")


def test_a_connection_beyond_the_limit_is_refused(program: Path, tmp_path: Path) -> None:
    server = start(program, tmp_path / "kvd.sock", "--maxclients", "1")
    try:
        with server.connect() as connection:
            connection.sendall(b"PING\r\n")
            assert read_exactly(connection, 7) == b"+PONG\r\n"
            with server.connect() as refused:
                assert read_all(refused) == b"-ERR max number of clients reached\r\n"
    finally:
        stop(server)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_clients_connected(server: Server, number: signal.Signals) -> None:
    with server.connect():
        server.process.send_signal(number)
        assert server.process.wait(TIMEOUT_SECONDS) == 0
    assert not server.path.exists()


def test_it_listens_on_tcp(program: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([str(program), "--port", str(port)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "kvd 1.2.0 ready\n"
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            connection.sendall(b"PING\r\n")
            assert read_exactly(connection, 7) == b"+PONG\r\n"
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_SECONDS) == 0
        if process.stdout:
            process.stdout.close()


def test_wrong_options_are_refused(program: Path) -> None:
    for options in (["--port", "x"], ["--port"], ["--port", "0"], ["--nonsense", "1"], ["--maxclients", "0"]):
        done = subprocess.run([str(program), *options], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: kvd")
