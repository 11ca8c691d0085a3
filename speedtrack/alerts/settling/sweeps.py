"""Sweeps: an idle machine compares the newest measured commit of the default branch with an earlier one, in pairs.

A line shows only changes that are larger than its noise. Pairs show smaller ones, as the machine's noise is the same on
both sides. So once SWEEP_EVERY more commits are measured, the usual benchmarks are measured in pairs of the newest of
them and the commit at which the last sweep ended. Its pairs only suspect: what may have moved is measured again, in
fresh pairs of the same two commits, and then narrowed like every change.
"""

from collections.abc import Sequence

from django.conf import settings

from speedtrack.alerts.lines.past import mark_past
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.pairs import pairing, suites
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.alerts.settling.verdicts import usual_budget
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.benchmarks.storing import store_set, usual_set
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import ROUTINE, Machine, Reason, Run
from speedtrack.runs.models import Status as RunStatus
from speedtrack.runs.planning.questions import Question, plan_pairs

PAIRS = 14  # of each benchmark: more find little more (python -m research.machine_time split)
DOUBT = 0.2  # the largest p of a difference that is measured again
MOST_BENCHMARKS = 20

Status = ChangePoint.Status
#: Changes that explain what a sweep shows, as far as it is known.
STANDING = (*ChangePoint.OPEN, Status.CONFIRMED, Status.HISTORY)


def plan_sweep(machine: Machine) -> bool:
    """Queue the pairs of a due sweep on this machine. Return whether there was one."""
    if settings.SWEEP_EVERY <= 0:
        return False
    for project in machine.projects.all():
        branch = Branch.followed(project)
        ends = due_ends(machine, branch) if branch else None
        if ends and (question := sweep_question(machine, project, ends)):
            plan_pairs(question)
            return True
    return False


def sweep_question(machine: Machine, project: Project, ends: tuple[int, int]) -> Question | None:
    """The question how two commits differ in the usual benchmarks of the project's suite; None if that is invalid."""
    try:
        suite, usual = usual_set(project, project.suite)
    except DefinitionError:
        return None  # whoever tracks or pushes is told
    benchmarks = store_set(suite, list(usual.benchmarks.order_by("pk")[:MOST_BENCHMARKS]))
    return Question(*ends, machine, suite, benchmarks, Reason.SWEEP, PAIRS, [HEADLINE])


def due_ends(machine: Machine, branch: Branch) -> tuple[int, int] | None:
    """The ids of the two commits of a due sweep: where the last one ended, or SWEEP_EVERY measured commits ago, and the
    newest measured one. None if none is due.
    """
    runs = Run.objects.filter(machine=machine, project=branch.project_id, commit__positions__branch=branch)
    newest_first = runs.order_by("-commit__positions__number").values_list("commit__positions__number", "commit")
    routine = newest_first.filter(reason__in=ROUTINE, status=RunStatus.SUCCEEDED).distinct()
    newest = list(routine[: settings.SWEEP_EVERY + 1])
    swept = newest_first.filter(reason=Reason.SWEEP).first()
    begin = swept or (newest[-1] if len(newest) > settings.SWEEP_EVERY else None)
    since = [commit for number, commit in newest if begin and number > begin[0]]
    return (begin[1], since[0]) if begin and len(since) >= settings.SWEEP_EVERY else None


def read(run: Run) -> list[ChangePoint]:
    """Store the changes that the pairs of an ended sweep suggest, queue fresh pairs for them, and return them.

    Returns an empty list if the default branch has been deleted or rewritten since the sweep was planned.
    """
    branch = Branch.followed(run.project)
    if branch is None or len(positions_of(branch, [run.base_id or 0, run.commit_id])) < 2:
        return []
    changes = [
        ChangePoint(
            series=row.series,
            branch=branch,
            before=run.base,
            commit=run.commit,
            status=Status.SETTLING,
            ratio=row.comparison.ratio,
            low=row.comparison.low,
            high=row.comparison.high,
            score=0,
        )
        for row in suites.compare_suite(run)
        if row.comparison.p <= DOUBT
    ]
    if fresh := [cp for cp in changes if not ChangePoint.objects.alike(cp).filter(status__in=STANDING).exists()]:
        with isolated(*[cp.series for cp in fresh]):
            settle(run, fresh)
    return fresh


def settle(run: Run, changes: Sequence[ChangePoint]) -> None:
    """Store these changes, and queue the first round of pairs that settles them."""
    assert run.base_id is not None
    pairs = usual_budget(changes[0]).first
    confirming = plan_pairs(pairing.question_of(changes, run.base_id, run.commit_id, Reason.CONFIRM, pairs))
    for cp in changes:
        cp.save()
        cp.runs.add(confirming)
        mark_past(cp, [run.commit_id])
