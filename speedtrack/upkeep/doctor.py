"""Check this installation. Each check reports its finding, and the remedy of a problem."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import NotSupportedError, OperationalError, ProgrammingError, connection
from django.db.models import Max

from runners import probing
from speedtrack.benchmarks import definitions, suiteedits
from speedtrack.benchmarks.suitefiles import load_suite, newest_edit, suite_names
from speedtrack.celery import app, broker
from speedtrack.ground.postgres import databasefitness, pgsession
from speedtrack.ground.postgres.replica import watch
from speedtrack.ground.postgres.replica.watch import ReplicaState
from speedtrack.monitoring import health
from speedtrack.monitoring.health import Diagnosis
from speedtrack.notices.models import Outbox
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.projects import successors
from speedtrack.projects.models import Credential, Project
from speedtrack.retention.models import Pruning
from speedtrack.runs.models import Machine
from speedtrack.upkeep import exposure

OLDEST_GIT = (2, 38)
MOST_NAMED = 5  # projects of one finding
#: The checks of `python -m runners doctor` that matter if the server and a runner share a machine.
OF_RUNNER = ("driver", "compiler", "docker", "placement", "sandbox", "kernel")

#: The signs of a measuring machine: variables of its runner, or files of its unit, its enrolment or a build.
VARIABLES_OF_RUNNER = ("SPEEDTRACK_TOKEN", "SPEEDTRACK_TOKEN_FILE", "SPEEDTRACK_DRIVER", "SPEEDTRACK_RUNNER_SETTINGS")
FILES_OF_RUNNER = (
    Path("/etc/speedtrack-runner.env"),
    Path("/etc/systemd/system/speedtrack-runner.service"),
    Path("~/.config/speedtrack/runner.env"),
    BASE_DIR / "runners" / "driver" / "target" / "release" / "speedbench",
)

# The state and the remedy for each standing of the replica.
REPLICAS = {
    ReplicaState.FOLLOWS: ("good", "follows the primary: pages are read from it"),
    ReplicaState.BEHIND: ("note", "It catches up by itself, or is too slow for the primary's writes"),
    ReplicaState.ALONE: ("bad", "Start the primary; if it is lost, promote the replica and set DATABASE_URL to it"),
    ReplicaState.PROMOTED: ("bad", "Set DATABASE_URL to it, or make a new replica with pg_basebackup"),
    ReplicaState.AWAY: ("bad", "Start it, or unset DATABASE_REPLICA_URL"),
}


def examine(names: Iterable[str]) -> Iterator[Diagnosis]:
    """Run these checks one after another, and yield their findings."""
    for name in names:
        try:
            state, text = CHECKS[name]()
        except ProgrammingError as e:
            unreadable = "cannot be read before `manage.py migrate`"
            text = databasefitness.of_error(e, connection) if databasefitness.is_about_rights(e) else unreadable
            state = "bad"
        except (OperationalError, NotSupportedError) as e:
            state, text = "bad", databasefitness.of_error(e, connection)
        yield Diagnosis(name, state, text)


def usual_checks() -> list[str]:
    """All checks; without those of a runner if this host has none."""
    return [name for name in CHECKS if name not in OF_RUNNER or measures_here()]


def measures_here() -> bool:
    """Return whether a runner is set up on this host, or could start from this checkout."""
    files = (*FILES_OF_RUNNER, settings.HOME / "runner")
    return any(map(os.environ.get, VARIABLES_OF_RUNNER)) or any(os.path.exists(file.expanduser()) for file in files)


def check_runner() -> tuple[str, str]:
    if measures_here():
        return "good", "one is set up on this host: the checks above are those of `python -m runners doctor`"
    return "good", "none is set up on this host: `python -m runners doctor` checks a machine that measures"


def check_database() -> tuple[str, str]:
    version = connection.cursor().connection.info.server_version
    if obstacle := databasefitness.obstacle(connection):
        return "bad", obstacle
    if missing := health.missing_migrations():
        return "bad", f"{len(missing)} migrations are missing: run `manage.py migrate`"
    if pgsession.leads_to_a_pool():
        return "bad", pgsession.pool_text()
    return "good", f"PostgreSQL {version // 10_000}.{version % 10_000}, all migrations applied"


def check_replica() -> tuple[str, str]:
    if not watch.is_configured():
        return "good", "none: pages are read from the primary (DATABASE_REPLICA_URL)"
    source = watch.look()
    state, summary = REPLICAS[source.standing]
    return state, " ".join(filter(None, (source.note, source.detail, summary)))


def check_broker() -> tuple[str, str]:
    if not {"BROKER_URL", "BROKER_URL_FILE"} & os.environ.keys():
        return "note", "BROKER_URL is not set: `make serve` and `make demo` start an embedded one"
    try:
        probing.probe(broker(), app.connection_for_write())
    except probing.Unavailable as e:
        return "bad", str(e)
    return "good", f"{broker()} takes messages"


def check_git() -> tuple[str, str]:
    fields = output_of("git", "--version").split()
    if len(fields) < 3:
        return "bad", "git is not installed: install it"
    version = tuple(int(number) for number in fields[2].split(".")[:2])
    if version < OLDEST_GIT:
        return "bad", f"git {fields[2]} is older than {'.'.join(map(str, OLDEST_GIT))}: update it"
    if Credential.objects.filter(kind=Credential.Kind.KEY).exists() and not shutil.which("ssh"):
        return "bad", "ssh is not installed, and a project has a deploy key: install openssh-client"
    return (
        "good",
        f"git {fields[2]}, which connects to checked addresses of {', '.join(settings.GIT_HOSTS) or 'no host'}",
    )


def check_of_runner(name: str) -> tuple[str, str]:
    """The finding of a runner on this machine (`python -m runners doctor`)."""
    command = [sys.executable, "-m", "runners", "doctor", "--json", "--only", name]
    process = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True)
    try:
        (finding,) = json.loads(process.stdout)
    except ValueError:
        return "bad", process.stderr.strip() or "the runner's own check does not run: `python -m runners doctor`"
    return finding["state"], finding["words"]


def check_dispatcher() -> tuple[str, str]:
    """Check whether the dispatcher is alive.

    A dead one is only a note, because it may be stopped on purpose. ``/readyz`` is stricter.
    """
    finding = health.check_dispatcher()
    return ("note" if finding.state == "bad" else finding.state), finding.words


def check_disk() -> tuple[str, str]:
    finding = health.check_disk()
    return finding.state, finding.words


def check_suites() -> tuple[str, str]:
    names = suite_names()
    wrong = []
    for name in names:
        try:
            load_suite(name)
        except definitions.DefinitionError as e:
            wrong.append(str(e))
    if wrong:
        return "bad", "; ".join(wrong)
    differ = [sentence for name in names if (sentence := suiteedits.conflict(newest_edit(name)))]
    return ("note", " ".join(differ)) if differ else ("good", ", ".join(names) or "none")


def check_machines() -> tuple[str, str]:
    machines = list(Machine.objects.order_by("name"))
    if quarantines := [f"{m.name}: {m.quarantined_why}" for m in machines if m.quarantined_at]:
        return "bad", f"in quarantine: {'; '.join(quarantines)}. Look at its page, or `manage.py machine lift NAME`"
    if machines and not settings.OPERATORS:
        return "note", "OPERATORS is empty: nobody is mailed when a machine's canary moves"
    names = [f"{m.name}{' (paused)' if m.paused else ''}" for m in machines]
    return ("good", ", ".join(names)) if machines else ("note", "none: add one with `manage.py machine add NAME`")


def check_repositories() -> tuple[str, str]:
    projects = list(Project.objects.tracked().order_by("slug"))
    gone = [
        f"{project}: {project.default_branch} is gone; {successors.in_words(project)}"
        for project in projects
        if project.branch_gone_at
    ]
    failing = [f"{project}: {project.error.partition(chr(10))[0]}" for project in projects if project.error]
    if gone or failing:
        return "bad", f"{'; '.join([*gone, *failing][:MOST_NAMED])}. The page of a project has the remedy"
    return ("good", f"{len(projects)} tracked") if projects else ("note", "none: track one with `manage.py track`")


def check_mails() -> tuple[str, str]:
    failing = Outbox.objects.failing()
    given_up = failing.exclude(given_up_at=None).count()
    failing_mail = failing.filter(given_up_at=None).order_by("-pk").first()
    where = f"files in {settings.EMAIL_FILE_PATH}" if settings.EMAIL_FILE_PATH else settings.EMAIL_HOST
    if given_up:
        return (
            "bad",
            f"{given_up} were given up: `manage.py outbox` shows why, `manage.py outbox again` sends them again",
        )
    if failing_mail:
        return "note", f"some wait to be tried again, as the one to {failing_mail.receiver}: {failing_mail.error}"
    return "good", f"none is held up; they go to {where}"


def check_retention() -> tuple[str, str]:
    """The policies that the nightly pruning did not apply, and why."""
    rows = Pruning.objects.exclude(policy=Pruning.NIGHT)
    if problems := [f"{row.policy}: {row.problem}" for row in rows.exclude(problem="").order_by("policy")]:
        return "bad", "; ".join(problems)
    last = rows.aggregate(at=Max("done_at"))["at"]
    return "good", f"last applied on {last:%Y-%m-%d at %H:%M} UTC" if last else "nothing is old enough yet"


def check_security() -> tuple[str, str]:
    weaknesses = list(exposure.weaknesses())
    worst = "bad" if any(state == exposure.BAD for state, _ in weaknesses) else "note" if weaknesses else "good"
    reach = "reached from this machine only" if exposure.is_private() else f"reached as {settings.URL}"
    return worst, "; ".join(sentence for _, sentence in weaknesses) or f"{reach}, with safe settings"


def output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except OSError:
        return ""


CHECKS: dict[str, Callable[[], tuple[str, str]]] = {
    "database": check_database,
    "replica": check_replica,
    "broker": check_broker,
    "security": check_security,
    "git": check_git,
    "dispatcher": check_dispatcher,
    "disk": check_disk,
    **{name: partial(check_of_runner, name) for name in OF_RUNNER},
    "runner": check_runner,
    "suites": check_suites,
    "machines": check_machines,
    "repositories": check_repositories,
    "mails": check_mails,
    "retention": check_retention,
}
