"""The streams of a container: the source on its standard input, artifacts and log on its outputs."""

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import docker

from runners.build import BuildFailed
from runners.build.output import CHECK_EVERY_S, READ_BYTES, BuildDeadline, CappedLog
from runners.foreign import size_text

ARTIFACTS_LIMIT_BYTES = 2**30
FRAME = struct.Struct(">BxxxL")  # the number of the stream, and of the bytes that follow
ERRORS = 2  # the stream with the output of the build; the other one, 1, has its artifacts


@contextmanager
def attach(api: docker.APIClient, container: str) -> Iterator[socket.socket]:
    """The streams of a container, opened before it starts, so that no output is missed."""
    streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    wrapped = api.attach_socket(container, streams)
    connection: socket.socket = getattr(wrapped, "_sock", wrapped)  # the wrapper cannot half-close
    connection.settimeout(CHECK_EVERY_S)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def feeding(connection: socket.socket, source: Path | None, deadline: BuildDeadline) -> Iterator[None]:
    """Sends the file during the block, which reads the outputs: a container whose output nobody reads stops reading."""
    with ThreadPoolExecutor(1, thread_name_prefix="source") as pool:
        fed = pool.submit(feed, connection, source, deadline)
        try:
            yield
        finally:
            with suppress(OSError):  # the other side may have closed it
                connection.shutdown(socket.SHUT_RDWR)  # the container has ended: it reads no more
    fed.result()


def feed(connection: socket.socket, source: Path | None, deadline: BuildDeadline) -> None:
    """Sends the file and closes the stream. A container that stops reading gives the reason on its other streams."""
    with suppress(BrokenPipeError, ConnectionResetError):
        if source:
            with source.open("rb") as stream:
                while piece := stream.read(READ_BYTES):
                    send(connection, piece, deadline)
        connection.shutdown(socket.SHUT_WR)


def send(connection: socket.socket, piece: bytes, deadline: BuildDeadline) -> None:
    remaining = memoryview(piece)
    while remaining:
        deadline.check()
        with suppress(TimeoutError):
            remaining = remaining[connection.send(remaining) :]


def receive(
    connection: socket.socket, out: IO[bytes], output: CappedLog, deadline: BuildDeadline, most_bytes: int
) -> None:
    """Reads both streams until they end: the artifacts go to `out`, the output of the build to its log."""
    room = most_bytes
    for stream, piece in frames(connection, deadline):
        if stream == ERRORS:
            output.feed(piece)
            continue
        room -= len(piece)
        if room < 0:
            raise BuildFailed(f"the artifacts are larger than {size_text(most_bytes)}")
        out.write(piece)


def frames(connection: socket.socket, deadline: BuildDeadline) -> Iterator[tuple[int, bytes]]:
    """The pieces of the streams as they arrive, each with the number of its stream; a frame may be several pieces."""
    buffer, stream, remaining = b"", 0, 0
    while received := receive_some(connection, deadline):
        buffer += received
        while buffer and (remaining or len(buffer) >= FRAME.size):
            if not remaining:
                stream, remaining = FRAME.unpack_from(buffer)
                buffer = buffer[FRAME.size :]
            piece, buffer = buffer[:remaining], buffer[remaining:]
            remaining -= len(piece)
            if piece:
                yield stream, piece


def receive_some(connection: socket.socket, deadline: BuildDeadline) -> bytes:
    while not deadline.wait([connection.fileno()]):
        pass
    return connection.recv(READ_BYTES)
