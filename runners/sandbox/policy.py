"""The paths that a program in a sandbox can see, and whether this machine can make sandboxes.

Only listed paths are visible: the programs and libraries of the system, toolchains in known places, the paths of
SPEEDTRACK_SANDBOX_READABLE, and the files of the program itself. Nothing else exists in the sandbox.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.errors import SettingsError
from runners.sandbox import running
from runners.sandbox.running import SandboxedProgram

SETTING, READABLE_SETTING = "SPEEDTRACK_SANDBOX", "SPEEDTRACK_SANDBOX_READABLE"
CHOICES = ("auto", "off", "required")
SYSTEM = (
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
)
# The files of /etc that compilers, linkers and C libraries read; other files may hold passwords and keys.
ETC = (
    "alternatives",
    "ca-certificates*",
    "debian_version",
    "gai.conf",
    "host.conf",
    "hosts",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python3*",
    "redhat-release",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
RANDOM = ("/dev/random", "/dev/urandom")
TOOLCHAINS = (".cargo/bin", ".rustup", ".pyenv", ".nvm", ".local/share/mise")  # of the runner's user
CHECKOUT = Path(__file__).resolve().parents[2]
Mount = tuple[str, str, str]  # kind (see launch.py), source, target

WORKS = "builds and servers run in a sandbox: no network, no file of this user, nothing outlives them"
WITHOUT = (
    "NO SANDBOX ({reason}): host builds and measured servers run with all rights of this user: they can read its "
    "files, the machine's token among them, and reach every service of this host. Track only repositories you trust"
)


@dataclass(frozen=True)
class SandboxView:
    """One program's view, in addition to the system. `tmp`: its /tmp; `random`: a file in place of RANDOM, if any."""

    tmp: Path
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    random: Path | None = None


@dataclass(frozen=True)
class Sandbox:
    """The sandboxes of this machine. `refusal` is empty, or the reason why there are none."""

    refusal: str = "not asked for"
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()

    @property
    def works(self) -> bool:
        return not self.refusal

    @property
    def fact(self) -> str:
        """The state of sandboxes as a fact of the machine."""
        return "namespaces" if self.works else f"none: {self.refusal}"

    def __str__(self) -> str:
        return WORKS if self.works else WITHOUT.format(reason=self.refusal)

    def mounts(self, view: SandboxView) -> list[Mount]:
        """The mounts in their order. The longest listed path wins; among equal paths, the later of these groups."""
        visible = [*system_mounts(), *read_mounts(self.readable)]
        hidden = [("hide", str(path), str(path)) for path in self.hidden]
        own = [*read_mounts(view.readable), *(("write", resolved_place(path), str(path)) for path in view.writable)]
        own += [("read", str(view.random.resolve()), device) for device in RANDOM if view.random]
        ordered = {target: (kind, source, target) for kind, source, target in [*visible, *hidden, *own]}
        ordered["/tmp"] = ("write", resolved_place(view.tmp), "/tmp")  # noqa: S108
        return sorted(ordered.values(), key=lambda mount: mount[2].count("/"))


NONE = Sandbox()


def system_mounts() -> list[Mount]:
    """The mounts of the system; with a merged /usr its symbolic links are kept."""
    paths = [*map(Path, SYSTEM), *(path for name in ETC for path in Path("/etc").glob(name))]
    return [
        ("link", os.readlink(path), str(path)) if is_system_link(path) else ("read", str(path.resolve()), str(path))
        for path in paths
        if path.exists()
    ]


def is_system_link(path: Path) -> bool:
    return path.is_symlink() and path.parent == Path("/")


def read_mounts(paths: Iterable[Path]) -> list[Mount]:
    return [("read", str(path.resolve()), str(path)) for path in paths if path.exists()]


def resolved_place(path: Path) -> str:
    """A path in a resolved directory. If a link has replaced its last part, launch.py refuses it."""
    return str(path.parent.resolve() / path.name)


def sandbox_of_machine(environ: Mapping[str, str], home: Path | None = None) -> Sandbox:
    """The sandboxes of this machine by the settings, after a trial. `home`: of the runner.

    Raises SettingsError for a wrong setting, and if a sandbox is required but cannot be made.
    """
    choice = environ.get(SETTING) or "auto"
    if choice not in CHOICES:
        raise SettingsError(f"{SETTING} is {choice!r}: set it to one of {', '.join(CHOICES)}")
    readable = [Path(entry) for entry in environ.get(READABLE_SETTING, "").split(":") if entry]
    if wrong := [path for path in readable if not path.is_absolute() or not path.exists()]:
        raise SettingsError(f"{READABLE_SETTING} names {wrong[0]}, which is no path that exists: correct it")
    if choice == "off":
        return Sandbox(f"{SETTING}=off")
    toolchains = [user_home() / name for name in TOOLCHAINS]
    sandbox = Sandbox("", (*toolchains, *readable), hidden_paths(environ, home))
    refusal = try_sandbox(sandbox)
    if refusal and choice == "required":
        raise SettingsError(f"{SETTING} is required, and this machine cannot make one: {refusal}")
    return Sandbox(refusal) if refusal else sandbox


def hidden_paths(environ: Mapping[str, str], home: Path | None) -> tuple[Path, ...]:
    """Paths that are hidden even below a visible path, such as /opt."""
    of_stack = (environ.get(name) for name in ("SPEEDTRACK_HOME", "SPEEDTRACK_TOKEN_FILE", "SPEEDTRACK_RUNNER_HOME"))
    paths = [user_home(), *(Path(value) for value in of_stack if value), *([home] if home else [])]
    if (CHECKOUT / "manage.py").exists():
        paths.append(CHECKOUT)
    spellings = {spelling for path in paths for spelling in (path.absolute(), path.resolve())}
    return tuple(sorted(path for path in spellings if path != Path("/") and str(path) not in SYSTEM))


def user_home() -> Path:
    """The home of the runner's user; a path that does not exist if there is none."""
    return Path(os.path.expanduser("~"))


def try_sandbox(sandbox: Sandbox) -> str:
    """Makes a sandbox; returns why that failed, or an empty text."""
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory(prefix="speedtrack-") as name:
        view = SandboxView(Path(name))
        try:
            program = SandboxedProgram(["/bin/true"], {}, Path("/"), sandbox.mounts(view))
            process, running_sandbox = running.start(program, env={}, stdin=quiet, stdout=quiet, stderr=quiet)
        except OSError as error:
            return error.strerror or str(error)
        status = process.wait()
        running_sandbox.end()
        return "" if status == 0 else f"a trial of it ended with status {status}"
