"""Commands of the runner and the server end without a traceback if standard output cannot be written to."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMANDS = {
    "runner's help": ["-m", "runners", "--help"],
    "runner's findings": ["-m", "runners", "doctor", "--only", "compiler"],
    "server's help": ["manage.py", "--help"],
    "server's refusal": ["-m", "speedtrack", "nothing"],
}
ROOT = Path(__file__).parents[3]


def end_of(command: str, unbuffered: str, **streams: Any) -> tuple[int, str]:
    """The exit code of a command, and what it writes to standard error."""
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(
        [sys.executable, *COMMANDS[command]], cwd=ROOT, env=environment, timeout=60, stderr=subprocess.PIPE, **streams
    )
    return ended.returncode, ended.stderr.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [name for name in COMMANDS if "refusal" not in name])
def test_output_that_cannot_be_written_is_a_sentence_and_a_closed_pipe_is_none(command: str, unbuffered: str) -> None:
    with open("/dev/full", "wb") as full:
        said = "error: standard output cannot be written to: No space left on device\n"
        assert end_of(command, unbuffered, stdout=full) == (1, said)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert end_of(command, unbuffered, stdout=writing) == (141, "")
    finally:
        os.close(writing)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_whose_standard_output_is_closed_ends_as_ever(command: str) -> None:
    usual = end_of(command, "", stdout=subprocess.DEVNULL)
    assert end_of(command, "", preexec_fn=lambda: os.close(1)) == usual
