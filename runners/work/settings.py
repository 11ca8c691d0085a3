"""The settings of the runner, from environment variables; a missing or wrong one is an error with the remedy."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runners import brokers
from runners.brokers import Broker
from runners.build.store import DAY_S, StoreLimits
from runners.errors import SettingsError
from runners.reporting.address import read_address

TOOLS = ("SPEEDTRACK_REDIS_BENCHMARK", "SPEEDTRACK_MEMTIER")  # paths of other load generators
LEAST_FREE_MB = 512  # a build and its results need some
PATIENCE_S = 10  # how long the quiet gate waits at most before a trial
PACKAGE = Path(__file__).parents[1]
BUILT_DRIVER = PACKAGE / "driver" / "target" / "release" / "speedbench"
CARRIED_DRIVER = PACKAGE / "bin" / "speedbench"  # in the wheel of `make wheel`


@dataclass(frozen=True)
class Settings:
    """The settings of one runner; `broker` is None if the runner polls."""

    url: str
    token: str
    token_file: Path | None  # the file of `token`, where it can be replaced
    broker: Broker | None
    home: Path
    driver: Path
    tools: Mapping[str, str]
    store: StoreLimits = field(default_factory=StoreLimits)
    tune: bool = False
    patience_s: int = PATIENCE_S
    locks: Path | None = None
    least_free_bytes: int = LEAST_FREE_MB << 20
    recordings: Path | None = None  # the folder of recorded traffic, in the home unless it is set


def read_settings(environ: Mapping[str, str], needs_broker: bool) -> Settings:
    """Reads the environment variables. Raises SettingsError."""
    broker = broker_of(environ)
    if needs_broker and not broker:
        raise SettingsError(
            "BROKER_URL is not set: set it to the broker of the server (redis://...), or start with "
            "--poll, which needs no broker"
        )
    tools = {name: environ[name] for name in TOOLS if environ.get(name)}
    driver = find_driver(environ)
    tune = environ.get("SPEEDTRACK_TUNE") == "1"
    return Settings(
        _url(environ),
        _token(environ),
        _token_file(environ),
        broker,
        home_directory(environ),
        driver,
        tools,
        _store_limits(environ),
        tune,
        _number(environ, "SPEEDTRACK_PATIENCE_S", PATIENCE_S),
        lock_directory_setting(environ),
        least_free_bytes(environ),
        _recordings(environ),
    )


def broker_of(environ: Mapping[str, str]) -> Broker | None:
    """The broker of BROKER_URL; None if it is not set. Raises SettingsError."""
    try:
        return brokers.read_environment(environ, environ["BROKER_URL"]) if environ.get("BROKER_URL") else None
    except brokers.AddressError as error:
        raise SettingsError(f"BROKER_URL: {error}") from None


def _store_limits(environ: Mapping[str, str]) -> StoreLimits:
    usual = StoreLimits()
    return StoreLimits(
        _number(environ, "SPEEDTRACK_CACHE_MB", usual.size_bytes >> 20) << 20,
        _number(environ, "SPEEDTRACK_CACHE_DAYS", round(usual.age_s / DAY_S)) * DAY_S,
    )


def _recordings(environ: Mapping[str, str]) -> Path | None:
    folder = environ.get("SPEEDTRACK_RECORDINGS")
    if folder and not Path(folder).is_dir():
        raise SettingsError(f"SPEEDTRACK_RECORDINGS is {folder}, which is no folder: make it, or correct the setting")
    return Path(folder).absolute() if folder else None


def least_free_bytes(environ: Mapping[str, str]) -> int:
    """How much of the disk of the runner's home must be free before work is taken."""
    return _number(environ, "SPEEDTRACK_LEAST_FREE_MB", LEAST_FREE_MB) << 20


def _number(environ: Mapping[str, str], name: str, usual: int) -> int:
    text = environ.get(name) or str(usual)
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"{name} is {text!r}: set it to a whole number of at least 1")
    return int(text)


def _url(environ: Mapping[str, str]) -> str:
    url = environ.get("SPEEDTRACK_URL", "").strip()
    if not url:
        raise SettingsError(
            "SPEEDTRACK_URL is not set: set it to the address of the server, for example https://speed.example.org"
        )
    return read_address("SPEEDTRACK_URL", url)


def _token_file(environ: Mapping[str, str]) -> Path | None:
    file = environ.get("SPEEDTRACK_TOKEN_FILE")
    return Path(file).absolute() if file and not environ.get("SPEEDTRACK_TOKEN") else None


def _token(environ: Mapping[str, str]) -> str:
    file = _token_file(environ)
    token = environ.get("SPEEDTRACK_TOKEN", "")
    if file:
        try:
            token = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"SPEEDTRACK_TOKEN_FILE cannot be read ({error}): give it a file this user may read"
            ) from error
    token = token.strip()
    if not token:
        raise SettingsError(
            "no machine token: enrol this machine (`python -m runners enroll URL CODE`), or set SPEEDTRACK_TOKEN or "
            "SPEEDTRACK_TOKEN_FILE to the one that `manage.py machine add NAME` printed on the server"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError("the machine token has characters that no token has: copy it again")
    return token


def lock_directory_setting(environ: Mapping[str, str]) -> Path | None:
    """The directory that SPEEDTRACK_LOCK_DIR names, if it is set."""
    return Path(environ["SPEEDTRACK_LOCK_DIR"]) if environ.get("SPEEDTRACK_LOCK_DIR") else None


def home_directory(environ: Mapping[str, str]) -> Path:
    """The directory SPEEDTRACK_RUNNER_HOME, created if it is missing. Raises SettingsError."""
    home = Path(environ.get("SPEEDTRACK_RUNNER_HOME") or "~/.cache/speedtrack-runner").expanduser().absolute()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SettingsError(
            f"SPEEDTRACK_RUNNER_HOME {home} cannot be made ({error}): set it to a directory this user may write"
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise SettingsError(f"SPEEDTRACK_RUNNER_HOME {home} is not writable: set it to a directory this user may write")
    return home


def find_driver(environ: Mapping[str, str]) -> Path:
    """The path of speedbench: SPEEDTRACK_DRIVER, else this checkout's build, else in the wheel, else on PATH.

    Raises SettingsError.
    """
    setting = environ.get("SPEEDTRACK_DRIVER")
    usual = [str(BUILT_DRIVER), str(CARRIED_DRIVER), shutil.which("speedbench", path=environ.get("PATH")) or ""]
    candidates = [setting] if setting else usual
    for candidate in candidates:
        if candidate and Path(candidate).is_file() and os.access(candidate, os.X_OK):
            return Path(candidate).absolute()
    cause = f"SPEEDTRACK_DRIVER is {setting}, which is no program" if setting else "the driver speedbench is missing"
    raise SettingsError(
        f"{cause}: install the wheel that carries it (`make wheel`), or build it with `cd runners/driver && "
        "cargo build --release --locked` in a checkout, and put it on PATH or set SPEEDTRACK_DRIVER to its path"
    )
