"""Which versions of runners this server works with.

The version of the program is MAJOR.MINOR.PATCH: of one major version, neighbouring minor versions work together, so
that servers and machines need not be updated at the same moment. The protocol is a number: it rises with every change
of the calls that an older server would misunderstand. This server takes the calls of the protocols that are listed
here.
"""

import re

from speedtrack import __version__

PROTOCOL = 2
UNSAID = 1  # of runners that do not say which protocol they speak
# 1 (version 1.0): a claim has no version, which "hello" has told; an idle runner is known by its claims, not by beats;
# what a machine cannot measure fails a run; tokens are not replaced. 2 added to the calls, and changed none.
UNDERSTOOD = frozenset({UNSAID, PROTOCOL})
NEIGHBOURS = 1  # minor versions apart
VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.[0-9A-Za-z.+-]{1,30}")


class WrongVersion(Exception):
    """The runner is of a version that this server does not work with; the message names both, and the remedy."""


def check(version: str, protocol: int | None) -> None:
    """Raise WrongVersion if this server does not work with such a runner."""
    if refusal := refusal_of(version, protocol):
        raise WrongVersion(refusal)


def refusal_of(version: str, protocol: int | None) -> str:
    """Why a runner of this version is refused; empty if it is not."""
    spoken = UNSAID if protocol is None else protocol
    if spoken in UNDERSTOOD and are_neighbours(version, __version__):
        return ""
    older = "server" if spoken > PROTOCOL else "runner"
    protocols = " or ".join(map(str, sorted(UNDERSTOOD)))
    return (
        f"the runner is version {version or 'unknown'} (protocol {spoken}), and this server is version {__version__} "
        f"(protocol {protocols}): both need a common protocol, the same major version, and minor versions at most "
        f"{NEIGHBOURS} apart. Update the {older}: `pip install ./runners` from the checkout of the server's version"
    )


def are_neighbours(version: str, own_version: str) -> bool:
    numbers, own_numbers = VERSION.fullmatch(version), VERSION.fullmatch(own_version)
    if numbers is None or own_numbers is None:
        return False
    return numbers[1] == own_numbers[1] and abs(int(numbers[2]) - int(own_numbers[2])) <= NEIGHBOURS
