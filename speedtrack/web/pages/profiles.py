"""Profiles of a change: a differential flame graph for each benchmark, or why there is none."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import Http404

from speedtrack.alerts.models import Alert
from speedtrack.runs import profiles
from speedtrack.runs.models import Profile, Reason, Run, Side, Status
from speedtrack.web.flame import Flame, Stacks


@dataclass(frozen=True)
class Shown:
    """Both sides under one benchmark. ``flame`` is None where ``why_not`` says why."""

    benchmark: str
    base: Profile
    head: Profile
    flame: Flame | None
    why_not: str

    @property
    def sides(self) -> list[Profile]:
        return [self.base, self.head]


@dataclass(frozen=True)
class Section:
    """The newest profile run of a change, and what it brought."""

    run: Run | None
    shown: list[Shown]


def of_alert(alert: Alert, zoom: str) -> Section:
    runs = Run.objects.filter(reason=Reason.PROFILE, base=alert.before, commit=alert.commit)
    return of_runs(runs, zoom)


def of_run(run: Run, zoom: str) -> Section | None:
    """What a profile run brought; None for a run that measures."""
    return of_runs(Run.objects.filter(pk=run.pk), zoom) if run.reason == Reason.PROFILE else None


def of_runs(runs: QuerySet[Run], zoom: str) -> Section:
    """``zoom``: a benchmark, a colon and the number of a frame."""
    newest = runs.order_by("-id").select_related("machine", "base", "commit").first()
    done = runs.filter(status=Status.SUCCEEDED).order_by("-id").first()
    return Section(newest, paired(profiles.profiles_of([done]), zoom) if done else [])


def paired(found: list[Profile], zoom: str) -> list[Shown]:
    sides = {(profile.benchmark.name, profile.side): profile for profile in found}
    names = dict.fromkeys(profile.benchmark.name for profile in found)
    return [
        shown(name, sides[name, Side.BASE], sides[name, Side.HEAD], zoom)
        for name in names
        if (name, Side.BASE) in sides and (name, Side.HEAD) in sides
    ]


def shown(name: str, base: Profile, head: Profile, zoom: str) -> Shown:
    why_not = head.unavailable or base.unavailable
    if why_not:
        return Shown(name, base, head, None, why_not)
    which, _, number = zoom.rpartition(":")
    asked = int(number) if which == name and number.isdecimal() and len(number) < 10 else 0
    return Shown(name, base, head, Flame.of(stacks(base), stacks(head), asked), "")


def stacks(profile: Profile) -> Stacks:
    return Stacks(profiles.folded_stacks(profile), profile.cpu_ns_per_request)


def folded(pk: int) -> str:
    """The folded stacks of one profile. Raises Http404."""
    profile = Profile.objects.filter(pk=pk).first()
    if profile is None:
        raise Http404(f"There is no profile {pk}.")
    return profiles.folded_stacks(profile)
