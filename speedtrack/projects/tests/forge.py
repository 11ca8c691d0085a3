"""A real git server on loopback: git's own HTTP program behind TLS, with or without a token, or with bad manners."""

import contextlib
import ssl
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

NAMES = ["localhost", "pinned.invalid"]  # the certificate's


@dataclass
class Forge:
    """Serves the repositories below ``root`` by their names. ``manners`` answers a request instead of git."""

    root: Path
    token: str = ""
    user: str = "git"
    manners: Callable[[BaseHTTPRequestHandler], None] | None = None
    host: str = "localhost"
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def url(self, name: str) -> str:
        return f"https://{self.host}:{self.port}/{name}"

    @property
    def wanted(self) -> str:
        return "Basic " + b64encode(f"{self.user}:{self.token}".encode()).decode()


@contextmanager
def serving(forge: Forge, settings: Any, monkeypatch: Any) -> Iterator[Forge]:
    """Serve on a free port, which the settings allow, with a certificate that is trusted meanwhile."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            forge.requests.append((self.path, headers))
            if forge.manners:
                forge.manners(self)
            elif forge.token and headers.get("authorization") != forge.wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="forge"')
                self.end_headers()
            else:
                self.run_git(headers)

        do_POST = do_GET

        def run_git(self, headers: dict[str, str]) -> None:
            body = self.rfile.read(int(headers.get("content-length", 0)))
            path, _, query = self.path.partition("?")
            done = subprocess.run(
                ["git", "-c", "safe.directory=*", "-c", "uploadpack.allowAnySHA1InWant=true", "http-backend"],
                input=body,
                stdout=subprocess.PIPE,
                env={
                    "PATH": "/usr/local/bin:/usr/bin:/bin",
                    "GIT_PROJECT_ROOT": str(forge.root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": headers.get("content-type", ""),
                    "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
                    "HTTP_GIT_PROTOCOL": headers.get("git-protocol", ""),
                },
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
            status = next((value for name, value in lines if name == "Status"), "200")
            self.send_response(int(status.split()[0]))
            for name, value in lines:
                if name != "Status":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def shutdown_request(self, request: Any) -> None:
            with contextlib.suppress(OSError, ValueError):
                request.settimeout(2)
                request.unwrap()  # GnuTLS takes an end without it for an attack
            super().shutdown_request(request)

        def handle_error(self, request: Any, address: Any) -> None:
            """The client has gone, as clients of such servers do."""

    forge.root.mkdir(parents=True, exist_ok=True)
    certificate = make_certificate(forge.root.parent / f"{forge.root.name}.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    forge.port = server.server_port
    allow(settings, *(f"{name}:{forge.port}" for name in NAMES))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()


def allow(settings: Any, *hosts: str) -> None:
    settings.GIT_HOSTS = [*settings.GIT_HOSTS, *hosts]
    settings.GIT_NETWORKS = [ip_network("127.0.0.0/8"), ip_network("::1/128")]


def make_certificate(file: Path) -> Path:
    """A key and a certificate for NAMES that vouches for itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "forge")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in NAMES]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(private + made.public_bytes(Encoding.PEM))
    return file
