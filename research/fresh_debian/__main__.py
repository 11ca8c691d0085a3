"""Follow docs/installing.md on two fresh Debian machines, as root: ``make try-fresh-debian [WRITE=1]``.

Each is a directory made by debootstrap with systemd as its first process, in namespaces of its own. They share a
network namespace, so the server's loopback is the machine's, and TLS is left out. There is no forge either: the
repository is the sample server's, on the server's disk. All else is done as the page says, by its own commands.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from research.fresh_debian import page
from research.fresh_debian.machines import DebianMachine, MachineError, call, debian, network
from research.fresh_debian.page import CommandBlock

CHECKOUT = Path(__file__).resolve().parents[2]
ADDRESS, LOCAL = "https://speed.example.org", "http://127.0.0.1:8000"
CODE, FORM_OF_CODE = "7KQ2M-9XWPA-C4HTR-VN3DE", r"\b[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}\b"
TRACKED, SAMPLE = (
    "https://github.com/valkey-io/valkey --suite valkey --last 20",
    "/var/lib/speedtrack/kvd --suite sample --last 1",
)
SHARED = "SPEEDTRACK_ALLOW_SHARED_CORES=1"
REPOSITORY = f"""
echo ALLOW_LOCAL_REPOSITORIES=true >>/etc/speedtrack/speedtrack.env
cd /opt/speedtrack
setpriv --reuid speedtrack --regid speedtrack --init-groups --reset-env \
    .venv/bin/python -m runners.sample {SAMPLE.split()[0]} --upto 1
systemctl restart speedtrack.target
"""
MEASURED = 'setpriv --reuid postgres psql -qAt speedtrack -c "SELECT status FROM runs_run ORDER BY 1 LIMIT 1"'
READY = f"python3 -c \"import urllib.request as r; r.urlopen('{LOCAL}/readyz', timeout=4)\""
MEMORY = r"""
for process in /proc/[0-9]*; do
    pss=$(awk '/^Pss:/ { print $2 }' $process/smaps_rollup 2>/dev/null) || continue
    echo "$pss $(tr '\0\n' '  ' <$process/cmdline 2>/dev/null)"
done | grep -E '^[0-9]+ (/opt/speedtrack/|/usr/lib/postgresql/|postgres:)'
"""
UPGRADE = "upgrade.tar.gz"
WAIT_S = 900


@dataclass
class Walk:
    """The two machines, and the steps taken on them so far."""

    server: DebianMachine
    machine: DebianMachine
    newer: str
    code: str = CODE
    steps: list[tuple[str, float]] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)

    def step(self, name: str, do: Callable[[], str]) -> str:
        started = time.monotonic()
        output = do()
        self.steps.append((name, time.monotonic() - started))
        print(f"{self.steps[-1][1]:7.1f} s  {name}", flush=True)
        return output

    def follow(self, block: CommandBlock) -> None:
        machine = self.machine if block.where == "machine" else self.server
        output = self.step(f"{block.heading} ({machine.name})", lambda: machine.run(self.adapted(block.script)))
        self.transcript.append(f"## {block.heading} ({machine.name})\n{block.script}\n---\n{output}")
        if "enroll-code" in block.script and (code := re.search(FORM_OF_CODE, output)):
            self.code = code[0]

    def adapted(self, script: str) -> str:
        """The script with the values of this walk instead of the page's examples."""
        local_script = script.replace(ADDRESS, LOCAL).replace(CODE, self.code).replace(TRACKED, SAMPLE)
        return local_script.replace("speedtrack-new.tar.gz", UPGRADE).replace(
            "/opt/speedtrack-new/", f"/opt/{self.newer}/"
        )

    def until(self, machine: DebianMachine, script: str, expected: str) -> str:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                if expected in (output := machine.run(script)):
                    return output
            except MachineError as error:
                output = str(error)
            if time.monotonic() > deadline:
                raise MachineError(f"not within {WAIT_S} s: {script}\n{output}")
            time.sleep(1)

    def restart(self) -> str:
        self.server.stop()
        self.server.start()
        return self.until(self.server, READY, "")


def walk(tour: Walk) -> None:
    """All blocks of the page in their order, with what has to be waited for."""
    for block in page.blocks(page.PAGE.read_text()):
        tracks = "speedtrack-manage track" in block.script
        if tracks:
            tour.server.run(REPOSITORY)
        tour.follow(block)
        if tracks:
            tour.step("its newest commit is measured", lambda: tour.until(tour.server, MEASURED, "succeeded"))
            tour.step("restart of the server's host, until it is ready", tour.restart)
    tour.until(tour.machine, "systemctl is-active speedtrack-runner", "active")
    tour.until(tour.server, READY, "")


def idle_memory(tour: Walk) -> list[tuple[str, float]]:
    """Processes with their share of memory in MB, after a minute of rest."""
    time.sleep(60)
    lines = (line.split(maxsplit=1) for line in tour.server.run(MEMORY).splitlines())
    return sorted(((command, int(pss) / 1024) for pss, command in lines), key=lambda share: -share[1])


def group_of(command: str) -> str:
    names = ("dispatch", "webserver", "live", "worker@", "notify@", "git@", "postgres", "valkey-server")
    return next((name.strip("@") for name in names if name in command), "other")


def figures(tour: Walk, memory: list[tuple[str, float]]) -> str:
    total = sum(seconds for _, seconds in tour.steps)
    groups: dict[str, float] = {}
    for command, mb in memory:
        groups[group_of(command)] = groups.get(group_of(command), 0) + mb
    rows = "\n".join(f"| {name} | {seconds:.0f} |" for name, seconds in tour.steps)
    shares = ", ".join(f"{name} {mb:.0f}" for name, mb in sorted(groups.items(), key=lambda group: -group[1]))
    host = f"{os.cpu_count()} cores that others used as well (load {os.getloadavg()[2]:.1f})"
    return (
        f"Debian 12 on {host}, packages from their registries. In all {total / 60:.1f} minutes:\n\n"
        f"| step | seconds |\n|---|--:|\n{rows}\n\n"
        f"The idle server takes {sum(groups.values()):.0f} MB (PSS, in MB: {shares}).\n"
    )


def releases(room: Path, older: str) -> Iterator[Path]:
    """The archives of the older release and of this one."""
    for commit in (older, "HEAD"):
        call("make", "-C", CHECKOUT, "archive", f"REF={commit}", f"DIST={room / commit}")
        yield next((room / commit).glob("*.tar.gz"))


def prepare(room: Path, options: argparse.Namespace) -> tuple[Path, Path, str]:
    """The roots of both machines, with the files that a person would have brought; and the newer release's name."""
    fresh = debian(Path(options.debian) if options.debian else room / "debian")
    older, newer = releases(room, options.older)
    roots = [room / name for name in ("server", "machine")]
    for root in roots:
        call("cp", "--archive", "--reflink=auto", fresh, root)
        (root / "etc" / "hostname").write_text(f"{root.name}\n")
    name = newer.name.removesuffix(".tar.gz")
    shutil.copy(older, roots[0] / "root" / "speedtrack-1.0.0-older.tar.gz")
    shutil.copy(newer, roots[0] / "root" / UPGRADE)
    shutil.copy(options.wheel, roots[1] / "root")
    (roots[1] / "etc" / "speedtrack-runner.env").write_text(f"{SHARED}\n")
    return roots[0], roots[1], name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, required=True, help="of the runner, made by `make wheel`")
    parser.add_argument("--older", default="HEAD~1", help="the commit that is installed first and upgraded from")
    parser.add_argument("--debian", help="a directory where a fresh Debian is, or is made and kept")
    parser.add_argument("--room", type=Path, help="an empty directory for the machines, which is kept")
    parser.add_argument("--log", type=Path, help="a file for all that the commands said")
    parser.add_argument("--write", action="store_true", help="the figures into docs/installing.md")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("error: only root can make machines: start this as root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that the machines end, too
    with ExitStack() as stack:
        room = options.room or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speedtrack-fresh-")))
        room.mkdir(exist_ok=True)
        try:
            server_root, machine_root, newer = prepare(room, options)
            name = stack.enter_context(network(f"st{os.getpid()}", f"10.213.{os.getpid() % 256}"))
            environment = {"PIP_CERT": "/etc/ssl/certs/ca-certificates.crt"}
            server = DebianMachine("server", server_root, name, environment)
            machine = DebianMachine("machine", machine_root, name, environment | dict([SHARED.split("=")]))
            for host in (server, machine):
                stack.callback(host.stop)
                host.start()
            tour = Walk(server, machine, newer)
            try:
                walk(tour)
                result = figures(tour, idle_memory(tour))
            finally:
                if options.log:
                    options.log.write_text("\n\n".join(tour.transcript))
        except (MachineError, subprocess.SubprocessError) as error:
            sys.exit(f"error: {error}")
    print(result)
    if options.write:
        page.write_section(page.FIGURES, result)


if __name__ == "__main__":
    main()
