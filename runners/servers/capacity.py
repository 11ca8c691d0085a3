"""Servers with thousands of connections: the connections that they have to allow, and the open files for them."""

import contextlib
import resource
from collections.abc import Iterator
from dataclasses import replace

from runners.documents import Benchmark, ServerRecipe
from runners.errors import OutOfReach

CLIENTS = "{clients}"  # in the command of a server
LEAST_CLIENTS = 4096  # so that a server's tables have one size, for few connections and for many
RESERVE = 100  # open files other than the load's connections


def files_needed(benchmark: Benchmark) -> int:
    """The number of files that the server of this benchmark has open at the same time."""
    probe = benchmark.workload.get("probe") or {}
    return int(benchmark.workload.get("clients", 1) + probe.get("clients", 0) + RESERVE)


def recipe_for(recipe: ServerRecipe, benchmark: Benchmark) -> ServerRecipe:
    """A copy of the recipe with the number of connections that the server has to allow."""
    limit = str(max(LEAST_CLIENTS, files_needed(benchmark)))
    listen = {transport: options.replace(CLIENTS, limit) for transport, options in recipe.listen.items()}
    return replace(recipe, command=recipe.command.replace(CLIENTS, limit), listen=listen)


@contextlib.contextmanager
def open_files(needed: int) -> Iterator[None]:
    """Processes started in the block may open so many files, or as many as this process if that is more.

    Raises OutOfReach if this machine does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        yield
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard if hard < 0 else max(hard, needed)))
    except (ValueError, OSError) as error:
        raise OutOfReach(
            f"{needed - RESERVE} connections need {needed} open files in one process, and this machine allows {hard}: "
            f"raise the hard limit of the runner to at least {needed} (ulimit -Hn, LimitNOFILE=), or lower clients"
        ) from error
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def check_files(benchmark: Benchmark) -> None:
    """Raises OutOfReach if this machine does not allow the files that a benchmark needs."""
    with open_files(files_needed(benchmark)):
        pass
