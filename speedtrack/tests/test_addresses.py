"""Spellings of inner addresses, through both doors that lead out: git and the calls of channels. None leads inside."""

import socket
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from speedtrack.notices.channels.addresses import allowed_addresses, destination
from speedtrack.notices.errors import PermanentFailure, TemporaryFailure
from speedtrack.notices.tests import test_calls
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import remotes
from speedtrack.projects.tests import test_remotes

MORE = [
    "0300.0250.01.01",
    "3232235777",
    "0xc0a80101",
    "0xc0.0xa8.0x1.0x1",
    "127.0.1",
    "[::ffff:0:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::c0a8:101]",
    "[2002:a00:1::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
    "127\uff0e0\uff0e0\uff0e1",
    "\u216c\u2134calhost",
    "localhost\u00ad",
    "lo\u0441alhost",
    "metadata.google.internal.",
    "127.0.0.1%00.example.org",
    "127.0.0.1\t",
    "example.org%2f@127.0.0.1",
    "example.org:443:80",
    "[127.0.0.1]",
    "[::1]example.org",
    "2130706433.",
]
SPELLINGS = sorted(
    {*MORE, *test_remotes.INNER, *test_remotes.NEVER, *test_remotes.NO_HOSTS, *test_calls.INNER, *test_calls.NEVER}
    - {"-x.org", "example..org"}
)


def by_git(host: str) -> object:
    return remotes.checked_addresses(remotes.endpoint_of(remotes.valid_url(f"https://{host}/a/b")))


def by_ssh(host: str) -> object:
    return remotes.checked_addresses(remotes.endpoint_of(remotes.valid_url(f"ssh://git@{host}/a/b")))


def by_channel(host: str) -> object:
    return allowed_addresses(destination(f"https://{host}/a"), 60)


DOORS: dict[str, Callable[[str], object]] = {"git": by_git, "ssh": by_ssh, "channel": by_channel}
REFUSALS = (RepositoryError, PermanentFailure, TemporaryFailure)


@pytest.mark.parametrize("door", DOORS)
def test_no_spelling_leads_inside(door: str, settings: Any) -> None:
    settings.GIT_HOSTS = ["*"]
    assert len(SPELLINGS) > 80
    for host in SPELLINGS:
        with pytest.raises(REFUSALS):
            pytest.fail(f"{host!r} leads to {DOORS[door](host)}")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("inner", ["10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::a00:1"])
def test_a_name_with_a_public_and_an_inner_address_leads_nowhere(
    door: str, inner: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GIT_HOSTS = ["*"]
    settings.GIT_NETWORKS = settings.CHANNEL_NETWORKS = [ip_network("192.168.0.0/16")]
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in ("93.184.216.34", inner)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    with pytest.raises(REFUSALS):
        pytest.fail(f"it leads to {DOORS[door]('example.org')}")
