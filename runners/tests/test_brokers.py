"""Addresses of brokers, and what is said of brokers that take no messages, with real servers."""

import contextlib
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from kombu import Connection, Queue
from kombu.exceptions import OperationalError
from kombu.utils.url import parse_url

from runners import brokers, probing
from runners.brokers import AddressError
from runners.probing import Refusing, Unavailable
from runners.tests import broker_servers
from runners.tests.broker_servers import Authority, RabbitMQ, redis_server
from runners.tests.ports import free_port

PASSWORDS = [
    "a/b",
    "a#b",
    "a?b",
    "a[b",
    "a]b",
    "[a]",
    "a@b",
    "a:b",
    "a;b",
    "a%zz",
    "a b",
    "ä€",
    "a//b?c=d#e@f",
    "a&b=c+d",
    "'\"",
]


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory that others may enter, with a short path."""
    path = Path(tempfile.mkdtemp(prefix="st-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("scheme", ["redis", "rediss", "amqp", "amqps", "valkey", "sentinel"])
def test_a_password_may_have_any_character(scheme: str, password: str) -> None:
    end = "?master_name=main" if scheme == "sentinel" else ""
    for written in (password, quote(password, safe="")):
        broker = brokers.read(f"{scheme}://me:{written}@Host.example:1234{end}")
        parts = parse_url(broker.url)
        assert (parts["userid"], parts["password"]) == ("me", password)
        assert (parts["hostname"], parts["port"]) == ("host.example", 1234)
        assert Connection(broker.url).password == password
        assert password not in f"{broker}{broker!r}"


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("redis://h", "redis://h/"),
        ("valkey://h/3", "redis://h/3"),
        ("valkeys://[::1]:1/0", "rediss://[::1]:1/0"),
        ("unix:///a b/s.sock", "redis+socket:///a%20b/s.sock"),
        ("redis+socket://:p/w@/s.sock?virtual_host=2", "redis+socket://:p%2Fw@/s.sock?virtual_host=2"),
        ("amqp://u:p@h//", "amqp://u:p@h/"),
        ("amqp://u:p@h/%2Fx", "amqp://u:p@h/%2Fx"),
        ("sentinel://:w@a:1;sentinel://b:2/5?master_name=m", "sentinel://:w@a:1/5;sentinel://:w@b:2/5"),
        ("sentinel+tls://a?master_name=m", "sentinel://a/"),
    ],
)
def test_each_way_to_write_an_address_is_one_of_celerys(written: str, url: str) -> None:
    assert brokers.read(written).url == url


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "begin with redis://"),
        ("hush", "begin with redis://"),
        ("http://hush@h", "begin with redis://"),
        ("redis://", "names no host"),
        ("redis://:hush@", "names no host"),
        ("redis://:hush#x", "cannot be read"),
        ("redis://:hush@h:port", "cannot be read"),
        ("redis://:hush@h:99999", "between 1 and 65535"),
        ("redis://:hush@[h]", "no IPv6 address"),
        ("redis://:hush@h/name", "no database number"),
        ("redis://:hush@h/0?password=hush", "not known"),
        ("redis://:hush@h/0?ssl_cert_reqs=none", "change the scheme"),
        ("rediss://:hush@h/0?ssl_cert_reqs=hush", "write required, or none"),
        ("rediss://:hush@h/0?ssl_ca_certs=/no/such", "cannot be read"),
        ("rediss://:hush@h/0?ssl_ca_certs=/a@b", "%40 for @"),
        ("rediss://:hush@h/0?ssl_ca_certs=/dev/null", "no certificates"),
        ("redis://:hush@a;redis://b", "give one"),
        ("redis://:hush@a;amqp://b", "give each the same"),
        ("amqps://:hush@a;amqps://b", "give one"),
        ("amqp://:hush@a/b/c", "write %2F"),
        ("sentinel://:hush@h", "master_name=NAME"),
        ("unix://:hush@", "names no socket"),
        ("redis://:hush\nhush@h", "control character"),
    ],
)
def test_a_wrong_address_is_refused_with_the_remedy_and_without_the_password(text: str, remedy: str) -> None:
    with pytest.raises(AddressError, match=remedy) as refused:
        brokers.read(text)
    assert "hush" not in str(refused.value) and len(str(refused.value).splitlines()) == 1


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    """A port at which connections are accepted, and nothing else."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        yield int(listening.getsockname()[1])


SCHEMES = ["redis://:pw@{}", "rediss://:pw@{}", "amqp://u:pw@{}", "amqps://u:pw@{}", "sentinel://:pw@{}?master_name=m"]


@pytest.mark.parametrize("address", SCHEMES)
def test_a_silent_broker_is_given_up_within_seconds(address: str) -> None:
    with silent_server() as port:
        began = time.monotonic()
        with pytest.raises(Unavailable, match="silent"):
            probing.probe(brokers.read(address.format(f"127.0.0.1:{port}")))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("address", SCHEMES[:4])
@pytest.mark.parametrize(
    ("host", "reason"), [("127.0.0.1:1", "nothing listens"), ("no.such.name.invalid", "not known")]
)
def test_who_is_not_there_is_said(address: str, host: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason) as said:
        probing.probe(brokers.read(address.format(host)))
    assert host in str(said.value) and "pw" not in str(said.value)


def test_a_resolver_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(probing, "LONGEST_ATTEMPT_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: hanging.wait(60) and [])
    with pytest.raises(Unavailable, match="silent for"):
        probing.probe(brokers.read("redis://broker.example"))
    hanging.set()


@pytest.mark.redis
def test_redis_takes_messages_with_any_password_and_names_its_refusals(room: Path) -> None:
    port, password = free_port(), "p/w#?[@%25:]"
    with redis_server(room, port, "--requirepass", "p/w#?[@%:]"):
        probing.probe(brokers.read(f"redis://:{password}@127.0.0.1:{port}/2"))
        for wrong in ("", ":w%r/ong@"):
            with pytest.raises(Unavailable, match="refuses the user or the password"):
                probing.probe(brokers.read(f"redis://{wrong}127.0.0.1:{port}"))
        with pytest.raises(Unavailable, match="for TLS like the scheme"):
            probing.probe(brokers.read(f"rediss://:{password}@127.0.0.1:{port}"))


@pytest.mark.redis
def test_a_socket_with_a_password_and_a_blank_in_its_path(room: Path) -> None:
    path = room / "a b" / "s.sock"
    path.parent.mkdir()
    with redis_server(room, free_port(), "--unixsocket", str(path), "--requirepass", "p/w"):
        for scheme in ("unix", "redis+socket", "valkey+socket"):
            probing.probe(brokers.read(f"{scheme}://:p/w@{path}?virtual_host=1"))


@pytest.mark.redis
def test_a_full_memory_refuses(room: Path) -> None:
    port = free_port()
    broker = brokers.read(f"redis://127.0.0.1:{port}")
    with (
        redis_server(room, port, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction"),
        pytest.raises(Refusing, match="memory is full"),
    ):
        probing.probe(broker)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    home = tmp_path_factory.mktemp("authorities")
    return Authority(home / "known").found(), Authority(home / "unknown").found()


@pytest.mark.redis
@pytest.mark.parametrize(
    ("names", "dates", "reason"),
    [
        ("IP:127.0.0.1,DNS:localhost", (), ""),
        ("DNS:other.example", (), "IP address mismatch|Hostname mismatch"),
        ("IP:127.0.0.1", ("-days", "-1"), "expired"),
    ],
)
def test_the_certificate_of_a_broker_is_verified(
    room: Path, authorities: tuple[Authority, Authority], names: str, dates: tuple[str, ...], reason: str
) -> None:
    port, (known, unknown) = free_port(), authorities
    with redis_server(room, port, "--port", "0", "--tls-port", str(port), *known.certificate("server", names, *dates)):
        address = f"rediss://127.0.0.1:{port}"
        for ca_file in ("", str(unknown.file)):
            with pytest.raises(Unavailable, match="certificate is not trusted"):
                probing.probe(brokers.read(address, ca_file))
        if reason:
            with pytest.raises(Unavailable, match=reason):
                probing.probe(brokers.read(address, str(known.file)))
        else:
            probing.probe(brokers.read(address, str(known.file)))
            probing.probe(brokers.read(f"{address}?ssl_ca_certs={known.file}"))
        by_hand = brokers.read(f"{address}?ssl_cert_reqs=none")
        probing.probe(by_hand)
        assert not by_hand.is_verified
        with pytest.raises(Unavailable, match="its port is for TLS"):
            probing.probe(brokers.read(f"redis://127.0.0.1:{port}"))


@contextlib.contextmanager
def tls_server(authority: Authority, name: str) -> Iterator[int]:
    """A server that shakes hands by TLS and ends the connection: the client has verified the certificate by then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.directory / f"{name}.pem", authority.directory / f"{name}.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])


@pytest.mark.redis
@pytest.mark.parametrize(
    ("names", "reason"), [("IP:127.0.0.1", "ended the connection"), ("DNS:other.example", "is not trusted")]
)
def test_amqps_verifies_the_name_too(authorities: tuple[Authority, Authority], names: str, reason: str) -> None:
    known, unknown = authorities
    known.certificate("amqp", names)
    with tls_server(known, "amqp") as port:
        with pytest.raises(Unavailable, match=reason):
            probing.probe(brokers.read(f"amqps://u:p@127.0.0.1:{port}", str(known.file)))
        with pytest.raises(Unavailable, match="is not trusted"):
            probing.probe(brokers.read(f"amqps://u:p@127.0.0.1:{port}", str(unknown.file)))


@contextlib.contextmanager
def sentinels(room: Path, master: int, *options: str) -> Iterator[list[int]]:
    """Three sentinels that watch a master called main, and promote its replica within seconds."""
    ports = [free_port() for _ in range(3)]
    watched = f"sentinel monitor main 127.0.0.1 {master} 2\nsentinel down-after-milliseconds main 1000\n"
    watched += "sentinel auth-pass main p/w\nsentinel failover-timeout main 4000\n"
    with contextlib.ExitStack() as stack:
        for port in ports:
            (room / f"redis-{port}.conf").write_text(watched)
            stack.enter_context(redis_server(room, port, *options, sentinel=True))
        yield ports


@pytest.mark.redis
def test_sentinels_lead_to_the_master_and_to_the_next_one(room: Path) -> None:
    first, second = free_port(), free_port()
    login = ("--requirepass", "p/w", "--masterauth", "p/w")
    with (
        redis_server(room, first, *login) as master,
        redis_server(room, second, *login, "--replicaof", "127.0.0.1", str(first)),
        sentinels(room, first) as ports,
    ):
        address = ";".join(f"sentinel://:p/w@127.0.0.1:{port}" for port in ports)
        broker = brokers.read(f"{address}/1?master_name=main")
        probing.probe(broker)
        with pytest.raises(Unavailable, match="master of that name"):
            probing.probe(brokers.read(f"{address}?master_name=other"))
        broker_servers.until(lambda: second_is_known(ports[0]), "the sentinels know the replica")
        master.kill()

        def promoted() -> bool:
            try:
                probing.probe(broker)
            except Unavailable:
                return False
            return True

        broker_servers.until(promoted, "messages reach the promoted replica")


def second_is_known(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.sendall(b"SENTINEL master main\r\n")
        text = link.recv(10_000).replace(b"\r\n", b" ")
        return b"num-slaves $1 1 " in text and b"num-other-sentinels $1 2 " in text


@pytest.mark.rabbitmq
@pytest.mark.timeout(300)
def test_rabbitmq_takes_messages_and_an_alarm_is_said_within_seconds(rabbitmq: RabbitMQ) -> None:
    server = rabbitmq
    broker = brokers.read(server.url)
    probing.probe(broker)
    with probing.connection_to(broker) as link:
        assert probing.is_empty(link, "never.declared")
    for address, reason in {
        server.url.replace(":guest@", ":wrong/#@"): "refuses the user or the password",
        server.url[:-1] + "none": "no such virtual host",
        server.url.replace("amqp:", "amqps:"): "speaks no TLS",
    }.items():
        with pytest.raises(Unavailable, match=reason):
            probing.probe(brokers.read(address))
    wrong = brokers.read(server.url.replace(":guest@", ":wrong@"))
    probing.let_workers_wait()
    with (
        pytest.raises(OperationalError),
        probing.connection_to(wrong) as link,
    ):  # a worker tries it again, as it does others
        link.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
    server.ctl("set_vm_memory_high_watermark", "0.00001")
    broker_servers.until(lambda: refuses(broker), "the alarm is raised")
    began = time.monotonic()
    with pytest.raises(Refusing, match="alarm"):
        probing.probe(broker)
    assert time.monotonic() - began < 30
    server.ctl("set_vm_memory_high_watermark", "0.9")
    broker_servers.until(lambda: not refuses(broker), "the alarm has ended")
    assert "probe" not in server.ctl("list_queues", "name")


@pytest.mark.rabbitmq
@pytest.mark.timeout(300)
def test_the_next_node_of_rabbitmq_takes_the_messages(rabbitmq: RabbitMQ, room: Path) -> None:
    first = RabbitMQ(room, free_port(RabbitMQ.PORTS))
    first.prepare()
    broker = brokers.read(f"{first.url};{rabbitmq.url}")
    try:
        first.start()
        broker_servers.until(lambda: not refuses(brokers.read(first.url)), "the first node takes messages")
        with probing.connection_to(broker) as link:
            producer, queue = link.Producer(), Queue("taken-over", durable=True)
            producer.publish("before", routing_key=queue.name, declare=[queue])
            assert first.queue(queue.name)[0] == 1
            first.stop()
            probing.probe(broker)
            again = {"max_retries": 3, "interval_start": 0}
            producer.publish("after", routing_key=queue.name, declare=[queue], retry=True, retry_policy=again)
        assert rabbitmq.queue(queue.name)[0] == 1
        rabbitmq.ctl("delete_queue", queue.name)
    finally:
        first.end_epmd()


def refuses(broker: brokers.Broker) -> bool:
    try:
        probing.probe(broker)
    except Unavailable:
        return True
    return False
