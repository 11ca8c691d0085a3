"""The program that starts another one in a sandbox. It runs isolated (`python -I -S`), with the standard library only.

    launch.py CONTROL REPORT SPEC [USER NETWORK]      inherited descriptors

There are three processes. The *keeper* stays in the process namespace of the host, where the program cannot reach it,
and ends the sandbox when the runner closes CONTROL or dies. The *init* is process 1 of the sandbox: when it ends, the
kernel ends all others. The *program* is its child, in a new session, without capabilities.

CONTROL has one message of the program, whose credentials give the runner its process id, and later the replies of the
keeper. A successful exec closes REPORT; otherwise it has the error. SPEC is a file with a JSON document. USER and
NETWORK are the namespaces of a running sandbox, which this one shares.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ASK_SOCKET = b"socket"
INNER_ID = 1000  # user and group inside, always: as root some programs behave differently (tar, memcached)
PASSWD = f"root:x:0:0::/:/bin/sh\nspeedtrack:x:{INNER_ID}:{INNER_ID}::/tmp:/bin/sh\n"
GROUP = f"root:x:0:\nspeedtrack:x:{INNER_ID}:\n"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Settings that a new network namespace does not inherit, although servers or the loopback depend on them.
SYSCTLS = ("net/core/somaxconn", "net/ipv4/ip_local_port_range", "net/ipv4/tcp_*")
# How many user namespaces a program may make: the kernel counts for each user namespace and all below it.
USER_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_RECURSIVE = 0x8000
SYS_MOUNT_SETATTR = 442  # the same on every architecture, as all calls since Linux 5.1
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
LAST_CAPABILITY = 63
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
IFREQ = struct.Struct("16sh22x")

HOST, ROOT = "/old", "/new"  # the host's files and the new root during the set-up
HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class SetupError(OSError):
    """A step of the setup failed; the text names it."""


def check_call(action: str, result: int) -> None:
    """Raises SetupError if a function of the C library failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise SetupError(number, f"{action}: {os.strerror(number)}")


def unshare(flags: int, action: str) -> None:
    check_call(action, _libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = [None if argument is None else argument.encode() for argument in (source, target, kind)]
    data = None if options is None else options.encode()
    check_call(f"mount of {target}", _libc.mount(*arguments, ctypes.c_ulong(flags), data))


def restrict(target: str, flags: int, recursive: bool = True) -> None:
    """Adds MS_RDONLY, MS_NOSUID, MS_NODEV to a mount and those below it (mount_setattr has the same bits)."""
    attributes = struct.pack("QQQQ", flags, 0, 0, 0)
    result = _libc.syscall(
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(-100),
        target.encode(),
        ctypes.c_uint(AT_RECURSIVE if recursive else 0),
        attributes,
        ctypes.c_size_t(len(attributes)),
    )
    check_call(f"mount_setattr (Linux 5.12) of {target}", result)


def pivot_root(new: str, old: str) -> None:
    number = SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise SetupError(0, f"pivot_root: its number on {os.uname().machine} is not known here")
    check_call("pivot_root", _libc.syscall(ctypes.c_long(number), new.encode(), old.encode()))


def prctl(option: int, argument: int) -> int:
    zeros = [ctypes.c_ulong(0)] * 3
    return int(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), *zeros))


def main(argv: Sequence[str]) -> int:
    control_fd, report, spec_fd, *shared = map(int, argv)
    control = socket.socket(fileno=control_fd)
    for number in (control_fd, report, spec_fd, *shared):
        os.set_inheritable(number, False)
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # signals to the group are meant for the program
    try:
        with os.fdopen(spec_fd) as file:
            spec = json.load(file)
        if shared:
            join(*shared)
        else:
            separate()
        unshare(CLONE_NEWIPC | CLONE_NEWPID, "IPC and process namespaces")
        init, status = start_init(spec, control, report)
    except OSError as error:
        report_error(report, error)
        return 1
    os.close(report)
    return keep_sandbox(control, init, status)


def report_error(report: int, error: OSError) -> None:
    message = {"errno": error.errno, "error": error.strerror or str(error), "setup": isinstance(error, SetupError)}
    os.write(report, json.dumps(message).encode())


def separate() -> None:
    """Moves this process to new namespaces of users and network, in which no further user namespace can be made."""
    uid, gid = os.geteuid(), os.getegid()
    host_values = sysctls()
    unshare(CLONE_NEWUSER, "user namespace")
    unshare(CLONE_NEWNET, "network namespace")
    write_setting(Path("/proc/self/setgroups"), "deny")
    write_setting(Path("/proc/self/uid_map"), f"{INNER_ID} {uid} 1")
    write_setting(Path("/proc/self/gid_map"), f"{INNER_ID} {gid} 1")
    write_setting(USER_NAMESPACES, "0")
    make_network(host_values)


def join(user: int, network: int) -> None:
    """Moves this process to the namespaces of a running sandbox."""
    for descriptor, kind, name in ((user, CLONE_NEWUSER, "user"), (network, CLONE_NEWNET, "network")):
        result = _libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind))
        check_call(f"setns to the {name} namespace of a running sandbox", result)
        os.close(descriptor)


def write_setting(file: Path, value: str) -> None:
    try:
        file.write_text(value)
    except OSError as error:
        raise SetupError(error.errno, f"{file}: {error.strerror}") from error


def make_network(host_values: dict[Path, str]) -> None:
    """Makes a loopback with the settings of the host."""
    raise_loopback()
    for file, value in sysctls().items():
        with contextlib.suppress(OSError):
            if host_values.get(file, value) != value:
                file.write_text(host_values[file])


def sysctls() -> dict[Path, str]:
    """The network settings of this process's namespace, by file."""
    values = {}
    for file in (file for pattern in SYSCTLS for file in Path("/proc/sys").glob(pattern)):
        with contextlib.suppress(OSError):
            values[file] = file.read_text()
    return values


def raise_loopback() -> None:
    with socket.socket() as any_socket:
        try:
            flags = IFREQ.unpack(fcntl.ioctl(any_socket, SIOCGIFFLAGS, IFREQ.pack(b"lo", 0)))[1]
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, IFREQ.pack(b"lo", flags | IFF_UP))
        except OSError as error:
            raise SetupError(error.errno, f"loopback: {error.strerror}") from error


def start_init(spec: dict[str, Any], control: socket.socket, report: int) -> tuple[int, int]:
    """Returns the process id of the init, and a pipe to which it writes how the program ended."""
    reading, writing = os.pipe()
    keeper = os.pidfd_open(os.getpid())
    init = os.fork()
    if init:
        os.close(writing)
        os.close(keeper)
        return init, reading
    try:
        check_call("prctl", prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        if select.select([keeper], [], [], 0)[0]:
            os._exit(1)
        os.close(keeper)
        os.close(reading)
        make_root(spec["mounts"])
        program = os.fork()
        if not program:
            execute(spec, control)
    except OSError as error:
        report_error(report, error)
        os._exit(1)
    control.close()
    os.close(report)
    prctl(PR_SET_DUMPABLE, 0)  # so that the program cannot trace it
    while (child := os.wait())[0] != program:
        pass
    os.write(writing, str(child[1]).encode())
    os._exit(0)


def execute(spec: dict[str, Any], control: socket.socket) -> None:
    """Becomes the program. Raises OSError if it cannot be started."""
    os.setsid()
    control.send(b"up")
    os.chdir(spec["directory"])
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    for capability in range(LAST_CAPABILITY + 1):
        prctl(PR_CAPBSET_DROP, capability)  # exec drops the other sets, since the user is not 0
    check_call("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1))
    os.execvpe(spec["argv"][0], spec["argv"], spec["environment"])  # noqa: S606


def keep_sandbox(control: socket.socket, init: int, status: int) -> int:
    """Waits for the end of the sandbox or of the runner; ends in the same way as the program."""
    pidfd = os.pidfd_open(init)
    watched = [control.fileno(), pidfd]
    while pidfd not in select.select(watched, [], [])[0]:
        if not answer_request(control):
            os.kill(init, signal.SIGKILL)
            break
    os.waitpid(init, 0)  # returns when no process of the sandbox is left
    wait_status = os.read(status, 20)
    if not wait_status:
        return 1
    code = os.waitstatus_to_exitcode(int(wait_status))
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def answer_request(control: socket.socket) -> bool:
    """Sends the runner a socket of this network. False: the runner has ended, or closed the sandbox."""
    try:
        if control.recv(len(ASK_SOCKET)) != ASK_SOCKET:
            return False
        with socket.socket() as channel:
            socket.send_fds(control, [b"1"], [channel.fileno()])
    except OSError:
        return False
    return True


def make_root(mounts: list[list[str]]) -> None:
    """Makes a new root file system, empty and read-only, and mounts the listed paths in it."""
    unshare(CLONE_NEWNS, "mount namespace")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV)  # noqa: S108
    os.mkdir("/tmp/old")  # noqa: S108
    os.mkdir("/tmp/new")  # noqa: S108
    pivot_root("/tmp", "/tmp/old")  # noqa: S108
    os.chdir("/")
    mount("tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for directory in ("dev", "etc", "proc", "root", "run", "tmp", "var"):
        os.mkdir(f"/new/{directory}")
    os.symlink("/tmp", "/new/var/tmp")  # noqa: S108
    Path("/new/etc/passwd").write_text(PASSWD)
    Path("/new/etc/group").write_text(GROUP)
    make_devices()
    covered = [target for kind, source, target in mounts if add_mount(kind, source, target)]
    # Read-only: a program could write files that belong to its user, such as /proc/sys or /proc/sysrq-trigger.
    mount("proc", "/new/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for target in covered:
        with opened(ROOT, target) as handle:
            restrict(path_of(handle), MS_RDONLY, recursive=False)
    restrict("/new", MS_RDONLY, recursive=False)
    os.chdir("/new")
    pivot_root(".", ".")
    check_call("umount", _libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def make_devices() -> None:
    for name in DEVICES:
        if os.path.exists(f"/old/dev/{name}"):
            Path(f"/new/dev/{name}").touch()
            mount(f"/old/dev/{name}", f"/new/dev/{name}", None, MS_BIND)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/new/dev/{name}")
    os.mkdir("/new/dev/shm")
    mount("tmpfs", "/new/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")


def add_mount(kind: str, source: str, target: str) -> bool:
    """Mounts one listed path; returns whether an empty directory covers the target now. Raises SetupError."""
    try:
        return MOUNTS[kind](source, target)
    except SetupError:
        raise
    except OSError as error:
        raise SetupError(error.errno, f"mount of {target}: {error.strerror}") from error


def bind(source: str, target: str, flags: int) -> bool:
    with opened(HOST, source) as origin:
        kind = "directory" if stat.S_ISDIR(os.fstat(origin).st_mode) else "file"
        with opened(ROOT, target, kind) as handle:
            mount(path_of(origin), path_of(handle), None, MS_BIND | MS_REC)
    with opened(ROOT, target) as handle:  # what is mounted there now
        restrict(path_of(handle), flags)
    return False


def link(source: str, target: str) -> bool:
    os.symlink(source, ROOT + target)
    return False


def hide(source: str, target: str) -> bool:
    """Covers a path if an earlier mount made it visible."""
    try:
        with opened(ROOT, target) as handle:
            is_directory = stat.S_ISDIR(os.fstat(handle).st_mode)
            if is_directory:
                mount("tmpfs", path_of(handle), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
            else:
                mount(f"{HOST}/dev/null", path_of(handle), None, MS_BIND)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return is_directory


@contextlib.contextmanager
def opened(root: str, path: str, make: str = "") -> Iterator[int]:
    """A handle of a path below HOST or ROOT. `make`: what it becomes if it is missing, `directory` or `file`.

    Raises SetupError for a link that a program may have made, on the way or at the end: this process is outside of the
    root that it makes, and would follow the link anywhere on the host.
    """
    with contextlib.ExitStack() as stack:
        yield walk(stack, root, path, make)


def walk(stack: contextlib.ExitStack, root: str, path: str, make: str) -> int:
    """As `opened`: from directory to directory, each of which is open until the end of the stack."""
    names = [name for name in path.split("/") if name]
    handle = os.open(root, HANDLE)
    stack.callback(os.close, handle)
    for number, name in enumerate(names):
        directory, is_last = handle, number == len(names) - 1
        handle = open_entry(directory, name, make if is_last or not make else "directory")
        stack.callback(os.close, handle)
        if stat.S_ISLNK(os.fstat(handle).st_mode):
            if root == HOST or is_writable(directory):
                raise SetupError(errno.ELOOP, f"mount of {path}: {name} is a link")
            link = os.readlink("", dir_fd=handle)
            resolved = os.path.normpath(os.path.join("/", *names[:number], link, *names[number + 1 :]))
            return walk(stack, root, resolved, make)
    return handle


def open_entry(directory: int, name: str, make: str) -> int:
    """A handle of an entry, made if it is missing and `make` is given. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, HANDLE, dir_fd=directory)
    if make == "directory":
        os.mkdir(name, dir_fd=directory)
    elif make:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, dir_fd=directory))
    return os.open(name, HANDLE, dir_fd=directory)


def is_writable(directory: int) -> bool:
    """Whether a program in the sandbox can make links there: not in the root itself, which is read-only in the end."""
    in_root = os.fstat(directory).st_dev == os.stat(ROOT).st_dev
    return not in_root and not os.fstatvfs(directory).f_flag & os.ST_RDONLY


def path_of(handle: int) -> str:
    """A path of an open file that stays valid when its names change or are replaced by links."""
    return f"{HOST}/proc/self/fd/{handle}"


MOUNTS = {
    "read": lambda source, target: bind(source, target, MS_RDONLY | MS_NOSUID | MS_NODEV),
    "write": lambda source, target: bind(source, target, MS_NOSUID | MS_NODEV),
    "hide": hide,
    "link": link,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
