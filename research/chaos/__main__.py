"""Break a whole installation again and again while it works, let it heal, and check that nothing was lost or doubled.

python -m research.chaos [--minutes 10] [--seed N] [--runs 300] [--keep]

PostgreSQL, broker, web server, dispatcher, three workers and three runners are started as real processes in a temporary
directory, which is deleted unless --keep is given or a check fails. The runners are three machines of one host: each
has locks of its own, so that they work at once; what they measure is worth nothing, and takes little time.
The exit code is 0 if every check holds. The same seed gives the same faults in the same order.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m research.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="how long faults come (default 10)")
    parser.add_argument("--seed", type=int, help="of the faults (default: a random one, which is printed)")
    parser.add_argument("--runs", type=int, default=300, help="how many runs are planned at least (default 300)")
    parser.add_argument("--keep", action="store_true", help="keep the directory with all logs")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    home = Path(tempfile.mkdtemp(prefix="speedtrack-chaos-"))
    home.chmod(0o755)  # if root starts it, PostgreSQL runs as another user
    set_up(home)
    from research.chaos import report, trial  # models: only once Django is set up

    print(f"chaos for {options.minutes:g} minutes, seed {seed}, in {home}", flush=True)
    outcome = trial.break_and_heal(home, options.minutes, options.runs, seed)
    print(report.text_of(outcome, seed), flush=True)
    if outcome.violations or options.keep:
        print(f"kept: {home}")
    else:
        shutil.rmtree(home, ignore_errors=True)
    return bool(outcome.violations)


def set_up(home: Path) -> None:
    """Django on an embedded PostgreSQL of this directory."""
    os.environ |= {
        "SPEEDTRACK_HOME": str(home),
        "SUITES": str(home / "suites"),
        "EMAIL_FILES": str(home / "mail"),
        "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
        "ALLOW_LOCAL_REPOSITORIES": "true",
        "CANARY_AUTO": "false",
        "LEASE_S": "8",
        "MAX_ATTEMPTS": "1000",  # what is broken is not the commits' fault
        "POLL_EVERY_S": "20",
        "LOG_LEVEL": "WARNING",
    }
    from speedtrack.processes import devstack

    os.environ["DATABASE_URL"] = devstack.postgresql(home / "postgresql")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
