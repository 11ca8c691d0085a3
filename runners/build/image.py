"""`python -m runners.build.image NAME none|network` builds ./Dockerfile and prints what the daemon says; 1: it failed.

There is no build context: a Dockerfile of a suite brings tools, never files.
"""

import sys
from pathlib import Path

import docker
import requests
from docker.errors import DockerException

LABEL = "speedtrack.dockerfile"


def main(name: str, network: str) -> int:
    try:
        api = docker.APIClient(timeout=None, **docker.utils.kwargs_from_env())
        with Path("Dockerfile").open("rb") as file:
            said = api.build(
                fileobj=file,
                tag=name,
                rm=True,
                forcerm=True,
                decode=True,
                labels={LABEL: name},
                network_mode="none" if network == "none" else None,
            )
            return max((shown(piece) for piece in said), default=0)
    except (DockerException, requests.RequestException) as error:
        print(error, flush=True)
        return 1


def shown(piece: dict[str, str]) -> int:
    """Prints one piece of the daemon's answer; 1 if it is the error that ends it."""
    print(piece.get("stream", "") or piece.get("error", ""), end="", flush=True)
    return int("error" in piece)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
