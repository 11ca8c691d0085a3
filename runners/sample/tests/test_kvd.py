"""The server of the last commit gives the right replies."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from runners.sample.tests.conftest import TIMEOUT_SECONDS


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


def assert_answers(connection: socket.socket) -> None:
    connection.sendall(b"PING\r\n")
    assert read_exactly(connection, 7) == b"+PONG\r\n"


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


@contextmanager
def started(program: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The server as a process that is ready, for as long as the block."""
    with subprocess.Popen([str(program), *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "kvd 1.2.0 ready\n"
            yield process
        finally:
            process.kill()


@contextmanager
def serving(program: Path, path: Path, *options: str) -> Iterator[Server]:
    with started(program, "--port", "0", "--unixsocket", str(path), *options) as process:
        yield Server(process, path)


@pytest.fixture
def server(program: Path, tmp_path: Path) -> Iterator[Server]:
    with serving(program, tmp_path / "kvd.sock") as server:
        yield server


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
    replies = b"+OK\r\n$4\r\nv\r\n1\r\n+PONG\r\n"
    with server.connect() as connection:
        for byte in command(b"SET", b"key", b"v\r\n1") + command(b"GET", b"key") + b"PING\r\n":
            connection.sendall(bytes([byte]))
        assert read_exactly(connection, len(replies)) == replies


def test_a_pipeline_is_answered_in_order_through_resizes_of_the_table(server: Server) -> None:
    keys = [b"key:%d" % number for number in range(20_000)]
    pipelines = [keys[first : first + 1000] for first in range(0, len(keys), 1000)]
    for some in pipelines:
        assert server.ask(b"".join(command(b"SET", key, key * 2) for key in some)) == b"+OK\r\n" * len(some)
    for some in pipelines:
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
    with serving(program, tmp_path / "kvd.sock", "--maxclients", "1") as server, server.connect() as connection:
        assert_answers(connection)
        with server.connect() as refused:
            assert read_all(refused) == b"-ERR max number of clients reached\r\n"


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
    with started(program, "--port", str(port)) as process:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as connection:
            assert_answers(connection)
        process.terminate()
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_wrong_options_are_refused(program: Path) -> None:
    for options in (["--port", "x"], ["--port"], ["--port", "0"], ["--nonsense", "1"], ["--maxclients", "0"]):
        done = subprocess.run([str(program), *options], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: kvd")
