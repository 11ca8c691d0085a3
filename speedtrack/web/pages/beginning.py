"""The state of a project before its first result: its repository is cloned, runs wait, a machine measures."""

from dataclasses import dataclass

from django.urls import reverse

from speedtrack.projects.models import Position, Project
from speedtrack.runs.models import ACTIVE, Run, Status
from speedtrack.runs.scheduling import standing
from speedtrack.runs.scheduling.standing import MachineStanding
from speedtrack.web.scope import PageScope

FEW = 100  # runs are counted up to here
LOOKS = {"done": "good", "under way": "running", "waits": "queued", "fails": "failed"}


@dataclass(frozen=True)
class FirstStep:
    """``state``: a key of LOOKS. ``url`` and ``link``: where to go for it. ``run_id``: of a run with progress."""

    state: str
    words: str
    url: str = ""
    link: str = ""
    run_id: int | None = None

    @property
    def look(self) -> str:
        return LOOKS[self.state]


def load(scope: PageScope, is_watched: bool = False) -> list[FirstStep]:
    """The steps until the first result; empty once there is one.

    ``is_watched``: whoever has seen the steps sees them until a run has ended, as charts do not show results before.
    """
    project = scope.project
    has_series = any(getattr(machine, "has_series", False) for machine in scope.machines)
    if project.untracked_at or (has_series and not (is_watched and is_in_first_run(project))):
        return []
    return [history_step(project), *run_steps(project), machine_step(project)]


def is_in_first_run(project: Project) -> bool:
    return not Run.objects.filter(project=project).exclude(status__in=[Status.QUEUED, *ACTIVE]).exists()


def history_step(project: Project) -> FirstStep:
    if project.synced_at is None:
        if project.error:
            return FirstStep("fails", f"The repository cannot be cloned; it is tried again. {project.error}")
        return FirstStep("under way", f"{project.url} is being cloned. A large history takes minutes.")
    commits = Position.objects.filter(branch__in=project.branches.default()).count()
    return FirstStep("done", f"The history of {project.default_branch} is known: {commits:,} commits.")


def run_steps(project: Project) -> list[FirstStep]:
    """The steps about runs; empty as long as the history is unknown."""
    if project.synced_at is None:
        return [FirstStep("waits", "Then runs of its newest commits are queued.")]
    runs = list(Run.objects.newest_first(project.pk).values_list("pk", "status")[:FEW])
    waiting_count = sum(status == Status.QUEUED for _, status in runs)
    failed = [pk for pk, status in runs if status == Status.FAILED]
    steps = [FirstStep("done", f"{len(runs)} runs were queued; {waiting_count} wait.", reverse("queue"), "The queue")]
    if not runs:
        return [FirstStep("waits", "No run is queued: the next push brings one.")]
    if failed:
        steps.append(
            FirstStep("fails", f"{len(failed)} failed.", reverse("run", args=[failed[0]]), f"Run {failed[0]} says why")
        )
    return steps


def machine_step(project: Project) -> FirstStep:
    machines = list(project.machines.defer("facts").order_by("name"))
    if not machines:
        return FirstStep("waits", "No machine measures yet: nothing starts before there is one.")
    running = Run.objects.active().filter(machine__in=machines).select_related("machine", "project").first()
    if running and running.project_id == project.pk:
        sentence = f"{running.machine} measures the first run."
        return FirstStep("under way", sentence, reverse("run", args=[running.pk]), f"Run {running.pk}", running.pk)
    sentence = " ".join(map(state_of, standing.of_machines(machines).values()))
    return FirstStep("waits", sentence, reverse("queue"), "The queue")


def state_of(stands: MachineStanding) -> str:
    """What a machine that measures the project does now."""
    return stands.sentence or f"Machine {stands.machine} takes the first run when it comes to it."
