"""Starts a program in a sandbox, gives access to its network, and ends it with everything that it started."""

import json
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCH, ENTER = (Path(__file__).with_name(name) for name in ("launch.py", "enter.py"))
ASK_SOCKET = b"socket"  # as launch.py understands it
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
ANSWER_S, START_S = 5.0, 30.0


class NoSandbox(OSError):
    """This process cannot make a sandbox; the text names the step that failed."""


@dataclass(frozen=True)
class RunningSandbox:
    """A running sandbox; it ends when `control` is closed. `keeper`: the process that ends it; `pid`: its program."""

    keeper: int
    pid: int
    control: socket.socket

    def socket(self) -> socket.socket:
        """A TCP socket in the network of the sandbox. Raises OSError if the sandbox has ended."""
        self.control.send(ASK_SOCKET)
        _, descriptors, _, _ = socket.recv_fds(self.control, 1, 1)
        if not descriptors:
            raise ConnectionResetError("the sandbox has ended")
        return socket.socket(fileno=descriptors[0])

    def namespace(self, kind: str) -> int:
        """A descriptor of a namespace of the sandbox: `user` or `net`. Raises OSError if the sandbox has ended."""
        return os.open(f"/proc/{self.keeper}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)

    def end(self) -> None:
        """Makes the keeper end all processes of the sandbox, and then itself."""
        self.control.close()


@dataclass(frozen=True)
class SandboxedProgram:
    """A program and the mounts that it sees, in the order of launch.py (kind, source, target)."""

    argv: list[str]
    environment: Mapping[str, str]
    directory: Path
    mounts: list[tuple[str, str, str]]

    def document(self) -> bytes:
        return json.dumps(vars(self) | {"directory": str(self.directory)}).encode()


def start(
    program: SandboxedProgram, network: RunningSandbox | None = None, **options: Any
) -> tuple["subprocess.Popen[bytes]", RunningSandbox]:
    """Starts a program in a new sandbox; the options of Popen also apply to its keeper.

    With `network` it shares the network of that sandbox. Raises NoSandbox, or the OSError of an exec that failed.
    """
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    control.settimeout(ANSWER_S)
    reading, report = os.pipe()
    document = os.memfd_create("program")
    os.write(document, program.document())
    os.lseek(document, 0, os.SEEK_SET)
    descriptors = [report, document]
    try:
        if network:
            descriptors += [network.namespace("user"), network.namespace("net")]
        passed = (theirs.fileno(), *descriptors)
        argv = [sys.executable, "-I", "-S", str(LAUNCH), *map(str, passed)]
        process = subprocess.Popen(argv, pass_fds=passed, **options)
    except BaseException:
        os.close(reading)
        control.close()
        raise
    finally:
        theirs.close()
        for descriptor in descriptors:
            os.close(descriptor)
    try:
        pid = _started(control, reading)
    except BaseException:
        control.close()
        process.kill()
        process.wait()
        raise
    return process, RunningSandbox(process.pid, pid, control)


def start_inside(network: RunningSandbox, argv: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Starts a program outside the sandbox that uses its network. Raises OSError, also if the sandbox has ended."""
    # Only root, or a process inside it, may enter the network of another user namespace.
    kinds = ("net",) if os.geteuid() == 0 else ("user", "net")
    reading, report = os.pipe()
    descriptors = [report]
    try:
        for kind in kinds:
            descriptors.append(network.namespace(kind))
        command = [sys.executable, "-I", "-S", str(ENTER), ",".join(map(str, descriptors)), *argv]
        process = subprocess.Popen(command, pass_fds=descriptors, **options)
    except BaseException:
        os.close(reading)
        raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    with os.fdopen(reading, "rb") as stream:
        failure = stream.read()  # ends when the program begins
    if failure:
        process.wait()
        raise OSError(*json.loads(failure))
    return process


def _started(control: socket.socket, reading: int) -> int:
    """The process id of a program whose exec succeeded. Raises NoSandbox, or the OSError of the exec."""
    with os.fdopen(reading, "rb") as stream:
        if not select.select([stream], [], [], START_S)[0]:
            raise NoSandbox(0, f"the sandbox was not ready after {START_S:g} s")
        report = stream.read()
    if report:
        failure = json.loads(report)
        kind = NoSandbox if failure["setup"] else OSError
        raise kind(failure["errno"], failure["error"])
    if not select.select([control], [], [], 0)[0]:
        raise NoSandbox(0, "the launcher of the sandbox ended without a report")
    _, ancillary, _, _ = control.recvmsg(16, socket.CMSG_SPACE(CREDENTIALS.size))
    control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)  # the next messages carry descriptors
    for level, kind_of_message, data in ancillary:
        if (level, kind_of_message) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(CREDENTIALS.unpack(data[: CREDENTIALS.size])[0])
    raise NoSandbox(0, "the launcher of the sandbox ended without a report")
