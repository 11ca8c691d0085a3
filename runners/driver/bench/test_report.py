"""The table that `make bench WRITE=1` puts into docs/driver.md."""

from pathlib import Path

from machine import Quiet
from report import AGAIN, AS_MEMTIER, NULL, OURS, BenchResult, summarise
from trials import BenchTrial

PAGE = Path(__file__).resolve().parents[3] / "docs" / "driver.md"
QUIET = Quiet(foreign=0.0, steal=0.0, load_before=0.5, load_after=1.0)


def trial(client_ns: float, rate: float = 100.0) -> list[BenchTrial]:
    return [BenchTrial(rate, client_ns, server_ns=50.0)]


RESP = BenchResult(
    "resp",
    "tcp",
    16,
    {
        OURS: trial(50),
        AGAIN: trial(40),
        NULL: trial(50, rate=300),
        AS_MEMTIER: trial(60),
        "redis-benchmark": trial(100),
        "valkey-benchmark": trial(80),
        "memtier": trial(100),
    },
)
MEMCACHED = BenchResult("memcached", "unix", 1, {OURS: trial(60), AGAIN: trial(60), NULL: trial(60, rate=150)})


def test_the_summary_has_a_row_for_each_load_and_marks_missed_targets() -> None:
    text = summarise([RESP, MEMCACHED], {"kernel": "6.1"}, "GET.", QUIET)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        "| redis, tcp, P16 | 50 | 0.50 | **0.62** | **0.50** | 1.20 | 3.00 |",  # at most 0.60 and, of memtier, 0.45
        "| memcached, unix, P1 | 60 |  |  |  |  | **1.50** |",
    ]
    assert "`speedbench again` gave 1.00 to 1.25." in text


def test_the_page_has_the_form_of_the_summary() -> None:
    """Of the table of the page, the head and the loads, whatever was measured."""
    head, *_ = (line for line in summarise([RESP], {}, "", QUIET).splitlines() if line.startswith("| "))
    shown = PAGE.read_text().partition("<!-- bench: begin -->")[2].partition("<!-- bench: end -->")[0]
    table = [line for line in shown.splitlines() if line.startswith("| ")]
    assert table[0] == head
    assert len(table) == 1 + 2 * 2 * 3, "two servers, two transports, three pipelines"
