"""`python -m runners`: the runner of this machine."""

import argparse
import os
import sys

import runners
from runners import doctor, failpoints, logs, traces
from runners.commands import show_plan, show_tuning, tune_by_hand
from runners.errors import RunnerError, SettingsError, Unauthorized, WrongVersion
from runners.machine.file_lock import lock_file
from runners.processes.endings import ended_plainly
from runners.reporting.connection import Unreachable
from runners.tuning import tune
from runners.work.enrolment import enroll, load_settings
from runners.work.settings import lock_directory_setting, read_settings
from runners.work.startup import run

EXIT_FAILED, EXIT_USAGE = 1, 2
IN_USE = (
    "another runner (process %s) uses this SPEEDTRACK_RUNNER_HOME: stop it, or set SPEEDTRACK_RUNNER_HOME to another "
    "directory"
)

HELP = """\
The runner of this machine: it asks the SpeedTrack server for work, builds the commit, measures it, and reports.

It needs a C compiler, make and tar, and the native driver speedbench. Runners of one host that may use the same cores
work in turn.
"""

ENVIRONMENT = """\
environment variables:
  SPEEDTRACK_RUNNER_SETTINGS
                          file with more variables, one NAME=value per line, written by `enroll` (default:
                          ~/.config/speedtrack/runner.env)
  SPEEDTRACK_URL          address of the server, for example https://speed.example.org
  SPEEDTRACK_TOKEN        token of this machine, printed by `manage.py machine add NAME` on the server
  SPEEDTRACK_TOKEN_FILE   a file that holds the token, instead of SPEEDTRACK_TOKEN; the runner replaces it when the
                          server asks for that
  BROKER_URL              broker that announces work (redis://...); not needed with --poll or --once
  BROKER_CA_FILE          certificates that verify the broker, in addition to the system's
  SPEEDTRACK_RUNNER_HOME  directory of builds, caches and unsent results (default ~/.cache/speedtrack-runner)
  SPEEDTRACK_CACHE_MB, SPEEDTRACK_CACHE_DAYS
                          limits of the store of built programs (default 4096 MB, 90 days since the last use)
  SPEEDTRACK_LEAST_FREE_MB
                          the runner takes no work while its disk has less free space (default 512 MB)
  SPEEDTRACK_OVERDUE_S    report work that makes no progress for this long, and for five times as long as similar
                          work took before, to the server (default 120 s)
  DOCKER_HOST             the daemon of suites with `build.kind = "docker"` (default: its usual socket)
  SPEEDTRACK_DRIVER       path of speedbench (default: built in runners/driver, else in the wheel, else found on PATH)
  SPEEDTRACK_REDIS_BENCHMARK, SPEEDTRACK_MEMTIER
                          paths of redis-benchmark (or valkey-benchmark) and memtier_benchmark, for benchmarks of suites
                          that use them (default: found on PATH)
  SPEEDTRACK_RECORDINGS   folder of the recorded traffic that suites name (default: recordings in the runner's home)
  SPEEDTRACK_PATIENCE_S   how long a trial waits at most for quiet cores, in seconds (default 10)
  SPEEDTRACK_LOCK_DIR     directory of the locks that let one runner of this host at a time use a core (default: the
                          first of /run/lock, /var/lock, /tmp that every user may write to); runners in containers
                          exclude each other, and those of their host, only if they have the same directory
  SPEEDTRACK_ALLOW_SHARED_CORES=1
                          measure on a machine with too few cores; recorded with every result
  SPEEDTRACK_SANDBOX      auto (default): builds and servers run in a sandbox where the kernel allows it, and the first
                          line of the log says whether; required: do not start without one; off: run without
  SPEEDTRACK_SANDBOX_READABLE
                          more paths that they may read, separated by colons, such as a compiler in an unusual place
  SPEEDTRACK_LOG_FORMAT   line (default), or json: one object per line, with run, attempt and project
  SPEEDTRACK_TUNE=1       set the kernel's settings to the target values of `tune` during each run, then restore them

signals:
  SIGTERM, SIGINT         finish the trial, hand the run back, and end
  SIGUSR2                 finish the run, and end: for an update of the runner

examples:
  python -m runners enroll URL CODE  exchange a code of the server for a token, and write the settings file
  python -m runners                  wait for messages of the broker, work, until SIGTERM
  python -m runners --poll           the same without a broker: ask every 5 seconds
  python -m runners --once           work until there is none, then exit
  python -m runners plan             show which cores would be used, and why
  python -m runners tune             show the kernel's settings, their target values, and why; change nothing
  python -m runners doctor           check compiler, cores, kernel, disk, sandbox, Docker, token, server and clock

exit codes: 0 ended as requested, 1 the server refuses this machine or its version, or cannot be used, or doctor found
            something bad, 2 a setting is missing or wrong, 130 interrupted by Ctrl-C before it worked
"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m runners",
        description=HELP,
        epilog=ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=["run", "plan", "tune", "doctor", "enroll"],
        default="run",
        help="run (default): work; plan: print the placement with its reasons; tune: show the kernel's settings; "
        "doctor: check this machine, and print the remedies; enroll: make this machine known to a server",
    )
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="enroll: the address of the server")
    parser.add_argument(
        "code", nargs="?", default="", metavar="CODE", help="enroll: `manage.py machine enroll-code NAME`"
    )
    parser.add_argument("--poll", action="store_true", help="ask the server for work, without a broker")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="pause of --poll (default 5)")
    parser.add_argument("--once", action="store_true", help="work until there is none, then exit")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="plan, tune: cores of the server (default 1)")
    parser.add_argument("--json", action="store_true", help="plan, tune, doctor: print a JSON document")
    parser.add_argument("--only", nargs="+", metavar="CHECK", help="doctor: make only these checks")
    hand = parser.add_mutually_exclusive_group()
    hand.add_argument("--apply", action="store_true", help="tune: set the target values, until --restore")
    hand.add_argument(
        "--restore", action="store_true", help="tune: restore the settings, also those of a runner that crashed"
    )
    parser.add_argument("--version", action="version", version=f"speedtrack-runner {runners.__version__}")
    arguments = parser.parse_args(argv)
    if not 0 < arguments.every <= 3600:
        parser.error("--every must be above 0 and at most 3600 seconds")
    if arguments.cores < 1:
        parser.error("--cores must be at least 1")
    if arguments.command == "enroll" and not arguments.code:
        parser.error("enroll needs the address of the server and a code: python -m runners enroll URL CODE")
    if arguments.command != "enroll" and arguments.url:
        parser.error(f"{arguments.command} has no argument {arguments.url}")
    return arguments


@ended_plainly()
def main(argv: list[str] | None = None) -> int:
    """Runs a command of the runner; returns its exit code."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    try:
        if arguments.command == "enroll":
            print(enroll(arguments.url, arguments.code, os.environ), end="")
            return 0
        load_settings(os.environ)
        logs.set_up(os.environ)
        traces.check()
        if arguments.command == "plan":
            show_plan(arguments.cores, lock_directory_setting(os.environ), arguments.json)
            return 0
        if arguments.command == "tune":
            show_tuning(tune_by_hand(arguments.cores, arguments.apply, arguments.restore), arguments.json)
            return 0
        if arguments.command == "doctor":
            return doctor.main(arguments.only, arguments.json, os.environ)
        failpoints.arm(os.environ)
        settings = read_settings(os.environ, needs_broker=not (arguments.poll or arguments.once))
        with lock_file(settings.home / "lock", IN_USE), tune.tuning_for_runs(settings.tune) as tuning:
            return run(settings, tuning, arguments.once, arguments.every if arguments.poll else None)
    except SettingsError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (Unauthorized, Unreachable, WrongVersion) as error:
        print(f"runner: {error}{remedy(error)}", file=sys.stderr)
        return EXIT_FAILED
    except RunnerError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_FAILED if arguments.command == "enroll" else EXIT_USAGE


def remedy(error: RunnerError) -> str:
    if isinstance(error, Unauthorized):
        return ": run `manage.py machine enroll-code NAME` on the server, and here `python -m runners enroll URL CODE`"
    if isinstance(error, WrongVersion):
        return ""
    return ": check SPEEDTRACK_URL and that the server runs"


if __name__ == "__main__":
    sys.exit(main())
