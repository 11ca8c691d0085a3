"""Find out what was wrong with a run, and what to do about it."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.runs.models import Attempt, Run, Status
from speedtrack.web.help import TERMS
from speedtrack.web.pages.running.phases import ShownResult, TrialTotals

#: By the beginning of the reason, or a part of it: what helps. The first that fits counts.
REMEDIES = {
    r"build failed": "Read the log of the build below. If other commits build, this one is broken, and nothing has to"
    " be done; if none does, mend the build section of the suite or install what it lacks.",
    r"silent for more than|restarted while|no renewal for": "The runner stopped or lost its connection. Look at its own"
    " log on the machine; the run is queued again by itself.",
    r"ended at its deadline": "Measure fewer benchmarks at once, or shorten their windows.",
    r"benchmarks failed": "The log below names the cause of each. The other benchmarks were measured.",
    r"physical cores|shared cores": "Give the runner more cores; `python -m runners plan` shows what it may use.",
    r"environment cannot be named": "Follow the message: nothing is measured whose environment is unknown.",
    r"schema is|was refused with": "Server and runner differ in version: update the older one.",
    r"no image|Docker": "Pull or build the image on the machine, and check that the runner may use Docker.",
    r"canary": "An operator freezes a new one on the machine's page.",
}
OTHERWISE = "The log below ends with what happened last; `manage.py doctor` checks the server."


class Fault(NamedTuple):
    """``key``: the help that explains the fault; may be empty."""

    title: str
    key: str
    what: str
    remedy: str


def faults_of(run: Run, trials: TrialTotals, flags: Iterable[str]) -> list[Fault]:
    """The faults of a run, the worst first: why it failed, then what makes values doubtful.

    ``flags``: of the measurements.
    """
    faults = []
    if run.error:
        again = " It waits for another attempt." if run.status == Status.QUEUED else ""
        title = "failed" if run.status == Status.FAILED else "an attempt was lost"
        faults.append(Fault(title, "", "", remedy_of(run.error) + again))  # the page has the error itself
    counts = Counter(trials.flags)
    for flag in dict.fromkeys([*(flag for flag, _ in counts.most_common()), *flags]):
        faults.append(flag_fault(flag, counts[flag], trials.number))
    return faults


def out_of_reach(attempt: Attempt | None) -> list[Fault]:
    """The benchmarks that the machine could not measure, and why."""
    reasons = attempt.out_of_reach if attempt else {}
    remedy = "The other benchmarks were measured: the run did not fail."
    return [Fault(f"{name}: out of reach", "", f"{reason}.", remedy) for name, reason in reasons.items()]


def without_layouts(results: Iterable[ShownResult]) -> list[Fault]:
    """Why random layouts that the suite has were not measured, each reason once."""
    reasons = dict.fromkeys(result.no_layouts for result in results if result.no_layouts)
    remedy = "The plain programs were measured: the run did not fail."
    return [Fault("without random layouts", "", f"{reason}.", remedy) for reason in reasons]


def flag_fault(flag: str, count: int, trials: int) -> Fault:
    term = TERMS.get(f"flag {flag}")
    how_many = f"{count} of {trials} trials: " if count else ""
    voided = [metric.title for metric in METRICS.values() if flag in metric.voided_by]
    doubtful = (
        f" Not to be trusted: {', '.join(voided[:4])}{' and others' if len(voided) > 4 else ''}." if voided else ""
    )
    text = term.text if term else "this version of the server does not know the flag."
    return Fault(flag, f"flag {flag}", f"{how_many}{text}{doubtful}", term.remedy if term else "Update the server.")


def remedy_of(error: str) -> str:
    return next((remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, error)), OTHERWISE)
