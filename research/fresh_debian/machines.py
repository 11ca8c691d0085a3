"""Machines made of a directory with a Debian: systemd as their first process, and a network of their own."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BOOT = Path(__file__).with_name("boot.sh")
PACKAGES = "systemd-sysv,dbus,ca-certificates,iproute2,procps"  # of a Debian's image, beyond the smallest
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")
CGROUPS = [Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified")]
BOOT_S = 120


class MachineError(Exception):
    """A command failed on a machine; the message has its last output."""


def call(*command: str | Path) -> str:
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if process.returncode:
        raise MachineError(f"{' '.join(map(str, command))}: {process.stderr.strip() or process.stdout.strip()}")
    return process.stdout


def debian(directory: Path) -> Path:
    """A fresh Debian, with the certificates that this host adds to the usual ones."""
    if not (directory / "etc" / "debian_version").exists():
        call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", directory)
    shutil.copytree(OWN_CERTIFICATES, directory / OWN_CERTIFICATES.relative_to("/"), dirs_exist_ok=True)
    call("chroot", directory, "update-ca-certificates")
    shutil.copyfile("/etc/resolv.conf", directory / "etc" / "resolv.conf")
    return directory


@contextlib.contextmanager
def network(name: str, subnet: str) -> Iterator[str]:
    """A namespace with a loopback of its own that reaches the world through this host."""
    link, host, guest = f"{name[:12]}0", f"{subnet}.1", f"{subnet}.2"
    masquerade = ["POSTROUTING", "-s", f"{subnet}.0/24", "!", "-o", link, "-j", "MASQUERADE"]
    call("ip", "netns", "add", name)
    try:
        call("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        call("ip", "addr", "add", f"{host}/24", "dev", link)
        call("ip", "link", "set", link, "up")
        inside = ["ip", "-netns", name]
        call(*inside, "addr", "add", f"{guest}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            call(*inside, "link", "set", device, "up")
        call(*inside, "route", "add", "default", "via", host)
        call("iptables", "-t", "nat", "-A", *masquerade)
        yield name
    finally:
        subprocess.run(["iptables", "-t", "nat", "-D", *masquerade], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@dataclass
class DebianMachine:
    """One machine; `environment` is what its commands get in addition."""

    name: str
    root: Path
    network: str
    environment: Mapping[str, str] = field(default_factory=dict)
    keeper: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Boot, and wait until its services have started."""
        groups = [group / f"speedtrack-{self.name}-{os.getpid()}" for group in CGROUPS if group.is_dir()]
        for group in groups or [Path(f"/sys/fs/cgroup/speedtrack-{self.name}-{os.getpid()}")]:
            group.mkdir(exist_ok=True)
        enter = "".join(f"echo $$ >{group}/cgroup.procs; " for group in groups)
        unshare = f"exec unshare --mount --pid --fork --uts --ipc --cgroup --kill-child sh {BOOT} {self.root}"
        # Not `ip netns exec`, which covers /sys and so the control groups.
        command = ["nsenter", f"--net=/run/netns/{self.network}", "sh", "-c", enter + unshare]
        self.keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + BOOT_S
        while (state := self.state()) not in ("running", "degraded"):
            if time.monotonic() > deadline:
                raise MachineError(f"{self.name} did not start within {BOOT_S} s: {state}")
            time.sleep(0.3)

    def state(self) -> str:
        process = subprocess.run([*self.inside(), "systemctl", "is-system-running"], capture_output=True, text=True)
        return process.stdout.strip() or process.stderr.strip()

    def inside(self) -> list[str]:
        assert self.keeper
        first = subprocess.run(["pgrep", "-P", str(self.keeper.pid)], capture_output=True, text=True).stdout.split()
        return ["nsenter", "--target", first[0], "--all"] if first else ["false"]

    def run(self, script: str) -> str:
        """Run a script as root of this machine; returns all that it wrote. Raises MachineError."""
        environment = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        assignments = [f"{name}={value}" for name, value in (environment | dict(self.environment)).items()]
        full_script = f"cd /root && set -euo pipefail\n{script}"
        process = subprocess.run(
            [*self.inside(), "env", "-i", *assignments, "bash", "-c", full_script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if process.returncode:
            raise MachineError(f"on {self.name}, exit code {process.returncode}:\n{script}\n{process.stdout[-4000:]}")
        return process.stdout

    def stop(self) -> None:
        """End it as its power button would."""
        if self.keeper is None:
            return
        subprocess.run([*self.inside(), "systemctl", "poweroff"], capture_output=True)
        try:
            self.keeper.wait(BOOT_S)
        except subprocess.TimeoutExpired:
            self.keeper.kill()  # and with it its first process: --kill-child
            self.keeper.wait()
        self.keeper = None
