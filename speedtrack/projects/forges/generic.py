"""Whatever else can sign: a script, a git hook, a forge that follows Standard Webhooks."""

from speedtrack.projects.forges.events import Meaning, looked_at, ping
from speedtrack.projects.forges.payloads import Payload
from speedtrack.projects.forges.provider import Provider
from speedtrack.projects.forges.signing import STANDARD, hex_digest


def look(payload: Payload) -> Meaning:
    return looked_at("asked to look at the repository")


GENERIC = Provider(
    name="generic",
    title="a signed call",
    marks=("webhook-signature", "X-SpeedTrack-Signature-256"),
    schemes=(STANDARD, hex_digest("X-SpeedTrack-Signature-256", "sha256=")),
    event_header="X-SpeedTrack-Event",
    id_headers=("webhook-id", "X-SpeedTrack-Delivery"),
    moves={"": look, "push": look},
    reports={"ping": ping},
)
