"""The trial of hunks, with the real compiler and valgrind: the two hunks of the sample server that need each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.valgrind
def test_two_hunks_that_only_build_together_are_named() -> None:
    command = [sys.executable, "research/hunks.py", "sample", "--commits", "1", "--kinds", "signature"]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    _, _, row, *_, last = [line for line in done.stdout.splitlines() if line]
    _, number, guilty, named, refused, _, result, _ = (cell.strip() for cell in row.split("|"))
    assert (number, guilty, named, refused, result) == ("1: signature", f"{named} of 5", named, "2", "right")
    assert last == "sample: 1 of 1 right"
