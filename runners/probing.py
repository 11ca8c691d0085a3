"""Check whether a broker accepts messages, and explain why it does not. Loads the client libraries of brokers."""

import re
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amqp.exceptions import AccessRefused, AMQPError, NotAllowed, NotFound
from kombu import Connection, Producer, Queue
from kombu.exceptions import KombuError
from kombu.transport import pyamqp
from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError
from redis.sentinel import MasterNotFoundError

from runners.brokers import ANSWER_S, CONNECT_S, Broker

LONGEST_ATTEMPT_S = 10.0  # of a whole probe: a name resolver has its own time-outs
KEPT_S = 30  # a probe's message, if the prober dies
ERRORS = (KombuError, RedisError, AMQPError, OSError)


class Unavailable(Exception):
    """The broker does not take messages; the text has its name and the reason."""


class Refusing(Unavailable):
    """The broker works, but takes no messages until a person does something."""


def let_workers_wait() -> None:
    """Let a worker retry after a wrong password or virtual host, as without a broker: kombu would end it."""
    pyamqp.Transport.recoverable_connection_errors += (AccessRefused, NotAllowed)


def connection_to(broker: Broker) -> Connection:
    """A connection that is opened at its first use; each of its steps has a time limit."""
    return Connection(
        broker.url, ssl=broker.tls or False, transport_options=broker.transport_options, connect_timeout=CONNECT_S
    )


REFUSED_LOGIN = "it refuses the user or the password: correct BROKER_URL"
FULL = "its memory is full, so it takes no messages: raise its maxmemory, or empty it"
NO_NAME = "its host name is not known: correct it, or look into this host's resolver"
NOBODY_LISTENS = "nothing listens there: start it, or correct host and port"
SILENT = "it is silent: check that it works, and whether its port is for TLS like the scheme"
# The reason for an error of a library or for its cause; the first match counts.
CLASSES: tuple[tuple[type[BaseException], str], ...] = (
    (MasterNotFoundError, "none of its sentinels knows a master of that name: correct master_name, or start them"),
    (OutOfMemoryError, FULL),
    (AuthenticationError, REFUSED_LOGIN),
    (AccessRefused, REFUSED_LOGIN),
    (NotAllowed, "it has no such virtual host, or its user may not use it: make it, or correct BROKER_URL"),
    (socket.gaierror, NO_NAME),
    (ConnectionRefusedError, NOBODY_LISTENS),
)
# The same by text, for libraries that keep only the text.
TEXTS = (
    (r"WRONGPASS|NOAUTH|invalid username-password|Authentication required", REFUSED_LOGIN),
    (r"OOM command not allowed", FULL),
    (r"Name or service not known|name resolution|nodename nor servname", NO_NAME),
    (r"Connection refused", NOBODY_LISTENS),
    (r"(?i)wrong.version.number|record.layer.failure", "it speaks no TLS: use the scheme without TLS, or its TLS port"),
    (
        r"(?i)connection closed|closed connection|reset by peer|broken pipe|protocol error|socket closed|invalid frame",
        "it ended the connection: look into its log, and whether its port is for TLS",
    ),
    (r"(?i)timeout|timed out|temporarily unavailable", SILENT),
)


def reason(error: BaseException) -> str:
    """Why the broker cannot be used, from an error of its library: a clause with the remedy; empty if unknown."""
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({link.verify_message}): correct it, or set BROKER_CA_FILE"
    for kind, clause in CLASSES:
        if any(isinstance(link, kind) for link in chain):
            return clause
    text = " ".join(str(link) for link in chain)
    for pattern, clause in TEXTS:
        if re.search(pattern, text):
            return clause
    if any(isinstance(link, TimeoutError) for link in chain):
        return SILENT
    return ""


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def failures(broker: Broker) -> Iterator[None]:
    """Raise Unavailable, with the broker's address and the reason, in place of a library's error."""
    try:
        yield
    except ERRORS as e:
        clause = reason(e) or broker.without_secrets(first_line(e))
        raise (Refusing if clause == FULL else Unavailable)(f"{broker}: {clause}") from e


def probe(broker: Broker, link: Connection | None = None) -> None:
    """Send a message over a connection, and read it back: a broker may answer and still refuse messages.

    Raises Unavailable, within LONGEST_ATTEMPT_S.
    """
    connection = link or connection_to(broker)
    _within(LONGEST_ATTEMPT_S, broker, lambda: _send_and_read(broker, connection))


def _send_and_read(broker: Broker, link: Connection) -> None:
    def refuse(*_: object) -> None:
        raise Refusing(f"{broker}: it has an alarm (memory or disk), so it takes no messages: look into its log")

    if _is_amqp(link):
        link.transport_options = {**(link.transport_options or {}), "on_blocked": refuse}
    with failures(broker), link:
        link.ensure_connection(max_retries=max(1, len(link.alt)), interval_start=0, interval_step=0, timeout=CONNECT_S)
        try:
            _exchange_message(broker, link)
        except Refusing:
            link.collect()  # without closing politely: a broker with an alarm reads nothing
            raise


def _exchange_message(broker: Broker, link: Connection) -> None:
    name, text, channel = f"probe.{uuid.uuid4()}", str(uuid.uuid4()), link.channel()
    queue = Queue(name, durable=False, exclusive=True, expires=KEPT_S, channel=channel)
    queue.declare()
    try:
        Producer(channel).publish(text, routing_key=name, expiration=KEPT_S, delivery_mode=1)
        _read_back(broker, queue, text)
    finally:
        if not _is_amqp(link):  # there it ends with the connection
            queue.delete()


def _is_amqp(link: Connection) -> bool:
    return bool(link.transport.driver_type == "amqp")


def _read_back(broker: Broker, queue: Queue, text: str) -> None:
    until = time.monotonic() + ANSWER_S
    while time.monotonic() < until:
        message = queue.get(no_ack=True)
        if message and message.payload == text:
            return
        time.sleep(0.05)
    raise Refusing(f"{broker}: a message that it took did not come back: look into its log")


def _within(seconds: float, broker: Broker, act: Callable[[], None]) -> None:
    """Act in a thread, and give up after some seconds: nothing else limits a name look-up."""
    errors: list[Exception] = []

    def attempt() -> None:
        try:
            act()
        except Exception as e:
            errors.append(e)

    thread = threading.Thread(target=attempt, name="probe of the broker", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Unavailable(f"{broker}: it is silent for {seconds:.0f} s: check that it works, and the resolver")
    if errors:
        raise errors[0]


def is_empty(link: Connection, queue: str) -> bool:
    """Return whether no message waits in a queue. One that was never declared, or has vanished, is empty.

    AMQP is asked passively, so this need not know how the consumer declares the queue. The question uses its own
    channel, because AMQP closes the channel with the answer "not found".
    """
    passive = _is_amqp(link)  # kombu's Redis looks for the key without its prefix then
    try:
        with link.channel() as channel:
            return bool(channel.queue_declare(queue, passive=passive).message_count == 0)
    except NotFound:
        return True
