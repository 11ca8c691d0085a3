"""Which large libraries the server's processes load: each process only those that its own work needs."""

import subprocess
import sys

import pytest

from speedtrack.processes import devstack

LARGE = ("django", "matplotlib", "numpy", "PIL", "pydantic", "scipy")
SET_UP = "import django; django.setup()\n"
#: By the name of a process, as in ``devstack.PROCESSES``: what it imports before it waits for work, and what of these
#: libraries that loads.
STARTS = {
    "web": (
        f"{SET_UP}from django.urls import get_resolver; get_resolver().url_patterns",
        {"django", "numpy", "PIL", "pydantic"},
    ),
    "live": (f"{SET_UP}import speedtrack.processes.live.__main__, speedtrack.processes.live.app", {"django"}),
    "dispatcher": (f"{SET_UP}import speedtrack.web.management.commands.dispatch", {"django", "pydantic"}),
    "worker": (f"{SET_UP}import speedtrack.tasks.worker", {"django", "numpy", "pydantic"}),
    "notify": (f"{SET_UP}import speedtrack.tasks.notify", {"django", "numpy", "pydantic"}),
    "git": (f"{SET_UP}import speedtrack.tasks.git", {"django", "pydantic"}),
}


def loaded_by(program: str) -> set[str]:
    """Which of LARGE a program has loaded at its end."""
    listing = f"{program}\nimport sys; print(*(name for name in {LARGE} if name in sys.modules))"
    argv = [sys.executable, "-c", listing]
    done = subprocess.run(argv, cwd=devstack.BASE_DIR, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", STARTS)
def test_a_process_that_waits_for_work_has_loaded_what_its_work_needs(name: str) -> None:
    program, libraries = STARTS[name]
    assert loaded_by(program) == libraries


def test_each_process_of_the_server_is_looked_at() -> None:
    assert STARTS.keys() == devstack.PROCESSES.keys()


def test_results_are_taken_and_canaries_judged_without_arrays() -> None:
    """The first by the web server, the second by the dispatcher, too."""
    program = "from speedtrack.stats import summary\nfrom speedtrack.stats.noise import canary\n"
    assert loaded_by(f"{program}summary.summarize([1.0] * 9); canary.judge_canary([1.0] * 9, 1.0, 0.01)") == set()
