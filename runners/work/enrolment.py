"""`python -m runners enroll URL CODE`: exchanges a one-time code for a token, and writes the runner's settings file."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

from runners.errors import Permanent, RunnerError, SettingsError
from runners.files import write_durably
from runners.reporting.address import read_address
from runners.reporting.connection import ServerConnection
from runners.reporting.token import PRIVATE, TokenFile

SETTINGS_FILE = "SPEEDTRACK_RUNNER_SETTINGS"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def settings_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME") or "~"
    return Path(environ.get(SETTINGS_FILE) or f"{home}/.config/speedtrack/runner.env").expanduser().absolute()


def load_settings(environ: MutableMapping[str, str]) -> None:
    """Adds the lines of the settings file to the environment; variables that are set already win.

    Raises SettingsError if it cannot be read, or a line is no NAME=value.
    """
    file = settings_file(environ)
    if not file.exists():
        return
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {file} cannot be read ({error}): give it to this user") from error
    for number, line in enumerate(map(str.strip, lines), 1):
        name, equals, value = line.partition("=")
        if line.startswith("#") or not line:
            continue
        if not equals or not name.isidentifier():
            raise SettingsError(
                f"the settings file {file}, line {number}: write NAME=value, as in SPEEDTRACK_URL=https://..."
            )
        environ.setdefault(name, value)


def enroll(url: str, code: str, environ: Mapping[str, str]) -> str:
    """Enrols this machine; returns the next step for the user. Raises SettingsError and RunnerError.

    The token is on disk before the server gets it: if the answer is lost, the same command succeeds again.
    """
    url = read_address("the address of the server", url.strip())
    address = urlsplit(url)
    file = settings_file(environ)
    token_file = TokenFile(file.with_name("token"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = ServerConnection(url, token_file.successor())
        machine = introduce(connection, code, token_file)
        token_file.accept()
        write_durably(file, settings_text(url, token_file.file).encode(), PRIVATE)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written ({error}): set {SETTINGS_FILE} to another file") from error
    warning = "" if address.scheme == "https" or address.hostname in LOOPBACK else UNSAFE
    return NEXT.format(machine=machine, url=url, file=file, warning=warning)


def introduce(connection: ServerConnection, code: str, token_file: TokenFile) -> str:
    """Registers the token; returns the server's name for this machine."""
    try:
        return connection.enroll(code).machine
    except Permanent as error:
        token_file.discard()
        raise RunnerError(str(error).rpartition("was refused with ")[2].partition(": ")[2] or str(error)) from error
    finally:
        connection.close()


def settings_text(url: str, token: Path) -> str:
    return (
        "# Settings of the SpeedTrack runner, one NAME=value per line; what the environment sets wins.\n"
        f"SPEEDTRACK_URL={url}\nSPEEDTRACK_TOKEN_FILE={token}\n"
    )


UNSAFE = "warning: over http:// everybody on the way can read the token: use https://\n"
NEXT = """\
{warning}this is machine {machine} of {url} now; its settings are in {file}
next:
  python -m runners plan      which cores it would use, and why
  python -m runners --poll    work, until SIGTERM
"""
