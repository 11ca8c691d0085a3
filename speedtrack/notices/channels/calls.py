"""One bounded HTTP call to a checked address: no redirects, no proxy from the environment, no second look-up."""

import json
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpcore

from speedtrack.ground.secrets.addresses import Address
from speedtrack.notices.channels.addresses import allowed_addresses, destination
from speedtrack.notices.errors import PermanentFailure, ReceiverAway, Unanswered

CONNECT_S, WHOLE_S = 5.0, 15.0  # to connect; for the whole call, from look-up to the last byte
MOST_BYTES = 64 * 1024
LONGEST_WAIT_S = 6 * 3600.0  # that an answer may request
USER_AGENT = "SpeedTrack"
#: status -> its meaning for the owner of the channel; hundreds stand for the rest of their class
WORDS = {
    300: ": a redirect is not followed, enter the address that it names",
    400: ": it does not understand the message, check the kind of the channel and the URL",
    401: ": it does not know the token or the URL's secret, enter a new one",
    403: ": the token may not do this, give it the permission",
    404: ": there is nothing at this address, or the token may not see it",
    410: ": the receiver is gone for good",
    422: ": it refuses the message",
    429: ": too many calls, further ones wait for a while",
    500: ": it has trouble of its own",
}


class Gone(PermanentFailure):
    """The receiver no longer exists (410)."""


@dataclass(frozen=True)
class OutgoingCall:
    """The content of a call. ``document`` is encoded as JSON, unless ``body`` holds the exact bytes.

    At most ``most_bytes`` of the answer's body are read.
    """

    method: str
    url: str
    document: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    most_bytes: int = MOST_BYTES

    def content(self) -> bytes | None:
        return encoded(self.document) if self.body is None and self.document is not None else self.body


@dataclass(frozen=True)
class Response:
    """The answer to a call. ``headers``: by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    def document(self) -> Any:
        """The body as JSON. Raises ReceiverAway if it is not: then the URL does not lead to the API."""
        try:
            return json.loads(self.body)
        except ValueError as e:
            raise ReceiverAway("the answer is not the JSON of an API: is the URL that of the server itself?") from e

    def wait_s(self) -> float | None:
        """The seconds that the receiver asks to wait; None if it does not ask."""
        seconds = seconds_of(self.headers.get("retry-after", ""))
        if seconds is None and self.headers.get("x-ratelimit-remaining") == "0":
            reset = self.headers.get("x-ratelimit-reset", "")
            seconds = float(reset) - time.time() if reset.isdecimal() else None
        return None if seconds is None else min(max(1.0, seconds), LONGEST_WAIT_S)


def encoded(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def seconds_of(text: str) -> float | None:
    """The seconds of a Retry-After, which is a number of seconds or a date; None if it is neither."""
    if text.strip().isdecimal():
        return min(float(text), LONGEST_WAIT_S)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def call(outgoing: OutgoingCall) -> Response:
    """Make the call. Raises AddressRefused if the address is not allowed, ReceiverAway if nothing answers."""
    deadline = time.monotonic() + WHOLE_S
    where = destination(outgoing.url)
    addresses = allowed_addresses(where, CONNECT_S)
    pool = httpcore.ConnectionPool(
        ssl_context=trusted_context(),
        network_backend=PinnedBackend(addresses, deadline),
        max_connections=1,
        http2=False,
    )
    content = outgoing.content()
    headers = {"Host": where.origin.split("//")[1], "User-Agent": USER_AGENT, "Accept": "application/json"}
    headers |= {"Content-Type": "application/json"} if content is not None else {}
    headers |= {"Content-Length": str(len(content))} if content is not None else {}
    url = httpcore.URL(
        scheme=where.scheme.encode(), host=where.host.encode(), port=where.port, target=where.target.encode()
    )
    limits = {"connect": CONNECT_S, "read": WHOLE_S, "write": WHOLE_S, "pool": WHOLE_S}
    try:
        with (
            pool,
            pool.stream(
                outgoing.method,
                url,
                headers=list((headers | dict(outgoing.headers)).items()),
                content=content,
                extensions={"timeout": limits},
            ) as response,
        ):
            names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            return Response(response.status, names, read_bounded(response.iter_stream(), outgoing.most_bytes))
    except httpcore.ReadTimeout as e:
        raise Unanswered(f"{where.origin} did not answer within {WHOLE_S:.0f} s") from e
    except httpcore.TimeoutException as e:
        raise ReceiverAway(
            f"{where.origin} did not take the call within {CONNECT_S:.0f} s: is it up, and reachable?"
        ) from e
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as e:
        raise ReceiverAway(f"{where.origin} cannot be reached: {e or type(e).__name__}") from e


def read_bounded(pieces: Iterable[bytes], most: int) -> bytes:
    """The beginning of a body, at most this many bytes."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) >= most:
            break
    return bytes(body[:most])


def require_success(answer: Response, receiver: str) -> Response:
    """The answer if it is a success; otherwise raises PermanentFailure or ReceiverAway with cause and remedy."""
    if answer.is_good:
        return answer
    wait_s, status = answer.wait_s(), answer.status
    sentence = f"{receiver} answered {status}{WORDS.get(status) or WORDS.get(status // 100 * 100, '')}"
    if status in (408, 425, 429) or status >= 500 or (status == 403 and wait_s):
        raise ReceiverAway(sentence, wait_s)
    raise (Gone if status == 410 else PermanentFailure)(sentence)


@cache
def trusted_context() -> ssl.SSLContext:
    """A TLS context that trusts this machine's authorities, or those of SSL_CERT_FILE."""
    return ssl.create_default_context()


class PinnedBackend(httpcore.NetworkBackend):
    """A network backend that connects only to the checked addresses, whatever the name.

    TLS still verifies the name.
    """

    def __init__(self, addresses: list[Address], deadline: float) -> None:
        self.addresses, self.deadline, self.plain = addresses, deadline, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        for number, address in enumerate(self.addresses, 1):
            try:
                limit = min(timeout or CONNECT_S, seconds_left(self.deadline))
                return Bounded(self.plain.connect_tcp(str(address), port, limit), self.deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(self.addresses):
                    raise
        raise httpcore.ConnectError("the name has no address")


class Bounded(httpcore.NetworkStream):
    """A stream that fails at its deadline, even if the other side keeps sending slowly."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self.stream, self.deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.stream.read(max_bytes, seconds_left(self.deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.stream.write(buffer, seconds_left(self.deadline))

    def close(self) -> None:
        self.stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return Bounded(self.stream.start_tls(ssl_context, server_hostname, seconds_left(self.deadline)), self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)


def seconds_left(deadline: float) -> float:
    """Seconds until the deadline. Raises ReadTimeout once it has passed."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise httpcore.ReadTimeout("the time for the whole call is over")
    return remaining
