"""Environment variables, read and checked. A wrong value raises ImproperlyConfigured with the remedy."""

import os
import re
import secrets
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from speedtrack.ground.secrets import privatefiles

SHORTEST_KEY = 32
MOST_DAYS = 36_500


def env_bool(name: str, default: bool) -> bool:
    """A variable that must be ``true`` or ``false``."""
    value = os.environ.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise ImproperlyConfigured(f"{name}={value!r}: say true or false")
    return value == "true"


def env_int(name: str, default: int) -> int:
    """A variable that must be a whole number."""
    value = os.environ.get(name, str(default))
    if not re.fullmatch(r"-?[0-9]{1,18}", value):
        raise ImproperlyConfigured(f"{name}={value!r}: give a whole number")
    return int(value)


def env_days(name: str, default: int) -> int:
    """A variable that must be a number of days, 0 for ever."""
    days = env_int(name, default)
    if not 0 <= days <= MOST_DAYS:
        raise ImproperlyConfigured(f"{name}={days}: give a number of days up to {MOST_DAYS}, or 0 for ever")
    return days


def env_secret(name: str, file: Path) -> str:
    """The secret, or otherwise a random value, made once and kept in ``file``, which only its owner can read."""
    if value := env_secret_text(name):
        return value
    if os.environ.get(f"{name}_FILE"):
        raise ImproperlyConfigured(f"{name}_FILE: the file is empty: write a secret into it (`openssl rand -hex 32`)")
    secret = privatefiles.write_once(file, secrets.token_urlsafe(48))
    if not secret:
        raise ImproperlyConfigured(f"{file} is empty: delete it, or set {name}")
    return secret


def env_secret_text(name: str) -> str:
    """A secret of a variable, or of the file that ``<name>_FILE`` names; "" without either."""
    value, file = os.environ.get(name, ""), os.environ.get(f"{name}_FILE", "")
    if value and file:
        raise ImproperlyConfigured(f"{name} and {name}_FILE: set one of them")
    if not file:
        return value
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise ImproperlyConfigured(f"{name}_FILE={file}: cannot be read: {e}") from e


def env_choice(name: str, *choices: str, default: str) -> str:
    """A variable that must be one of these words."""
    value = os.environ.get(name, "") or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r}: say {', '.join(choices[:-1])} or {choices[-1]}")
    return value


def env_together(*names: str) -> bool:
    """Return whether these variables (or the files of secrets) are set.

    Raises ImproperlyConfigured if only some of them are.
    """
    missing = [name for name in names if not (os.environ.get(name) or os.environ.get(f"{name}_FILE"))]
    if missing and len(missing) < len(names):
        raise ImproperlyConfigured(f"{', '.join(missing)}: not set; of {', '.join(names)} set all, or none")
    return not missing


def env_text(name: str) -> str:
    """A variable without blanks around it; "" if it is not set."""
    return os.environ.get(name, "").strip()


def env_words(name: str, default: str = "") -> list[str]:
    """A variable that lists words, separated by commas."""
    return [entry.strip() for entry in os.environ.get(name, default).split(",") if entry.strip()]


def env_networks(name: str) -> list[IPv4Network | IPv6Network]:
    """A variable that lists networks such as 10.1.0.0/16."""
    try:
        return [ip_network(entry) for entry in env_words(name)]
    except ValueError as e:
        raise ImproperlyConfigured(f"{name}: {e}: list networks such as 10.1.0.0/16,fd00:1::/64") from e


def env_hosts(name: str, default: str) -> list[str]:
    """A variable that lists hosts such as git.example.org or git.example.org:8443, or * for any."""
    hosts = [host.lower() for host in env_words(name, default)]
    if wrong := [host for host in hosts if not re.fullmatch(r"(\*|[a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", host)]:
        raise ImproperlyConfigured(f"{name}: {wrong[0]!r} is not a host: list hosts such as git.example.org:8443, or *")
    return hosts


def env_ports(name: str, default: str) -> frozenset[int]:
    """A variable that lists TCP ports."""
    ports = env_words(name, default)
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in ports):
        raise ImproperlyConfigured(f"{name}={','.join(ports)!r}: list ports such as 443,8443")
    return frozenset(map(int, ports))


def env_keys(name: str) -> list[str]:
    """A secret that lists long random keys, separated by commas or one per line."""
    keys = re.split(r"[,\s]+", text) if (text := env_secret_text(name).strip(" ,")) else []
    if any(len(key) < SHORTEST_KEY for key in keys):
        raise ImproperlyConfigured(f"{name}: each key has {SHORTEST_KEY} characters at least: `openssl rand -hex 32`")
    return keys
