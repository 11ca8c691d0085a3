"""Find settings that make this installation easier to attack than necessary.

On a laptop that nobody else reaches, most of them do not matter and are not reported.
"""

import stat
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from django.conf import settings

from speedtrack.celery import broker
from speedtrack.ground.secrets.addresses import is_loopback

SHORTEST_KEY, FEWEST_CHARACTERS = 50, 5  # as in Django's own check
BAD, NOTE = "bad", "note"
Weakness = tuple[str, str]  # its severity, and a sentence with the remedy


def weaknesses() -> Iterator[Weakness]:
    for find in (*EVERYWHERE, *(() if is_private() else REACHED_BY_OTHERS)):
        yield from find()


def is_private() -> bool:
    """Return whether only this machine can reach the installation."""
    return is_loopback(urlsplit(settings.URL).hostname or "")


def weak_key() -> Iterator[Weakness]:
    key = settings.SECRET_KEY
    if len(key) < SHORTEST_KEY or len(set(key)) < FEWEST_CHARACTERS or key.startswith("django-insecure"):
        yield BAD, f"SECRET_KEY can be guessed: give it {SHORTEST_KEY} random characters (`openssl rand -hex 32`)"


def readable_key() -> Iterator[Weakness]:
    file = settings.HOME / "secret-key"
    if file.exists() and file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield BAD, f"others on this machine may read {file}: `chmod 600 {file}`, and replace the key"


def open_networks() -> Iterator[Weakness]:
    for name in ("GIT_NETWORKS", "CHANNEL_NETWORKS"):
        wide = [str(network) for network in getattr(settings, name) if network.prefixlen == 0]
        if wide:
            yield (
                BAD,
                f"{name} has {', '.join(wide)}: anybody who may enter an address reaches all inner "
                "services; list few networks",
            )


def no_tls() -> Iterator[Weakness]:
    if not settings.IS_HTTPS:
        yield BAD, "SPEEDTRACK_URL is http: passwords and tokens cross the network in clear; put a TLS proxy before it"
    elif not settings.BEHIND_TLS_PROXY:
        yield (
            BAD,
            "SPEEDTRACK_URL is https, but BEHIND_TLS_PROXY is not true: nobody is redirected to https, browsers do not "
            "stay there, and failed logins are counted by the proxy's address",
        )
    elif not settings.SECURE_HSTS_SECONDS:
        yield NOTE, "HSTS_SECONDS is 0: a browser's first call may be by http, and altered on its way"


def debugging() -> Iterator[Weakness]:
    if settings.DEBUG:
        yield BAD, "DEBUG is true: pages of errors show settings and source code to everybody"


def any_host() -> Iterator[Weakness]:
    if "*" in settings.ALLOWED_HOSTS:
        yield BAD, "ALLOWED_HOSTS has *: a made-up host name ends up in links and mails; list the names"


def trusting_repositories() -> Iterator[Weakness]:
    if settings.ALLOW_LOCAL_REPOSITORIES:
        yield NOTE, "ALLOW_LOCAL_REPOSITORIES is true: whoever may track reads each repository of this machine"
    if "*" in settings.GIT_HOSTS:
        yield NOTE, "GIT_HOSTS is *: whoever may track makes this server call any public host"


def open_broker() -> Iterator[Weakness]:
    address = broker()
    if all(map(is_loopback, address.hosts)):
        return
    if not address.password:
        yield BAD, "BROKER_URL has no password: whoever reaches the broker can send tasks; set `requirepass` there"
    if not address.is_encrypted:
        yield (
            NOTE,
            f"BROKER_URL is {address.scheme}://: password and nudges cross the network in clear; use TLS",
        )


def unverified_broker() -> Iterator[Weakness]:
    address = broker()
    if address.is_encrypted and not address.is_verified:
        yield BAD, "BROKER_URL has ssl_cert_reqs=none: anybody on the way can be the broker; set BROKER_CA_FILE instead"


def plain_database() -> Iterator[Weakness]:
    database = settings.DATABASES["default"]
    encrypted = database["OPTIONS"].get("sslmode") in ("require", "verify-ca", "verify-full")
    if not is_loopback(database["HOST"]) and not encrypted:
        yield NOTE, "DATABASE_URL does not ask for TLS: add ?sslmode=verify-full, unless its network is trusted"
    elif not is_loopback(database["HOST"]) and database["OPTIONS"]["sslmode"] != "verify-full":
        yield NOTE, "DATABASE_URL does not verify whom it reaches: say ?sslmode=verify-full&sslrootcert=system there"


def mail_in_clear() -> Iterator[Weakness]:
    if not settings.EMAIL_FILE_PATH and settings.EMAIL_TLS == "none" and not is_loopback(settings.EMAIL_HOST):
        yield NOTE, "EMAIL_TLS is none: mails cross the network in clear; set starttls or implicit"


EVERYWHERE: tuple[Callable[[], Iterator[Weakness]], ...] = (weak_key, readable_key, open_networks, unverified_broker)
REACHED_BY_OTHERS: tuple[Callable[[], Iterator[Weakness]], ...] = (
    no_tls,
    debugging,
    any_host,
    trusting_repositories,
    open_broker,
    plain_database,
    mail_in_clear,
)
