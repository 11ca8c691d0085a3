"""What the page of a series shows beside its chart: how small a change it shows, its mutes, why it was suspected."""

from dataclasses import dataclass

from speedtrack.alerts.lines import spreads
from speedtrack.alerts.models import Mute, NoiseFloor, SeriesSensitivity
from speedtrack.alerts.triage import muting, reasons
from speedtrack.alerts.triage.reasons import Why
from speedtrack.web.pages.timeline.view import View, position_of


def floors_of(view: View) -> list[NoiseFloor]:
    """The noise floor of each machine of the view, from the newest A/A run of this benchmark and metric."""
    floors = sorted(spreads.newest_floors(s.pk for s in view.series).values(), key=lambda floor: floor.pk)
    return list({floor.series.machine_id: floor for floor in floors}.values())


def sensitivity_of(view: View) -> list[SeriesSensitivity]:
    """How small a change the newest series of each machine shows."""
    newest = {s.machine_id: s for s in view.series}
    by_series = SeriesSensitivity.objects.in_bulk([s.pk for s in newest.values()])
    for series in newest.values():
        if series.pk in by_series:
            by_series[series.pk].series = series
    return list(by_series.values())


@dataclass(frozen=True)
class WhyAtCommit:
    """Why a machine's newest series was suspected, or not, at a commit that somebody asked about."""

    machine: str
    sha: str
    why: Why | None


def why_of(view: View, sha: str) -> list[WhyAtCommit]:
    if not sha:
        return []
    number = position_of(view.branch, sha)
    newest = {s.machine_id: s for s in view.series}
    return [WhyAtCommit(s.machine.name, sha, reasons.why(s, view.branch, number)) for s in newest.values()]


def mutes_in(view: View) -> list[tuple[str, Mute]]:
    """(machine, mute) for each machine of the view whose series is muted now."""
    mutes = list(muting.mutes_in_force(view.scope.project))
    by_machine = {s.machine.name: mute for s in view.series for mute in mutes if mute.covers(s)}
    return sorted(by_machine.items())
