"""Instructions per request by callgrind agree between runs; without valgrind the benchmark is still measured."""

import os
from pathlib import Path

import pytest

from runners.errors import BenchmarkFailed
from runners.measuring import callgrind
from runners.tests.api import Api
from runners.tests.conftest import make_benchmark, make_job
from runners.work.agent import Agent


def job() -> dict[str, object]:
    return make_job(trials=1, benchmarks=[make_benchmark() | {"instructions": "callgrind"}])


@pytest.mark.valgrind
def test_runs_of_one_commit_agree(api: Api, agent: Agent) -> None:
    api.jobs = [job(), job()]
    agent.work()
    found = [body["once"][callgrind.METRIC] for body in api.bodies("/measurement")]
    assert len(found) == 2 and len(api.of("/complete")) == 2
    # Parsing, a look-up and two system calls are no fewer than hundreds and no more than some thousand instructions.
    # Until a slow start is over, more connections ask whether the server is there: 65,000 instructions each.
    assert 100 < found[0] < 20_000 and found[1] == pytest.approx(found[0], rel=0.05)


def test_without_valgrind_the_metric_is_absent_and_the_rest_is_measured(
    api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [path for path in os.environ["PATH"].split(":") if not Path(path, "valgrind").exists()]
    monkeypatch.setenv("PATH", ":".join(kept))
    api.jobs = [job()]
    agent.work()
    (measurement,) = api.bodies("/measurement")
    assert measurement["once"] == {} and measurement["trials"][0]["metrics"]["server_cpu_ns_per_request"] > 0
    assert f"{callgrind.METRIC} is absent: valgrind is not a program on this machine" in api.text("measure")


def test_a_report_without_a_total_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("events: Ir\nsummary: 1234\n")
    assert callgrind.total_instructions(tmp_path / "report") == 1234
    with pytest.raises(BenchmarkFailed, match="must end by itself on SIGTERM"):
        callgrind.total_instructions(tmp_path / "nothing")
