"""What people decide about alerts, what they mute, and what they note about commits and moments."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts.models import Alert, Mute
from speedtrack.alerts.triage import muting, regrouping, replay, triage
from speedtrack.alerts.triage.muting import MuteRequest
from speedtrack.alerts.triage.triage import TAKE, Decision
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.operations.performing import Actor, BadInput, Done, Ended, bad_input, operation
from speedtrack.projects.models import Annotation, Commit, Project
from speedtrack.runs.models import Machine


@operation("alert.decide")
def decide(
    actor: Actor, alert: Alert, seen: str, status: str | None = None, assignee: str | None = None, note: str = ""
) -> Done:
    """Give an alert a status or an assignee, or leave a note. ``status``: None, as ``assignee``, leaves it.

    ``status`` TAKE: the actor becomes the assignee. Raises Stale and BadInput.
    """
    before, person = {"status": alert.status, "assignee": alert.assignee}, alert.assignee
    if status == TAKE:
        status, person = None, actor.user
    elif assignee is not None:
        with bad_input("assignee"):
            person = triage.assignee_named(alert, assignee)
    decision = Decision(seen, seen if status is None else status, person, note)
    needs_note = status in triage.WHY and not note.strip()
    with bad_input("note" if needs_note else "status"):
        is_changed = triage.decide(alert, decision, actor.person)
    after = {"status": decision.status, "assignee": person}
    changes = {name: (before[name], after[name]) for name in after}
    sentence = "saved" if is_changed else "nothing was changed"
    return Done(sentence, f"alert {alert.pk}", changes, alert, is_change=is_changed)


@operation("alert.move")
def move(actor: Actor, alert: Alert, commit: str, note: str) -> Done:
    """Name another commit as the cause. Raises Stale and BadInput."""
    with bad_input("commit"):
        regrouping.move(alert, commit, note, actor.person)
    return Done("moved", f"alert {alert.pk}")


@operation("alert.split")
def split(actor: Actor, alert: Alert, changes: Sequence[int], note: str) -> Done:
    """Make an alert of some change points of another one. Raises Stale and BadInput."""
    with bad_input("change"):
        new = regrouping.split(alert, changes, note, actor.person)
    return Done(f"split off as alert {new.pk}", f"alert {alert.pk}: {new.pk} split off")


@operation("alert.merge")
def merge(actor: Actor, alert: Alert, into: int, note: str) -> Done:
    """Merge an alert into another one of its project. Raises Stale and BadInput."""
    target = alert.project.alerts.filter(pk=into).first()
    if target is None:
        raise BadInput(f"there is no alert {into}", "into")
    with bad_input("into"):
        regrouping.merge(alert, target, note, actor.person)
    return Done(f"alert {alert.pk} was merged into this one", f"alert {alert.pk}: merged into {into}")


@operation("alerts.detect", is_atomic=False)
def detect_again(actor: Actor, project: Project) -> Done:
    """Run detection over the whole history again."""
    count = replay.detect_again(project)
    sentence = f"{count} new suspicions will be settled; their results go into a digest, not into mails at once"
    return Done(sentence, project, {"suspicions": (None, count)})


@operation("mute.create")
def mute(
    actor: Actor, project: Project, benchmark: str = "", metric: str = "", machine: str = "", *, reason: str, days: int
) -> Done:
    """Notify nobody of some changes from now on. Empty names: any. Raises BadInput, also for unknown names."""
    if benchmark and not project.benchmarks.filter(name=benchmark).exists():
        raise BadInput(f"{project} has no benchmark {benchmark!r}", "benchmark")
    if metric and metric not in METRICS and not project.series.filter(metric=metric).exists():
        raise BadInput(f"{project} has no metric {metric!r}", "metric")
    quiet = Machine.objects.filter(name=machine).first() if machine else None
    if machine and quiet is None:
        raise BadInput(f"there is no machine {machine!r}", "machine")
    with bad_input("benchmark" if reason.strip() else "reason"):
        row = muting.mute(project, MuteRequest(benchmark, metric, quiet, reason, days), actor.person)
    return Done(f"muted: {row}", row, {"days": (None, days), "reason": (None, reason)}, row)


@operation("mute.end")
def end_mute(actor: Actor, mute: Mute) -> Done:
    """End a mute early. Raises Ended."""
    if not muting.end_mute(mute, actor.person):
        raise Ended("the mute has ended already")
    return Done("the mute has ended", mute)


@operation("annotation.create")
def annotate(actor: Actor, project: Project | None, text: str, commit: Commit | None, moment: datetime | None) -> Done:
    """Note something about a commit or a moment; without a project, about a moment of all. Raises BadInput."""
    check_annotated(commit, moment)
    row = Annotation.objects.create(project=project, commit=commit, moment=moment, text=text, author=actor.person)
    sentence = "noted. It is on the timelines, too; Edit changes or deletes it"
    return Done(sentence, f"annotation {row.pk}", {"text": (None, text)}, row)


@operation("annotation.change")
def change_annotation(
    actor: Actor,
    annotation: Annotation,
    text: str,
    commit: Commit | None,
    moment: datetime | None,
    everywhere: bool = False,
) -> Done:
    """Change a text, or what it is about. ``everywhere``: it concerns all projects. Raises BadInput."""
    if everywhere:
        actor.require("annotation.change", None)
        annotation.project = None
    check_annotated(commit, moment)
    before, annotation.text = annotation.text, text
    annotation.commit, annotation.moment, annotation.changed = commit, moment, Now()
    annotation.save()
    return Done("saved", f"annotation {annotation.pk}", {"text": (before, text)}, annotation)


def check_annotated(commit: Commit | None, moment: datetime | None) -> None:
    if (commit is None) == (moment is None):
        raise BadInput("give a commit or a moment, not both", "commit")
    if moment and moment > timezone.now():
        raise BadInput("this is in the future: give a moment that has passed", "moment")


@operation("annotation.delete")
def delete_annotation(actor: Actor, annotation: Annotation) -> Done:
    """Delete an annotation."""
    pk, text = annotation.pk, annotation.text
    annotation.delete()
    sentence = f"deleted. To undo it, add it again; its text was: {text}"
    return Done(sentence, f"annotation {pk}", {"text": (text, None)})
