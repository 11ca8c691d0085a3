"""Profiles of a change: a differential flame graph for each benchmark, or why there is none."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import Http404

from speedtrack.alerts.models import Alert
from speedtrack.runs import profiles
from speedtrack.runs.models import Profile, Reason, Run, Side, Status
from speedtrack.web.drawing.flame import Flame, Stacks


@dataclass(frozen=True)
class BenchmarkProfiles:
    """Both sides of one benchmark. ``flame`` is None where ``why_not`` says why."""

    benchmark: str
    base: Profile
    head: Profile
    flame: Flame | None
    why_not: str

    @property
    def sides(self) -> list[Profile]:
        return [self.base, self.head]


@dataclass(frozen=True)
class ProfileSection:
    """The newest profile run of a change, and the profiles of the newest that succeeded."""

    run: Run | None
    benchmarks: list[BenchmarkProfiles]


def section_of_alert(alert: Alert, zoom: str) -> ProfileSection:
    runs = Run.objects.filter(reason=Reason.PROFILE, base=alert.before, commit=alert.commit)
    return section_of_runs(runs, zoom)


def section_of_run(run: Run, zoom: str) -> ProfileSection | None:
    """The profiles of a profile run; None for a run that measures."""
    return section_of_runs(Run.objects.filter(pk=run.pk), zoom) if run.reason == Reason.PROFILE else None


def section_of_runs(runs: QuerySet[Run], zoom: str) -> ProfileSection:
    """``zoom``: a benchmark, a colon and the number of a frame."""
    newest = runs.order_by("-id").select_related("machine", "base", "commit").first()
    done = runs.filter(status=Status.SUCCEEDED).order_by("-id").first()
    return ProfileSection(newest, by_benchmark(profiles.profiles_of([done]), zoom) if done else [])


def by_benchmark(found: list[Profile], zoom: str) -> list[BenchmarkProfiles]:
    sides = {(profile.benchmark.name, profile.side): profile for profile in found}
    names = dict.fromkeys(profile.benchmark.name for profile in found)
    return [
        benchmark_profiles(name, sides[name, Side.BASE], sides[name, Side.HEAD], zoom)
        for name in names
        if (name, Side.BASE) in sides and (name, Side.HEAD) in sides
    ]


def benchmark_profiles(name: str, base: Profile, head: Profile, zoom: str) -> BenchmarkProfiles:
    why_not = head.unavailable or base.unavailable
    if why_not:
        return BenchmarkProfiles(name, base, head, None, why_not)
    which, _, number = zoom.rpartition(":")
    asked = int(number) if which == name and number.isdecimal() and len(number) < 10 else 0
    return BenchmarkProfiles(name, base, head, Flame.of(stacks_of(base), stacks_of(head), asked), "")


def stacks_of(profile: Profile) -> Stacks:
    return Stacks(profiles.folded_stacks(profile), profile.cpu_ns_per_request)


def stacks_text(pk: int) -> str:
    """The folded stacks of one profile. Raises Http404."""
    profile = Profile.objects.filter(pk=pk).first()
    if profile is None:
        raise Http404(f"There is no profile {pk}.")
    return profiles.folded_stacks(profile)
