"""What a sandboxed program sees of its machine, and whether this machine can make sandboxes at all.

A list of what is shown, not of what is hidden: the system's programs and libraries, toolchains in known places, what
SPEEDTRACK_SANDBOX_READABLE names, and what the work at hand needs. Everything else is not there.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.errors import SettingsError
from runners.sandbox import inside
from runners.sandbox.inside import Program

SETTING, READABLE_SETTING = "SPEEDTRACK_SANDBOX", "SPEEDTRACK_SANDBOX_READABLE"
CHOICES = ("auto", "off", "required")
SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/opt", "/nix", "/gnu", "/snap",
    "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
)  # fmt: skip
# Of /etc what compilers, linkers and C libraries read; the rest may hold passwords and keys.
ETC = (
    "alternatives", "ca-certificates*", "debian_version", "gai.conf", "host.conf", "hosts", "java-*", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "mime.types",
    "nsswitch.conf", "os-release", "perl", "pki/tls/certs", "profile", "protocols", "python3*", "redhat-release",
    "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip
TOOLCHAINS = (".cargo/bin", ".rustup", ".pyenv", ".nvm", ".local/share/mise")  # of the runner's user
CHECKOUT = Path(__file__).resolve().parents[2]
Mount = tuple[str, str, str]  # kind (see launch.py), source, target

WORKS = "builds and servers run in a sandbox: no network, no file of this user, nothing outlives them"
WITHOUT = (
    "NO SANDBOX ({reason}): host builds and measured servers run with all rights of this user: they can read its "
    "files, the machine's token among them, and reach every service of this host. Track only repositories you trust"
)


@dataclass(frozen=True)
class View:
    """What one program sees besides the system. `tmp` is its /tmp."""

    tmp: Path
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Sandbox:
    """The sandboxes of this machine. `refusal` is empty, or says why there are none."""

    refusal: str = "not asked for"
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()

    @property
    def works(self) -> bool:
        return not self.refusal

    @property
    def fact(self) -> str:
        """As the facts of the machine have it."""
        return "namespaces" if self.works else f"none: {self.refusal}"

    def __str__(self) -> str:
        return WORKS if self.works else WITHOUT.format(reason=self.refusal)

    def mounts(self, view: View) -> list[Mount]:
        """In the order in which they are made. The longest path decides, then the later of these groups."""
        shown = [*system_mounts(), *shown_mounts(self.readable)]
        hidden = [("hide", str(path), str(path)) for path in self.hidden]
        own = [*shown_mounts(view.readable), *(("write", str(path.resolve()), str(path)) for path in view.writable)]
        ordered = {target: (kind, source, target) for kind, source, target in [*shown, *hidden, *own]}
        ordered["/tmp"] = ("write", str(view.tmp.resolve()), "/tmp")  # noqa: S108
        return sorted(ordered.values(), key=lambda one: one[2].count("/"))


NONE = Sandbox()


def system_mounts() -> list[Mount]:
    """A merged /usr keeps its symbolic links."""
    paths = [*map(Path, SYSTEM), *(path for name in ETC for path in Path("/etc").glob(name))]
    return [
        ("link", os.readlink(path), str(path)) if is_system_link(path) else ("read", str(path.resolve()), str(path))
        for path in paths
        if path.exists()
    ]


def is_system_link(path: Path) -> bool:
    return path.is_symlink() and path.parent == Path("/")


def shown_mounts(paths: Iterable[Path]) -> list[Mount]:
    return [("read", str(path.resolve()), str(path)) for path in paths if path.exists()]


def of_machine(environ: Mapping[str, str], home: Path | None = None) -> Sandbox:
    """The sandboxes of this machine as the settings want them, tried once. `home`: of the runner.

    Raises SettingsError for a wrong setting, and where a sandbox is required and cannot be made.
    """
    choice = environ.get(SETTING) or "auto"
    if choice not in CHOICES:
        raise SettingsError(f"{SETTING} is {choice!r}: set it to one of {', '.join(CHOICES)}")
    named = [Path(word) for word in environ.get(READABLE_SETTING, "").split(":") if word]
    if wrong := [path for path in named if not path.is_absolute() or not path.exists()]:
        raise SettingsError(f"{READABLE_SETTING} names {wrong[0]}, which is no path that exists: correct it")
    if choice == "off":
        return Sandbox(f"{SETTING}=off")
    toolchains = [user_home() / name for name in TOOLCHAINS]
    sandbox = Sandbox("", (*toolchains, *named), secrets(environ, home))
    refusal = tried(sandbox)
    if refusal and choice == "required":
        raise SettingsError(f"{SETTING} is required, and there can be none here: {refusal}")
    return Sandbox(refusal) if refusal else sandbox


def secrets(environ: Mapping[str, str], home: Path | None) -> tuple[Path, ...]:
    """What stays unseen even below a path that is shown: under /opt, for example."""
    of_stack = (environ.get(name) for name in ("SPEEDTRACK_HOME", "SPEEDTRACK_TOKEN_FILE", "SPEEDTRACK_RUNNER_HOME"))
    paths = [user_home(), *(Path(one) for one in of_stack if one), *([home] if home else [])]
    if (CHECKOUT / "manage.py").exists():
        paths.append(CHECKOUT)
    spellings = {spelling for path in paths for spelling in (path.absolute(), path.resolve())}
    return tuple(sorted(path for path in spellings if path != Path("/") and str(path) not in SYSTEM))


def user_home() -> Path:
    """Of the runner's user; a path that does not exist if he has none."""
    return Path(os.path.expanduser("~"))


def tried(sandbox: Sandbox) -> str:
    """Makes one sandbox; why that cannot be done, or nothing."""
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryDirectory(prefix="speedtrack-") as name:
        view = View(Path(name))
        try:
            program = Program(["/bin/true"], {}, Path("/"), sandbox.mounts(view))
            process, within = inside.start(program, env={}, stdin=quiet, stdout=quiet, stderr=quiet)
        except OSError as error:
            return error.strerror or str(error)
        status = process.wait()
        within.end()
        return "" if status == 0 else f"a trial of it ended with status {status}"
