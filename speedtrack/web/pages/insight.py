"""What the page of a series says beside its chart: how small a change it shows, what mutes it, why it was suspected."""

from dataclasses import dataclass

from speedtrack.alerts import muting, reasons, sensitivity
from speedtrack.alerts.models import Mute
from speedtrack.alerts.reasons import Why
from speedtrack.alerts.sensitivity import SeriesSensitivity
from speedtrack.web.pages.timeline import View, position_of


def sensitivity_of(view: View) -> list[SeriesSensitivity]:
    """How small a change each machine's newest line of the view shows now."""
    newest = {s.machine_id: s for s in view.series}
    return sensitivity.sensitivities(view.branch, newest.values())


@dataclass(frozen=True)
class WhyHere:
    """Why a machine's line was suspected, or not, at a commit that somebody asked about."""

    machine: str
    sha: str
    why: Why | None


def why_of(view: View, sha: str) -> list[WhyHere]:
    """Of a commit of the branch, by each machine's newest line of the view."""
    if not sha:
        return []
    number = position_of(view.branch, sha)
    newest = {s.machine_id: s for s in view.series}
    return [WhyHere(s.machine.name, sha, reasons.why(s, view.branch, number)) for s in newest.values()]


def mutes_of(view: View) -> list[tuple[str, Mute]]:
    """What mutes each machine's line of the view now."""
    mutes = list(muting.mutes_in_force(view.scope.project))
    found = {s.machine.name: mute for s in view.series for mute in mutes if mute.covers(s)}
    return sorted(found.items())
