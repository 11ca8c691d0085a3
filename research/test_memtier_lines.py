"""The lines of a suite are found wherever they stand, and the front end itself says which it takes."""

import pytest
import yaml

from research.memtier_lines import lines_in, refusal
from research.peer_suites import SPEEDBENCH

SUITE = """
dbconfig:
  preload_tool: {tool: memtier_benchmark, arguments: '"--ratio" "1:0" -n allkeys'}
clientconfigs:
- {tool: memtier_benchmark, arguments: --ratio 0:1}
- {tool: pubsub-sub-bench, arguments: --clients 5}
"""


def test_all_lines_of_memtier_are_found() -> None:
    assert list(lines_in(yaml.safe_load(SUITE))) == ['"--ratio" "1:0" -n allkeys', "--ratio 0:1"]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ('"--ratio" "1:0" -n allkeys', None),
        ("--no-such-option", "invalid option"),
        ('--command "GET', "no shell could split it"),
    ],
)
def test_a_line_is_taken_or_refused_with_its_cause(line: str, cause: str | None) -> None:
    reason = refusal(line, SPEEDBENCH)
    assert reason is None if cause is None else cause in (reason or "")


def test_another_end_is_no_answer() -> None:
    with pytest.raises(ValueError, match="exit code 0"):
        refusal("--help", SPEEDBENCH)
