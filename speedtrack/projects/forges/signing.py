"""The signatures of calls: HMAC-SHA256 of the body in hex, Standard Webhooks, or GitLab's plain token.

All comparisons take constant time.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from speedtrack.projects.forges.bodies import Body

WINDOW_S = 300  # largest difference between a signature's time and ours (standardwebhooks.com)
KEY_PREFIX = "whsec_"  # of a secret that is bytes in base64


class SignatureFault(StrEnum):
    """Why a call is refused."""

    UNSIGNED = "unsigned"
    WEAK = "sha1"
    WRONG = "wrong"
    TIME = "time"


class BadSignature(Exception):
    """The call is not signed with a secret of the project; the message names the remedy."""

    def __init__(self, fault: SignatureFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True)
class HookCall:
    """One received call. The names of ``headers`` ignore case; ``now``: seconds since 1970."""

    headers: Mapping[str, str]
    body: Body
    now: float

    def header(self, name: str) -> str:
        return self.headers.get(name, "")


@dataclass(frozen=True)
class Scheme:
    """One way to sign. ``header``: holds the signature. ``is_right``: checks it with a secret.

    ``time_header``: the header with the time.
    """

    header: str
    is_right: Callable[[HookCall, str], bool]
    time_header: str = ""


def equal(signature: str, expected: str) -> bool:
    return hmac.compare_digest(signature.encode(errors="replace"), expected.encode())


def hex_digest(header: str, prefix: str = "") -> Scheme:
    """The scheme HMAC-SHA256 of the body, in hex."""

    def is_right(call: HookCall, secret: str) -> bool:
        expected = call.body.hmac_sha256(secret.encode()).hex()
        return equal(call.header(header), prefix + expected)

    return Scheme(header, is_right)


def plain_token(header: str) -> Scheme:
    """The scheme that sends the secret itself: anybody who reads one call can forge others."""
    return Scheme(header, lambda call, secret: equal(call.header(header), secret))


def key_of(secret: str) -> bytes:
    """The key of Standard Webhooks: bytes in base64 after ``whsec_``, otherwise the text itself."""
    if secret.startswith(KEY_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()


def is_right_standard(call: HookCall, secret: str) -> bool:
    head = f"{call.header('webhook-id')}.{call.header('webhook-timestamp')}."
    mac = call.body.hmac_sha256(key_of(secret), head.encode(errors="replace"))
    expected = f"v1,{base64.b64encode(mac).decode()}"
    return any(equal(signature, expected) for signature in call.header("webhook-signature").split()[:10])


STANDARD = Scheme("webhook-signature", is_right_standard, time_header="webhook-timestamp")


def check_time(call: HookCall, header: str) -> None:
    """Raise BadSignature if the call was signed too long ago or in the future.

    Somebody may have recorded it, or a clock is wrong.
    """
    sent_at = call.header(header)
    if not sent_at.isascii() or not sent_at.isdecimal() or abs(call.now - int(sent_at[:20])) > WINDOW_S:
        raise BadSignature(
            SignatureFault.TIME,
            f"{header} differs from this server's time by more than {WINDOW_S} seconds: set the clocks of both",
        )


def matching_secret(call: HookCall, schemes: Sequence[Scheme], secrets: Sequence[str], weak: Sequence[str] = ()) -> int:
    """The index of the secret that signed the call. Raises BadSignature if there is none.

    The first scheme whose header is present decides. ``weak``: headers of signatures that are refused.
    """
    names = " or ".join(scheme.header for scheme in schemes)
    scheme = next((scheme for scheme in schemes if call.header(scheme.header)), None)
    if scheme is None:
        if any(call.header(name) for name in weak):
            raise BadSignature(SignatureFault.WEAK, f"the call is signed with SHA-1 only: expected the header {names}")
        raise BadSignature(
            SignatureFault.UNSIGNED,
            f"the call is not signed: expected the header {names}; set the project's secret at the forge",
        )
    for index, secret in enumerate(secrets):
        if secret and scheme.is_right(call, secret):
            if scheme.time_header:
                check_time(call, scheme.time_header)
            return index
    raise BadSignature(SignatureFault.WRONG, f"{scheme.header} does not match: set the project's secret at the forge")
