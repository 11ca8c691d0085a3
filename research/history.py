"""A real history, measured: the newest commits of Redis and the releases of three servers, by everything of SpeedTrack.

python -m research.history [--redis REPOSITORY] [--valkey REPOSITORY] [--memcached REPOSITORY] [--commits 60] [--counts]
or ``make history REDIS=... VALKEY=... MEMCACHED=...``

REPOSITORY is a path or an https URL. The whole system runs on this machine as with ``manage.py serve``, its state in
--home (default: var/history); run again, it goes on where it was. Of each suite the benchmarks whose instructions are
counted are measured, in five short trials. With --counts an alert comes from counts alone, whatever else the machine
does. Ends when nothing is left to measure, settle or narrow; with --pictures it then takes the README's pictures.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from speedtrack.processes.devstack import Stack
    from speedtrack.projects.models import Project

ROOT = Path(__file__).resolve().parents[1]
#: Server -> which of its tags are releases; of each minor version the newest patch is measured.
RELEASES = {"redis": "[0-9]*", "valkey": "[0-9]*", "memcached": "1.*"}
#: What makes it short: no more trials than a suite must have, each half a second long.
SHORTER = {r"^trials = \d+$": "trials = 5\nmost_trials = 5", r"\bduration_s = [\d.]+": "duration_s = 0.5"}
#: Where counts alone decide: times are not looked at, and fewer keys settle sooner.
SHORTEST = SHORTER | {
    r"\bduration_s = [\d.]+": "duration_s = 0.05",
    r"\bwarmup_most_s = [\d.]+": "warmup_s = 0.05",
    r"\bcount = 100_000\b": "count = 10_000",
}
#: No change is this large.
ONLY_COUNTS = "\n".join(
    f"[metrics.{metric}]\nsmallest_effect = 0.99"
    for metric in ("server_cpu_ns_per_request", "throughput_rps", "peak_rss_bytes")
)


def short_suite(text: str, counts: bool) -> str:
    """A shipped suite with nothing but the benchmarks whose instructions are counted, measured for a shorter time."""
    head, *benchmarks = re.split(r"^(?=\[\[benchmark\]\])", text, flags=re.M)
    counted_names = tomllib.loads(text)["instructions"].get("benchmarks")  # absent: all
    sections = [
        section
        for section in benchmarks
        if counted_names is None or tomllib.loads(section)["benchmark"][0]["name"] in counted_names
    ]
    short = head + (ONLY_COUNTS + "\n\n" if counts else "") + "".join(sections)
    for pattern, replacement in (SHORTEST if counts else SHORTER).items():
        short = re.sub(pattern, replacement, short, flags=re.M)
    return short


def set_up(home: Path, servers: Mapping[str, str], counts: bool) -> None:
    """Django on the state of this directory, with short suites."""
    suites = home / "suites"
    suites.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)  # if root starts it, PostgreSQL runs as another user
    for server in servers:
        text = (ROOT / "suites" / f"{server}.toml").read_text("utf-8")
        (suites / f"{server}.toml").write_text(short_suite(text, counts), "utf-8")
    os.environ |= {
        "SPEEDTRACK_HOME": str(home),
        "SUITES": str(suites),
        "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
    }
    from speedtrack.processes import devstack

    devstack.use_own_port()
    devstack.keep_off_measured_cores()
    devstack.use_embedded_database()
    import django

    django.setup()


def track(server: str, repository: str, commits: int, releases: bool) -> "Project":
    """Track it and queue its commits and releases, unless that is done already."""
    from speedtrack.projects.models import Project
    from speedtrack.runs.requests import byhand, tracking

    tracked_project = Project.objects.filter(name=server).first()
    if tracked_project:
        return tracked_project
    request = tracking.TrackingRequest(repository, server, name=server, last=commits, mail_history_verdicts=True)
    project = tracking.track(request).project
    if releases:
        selection = byhand.choose(server, RELEASES[server], [], None, releases=True)
        print(f"{server}: {byhand.queue_by_hand(selection)} releases queued")
    return project


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for server in RELEASES:
        parser.add_argument(f"--{server}", metavar="REPOSITORY")
    parser.add_argument("--commits", type=int, default=60, help="of Redis")
    parser.add_argument("--others", type=int, default=1, help="commits of the other servers, besides their releases")
    parser.add_argument("--no-releases", dest="releases", action="store_false")
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--home", type=Path, default=ROOT / "var" / "history")
    parser.add_argument("--pictures", action="store_true", help="take the README's pictures in the end")
    options = parser.parse_args()
    servers = {server: getattr(options, server) for server in RELEASES if getattr(options, server)}
    if not servers:
        parser.error("name at least one repository")
    set_up(options.home.resolve(), servers, options.counts)
    from django.conf import settings

    from speedtrack.processes import demo, serving

    console = Console(soft_wrap=True, highlight=False)

    def work(stack: "Stack") -> int:
        projects = []
        for server, repository in servers.items():
            commits = options.commits if server == "redis" else options.others
            projects.append(track(server, repository, commits, options.releases))
        for project in projects:
            demo.show_progress(console, stack, project, partial(demo.work_is_left, project))
        if not options.pictures:
            return 0
        command = [sys.executable, "-m", "research.pictures", settings.URL, projects[0].slug]
        return subprocess.run(command, cwd=ROOT).returncode

    sys.exit(serving.serve_all(console, work))


if __name__ == "__main__":
    main()
