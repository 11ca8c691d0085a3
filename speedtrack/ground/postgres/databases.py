"""The databases from environment variables, for Django's setting DATABASES."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from speedtrack.ground.observing.variables import env_secret_text

# If a server vanishes from the network, its connection ends within half a minute; otherwise a call would wait for
# hours.
ANSWERS_OR_ENDS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
# Pages do not wait long for a replica; a promoted one must not accept writes for the primary.
REPLICA_OPTIONS: dict[str, Any] = {
    "connect_timeout": 2,
    "tcp_user_timeout": 5_000,
    "options": "-c default_transaction_read_only=on",
}
# PostgreSQL keeps the plan of a statement with values apart (``pgvalues``) for the session: by itself it would plan
# some anew with each call, which takes longer than to run them. A pool gives each transaction another session, which
# lacks the plan.
PLANNED_ONCE: dict[str, Any] = {"prepare_threshold": 1, "options": "-c plan_cache_mode=force_generic_plan"}
LARGEST_PORT = 65535
AS_DEFAULT_IN_TESTS = {"TEST": {"MIRROR": "default"}}


def database(variable: str, default: str = "", **options: Any) -> dict[str, Any]:
    """Django's settings from the libpq connection URL in a variable, with DATABASE_PASSWORD if the URL has none."""
    try:
        options_of_url = conninfo_to_dict(env_secret_text(variable) or default)
    except ProgrammingError:
        raise ImproperlyConfigured(
            f"{variable} is no PostgreSQL address such as postgresql://user:password@host/name: in a password, "
            "write %2F for /, %3A for :, %40 for @, %23 for #, %3F for ? and %25 for %"
        ) from None  # psycopg's message quotes the address, and so the password
    check_ports(variable, str(options_of_url.get("port") or ""))
    if password := env_secret_text("DATABASE_PASSWORD"):
        options_of_url.setdefault("password", password)
    url_options = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        **{key: options_of_url.pop(option, "") or "" for key, option in url_options.items()},
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": ANSWERS_OR_ENDS | options | options_of_url,
    }


def check_ports(variable: str, ports: str) -> None:
    """Refuse a port that cannot be one; of several hosts, each has its own. psycopg would blame the host first."""
    for port in ports.split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= LARGEST_PORT):
            raise ImproperlyConfigured(f"{variable} has the port {port!r}: give one from 1 to {LARGEST_PORT}, or none")


def from_environment() -> dict[str, dict[str, Any]]:
    """The primary, and by their variables: PostgreSQL itself if DATABASE_URL is a pool's, and a replica for pages."""
    pooled = bool(env_secret_text("DATABASE_SESSION_URL"))
    plans = {} if pooled else PLANNED_ONCE
    databases = {"default": database("DATABASE_URL", "postgresql:///speedtrack", **plans)}
    if pooled:
        databases["session"] = database("DATABASE_SESSION_URL", **PLANNED_ONCE) | AS_DEFAULT_IN_TESTS
    if env_secret_text("DATABASE_REPLICA_URL"):
        databases["replica"] = database("DATABASE_REPLICA_URL", **REPLICA_OPTIONS) | AS_DEFAULT_IN_TESTS
        databases["replica"]["ENGINE"] = "speedtrack.ground.postgres.replica"
    if "session" in databases:  # a pool gives each transaction another session, but a cursor belongs to one
        for name in ("default", "replica"):
            databases.get(name, {})["DISABLE_SERVER_SIDE_CURSORS"] = True
    return databases
