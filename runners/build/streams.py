"""What goes into a container and comes out: the source on its standard input, artifacts and log on its streams."""

import socket
import struct
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import docker

from runners.build import BuildFailed
from runners.build.cache import empty_directory
from runners.build.output import READ_BYTES, STOP_LOOK_S, Capped, Patience

ARTIFACTS_LIMIT_BYTES = 2**30
FRAME = struct.Struct(">BxxxL")  # of an attached stream: which one, how many bytes follow
ERRORS = 2  # the stream of what a build prints; the other, 1, are its artifacts


@contextmanager
def attached(api: docker.APIClient, container: str) -> Iterator[socket.socket]:
    """The streams of a container that has not started, so that nothing of them can be missed."""
    wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    wrapped = api.attach_socket(container, wanted)
    connection: socket.socket = getattr(wrapped, "_sock", wrapped)  # the reader around it cannot half-close
    connection.settimeout(STOP_LOOK_S)
    try:
        yield connection
    finally:
        connection.close()


def feed(connection: socket.socket, source: Path | None, patience: Patience) -> None:
    """Sends the file and its end. A container that reads no more says why on its other streams."""
    with suppress(BrokenPipeError, ConnectionResetError):
        if source:
            with source.open("rb") as stream:
                while piece := stream.read(READ_BYTES):
                    send(connection, piece, patience)
        connection.shutdown(socket.SHUT_WR)


def send(connection: socket.socket, piece: bytes, patience: Patience) -> None:
    left = memoryview(piece)
    while left:
        patience.check()
        with suppress(TimeoutError):
            left = left[connection.send(left) :]


def receive(connection: socket.socket, out: IO[bytes], output: Capped, patience: Patience) -> None:
    """Takes the streams apart until they end: the artifacts to `out`, what the build prints to its log."""
    room = ARTIFACTS_LIMIT_BYTES
    for stream, piece in frames(connection, patience):
        if stream == ERRORS:
            output.feed(piece)
            continue
        room -= len(piece)
        if room < 0:
            raise BuildFailed(f"the artifacts are larger than {ARTIFACTS_LIMIT_BYTES >> 20} MB")
        out.write(piece)


def frames(connection: socket.socket, patience: Patience) -> Iterator[tuple[int, bytes]]:
    """The pieces of the streams, each with the number of its stream, as they come; a frame may come in several."""
    held, stream, left = b"", 0, 0
    while received := received_by(connection, patience):
        held += received
        while held and (left or len(held) >= FRAME.size):
            if not left:
                stream, left = FRAME.unpack_from(held)
                held = held[FRAME.size :]
            piece, held = held[:left], held[left:]
            left -= len(piece)
            if piece:
                yield stream, piece


def received_by(connection: socket.socket, patience: Patience) -> bytes:
    while not patience.wait([connection.fileno()]):
        pass
    return connection.recv(READ_BYTES)


def unpacked(packed: Path, tree: Path) -> Path:
    """The files of a tar from a build, and nothing else that it may hold: no link, no device, no path outside."""
    empty_directory(tree)
    try:
        with tarfile.open(packed) as tar:
            for member in tar:
                if member.isfile():
                    tar.extract(member, tree, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise BuildFailed(f"the artifacts of the build cannot be read: {error}") from error
    return tree
