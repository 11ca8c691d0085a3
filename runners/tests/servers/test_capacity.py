"""How many connections a server is to allow, and the files that it may open."""

import resource
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from runners.documents import Benchmark, ServerRecipe, parse_job
from runners.errors import BenchmarkFailed
from runners.servers.capacity import check_files, files_needed, open_files, recipe_for
from runners.tests.conftest import make_benchmark, make_job


def benchmark(**workload: Any) -> Benchmark:
    return parse_job(make_job(benchmarks=[make_benchmark(**workload)])).benchmarks[0]


@pytest.fixture
def soft() -> Iterator[int]:
    """A soft limit below the hard one, for the time of a test."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, before[1]))
    yield 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def limit_of_a_child() -> int:
    return int(subprocess.run(["sh", "-c", "ulimit -n"], capture_output=True, check=True, text=True).stdout)


def test_a_server_allows_the_connections_of_its_benchmark() -> None:
    recipe = ServerRecipe("kvd --maxclients {clients} {listen}", {"unix": "-s {socket} -c {clients}"}, "resp", 1, 1)
    few, many = (recipe_for(recipe, benchmark(clients=clients)) for clients in (50, 20_000))
    assert (few.command, few.listen["unix"]) == ("kvd --maxclients 4096 {listen}", "-s {socket} -c 4096")
    assert (many.command, many.listen["unix"]) == ("kvd --maxclients 20100 {listen}", "-s {socket} -c 20100")


def test_connections_of_the_probe_are_connections() -> None:
    assert files_needed(benchmark(clients=20, probe={"clients": 3, "rate": 1.0})) == 123


def test_processes_inherit_the_raised_limit(soft: int) -> None:
    with open_files(1500):
        assert limit_of_a_child() == 1500
        with open_files(soft + 1):
            assert limit_of_a_child() == 1500
    assert limit_of_a_child() == soft


def test_what_this_machine_forbids_is_told_with_the_limit(soft: int) -> None:
    beyond_the_kernel = 1 << 30  # fs.nr_open is lower everywhere, also for root
    with pytest.raises(BenchmarkFailed, match=r"1073741824 connections need 1073741924 open files .* allows \d+"):
        check_files(benchmark(clients=beyond_the_kernel))
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft
