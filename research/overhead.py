"""Where the time of a run goes: building, measuring, and the runner's overhead.

python research/overhead.py [PROJECT]

Reads the finished runs of the database (DATABASE_URL, else the embedded one) and prints the medians over runs, by
reason (those that count instructions apart), of: all of it, from claim to end; the build (none where it came from the
store); the measured windows; warm-up and prefill; and the rest: starting and stopping servers and driver, looking
whether the machine is quiet, trials that were disturbed and repeated, sending; all of a run that counts instructions.
"""

import os
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")

import django

from speedtrack.processes import devstack

if TYPE_CHECKING:
    from speedtrack.runs.models import Run

PARTS = ("build", "windows", "warm-up", "prefill")


def main() -> None:
    devstack.use_embedded_database()
    django.setup()
    from speedtrack.runs.models import Run

    runs = Run.objects.filter(status="succeeded", linked=None, started_at__isnull=False).order_by("pk")
    if len(sys.argv) > 1:
        runs = runs.filter(project__slug=sys.argv[1])
    by_reason: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        by_reason.setdefault(what_it_measures(run), []).append(parts_of(run))
    if not by_reason:
        sys.exit("no run has succeeded in this database: let `make demo` finish first")
    heading = f"{'medians':>16} {'runs':>5} {'trials':>7} {'repeated':>8}"
    print(heading, *(f"{column:>9}" for column in ("all", *PARTS, "rest")))
    for reason, rows in sorted(by_reason.items()):
        middle = {name: median(row[name] for row in rows) for name in rows[0]}
        cells = (f"{middle[column]:>8.1f}s" for column in ("all", *PARTS, "rest"))
        print(f"{reason:>16} {len(rows):>5} {middle['trials']:>7.0f} {middle['repeated']:>8.0f}", *cells)


def what_it_measures(run: "Run") -> str:
    """The run's reason; a paired run that counts instructions has no windows, so it is listed apart."""
    from speedtrack.benchmarks.metrics import METRICS

    return f"{run.reason}, counts" if run.metrics and all(METRICS[name].counted for name in run.metrics) else run.reason


def parts_of(run: "Run") -> dict[str, float]:
    """Seconds by part, and how many trials were kept and repeated."""
    attempt = run.attempts.get(token=run.lease_token)
    assert attempt.ended_at is not None
    trials = [trial for result in attempt.results.all() for trial in result.trials.all()]
    trial_documents = [document for result in attempt.results.all() for document in result.unpacked()]
    documents = [
        document["driver"] for document in trial_documents if "driver" in document
    ]  # a count of instructions has none
    tests = [document["tests"][-1] for document in documents]
    started_count = 1 + max((trial.order for trial in trials), default=-1)
    spent = {
        "all": (attempt.ended_at - attempt.started_at).total_seconds(),
        "build": sum(build.seconds for build in attempt.builds.filter(cached=False)),
        "windows": sum(test["window_s"] for test in tests),
        "warm-up": sum(test["warmup"]["seconds"] for test in tests),
        "prefill": sum(map(seconds_of_prefill, documents)),
    }
    remainder = spent["all"] - sum(spent[name] for name in PARTS)
    return spent | {"rest": remainder, "trials": len(trials), "repeated": started_count - len(trials)}


def seconds_of_prefill(document: dict[str, Any]) -> float:
    prefills = [document.get("prefill"), *(test.get("prefill") for test in document["tests"])]
    return sum(float(prefill["seconds"]) for prefill in prefills if prefill)


if __name__ == "__main__":
    main()
