"""The facts about a forge that the server needs to receive its calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from speedtrack.projects.forges.bodies import Body
from speedtrack.projects.forges.events import Meaning, Reader, ignored
from speedtrack.projects.forges.payloads import UnreadableBody, read_payload
from speedtrack.projects.forges.signing import HookCall, Scheme


@dataclass(frozen=True)
class Provider:
    """A forge.

    ``marks``: headers, any one of which identifies its calls. ``schemes``: how it signs, the preferred one first.
    ``weak``: headers of refused signatures. ``id_headers``: the first one present names the delivery. ``moves``: events
    that always cause a fetch. ``reports``: events whose body decides. All other events are ignored.
    """

    name: str
    title: str
    marks: tuple[str, ...]
    schemes: tuple[Scheme, ...]
    event_header: str
    id_headers: tuple[str, ...]
    moves: Mapping[str, Reader]
    reports: Mapping[str, Reader] = field(default_factory=dict)
    weak: tuple[str, ...] = ()

    def event_of(self, call: HookCall) -> str:
        return call.header(self.event_header)[:50]

    def delivery_id_of(self, call: HookCall) -> str:
        return next((call.header(name) for name in self.id_headers if call.header(name)), "")[:100]

    def meaning(self, event: str, body: Body, content_type: str) -> Meaning:
        """The meaning of a verified call of this event."""
        reader = self.moves.get(event) or self.reports.get(event)
        if reader is None:
            return ignored(f"event {event!r} is not interesting")
        try:
            return reader(read_payload(body, content_type))
        except UnreadableBody as e:
            return Meaning(str(e), look=True) if event in self.moves else ignored(str(e))
