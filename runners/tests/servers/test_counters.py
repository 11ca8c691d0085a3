"""The counters of real servers."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runners.processes.children import ChildCommand, Processes
from runners.processes.control import Control
from runners.servers import counters, server
from runners.servers.address import Address
from runners.servers.server import free_port, greet
from runners.tests.broker_servers import Valkey

NOWHERE = Path("/nonexistent")


@pytest.fixture
def memcached(processes: Processes, home: Path) -> Iterator[Address]:
    address = Address("tcp", free_port(), NOWHERE)
    with (home / "output").open("wb") as output:
        argv = [str(shutil.which("memcached")), "-l", "127.0.0.1", "-p", str(address.port), "-u", "nobody"]
        child = processes.start(ChildCommand(argv, {}, home), output)
    control = Control()
    while greet(address, "memcached") != "ready" and child.exited() is None:
        child.wait(control, 0.05)
    yield address
    child.end()


def say(address: Address, *requests: bytes) -> None:
    with address.connect() as connection:
        for request in requests:
            connection.sendall(request)
            connection.recv(100)


def test_counters_of_valkey(tmp_path: Path) -> None:
    with Valkey(tmp_path, free_port()) as server:
        address = Address("tcp", server.port, NOWHERE)
        before = counters.own_counters(address, "resp")
        say(address, b"SET k v\r\n", b"GET k\r\n", b"GET k\r\n", b"GET none\r\n")
        grown = counters.counter_growth(before, counters.own_counters(address, "resp"))
    assert (grown["keyspace_hits"], grown["keyspace_misses"], grown["evicted_keys"]) == (2, 1, 0)
    assert grown["total_commands_processed"] == 5  # with the INFO before
    assert grown["used_cpu_user"] >= 0 and grown["total_net_output_bytes"] > 0


@pytest.mark.memcached
def test_counters_of_memcached(memcached: Address) -> None:
    before = counters.own_counters(memcached, "memcached")
    say(memcached, b"set k 0 0 1\r\nv\r\n", b"get k\r\n", b"get none\r\n")
    grown = counters.counter_growth(before, counters.own_counters(memcached, "memcached"))
    assert {name: grown[name] for name in ("cmd_set", "cmd_get", "get_hits", "get_misses", "evictions")} == {
        "cmd_set": 1,
        "cmd_get": 2,
        "get_hits": 1,
        "get_misses": 1,
        "evictions": 0,
    }


@contextmanager
def answering(answer: bytes) -> Iterator[Address]:
    """A server that says these bytes to the first request of each connection, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("tcp", listener.getsockname()[1], NOWHERE)
        thread.join()


@pytest.mark.parametrize("protocol", ["resp", "memcached"])
@pytest.mark.parametrize(
    "answer", [b"-ERR unknown command\r\n", b"", b"$-1\r\n", b"$9\r\ncut", b"ERROR\r\n", b"\xff:\xff\r\n"]
)
def test_a_server_without_counters_is_no_error(protocol: str, answer: bytes) -> None:
    with answering(answer) as address:
        assert counters.own_counters(address, protocol) == {}


@contextmanager
def sending(part: bytes, pause_s: float) -> Iterator[tuple[Address, list[int]]]:
    """A server that sends this without end to one connection; the bytes that it could send, by part."""
    sent: list[int] = []
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(100)
                while not ended.wait(pause_s):
                    sent.append(connection.send(part))

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address("tcp", listener.getsockname()[1], NOWHERE), sent
        ended.set()
        thread.join()


STATS = b"STAT cmd_get 1\r\n"
NEVER = [("resp", b"$1000000\r\n"), ("resp", b"$"), ("memcached", STATS), ("memcached", b"STAT ")]


@pytest.mark.parametrize(("protocol", "part"), NEVER)
def test_an_answer_in_drips_has_one_deadline_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, protocol: str, part: bytes
) -> None:
    """Each drip comes before a wait for it alone would be over."""
    monkeypatch.setattr(counters, "REPLY_S", 0.5)
    monkeypatch.setattr(server, "GREETING_S", 0.5)
    with sending(part, pause_s=0.1) as (address, _):
        assert counters.own_counters(address, protocol) == {}
    with sending(b"x", pause_s=0.1) as (address, _):
        assert greet(address, protocol) == "timed out"


@pytest.mark.parametrize(("protocol", "part"), NEVER)
def test_an_answer_without_end_is_read_up_to_a_limit(protocol: str, part: bytes) -> None:
    with sending(part * 10_000, pause_s=0) as (address, sent):
        counters.own_counters(address, protocol)
    buffered = 16 << 20  # by the kernel, in both directions
    assert sum(sent) < counters.LONGEST_REPLY + buffered
    with sending(b"x" * 10_000, pause_s=0) as (address, _):
        assert greet(address, protocol) == repr("x" * 200)


@pytest.mark.parametrize("value", [b"nan", b"inf", b"-Infinity", b"1e999", b"x", b""])
def test_counters_that_are_no_finite_numbers_are_left_out(value: bytes) -> None:
    text = b"keyspace_hits:7\r\nused_cpu_user:" + value + b"\r\n"
    with answering(b"$%d\r\n%s\r\n" % (len(text), text)) as address:
        assert counters.own_counters(address, "resp") == {"keyspace_hits": 7.0}
    with answering(b"STAT cmd_get 7\r\nSTAT cmd_set " + value + b"\r\nEND\r\n") as address:
        assert counters.own_counters(address, "memcached") == {"cmd_get": 7.0}
    assert counters.counter_growth({"a": -1e308, "b": 1.0}, {"a": 1e308, "b": 3.0}) == {"b": 2.0}


def test_a_server_that_has_ended_is_no_error() -> None:
    assert counters.own_counters(Address("tcp", free_port(), NOWHERE), "resp") == {}


def test_only_counters_that_were_read_twice_have_a_growth() -> None:
    assert counters.counter_growth({"a": 1.0, "b": 2.5}, {"b": 4.0, "c": 9.0}) == {"b": 1.5}
