"""Tests whose need is absent are left out aloud, or are an error where the need was demanded."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[2] / "conftest.py"
TESTS = """
import pytest

@pytest.mark.docker
def test_in_a_container(): ...

def test_here(): ...
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.delenv("TESTS_MUST_HAVE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(CONFTEST.parent))
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(TESTS)
    return pytester


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_left_out_is_said_with_its_reason(project: pytest.Pytester, workers: int) -> None:
    done = project.runpytest_subprocess("-p", "no:django", "--strict-markers", f"--numprocesses={workers}")
    done.assert_outcomes(passed=1, deselected=0 if workers else 1)  # workers do not report it to pytest
    done.stdout.fnmatch_lines(
        ["left out: 1 tests that need docker: no Docker daemon answers at unix:///nowhere/docker.sock"]
    )


def test_a_need_that_was_demanded_is_an_error(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS_MUST_HAVE", "docker")
    done = project.runpytest_subprocess("-p", "no:django")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*no Docker daemon answers*"])


SLOW_TESTS = """
import pytest

@pytest.mark.timeout(1800)
def test_slow(): ...

def test_one(): ...

def test_two(): ...
"""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("seconds", "not_begun"), [(3600, []), (0, ["left out: 2 tests that 0 seconds were too short for"])]
)
def test_a_run_of_limited_time_leaves_out_slow_tests_and_what_it_has_not_begun(
    project: pytest.Pytester, workers: int, seconds: int, not_begun: list[str]
) -> None:
    project.makepyfile(SLOW_TESTS)
    options = ("-p", "no:django", "--strict-markers", f"--numprocesses={workers}", f"--for-seconds={seconds}")
    done = project.runpytest_subprocess(*options)
    assert done.parseoutcomes().get("passed", 0) == 2 - 2 * len(not_begun)
    slow = "left out: 1 slow tests, which are marked with a timeout of their own"
    assert [line for line in done.outlines if line.startswith("left out")] == [slow, *not_begun]
