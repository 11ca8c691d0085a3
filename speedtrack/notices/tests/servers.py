"""Mail servers to send to: one that keeps what it accepts, and ones that misbehave."""

import email
import email.policy
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from runners.tests.ports import free_port


class Mailbox:
    """A mail server that keeps what it accepts, and refuses on request: everybody, or some recipients."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.refusal = ""
        self.refused: dict[str, str] = {}
        self.connections = 0
        self.encrypted: list[bool] = []

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, answers: list[str]
    ) -> list[str]:
        self.connections += session.host_name is None
        session.host_name = hostname
        return answers

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if answer := self.refused.get(address):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 fine"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.refusal:
            return self.refusal
        assert envelope.content is not None
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        self.encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        return "250 kept"


@contextmanager
def serving(mailbox: Mailbox, settings: Any, **options: Any) -> Iterator[Mailbox]:
    """The mailbox behind a port of its own, to which the settings point."""
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port(), ready_timeout=60, **options)
    controller.start()
    use(settings, controller.port)
    try:
        yield mailbox
    finally:
        controller.stop()


def use(settings: Any, port: int) -> None:
    settings.EMAIL_BACKEND = "speedtrack.notices.smtp.SmtpBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port


def knows(name: bytes, password: bytes) -> Any:
    """An authenticator of aiosmtpd that knows one account."""

    def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
        known = isinstance(given, LoginPassword) and (given.login, given.password) == (name, password)
        return AuthResult(success=known, handled=False)

    return check


def certificate(directory: Path, address: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for the address, and the file of the authority that vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail server of a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority, private = directory / "authority.pem", directory / "key.pem"
    authority.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority, private)
    return context, authority


class Misbehaving:
    """A server that speaks SMTP up to a point. ``taken``: the messages that it was given.

    ``silent`` never says a word, ``dripping`` sends its greeting without end, ``hanging`` takes a whole message and
    never answers, ``dropping`` takes it and closes.
    """

    def __init__(self, manner: str) -> None:
        self.manner = manner
        self.taken: list[bytes] = []
        self.stopping = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.listen, daemon=True)]

    def __enter__(self) -> "Misbehaving":
        self.threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(5)

    def listen(self) -> None:
        while not self.stopping.is_set():
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.threads.append(threading.Thread(target=self.speak, args=[peer], daemon=True))
            self.threads[-1].start()

    def speak(self, peer: socket.socket) -> None:
        with peer:
            try:
                self.converse(peer)
            except OSError:
                return  # the sender has hung up

    def converse(self, peer: socket.socket) -> None:
        if self.manner == "silent":
            self.stopping.wait(30)
            return
        while self.manner == "dripping" and not self.stopping.wait(0.05):
            peer.sendall(b"220-wait\r\n")
        peer.sendall(b"220 ready\r\n")
        with peer.makefile("rb") as lines:
            for line in lines:
                if line.upper().startswith(b"DATA"):
                    peer.sendall(b"354 go on\r\n")
                    self.taken.append(b"".join(iter(lines.readline, b".\r\n")))
                    if self.manner == "hanging":
                        self.stopping.wait(30)
                    return
                peer.sendall(b"250 fine\r\n")
