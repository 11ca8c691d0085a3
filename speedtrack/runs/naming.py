"""What people name: projects, machines, runs, benchmarks. An unknown name raises an error that lists the known ones."""

from django.db.models import QuerySet

from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.projects.models import Project
from speedtrack.runs.errors import NoSuchBenchmark, NoSuchMachine, NoSuchThing
from speedtrack.runs.models import Machine, Run

LONGEST_SLUG = 50  # as Project.slug


def project_named(slug: str) -> Project:
    """The project with this slug. Raises NoSuchThing that lists the projects."""
    try:
        return Project.objects.get(slug=slug)
    except Project.DoesNotExist:
        slugs = ", ".join(Project.objects.values_list("slug", flat=True)) or "none; track a repository first"
        raise NoSuchThing(f"there is no project {slug!r}: there are {slugs}") from None


def machine_named(name: str) -> Machine:
    """The machine with this name. Raises NoSuchThing that lists the machines."""
    try:
        return Machine.objects.get(name=name)
    except Machine.DoesNotExist:
        names = ", ".join(m.name for m in machines_by_name()) or "none; add one first"
        raise NoSuchMachine(f"there is no machine {name!r}: there are {names}") from None


def machine_with_runner(name: str) -> Machine:
    """The machine with this name.

    Raises NoSuchThing if its results come from outside: then nothing here can make it measure.
    """
    machine = machine_named(name)
    check_has_runner(machine)
    return machine


def check_has_runner(machine: Machine) -> None:
    if machine.outside:
        raise NoSuchThing(
            f"machine {machine} has no runner, its results are sent in: measure there, and send what was measured"
        )


def machines_by_name() -> QuerySet[Machine]:
    return Machine.objects.order_by("name")


def run_numbered(number: int) -> Run:
    """The run with this number. Raises NoSuchThing."""
    run = Run.objects.filter(pk=number).first()
    if run is None:
        raise NoSuchThing(f"there is no run {number}: the queue's page lists the newest")
    return run


def benchmarks_named(benchmarks: list[Benchmark], names: list[str]) -> list[Benchmark]:
    """The benchmarks with these names; the name of a ladder stands for all its rungs."""
    return [b for b in benchmarks if b.name in names or (b.ladder and b.ladder in names)]


def check_known(suite: Suite, benchmarks: list[Benchmark], names: list[str]) -> None:
    """Raise NoSuchThing if the suite lacks one of these benchmarks."""
    unknown = set(names) - {b.name for b in benchmarks} - {b.ladder for b in benchmarks if b.ladder}
    if unknown:
        available = ", ".join(dict.fromkeys(b.ladder or b.name for b in benchmarks))
        raise NoSuchBenchmark(f"suite {suite} has no benchmark {', '.join(sorted(unknown))}: it has {available}")
