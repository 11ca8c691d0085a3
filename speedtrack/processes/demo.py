"""The demonstration: a push to a real repository leads automatically to a mail that names the slow commit."""

import hashlib
import hmac
import json
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import httpx
from django.conf import settings
from django.db import connection, transaction
from django.urls import reverse
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.ground.texts.text import plain
from speedtrack.notices import subscribing
from speedtrack.notices.models import Outbox
from speedtrack.processes.devstack import BASE_DIR, Stack
from speedtrack.processes.dispatch import decisions_wanted
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import ROUTINE, Reason, Run, Series
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest

BEFORE_PUSH = 4  # commits of the repository at the time of tracking; a push adds the others
TRACKED = 2  # of these get measured
PROJECT = "sample"
SUBSCRIBER = "performance@example.org"
POLL_S = 0.5
# Runs that tell more about a named commit, its lines and what it costs every benchmark: nobody waits for them.
EXPLAINING = (Reason.EFFECT, Reason.PROFILE, Reason.HUNKS)


@dataclass(frozen=True)
class PlantedCommit:
    """A commit of the sample history and its effect on the speed: none, slower, faster, does-not-compile ..."""

    number: int
    short: str
    effect: str
    subject: str


def write_sample_history(repository: Path, upto: int | None = None) -> list[PlantedCommit]:
    """Write or extend the sample server's repository from its recipe. Return the recipe's table of commits."""
    command = [sys.executable, "-m", "runners.sample", str(repository)]
    command += ["--upto", str(upto)] if upto else []
    process = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"the sample history could not be written: {process.stderr.strip()}")
    rows = re.findall(r"^ *(\d+) ([0-9a-f]{12}) (\S+) +(.*)$", process.stdout, re.M)
    return [PlantedCommit(int(number), short, effect, subject) for number, short, effect, subject in rows]


def demonstrate(console: Console, stack: Stack, *, to_the_end: bool = False) -> bool:
    """Track, push, wait and report. True if the findings match the planted commits exactly.

    ``to_the_end``: wait until every commit is measured, not only until the planted ones are named and mailed.
    """
    repository = settings.HOME / "demo" / "kvd"
    first = write_sample_history(repository, BEFORE_PUSH) if not repository.exists() else []
    request = TrackingRequest(str(repository), PROJECT, name=PROJECT, last=TRACKED)
    project = tracking.track(request).project
    subscribing.subscribe(project, [SUBSCRIBER])
    console.print(f"Tracking {repository}" + (f" with {len(first)} commits" if first else ", as the last demo left it"))
    before = project.branches.get().head
    history = write_sample_history(repository)
    if before and before.sha[:12] != history[-1].short:
        send_push(console, project, repository, before)
    show_progress(console, stack, project, lambda: goes_on(project, history, to_the_end))
    return print_findings(console, project, history)


def send_push(console: Console, project: Project, repository: Path, before: Commit) -> None:
    """Send the webhook that GitHub would send for the commits after ``before``."""
    after = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    body = json.dumps({"ref": f"refs/heads/{project.default_branch}", "before": before.sha, "after": after}).encode()
    signature = hmac.new(project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
    answer = httpx.post(
        settings.URL + reverse("hook", args=[project.hook_id]),
        content=body,
        headers={
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-Hub-Signature-256": f"sha256={signature}",
        },
        timeout=60,  # a machine that has just started everything may be slow to answer
    )
    answer.raise_for_status()
    console.print(f"Pushed {before.short}..{after[:10]}; the signed webhook was answered with {answer.status_code}")


def show_progress(console: Console, stack: Stack, project: Project, goes_on: Callable[[], bool]) -> None:
    """Show how the project's commits are built and measured, and its suspicions settled, while ``goes_on`` is true."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("waiting for the runner")
        printed: set[int] = set()
        while goes_on():
            stack.check()
            runs = Run.objects.filter(project=project)
            finished = [run for run in runs.select_related("commit", "base", "machine").order_by("id") if run.done]
            if not console.is_terminal:
                print_runs(console, [run for run in finished if run.pk not in printed])
            printed.update(run.pk for run in finished)
            progress.update(bar, completed=len(finished), total=runs.count(), description=current_step(project))
            time.sleep(POLL_S)


@transaction.atomic
def work_is_left(project: Project, but_for: Collection[Reason] = ()) -> bool:
    """Return whether anything is left to measure, decide or mail, but runs for these reasons. Not in a transaction.

    It reads one snapshot: between two snapshots, a decision may become a run, or a run may become a decision.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    runs = Run.objects.unfinished().filter(project=project, canary=None).exclude(reason__in=but_for)
    deliveries = Project.objects.filter(pk=project.pk, deliveries__status="received")
    # A mail that is being sent is no longer due; one that failed is tried again later.
    sending = Outbox.objects.filter(alert__project=project, sent_at=None, given_up_at=None, error="")
    return runs.exists() or deliveries.exists() or decisions_wanted() or sending.exists()


def current_step(project: Project) -> str:
    run = Run.objects.active().filter(project=project).select_related("commit").first()
    if run is None:
        return "looking at what was measured"
    step = f": {run.progress['now']}" if run.progress else ": building"
    return f"{run.reason} {run.commit.short}{step}"[:70]


def goes_on(project: Project, history: list[PlantedCommit], to_the_end: bool) -> bool:
    """Return whether a finding is still to come; ``to_the_end``: or a commit is still to be measured."""
    is_told = not to_the_end and not mistakes_found(project, history)
    return work_is_left(project, but_for=(*EXPLAINING, *ROUTINE) if is_told else EXPLAINING)


def print_runs(console: Console, runs: list[Run]) -> None:
    for run in runs:
        subject = plain(run.commit.subject[:60])
        console.print(f"{run.status:9} {run.reason:8} {run.commit.short} {subject}", markup=False)


def print_findings(console: Console, project: Project, history: list[PlantedCommit]) -> bool:
    """Print the findings, and compare them with the planted commits. True if they agree."""
    for cp in confirmed_changes(project):
        console.print(f"  {describe_change(cp)}")
    alerts = slowdowns(project)
    for alert in alerts:
        console.print(f"Alert: {alert.commit.short} {plain(alert.commit.subject)}", markup=False)
        console.print(f"  page   {settings.URL}{reverse('alert', args=[alert.pk])}")
    for mail in Outbox.objects.filter(alert__in=alerts).exclude(sent_at=None):
        where = Path(settings.EMAIL_FILE_PATH) / f"{mail.message_id().strip('<>')}.eml"
        console.print(f"  mail   to {mail.recipient}: {where if settings.EMAIL_FILE_PATH else 'sent by SMTP'}")
    for reasons, purpose in (
        (EXPLAINING, "that tell more about these commits"),
        (ROUTINE, "of the commits between them"),
    ):
        if runs := Run.objects.unfinished().filter(project=project, reason__in=reasons).count():
            console.print(f"Runs {purpose}: {runs} to come. The pages show each as it ends.")
    console.print(f"Dashboard: {settings.URL}{reverse('project', args=[project.slug])}")
    mistakes = mistakes_found(project, history)
    for mistake in mistakes:
        console.print(f"[red]Not as planted:[/red] {mistake}")
    return not mistakes


def slowdowns(project: Project) -> list[Alert]:
    return list(Alert.objects.filter(project=project, improvement=False).select_related("commit"))


def confirmed_changes(project: Project) -> list[ChangePoint]:
    changes = ChangePoint.objects.filter(series__project=project, status=ChangePoint.Status.CONFIRMED)
    return list(changes.select_related("series__benchmark", "commit").order_by("commit__positions__number", "id"))


def describe_change(cp: ChangePoint) -> str:
    return (
        f"{numbers.effect(cp.metric, cp.is_slowdown)} {cp.commit.short} {cp.series.benchmark.name} {cp.metric.title} "
        f"{cp.change_in_words} (95% interval {cp.interval_in_words})"
    )


def mistakes_found(project: Project, history: list[PlantedCommit]) -> list[str]:
    """The differences between the findings and the planted commits; empty if there are none."""
    alerts = slowdowns(project)
    planted = {effect: [p.short for p in history if p.effect == effect] for effect in ("slower", "faster")}
    faster = {cp.commit.sha[:12] for cp in confirmed_changes(project) if not cp.is_slowdown}
    mistakes = []
    if [alert.commit.sha[:12] for alert in alerts] != planted["slower"]:
        names = ", ".join(alert.commit.short for alert in alerts) or "no commit"
        mistakes.append(f"alerts name {names}; planted was {', '.join(planted['slower'])}")
    mailed = set(Outbox.objects.filter(alert__in=alerts).exclude(sent_at=None).values_list("alert", flat=True))
    mistakes += [f"nobody was mailed of alert {alert.pk}" for alert in alerts if alert.pk not in mailed]
    if not set(planted["faster"]) <= faster:
        mistakes.append(f"the improvement {', '.join(planted['faster'])} was not found")
    if not Series.objects.filter(project=project).exists():
        mistakes.append("nothing was measured")
    return mistakes
