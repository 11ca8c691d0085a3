"""`python -m runners doctor`: can this machine measure? Each check reports a finding, and the remedy of a problem."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import docker
import httpx
from docker.errors import DockerException

import runners
from runners import probing
from runners.errors import SettingsError
from runners.machine import topology
from runners.machine.core_locks import NOT_COVERED, lock_directory
from runners.machine.environment import layout_linkers
from runners.machine.kernel_files import ROOT
from runners.machine.placement import Planner, place
from runners.measuring.perf import NO_PERF, NOT_ALLOWED
from runners.sandbox import policy
from runners.tuning.rows import setting_rows
from runners.work.settings import (
    Settings,
    broker_of,
    find_driver,
    home_directory,
    least_free_bytes,
    lock_directory_setting,
    read_settings,
)
from runners.work.space import Space

# In older releases a container can escape to its host (CVE-2025-31133, -52565, -52881).
OLDEST_RUNC = ((1, 2, 8), (1, 3, 3))
ROLES = ("server", "driver", "housekeeping")
FEW_FREE_MB = 5000  # of SPEEDTRACK_RUNNER_HOME: with less, the store of artifacts is soon full
MOST_CLOCK_S = 5.0
ANSWER_S = 10.0
GENERATORS = {"SPEEDTRACK_REDIS_BENCHMARK": "redis-benchmark", "SPEEDTRACK_MEMTIER": "memtier_benchmark"}
MB = 1024 * 1024
MARKS = {"good": "ok  ", "note": "note", "bad": "BAD "}

Answer = tuple[str, str]  # state and text
Environ = Mapping[str, str]


@dataclass(frozen=True)
class MachineDiagnosis:
    """`state`: good, note (it works, but could be better) or bad."""

    name: str
    state: str
    words: str


def examine(names: Iterable[str], environ: Environ) -> Iterator[MachineDiagnosis]:
    """Makes these checks one after another, and yields their findings."""
    for name in names:
        try:
            state, sentence = CHECKS[name](environ)
        except SettingsError as error:
            state, sentence = "bad", str(error)
        yield MachineDiagnosis(name, state, sentence)


def show(findings: Iterable[MachineDiagnosis], as_json: bool) -> int:
    """Prints findings, each as soon as it is known, or all as one document; returns the exit code."""
    entries = []
    for finding in findings:
        entries.append(finding)
        if not as_json:
            print(f"{MARKS[finding.state]}  {finding.name:10} {finding.words}", flush=True)
    if as_json:
        print(json.dumps([asdict(finding) for finding in entries]))
    return int(any(finding.state == "bad" for finding in entries))


def check_settings(environ: Environ) -> Answer:
    settings = settings_of(environ)
    return "good", f"{settings.url}, {'by messages' if settings.broker else 'by polling'}, in {settings.home}"


def settings_of(environ: Environ) -> Settings:
    return read_settings(environ, needs_broker=False)


def check_server(environ: Environ) -> Answer:
    """The server answers and knows this machine's token; the finding has the server's release and clock."""
    settings = settings_of(environ)
    began, moment = time.monotonic(), time.time()
    try:
        answer = httpx.get(
            f"{settings.url.rstrip('/')}/api/runner/me",
            headers={"Authorization": f"Bearer {settings.token}"},
            timeout=ANSWER_S,
        )
    except httpx.HTTPError as error:
        text = str(error) or type(error).__name__
        return "bad", f"{settings.url} does not answer ({text}): check SPEEDTRACK_URL and that the server runs"
    if answer.status_code == 401:
        return "bad", (
            "the server does not know this token: run `manage.py machine add NAME` (or `machine token NAME`) there and "
            "set SPEEDTRACK_TOKEN to what it prints"
        )
    if answer.status_code != 200:
        text = f"{settings.url} answers {answer.status_code}"
        return "bad", f"{text}: check that it is a SpeedTrack server of this release"
    return about_server(answer, moment + (time.monotonic() - began) / 2)


def about_server(answer: httpx.Response, asked_at: float) -> Answer:
    """The finding about a server's answer. `asked_at`: this machine's clock at about the time of the answer."""
    try:
        document = answer.json()
        machine, version, ahead_s = (
            str(document["machine"]),
            str(document["version"]),
            asked_at - float(document["time"]),
        )
    except (ValueError, KeyError, TypeError):
        return "bad", "what answers at SPEEDTRACK_URL is no SpeedTrack server"
    sentence = f"this is machine {machine} of a server of release {version}"
    if version != runners.__version__:
        return "note", f"{sentence}, and this runner is {runners.__version__}: install the same release"
    if abs(ahead_s) > MOST_CLOCK_S:
        # Leases follow the server's clock alone, but the times of logs would not match.
        return "note", f"{sentence}; the clock here is {ahead_s:+.0f} s apart: let chrony or systemd-timesyncd set it"
    return "good", f"{sentence}; the clocks differ by {abs(ahead_s):.1f} s"


def check_broker(environ: Environ) -> Answer:
    broker = broker_of(environ)
    if not broker:
        return "note", "BROKER_URL is not set: start the runner with --poll"
    try:
        probing.probe(broker)
    except probing.Unavailable as error:
        return "bad", f"{error}; or use --poll"
    if broker.is_encrypted and not broker.is_verified:
        return "note", "BROKER_URL has ssl_cert_reqs=none, which verifies nothing: set BROKER_CA_FILE instead"
    return "good", f"{broker} takes messages"


def check_driver(environ: Environ) -> Answer:
    path = find_driver(environ)
    version = output_of(str(path), "--version")
    return ("good", f"{version}, {path}") if version else ("bad", f"{path} does not run: build it on this machine")


def check_compiler(environ: Environ) -> Answer:
    for program in ("cc", "make", "tar"):
        if not shutil.which(program):
            return "bad", f"{program} is not installed: this machine needs it to build servers"
    if not shutil.which("ccache"):
        return "note", "ccache is not installed: each build compiles everything anew"
    return "good", (output_of("cc", "--version") or "cc").splitlines()[0]


def check_layouts(environ: Environ) -> Answer:
    """A linker can order functions at random. Only suites with `layouts` need it."""
    linkers = layout_linkers()
    if not linkers:
        return "note", "no linker for random layouts: install mold, lld or binutils, else pairs measure one layout"
    return "good", f"random layouts are linked by {linkers[0]}"


def check_docker(environ: Environ) -> Answer:
    """Docker works. Only suites that build in containers need it."""
    try:
        version = docker.from_env(timeout=5).version()
    except DockerException:
        return "note", 'no daemon answers: suites with build.kind = "docker" cannot be built on this machine'
    engine = version["Version"]
    runc = next(
        (component["Version"] for component in version.get("Components") or () if component["Name"] == "runc"), ""
    )
    if not safe_runc(runc):
        oldest = " or ".join(".".join(map(str, release)) for release in OLDEST_RUNC)
        unsafe = f"Docker {engine} with runc {runc or 'of unknown version'}"
        return "note", f"{unsafe}: builds may escape before {oldest}; update it"
    return "good", f"Docker {engine}, runc {runc}"


def safe_runc(version: str) -> bool:
    """Returns whether this release of runc has the fixes.

    Fixes that a distribution has ported to an older release are not recognised.
    """
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", version)[:3])
    return any(numbers[:2] == oldest[:2] and numbers >= oldest for oldest in OLDEST_RUNC) or numbers[:2] > (1, 3)


def check_placement(environ: Environ) -> Answer:
    plan = place()
    cpus = plan.document()
    sentence = ", ".join(f"{role} CPU {cpus[role]}" for role in ROLES)
    sentence += f", locks in {lock_directory(lock_directory_setting(environ))} ({NOT_COVERED})"
    return ("note", f"{sentence} ({cpus['override']})") if cpus["override"] else ("good", sentence)


def check_kernel(environ: Environ) -> Answer:
    plan = Planner(topology.read_topology(), allow_shared=True).plan(1)
    # A limit on sleep states lasts only as long as the process that requests it.
    rows = [row for row in setting_rows(ROOT, plan) if row.setting != "sleep_states"]
    wrong = [f"{row.setting} {row.now} (wanted {row.target})" for row in rows if row.now not in ("", row.target)]
    if wrong:
        return (
            "note",
            f"{', '.join(wrong)}: `python -m runners tune` explains it, SPEEDTRACK_TUNE=1 lets a runner set it",
        )
    return "good", "set as needed for measuring"


def check_sandbox(environ: Environ) -> Answer:
    sandbox = policy.sandbox_of_machine(environ)
    return ("good" if sandbox.works else "note"), str(sandbox)


def check_disk(environ: Environ) -> Answer:
    home = home_directory(environ)
    if lack := Space(home, least_free_bytes(environ)).lack():
        return "bad", lack
    free_mb = shutil.disk_usage(home).free // MB
    sentence = f"{free_mb} MB are free in {home}"
    if free_mb < FEW_FREE_MB:
        return "note", f"{sentence}: make room, or lower SPEEDTRACK_CACHE_MB"
    return "good", sentence


def check_perf(environ: Environ) -> Answer:
    """perf may sample. Only profiles and counts of instructions need it."""
    if not shutil.which("perf"):
        return "note", NO_PERF
    trial = ["perf", "record", "--quiet", "-e", "cpu-clock", "-o", "/dev/null", "true"]
    if subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True).returncode:
        return "note", f"perf may not sample: {NOT_ALLOWED}"
    return "good", output_of("perf", "--version")


def check_valgrind(environ: Environ) -> Answer:
    """valgrind is installed. Only benchmarks whose instructions are counted need it."""
    if not shutil.which("valgrind"):
        return "note", "valgrind is not installed: instructions of benchmarks are not counted"
    return "good", output_of("valgrind", "--version")


def check_generators(environ: Environ) -> Answer:
    """The load generators of others that suites may use are installed."""
    programs = []
    for setting, program in GENERATORS.items():
        override = environ.get(setting)
        if override and not (Path(override).is_file() and os.access(override, os.X_OK)):
            return "bad", f"{setting} is {override}, which is no program: correct it"
        if path := override or shutil.which(program):
            programs.append(path)
    return "good", f"{', '.join(programs) or 'none'}: benchmarks of suites that use another one cannot be measured"


def output_of(*command: str) -> str:
    """The output of a program; empty if it cannot be run."""
    try:
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if process.returncode else process.stdout.strip()


CHECKS: dict[str, Callable[[Environ], Answer]] = {
    "settings": check_settings,
    "server": check_server,
    "broker": check_broker,
    "driver": check_driver,
    "compiler": check_compiler,
    "layouts": check_layouts,
    "docker": check_docker,
    "placement": check_placement,
    "kernel": check_kernel,
    "sandbox": check_sandbox,
    "disk": check_disk,
    "perf": check_perf,
    "valgrind": check_valgrind,
    "generators": check_generators,
}


def main(names: list[str] | None, as_json: bool, environ: Environ) -> int:
    """Makes the named checks, or all; returns the exit code. Raises SettingsError for an unknown name."""
    if unknown := sorted(set(names or ()) - CHECKS.keys()):
        raise SettingsError(f"there is no check {unknown[0]!r}: name some of {', '.join(CHECKS)}")
    return show(examine(names or CHECKS, environ), as_json)
