"""The suites' outputs are read, and the wrapper stands in for the peer's program in the copy alone."""

from pathlib import Path

from research.peer_suites import PEERS, SuiteOutcome, measured, outcome

REDIS, VALKEY, MEMTIER = PEERS
TCL = """\
[ready]: 9658
\x1b[0;32m[ok]\x1b[0m: benchmark: set,get (76 ms)
\x1b[0;31m[err]\x1b[0m: benchmark: read last argument from stdin in tests/integration/x.tcl
*** [err]: benchmark: read last argument from stdin in tests/integration/x.tcl
"""
RLTEST = """\
Running tests on OSS standalone:

test_scan:test_once:\r
\t[PASS]
test_scan:test_twice:\r
\tdebug:\tsome text: of the test:
\tdebug:\t

\t[FAIL]
test_scan:test_thrice:\r
\t[PASS]
"""


def test_lines_of_both_forms_are_counted_once() -> None:
    failed = "benchmark: read last argument from stdin in tests/integration/x.tcl"
    assert outcome(VALKEY, TCL) == SuiteOutcome(("benchmark: set,get",), (failed,))
    assert outcome(MEMTIER, RLTEST) == SuiteOutcome(
        ("test_scan:test_once", "test_scan:test_thrice"), ("test_scan:test_twice",)
    )


def test_the_wrapper_calls_the_front_end_of_the_name(tmp_path: Path) -> None:
    folder = tmp_path / "redis"
    (folder / "src").mkdir(parents=True)
    (folder / "tests").mkdir()
    binary = folder / REDIS.binary
    binary.write_text("#!/bin/sh\necho '[ok]: the real one (1 ms)'\n")
    binary.chmod(0o755)
    (folder / "runtest").write_text("src/redis-benchmark -q\n")
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "[ok]: $* (1 ms)"\n')
    program.chmod(0o755)
    assert measured(REDIS, folder, None, tls=False, environment={}).passed == ("the real one",)
    assert measured(REDIS, folder, program, tls=False, environment={}).passed == ("redis-benchmark -q",)
    assert "the real one" in binary.read_text()
