"""A real ssh server on loopback for one user and one key, which serves git repositories by git's own programs."""

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runners.tests.ports import free_port


@dataclass(frozen=True)
class SshServer:
    port: int
    key: str  #: the private one that it lets in
    host_key: str  #: the public one that it proves itself with

    @property
    def user(self) -> str:
        return getpass.getuser()

    def url(self, repository: Path) -> str:
        return f"ssh://{self.user}@localhost:{self.port}{repository}"

    @property
    def known_hosts(self) -> str:
        return f"[localhost]:{self.port} {self.host_key}"


@contextmanager
def serving(directory: Path) -> Iterator[SshServer]:
    directory.mkdir()
    host, client = directory / "host", directory / "client"
    for file in (host, client):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file], check=True)
    shutil.copy(client.with_suffix(".pub"), directory / "authorized")
    port = free_port()
    (directory / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {host}\nAuthorizedKeysFile {directory / 'authorized'}\n"
        "UsePAM no\nStrictModes no\nPasswordAuthentication no\nPidFile none\nPermitRootLogin yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    with subprocess.Popen(
        ["/usr/sbin/sshd", "-D", "-e", "-f", directory / "config"], stderr=(directory / "log").open("w")
    ) as process:
        try:
            wait_for(port)
            yield SshServer(port, client.read_text(), host.with_suffix(".pub").read_text().strip())
        finally:
            process.terminate()


def wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("sshd does not listen")
