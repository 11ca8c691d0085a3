"""The embedded system on one machine with its runner."""

import json
import os
import subprocess
import sys

from speedtrack import devstack


def test_servers_keep_off_the_cores_that_are_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runners", "plan", "--json"], cwd=devstack.BASE_DIR, capture_output=True, check=True
    )
    plan = json.loads(done.stdout)
    before = os.sched_getaffinity(0)
    try:
        devstack.keep_off_measured_cores()
        assert ",".join(map(str, sorted(os.sched_getaffinity(0)))) == plan["housekeeping"]
        assert plan["housekeeping"] != plan["server"]
    finally:
        os.sched_setaffinity(0, before)
