"""Report a commit to its forge: its status, and a single comment on its pull request, which is edited later."""

import hashlib

from django.conf import settings
from django.urls import reverse

from speedtrack.alerts.models import Alert
from speedtrack.notices.channels.forges import Repository
from speedtrack.notices.channels.statuses import page_of, slowdowns
from speedtrack.notices.models import Channel, CommitStatus, PullComment
from speedtrack.projects.models import Branch

MOST_ALERTS, MOST_CHANGES = 10, 20


def report_commit(status: CommitStatus) -> None:
    """Send the status to the forge, unless the forge has it already.

    Raises TemporaryFailure, PermanentFailure or KeyLost.
    """
    status.refresh_from_db()
    channel, version = status.channel, status.version
    if status.sent_version == version:
        return  # an older row of the outbox: a newer one has sent this version
    context = f"speedtrack/{channel.project.suite}"
    repository = Repository(channel)
    repository.show(status.commit.sha, status.state, status.description, page_of(status), context)
    if status.state in (CommitStatus.State.SUCCESS, CommitStatus.State.FAILURE):
        update_comments(repository, status)
    CommitStatus.objects.filter(pk=status.pk, sent_version__lt=version).update(sent_version=version)


def update_comments(repository: Repository, status: CommitStatus) -> None:
    """Update the comment of each open pull request with this commit; a new comment is made only for a slowdown."""
    branches = status.commit.branches.filter(deleted_at=None).select_related("head")
    if branches.default().exists():
        return
    for branch in branches:
        alerts = alerts_on(branch)
        for number in repository.pulls(branch.head.sha) if branch.head else ():
            comment = PullComment.objects.filter(channel=repository.channel, number=number).first()
            if comment or alerts:
                write_comment(repository, comment or PullComment(channel=repository.channel, number=number), alerts)


def alerts_on(branch: Branch) -> list[Alert]:
    """The confirmed alerts of a branch that the default branch does not have, newest first."""
    main = Branch.objects.default().filter(project=branch.project_id)
    alerts = Alert.objects.filter(status=Alert.Status.CONFIRMED, commit__positions__branch=branch)
    alerts = alerts.exclude(commit__positions__branch__in=main)
    return [alert for alert in alerts.order_by("-pk") if slowdowns(alert)]


def write_comment(repository: Repository, comment: PullComment, alerts: list[Alert]) -> None:
    """Write the comment of a pull request: edit the stored one or the one with the marker, or create one."""
    marker = marker_of(repository.channel)
    text = f"{marker}\n{comment_text(alerts)}"
    if comment.comment_id and comment.text == text:
        return
    edited = bool(comment.comment_id) and repository.edit(comment.number, comment.comment_id, text)
    if not edited:
        comment_id = repository.comment_with(comment.number, marker)
        if comment_id is None or not repository.edit(comment.number, comment_id, text):
            comment_id = repository.comment(comment.number, text)
        comment.comment_id = comment_id
    PullComment.objects.update_or_create(
        channel=comment.channel, number=comment.number, defaults={"comment_id": comment.comment_id, "text": text}
    )


def marker_of(channel: Channel) -> str:
    """An HTML comment that identifies the comment of this server and project."""
    server = hashlib.sha256(settings.URL.encode()).hexdigest()[:12]
    return f"<!-- speedtrack {server} {channel.project.slug} -->"


def comment_text(alerts: list[Alert]) -> str:
    """The Markdown of a comment. Its only foreign text is benchmark names, which are set as code."""
    if not alerts:
        return "**SpeedTrack**: this branch has no known slowdown."
    sections = [part_of(alert) for alert in alerts[:MOST_ALERTS]]
    return "\n\n".join(["**SpeedTrack** measured this branch before and after, side by side:", *sections])


def part_of(alert: Alert) -> str:
    url = settings.URL + reverse("alert", args=[alert.pk])
    rows = [
        f"| `{cp.series.benchmark.name.replace('`', '').replace('|', '')}` | {cp.metric.title} "
        f"| {cp.change_in_words} | {cp.interval_in_words} |"
        for cp in slowdowns(alert)[:MOST_CHANGES]
    ]
    head = f"[Alert {alert.pk}]({url}), {alert.cause.removesuffix(alert.commit.short)}{alert.commit.sha}:"
    return "\n".join([head, "", "| benchmark | metric | change | 95% interval |", "|---|---|---|---|", *rows])
