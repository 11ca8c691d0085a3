"""Which runners this server works with.

The protocol is a number: it rises with every change of the calls that an older side would misunderstand, and both sides
must have the same. The version of the program is MAJOR.MINOR.PATCH: of one major version, neighbouring minor versions
work together, so that servers and machines need not be updated at the same moment.
"""

import re

from speedtrack import __version__

PROTOCOL = 2
NEIGHBOURS = 1  # minor versions apart
VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.[0-9A-Za-z.+-]{1,30}")


class WrongVersion(Exception):
    """The runner is of a version that this server does not work with; the message names both, and the remedy."""


def check(version: str, protocol: int | None) -> None:
    """Raises WrongVersion."""
    if refusal := refusal_of(version, protocol):
        raise WrongVersion(refusal)


def refusal_of(version: str, protocol: int | None) -> str:
    """Why a runner is refused; empty if it is not."""
    runner = f"the runner is version {version or 'unknown'} (protocol {'unknown' if protocol is None else protocol})"
    server = f"this server is version {__version__} (protocol {PROTOCOL})"
    if protocol == PROTOCOL and are_neighbours(version, __version__):
        return ""
    older = "server" if protocol is not None and protocol > PROTOCOL else "runner"
    return (
        f"{runner}, and {server}: both need the same protocol, the same major version, and minor versions at most "
        f"{NEIGHBOURS} apart. Update the {older}: `pip install ./runners` from the checkout of the server's version"
    )


def are_neighbours(one: str, other: str) -> bool:
    found, wanted = VERSION.fullmatch(one), VERSION.fullmatch(other)
    if found is None or wanted is None:
        return False
    return found[1] == wanted[1] and abs(int(found[2]) - int(wanted[2])) <= NEIGHBOURS
