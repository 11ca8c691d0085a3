"""`python -m runners.build.image NAME none|network` builds ./Dockerfile and prints the messages of the daemon.

It exits with 1 if the build fails. There is no build context: the Dockerfile of a suite installs tools, it copies no
files.
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
            messages = api.build(
                fileobj=file,
                tag=name,
                rm=True,
                forcerm=True,
                decode=True,
                labels={LABEL: name},
                network_mode="none" if network == "none" else None,
            )
            return max((print_message(message) for message in messages), default=0)
    except (DockerException, requests.RequestException) as error:
        print(error, flush=True)
        return 1


def print_message(message: dict[str, str]) -> int:
    """Prints one message of the daemon; returns 1 if it is an error, else 0."""
    print(message.get("stream", "") or message.get("error", ""), end="", flush=True)
    return int("error" in message)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
