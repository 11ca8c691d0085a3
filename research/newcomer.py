"""Time a newcomer's path from a fresh clone: ``python -m research.newcomer [--write]``, or ``make newcomer``.

It clones this checkout, types what the README says, and looks at the pages as a browser would: until the demonstration
has its first chart, until it has found its change, and until a repository of one's own has its first chart. Caches of
pip, npm and cargo are used as they are; nothing else of this checkout is.
"""

import argparse
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from research.fresh_debian import page
from runners.tests.ports import free_port

CHECKOUT = Path(__file__).resolve().parents[1]
WAIT_S = 3600
TRACK = ".venv/bin/python manage.py track {repository} --suite sample --last 5"


@dataclass
class Journey:
    """What has been reached, in seconds since the clone began."""

    began: float = field(default_factory=time.monotonic)
    reached: list[tuple[str, float]] = field(default_factory=list)

    def note(self, milestone: str) -> None:
        self.reached.append((milestone, time.monotonic() - self.began))
        print(f"{self.reached[-1][1]:7.1f} s  {milestone}", flush=True)


def text_of(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - of this machine
            return str(answer.read().decode())
    except OSError:
        return ""


def has_chart(url: str, project: str) -> bool:
    """Whether a timeline of the project has a point."""
    link = re.search(rf'href="(/p/{project}/timeline/[^"?#]+)', text_of(f"{url}/p/{project}/"))
    return link is not None and text_of(f"{url}{link[1].rstrip('/')}.csv").count("\n") > 1


def until(milestone: str, reached: Callable[[], bool], demo: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + WAIT_S
    while not reached():
        if demo.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"error: not reached: {milestone}; make demo ended with {demo.poll()}")
        time.sleep(0.5)


def walk(room: Path) -> Journey:
    journey, url, clone = Journey(), f"http://127.0.0.1:{free_port()}", room / "speedtrack"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPEEDTRACK_", "MAKE"))}
    environment |= {"SPEEDTRACK_URL": url, "SPEEDTRACK_LOCK_DIR": str(room)}
    with (room / "demo.log").open("w") as log:
        demo = subprocess.Popen(
            ["make", "demo"], cwd=clone, env=environment, stdout=log, stderr=log, text=True, start_new_session=True
        )
    try:
        until("the set-up", lambda: "Tracking" in (room / "demo.log").read_text(), demo)
        journey.note("set up: Python, pages and driver are built")
        until("the demonstration's first chart", lambda: has_chart(url, "sample"), demo)
        journey.note("`make demo` shows its first chart")
        until("the end of the demonstration", lambda: "Serving at" in (room / "demo.log").read_text(), demo)
        journey.note("`make demo` has found the planted change")
        own = room / "mine"
        subprocess.run([clone / ".venv/bin/python", "-m", "runners.sample", own], cwd=clone, check=True)
        journey.note("a repository of one's own is there")
        subprocess.run(TRACK.format(repository=own).split(), cwd=clone, env=environment, check=True)
        journey.note("it is tracked")
        until("its first chart", lambda: has_chart(url, "mine"), demo)
        journey.note("it has its first chart")
        return journey
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(120)


def figures(journey: Journey) -> str:
    rows = "\n".join(f"| {milestone} | {seconds / 60:.1f} |" for milestone, seconds in journey.reached)
    where = f"{os.cpu_count()} cores that others used as well (load {os.getloadavg()[2]:.1f})"
    return f"From a fresh clone, on {where}:\n\n| reached | minutes after the clone |\n|---|--:|\n{rows}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="the figures into docs/installing.md")
    parser.add_argument("--room", type=Path, help="an empty directory to be kept; else a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="speedtrack-newcomer-") as temporary:
        room = options.room or Path(temporary)
        room.mkdir(exist_ok=True)
        result = figures(walk(room))
    print(result)
    if options.write:
        page.write_section(page.NEWCOMER, result)


if __name__ == "__main__":
    main()
