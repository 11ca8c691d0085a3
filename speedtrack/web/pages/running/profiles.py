"""Profiles of a change: differential flame graphs for each benchmark, or why there is none."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import Http404

from speedtrack.alerts.models import Alert
from speedtrack.retention import policies
from speedtrack.runs.models import Profile, Reason, Run, Side, Status
from speedtrack.runs.results import profiles
from speedtrack.web.drawing.charts.flame import INSTRUCTIONS, TIME, Flame, Stacks


@dataclass(frozen=True)
class BenchmarkProfiles:
    """Both sides of one benchmark, sampled or ``counted``.

    ``flame`` is None if ``why_not`` gives a reason. ``key``: their name in addresses.
    """

    key: str
    benchmark: str
    counted: bool
    base: Profile
    head: Profile
    flame: Flame | None
    why_not: str

    @property
    def sides(self) -> list[Profile]:
        return [self.base, self.head]

    @property
    def per_request(self) -> list[float | None]:
        """The cost of a request before and after."""
        return [profiles.cost_per_request(side) for side in self.sides]


@dataclass(frozen=True)
class ProfileSection:
    """The newest profile run of a change, and the profiles of the newest that succeeded.

    ``deleted``: what became of those, if there are none any more.
    """

    run: Run | None
    benchmarks: list[BenchmarkProfiles]
    deleted: str = ""


def section_of_alert(alert: Alert, zoom: str) -> ProfileSection:
    if not getattr(alert, "has_profiles", True):
        return ProfileSection(None, [])
    runs = Run.objects.filter(reason=Reason.PROFILE, base=alert.before, commit=alert.commit)
    return section_of_runs(runs, zoom)


def section_of_run(run: Run, zoom: str) -> ProfileSection | None:
    """The profiles of a profile run; None for a run that measures."""
    return section_of_runs(Run.objects.filter(pk=run.pk), zoom) if run.reason == Reason.PROFILE else None


def section_of_runs(runs: QuerySet[Run], zoom: str) -> ProfileSection:
    """``zoom``: the key of a graph, a colon and the number of a frame."""
    rounds = list(runs.order_by("-id").select_related("machine", "base", "commit").defer("machine__facts"))
    last_success = next((run for run in rounds if run.status == Status.SUCCEEDED), None)
    newest = rounds[0] if rounds else None
    stored_profiles = profiles.profiles_of([last_success]) if last_success else []
    deletions = policies.deletions(last_success.ended_at) if last_success and not stored_profiles else {}
    return ProfileSection(newest, by_benchmark(stored_profiles, zoom), deletions.get("profiles", ""))


def by_benchmark(stored_profiles: list[Profile], zoom: str) -> list[BenchmarkProfiles]:
    sides = {(profile.benchmark.name, profile.kind, profile.side): profile for profile in stored_profiles}
    graphs = dict.fromkeys((profile.benchmark.name, profile.kind) for profile in stored_profiles)
    return [
        benchmark_profiles(sides[*graph, Side.BASE], sides[*graph, Side.HEAD], zoom)
        for graph in graphs
        if (*graph, Side.BASE) in sides and (*graph, Side.HEAD) in sides
    ]


def benchmark_profiles(base: Profile, head: Profile, zoom: str) -> BenchmarkProfiles:
    name, by_instructions = head.benchmark.name, head.kind == Profile.Kind.INSTRUCTIONS
    key = f"{name}:{head.kind}"
    why_not = head.unavailable or base.unavailable
    if why_not:
        return BenchmarkProfiles(key, name, by_instructions, base, head, None, why_not)
    which, _, number = zoom.rpartition(":")
    frame_number = int(number) if which == key and number.isdecimal() and len(number) < 10 else 0
    flame = Flame.of(stacks_of(base), stacks_of(head), frame_number, INSTRUCTIONS if by_instructions else TIME)
    return BenchmarkProfiles(key, name, by_instructions, base, head, flame, "")


def stacks_of(profile: Profile) -> Stacks:
    return Stacks(profiles.folded_stacks(profile), profiles.cost_per_request(profile))


def stacks_text(pk: int) -> str:
    """The folded stacks of one profile. Raises Http404."""
    profile = Profile.objects.filter(pk=pk).first()
    if profile is None:
        raise Http404(f"There is no profile {pk}. {policies.POLICIES['profiles'].rule}")
    return profiles.folded_stacks(profile)
