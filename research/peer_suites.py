"""Run the peers' own test suites on ``speedbench``: ``python -m research.peer_suites --redis FOLDER --valkey FOLDER``.

Each folder is a built checkout of that peer (``make BUILD_TLS=yes``). The suite runs twice in copies of it, once with
the peer's own program as the control and once with a wrapper in its place that calls the front end of that name. The
peers' code stays in their folders. Needs Tcl (with ``--tls`` also tcl-tls and openssl); memtier's suite needs RLTest
in the Python of ``--rltest``.
"""

import argparse
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SPEEDBENCH = CHECKOUT / "runners/driver/target/release/speedbench"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MADE = ("*.o", "*.a", "*.d", "*.lo", ".git", "deps", "tmp")
LIMIT_S = 3600


@dataclass(frozen=True)
class Peer:
    """A program with a suite: where its binary is, how its tests are called, and how their results look."""

    name: str
    binary: str
    tests: tuple[str, ...]
    passed: str
    failed: str
    tls: tuple[str, ...] = ("--tls",)

    @property
    def certificates(self) -> str:
        return "tests/gen-test-certs.sh" if self.name == "memtier" else "utils/gen-test-certs.sh"


def of_tcl(name: str) -> Peer:
    """The suites of redis and valkey are written in Tcl and have one form."""
    program = f"{name}-benchmark"
    tests = ("./runtest", "--single", f"integration/{program}")
    return Peer(name, f"src/{program}", tests, r"^\[ok\]: (.+) \(\d+ ms\)$", r"^\[(?:err|exception)\]: (.+)$")


def of_rltest(result: str) -> str:
    """RLTest prints a test's name and later its result, and between them the output of the test, behind tabs."""
    return rf"^(\w+:\w+):?\s*\n(?:\t(?!\[).*\n|\n)*\t\[{result}\]"


PEERS = (
    of_tcl("redis"),
    of_tcl("valkey"),
    Peer(
        "memtier",
        "memtier_benchmark",
        ("tests/run_tests.sh",),
        of_rltest("PASS"),
        of_rltest("FAIL"),
        tls=(),
    ),
)


@dataclass(frozen=True)
class SuiteOutcome:
    passed: tuple[str, ...]
    failed: tuple[str, ...]

    @property
    def total(self) -> int:
        return len(self.passed) + len(self.failed)


def outcome(peer: Peer, text: str) -> SuiteOutcome:
    """The tests that the output ``text`` of a suite names, by how they ended."""
    plain = COLOURS.sub("", text).replace("\r\n", "\n")
    passed = re.findall(peer.passed, plain, re.MULTILINE)
    failed = re.findall(peer.failed, plain, re.MULTILINE)
    return SuiteOutcome(tuple(dict.fromkeys(passed)), tuple(dict.fromkeys(failed)))


def copy_of(peer: Peer, folder: Path, room: Path, program: Path | None) -> Path:
    """A copy of the checkout ``folder`` in ``room``; its binary calls ``program`` instead, if there is one."""
    copy = room / peer.name
    shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(*MADE))
    (copy / "tests/tmp").mkdir(exist_ok=True)
    if program is not None:
        binary = copy / peer.binary
        binary.unlink()
        binary.write_text(f'#!/bin/sh\nexec "{program}" {binary.name} "$@"\n')
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return copy


def run(peer: Peer, copy: Path, tls: bool, environment: dict[str, str]) -> str:
    """What the suite in ``copy`` prints; it fails if a test fails, so its exit code adds nothing."""
    if tls:
        subprocess.run(["bash", peer.certificates], cwd=copy, check=True, capture_output=True)
    process = subprocess.run(
        ["bash", *peer.tests, *(peer.tls if tls else ())],
        cwd=copy,
        env={**os.environ, **environment, "TLS": str(int(tls))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    )
    return process.stdout.decode(errors="replace")


def measured(peer: Peer, folder: Path, program: Path | None, tls: bool, environment: dict[str, str]) -> SuiteOutcome:
    with tempfile.TemporaryDirectory(prefix="peer-suites-") as room:
        text = run(peer, copy_of(peer, folder, Path(room), program), tls, environment)
    result = outcome(peer, text)
    if result.total == 0:
        raise SystemExit(f"error: the suite of {peer.name} ran no test: is {folder} built?\n{text[-2000:]}")
    return result


def rows(arguments: argparse.Namespace) -> Iterator[str]:
    """The lines of the table; the names of tests that failed are printed below it as they become known."""
    environment = {"PATH": f"{arguments.rltest.resolve()}:{os.environ['PATH']}"} if arguments.rltest else {}
    for peer in PEERS:
        folder = getattr(arguments, peer.name)
        for tls in (False, True) if folder and arguments.tls else (False,) if folder else ():
            real = measured(peer, folder, None, tls, environment)
            ours = measured(peer, folder, arguments.speedbench.resolve(), tls, environment)
            name = f"{peer.name}{' --tls' if tls else ''}"
            for side, result in (("real", real), ("speedbench", ours)):
                for test in result.failed:
                    print(f"{name}, {side}: failed: {test}", flush=True)
            yield f"| {name} | {len(real.passed)} of {real.total} | {len(ours.passed)} of {real.total} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for peer in PEERS:
        parser.add_argument(f"--{peer.name}", type=Path, metavar="FOLDER", help=f"a built checkout of {peer.name}")
    parser.add_argument("--tls", action="store_true", help="run the suites with TLS, too")
    parser.add_argument("--speedbench", type=Path, default=SPEEDBENCH, metavar="PROGRAM", help="the program to try")
    parser.add_argument("--rltest", type=Path, metavar="FOLDER", help="bin folder of a Python with RLTest, for memtier")
    arguments = parser.parse_args()
    table = list(rows(arguments))
    print("\n".join(["", "| suite | real | speedbench |", "|---|---|---|", *table]))


if __name__ == "__main__":
    main()
