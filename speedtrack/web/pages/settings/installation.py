"""The settings in force in this installation, and where each comes from. Secrets are not shown."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from speedtrack import celery
from speedtrack.ground.secrets.sealed import DOTS
from speedtrack.retention.policies import POLICIES, Policy

Value = Callable[[], object]
NOT_SET = "not set"


@dataclass(frozen=True)
class Setting:
    """``source``: the environment, a file that it names, or the default. ``what``: what the setting decides."""

    name: str
    value: str
    source: str
    what: str


def load() -> dict[str, list[Setting]]:
    """The settings by topic."""
    return {
        topic: [Setting(name, shown(value_of(name)), source_of(name), meaning) for name, meaning in rows.items()]
        for topic, rows in TOPICS.items()
    }


def source_of(name: str) -> str:
    if os.environ.get(f"{name}_FILE"):
        return "file"
    return "environment" if os.environ.get(name) else "default"


def value_of(name: str) -> object:
    return VALUES[name]() if name in VALUES else getattr(settings, name)


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(str, sorted(value, key=str))) or NOT_SET
    return NOT_SET if value is None or value == "" else str(value)


def database(alias: str) -> str:
    """Where a database is, without its password."""
    entry = settings.DATABASES.get(alias)
    if entry is None:
        return ""
    user, host, port = entry["USER"], entry["HOST"], entry["PORT"]
    return f"{user}{'@' if user else ''}{host or 'this machine'}{':' if port else ''}{port}/{entry['NAME']}"


def broker() -> str:
    """The broker's address, without user and password."""
    return str(celery.broker())


def dots(value: object) -> str:
    """Dots that show only whether a secret is set."""
    return DOTS if value else ""


def given(name: str) -> str:
    """The value of an environment variable; dots for a secret."""
    return dots(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def kept_days(policy: Policy) -> Value:
    return lambda: f"{policy.days} days" if policy.days else "for ever"


#: Topic -> name of the environment variable -> what it decides.
TOPICS: dict[str, dict[str, str]] = {
    "Web": {
        "SPEEDTRACK_DOMAIN": "the name under which a proxy of ours answers",
        "SPEEDTRACK_URL": "the address of this site, in links",
        "SPEEDTRACK_LIVE_URL": "where pages reach the streams of what changes",
        "ALLOWED_HOSTS": "names under which it answers",
        "BEHIND_TLS_PROXY": "all requests come through a proxy of ours",
        "HSTS_SECONDS": "for how long browsers come by https only, once they did",
        "DEBUG": "tracebacks on pages; never where others reach it",
        "SECRET_KEY": "signs sessions and links",
        "SPEEDTRACK_ENCRYPTION_KEYS": "encrypt secrets in the database; not set: SECRET_KEY does",
        "LOG_LEVEL": "of the logs",
    },
    "Logins": {
        "SIGNUP": "who may make an account: closed, invited or open",
        "REQUIRE_MFA": "who must log in with a second step",
        "GITHUB_CLIENT_ID": "people log in by GitHub",
        "GITHUB_CLIENT_SECRET": "of that",
        "GITHUB_URL": "of another GitHub than the public one",
        "GITHUB_ORGANISATION": "only its members come in by GitHub",
        "OIDC_NAME": "what the button of the OpenID Connect server says",
        "OIDC_ISSUER": "people log in by this OpenID Connect server",
        "OIDC_CLIENT_ID": "of that",
        "OIDC_CLIENT_SECRET": "of that",
        "OIDC_EMAIL_DOMAINS": "only addresses of these domains come in by it",
    },
    "Programs": {
        "API_RATE": "calls of the API in a minute with one token; 0: any number",
        "API_RATE_ANONYMOUS": "the same from one address without a token",
        "HOOK_RATE": "calls of one webhook in a minute; 0: any number",
        "CODESPEED_ANONYMOUS": "the Codespeed addresses take results from anybody",
    },
    "Monitoring": {
        "METRICS_TOKEN": "opens the metrics to other hosts",
        "LEAST_FREE_MB": "free space below which it is not ready",
        "SPEEDTRACK_LOG_FORMAT": "line or json",
        "ACCESS_LOG": "a log line for each request",
    },
    "Storage": {
        "SPEEDTRACK_HOME": "mirrors, embedded servers, secrets",
        "SUITES": "directory of the suite files",
        "DATABASE_URL": "PostgreSQL",
        "DATABASE_PASSWORD": "its password, where an address has none",
        "DATABASE_SESSION_URL": "PostgreSQL itself, past a pool",
        "DATABASE_REPLICA_URL": "what pages are read from",
        "REPLICA_LAG_S": "by how many seconds it may be behind",
        "BROKER_URL": "carries nudges to workers and runners",
        "BROKER_CA_FILE": "certificates by which the broker's is verified, beside those of the system",
    },
    "Repositories": {
        "ALLOW_LOCAL_REPOSITORIES": "paths of this machine may be tracked",
        "POLL_EVERY_S": "seconds between two looks at a repository",
        "GIT_HOSTS": "hosts whose repositories may be tracked; * for any",
        "GIT_NETWORKS": "private networks in which they may be",
        "GIT_TIMEOUT_S": "seconds that git may take",
        "GIT_MOST_MB": "what one fetch may bring at most",
    },
    "Measuring": {
        "LEASE_S": "seconds of silence after which a run is taken from its runner",
        "MAX_ATTEMPTS": "of a run that no machine finishes",
        "SETTLING_PERCENT": "share of time for settling suspicions",
        "HEAD_WAIT_S": "seconds that the head of a branch waits at most",
        "AA_EVERY_DAYS": "days between runs of a commit against itself",
        "SWEEP_EVERY": "measured commits between two sweeps of a machine",
        "HUNK_BUILDS": "builds of a commit without some of its hunks, at most",
        "CANARY_EVERY_S": "seconds between two runs of a canary",
        "CANARY_AUTO": "the first measured head becomes a machine's canary",
        "OPERATORS": "who is mailed about machines",
    },
    "Mail and channels": {
        "EMAIL_HOST": "the mail server",
        "EMAIL_PORT": "its port",
        "EMAIL_TLS": "how the connection is encrypted",
        "EMAIL_CA_FILE": "who vouches for its certificate",
        "EMAIL_HOST_USER": "who logs in there",
        "EMAIL_HOST_PASSWORD": "the password",
        "EMAIL_TIMEOUT": "seconds for one step",
        "EMAIL_FROM": "the sender",
        "EMAIL_FILES": "a directory that gets mails instead",
        "CHANNEL_NETWORKS": "private networks that channels may call",
        "CHANNEL_PORTS": "ports that channels may call",
    },
    "Retention": {
        "PRUNE_HOUR": "hour in UTC after which old rows are deleted; -1: by hand",
        **{policy.setting: f"how long {policy.name} are kept" for policy in POLICIES.values()},
    },
}
#: The values that are not simply the setting of that name.
VALUES: dict[str, Value] = {
    "SPEEDTRACK_DOMAIN": lambda: settings.DOMAIN,
    "SPEEDTRACK_URL": lambda: settings.URL,
    "SPEEDTRACK_LIVE_URL": lambda: settings.LIVE_URL,
    "HSTS_SECONDS": lambda: settings.SECURE_HSTS_SECONDS,
    "SECRET_KEY": lambda: dots(settings.SECRET_KEY),
    "SPEEDTRACK_ENCRYPTION_KEYS": lambda: dots(settings.SPEEDTRACK_ENCRYPTION_KEYS),
    "LOG_LEVEL": lambda: logging.getLevelName(logging.getLogger().level),
    "METRICS_TOKEN": lambda: dots(settings.METRICS_TOKEN),
    "SPEEDTRACK_LOG_FORMAT": lambda: settings.LOG_FORMAT,
    "SPEEDTRACK_HOME": lambda: settings.HOME,
    "DATABASE_URL": lambda: database("default"),
    "DATABASE_PASSWORD": lambda: dots(settings.DATABASES["default"]["PASSWORD"]),
    "DATABASE_SESSION_URL": lambda: database("session"),
    "DATABASE_REPLICA_URL": lambda: database("replica"),
    "BROKER_URL": broker,
    "EMAIL_HOST_PASSWORD": lambda: dots(settings.EMAIL_HOST_PASSWORD),
    "GITHUB_CLIENT_ID": lambda: os.environ.get("GITHUB_CLIENT_ID", ""),
    "GITHUB_CLIENT_SECRET": lambda: given("GITHUB_CLIENT_SECRET"),
    "OIDC_CLIENT_ID": lambda: os.environ.get("OIDC_CLIENT_ID", ""),
    "OIDC_CLIENT_SECRET": lambda: given("OIDC_CLIENT_SECRET"),
    "EMAIL_FROM": lambda: settings.DEFAULT_FROM_EMAIL,
    "EMAIL_FILES": lambda: settings.EMAIL_FILE_PATH,
    **{policy.setting: kept_days(policy) for policy in POLICIES.values()},
}
