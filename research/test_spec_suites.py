"""Suites are scaled down and played on a real server, and what it counts otherwise is told."""

import shutil
from pathlib import Path

import pytest
import yaml

from research.peer_suites import SPEEDBENCH
from research.spec_suites import Served, compare, differences, lines_of, scaled

SUITE = """
dbconfig:
  init_commands: ["RPUSH list a 'b c'"]
  preload_tool:
    {tool: memtier_benchmark, arguments: '"--ratio" "1:0" --key-pattern P:P -n allkeys --key-maximum 1000000 -c 50'}
clientconfig: {tool: memtier_benchmark, arguments: --command "LRANGE list 0 -1" --test-time 120 -c 200 -t 4}
"""
OWN = [str(SPEEDBENCH), "memtier-benchmark"]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--test-time 120 -c 200", "-c 10 -n 40"),
        ("--test-time=120 --key-maximum=3000000 --key-minimum 10", "--key-maximum 1000 --key-minimum 1 -n 40"),
        ("-n allkeys --rate-limiting 5 --pipeline 3 -t 1", "-n allkeys --pipeline 3 -t 1"),
        ("-n 10000 --data-size 100", "-n 40 --data-size 100"),
    ],
)
def test_lines_keep_what_they_do_with_smaller_numbers(line: str, options: str) -> None:
    assert scaled(line) == options.split()


def test_suites_of_other_tools_are_left_out() -> None:
    suite = yaml.safe_load(SUITE)
    lines = lines_of(suite)
    assert lines and len(lines) == 2 and "allkeys" in lines[0] and "LRANGE" in lines[1]
    assert lines_of(suite | {"clientconfig": {"tool": "pubsub-sub-bench", "arguments": ""}}) is None
    assert lines_of({"clientconfigs": [suite["clientconfig"]]}) is None


def test_differences_are_told_and_drawn_ones_are_not() -> None:
    real = Served((0, 0), {"get of the load": (400, 0), "set of the load": (40, 0)}, 1000)
    assert not list(differences(real, Served((0, 0), {"get of the load": (390, 3), "set of the load": (41, 0)}, 950)))
    broken = Served((0, 2), {"get of the load": (300, 20)}, 10)
    assert list(differences(real, broken)) == [
        "exit codes: (0, 0), (0, 2)",
        "get of the load: 400 calls, 300",
        "get of the load: 0 failures, 20",
        "set of the load: 40 calls, 0",
        "keys: 1000, 10",
    ]


@pytest.mark.redis
def test_a_suite_is_played_by_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Path(shutil.which("redis-server") or "")
    file = tmp_path / "suite.yml"
    file.write_text(SUITE)
    assert compare(file, (OWN, OWN), server) == "alike"
    assert not capsys.readouterr().out
    assert compare(file, (OWN, [*OWN, "--command", "GET a"]), server) == "differ"
    assert "get of the load: 0 calls, " in capsys.readouterr().out
    file.write_text(SUITE.replace("'b c'", "'b c"))
    assert compare(file, (OWN, OWN), server) == "broken"
    assert "No closing quotation" in capsys.readouterr().out
