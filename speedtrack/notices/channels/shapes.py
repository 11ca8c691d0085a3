"""The message of each kind of chat, made from what a webhook gets (document.py); pure functions.

Anybody may write commit subjects, names and notes: they are shown as text, mention nobody, become no links, and are cut
before they are escaped, so that no message exceeds its chat's limits.
"""

import html
import re
from collections.abc import Callable
from typing import Any

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.reports.alerts import AlertMessage
from speedtrack.reports.causes import SettledChangeDocument

Message = dict[str, Any]
Shape = Callable[[AlertMessage], Message]

LINE = 120  # characters of a foreign text
MOST_LINES = 8
SLACK_HEADER, SLACK_SECTION = 150, 3000


def without_mentions(text: str, length: int = LINE) -> str:
    """One line of foreign text, in which @channel, @room and the like mention nobody.

    A word joiner follows each @.
    """
    line = " ".join(text.split())
    short = line if len(line) <= length else line[: length - 1] + "…"
    return re.sub(r"@(?=\w)", "@\u2060", short)


def headline(event_message: AlertMessage) -> str:
    alert = event_message.alert
    title = HEADLINES.get(event_message.event.kind, alert.status)
    summary = alert.summary or "the alert has no change points left"
    return f"[{without_mentions(alert.project, 50)}] {title}{without_mentions(summary)}"


#: kind of event -> text before the summary
HEADLINES = {
    "raised": "",
    "fixed": "fixed: ",
    "decided": "decided: ",
    "narrowed": "narrowed: ",
    "traced": "its hunks: ",
    "moved": "moved to another commit: ",
    "noted": "note: ",
    "grew": "more: ",
    "measured": "all of it: ",
    "test": "TEST: ",
}


def place_in_words(event_message: AlertMessage) -> str:
    """The commit or range of commits in words."""
    alert = event_message.alert
    branches = ", ".join(list(dict.fromkeys([alert.branch, *alert.branches]))[:3])
    cause = "since this commit" if alert.commits == 1 else f"by one of {alert.commits} commits"
    return f"{cause}, on {without_mentions(branches)}"


def change_lines(event_message: AlertMessage) -> list[str]:
    changes = event_message.alert.changes
    lines = list(map(change_line, changes[:MOST_LINES]))
    left_out = len(changes) - len(lines)
    remainder = [f"and {left_out} more"] if left_out > 0 else []
    effect = event_message.alert.whole_effect
    return [*lines, *remainder, *([effect.words] if effect else [])]


def change_line(change: SettledChangeDocument) -> str:
    metric = METRICS[change.metric]
    effect = f"{numbers.effect(metric, change.is_slowdown)} {change.change_in_words}"
    interval = f" (95%: {change.interval_in_words})" if change.interval_in_words else ""
    name = without_mentions(change.benchmark, 60)
    return f"{effect} {name}, {metric.title}{interval}; {change.instructions}"


def commit_lines(event_message: AlertMessage) -> list[tuple[str, str, str]]:
    """(short sha, the rest of the line, URL) of the newest commits of the range."""
    return [
        (
            commit.sha[:10],
            f"{without_mentions(commit.subject)} ({without_mentions(commit.author, 60)})",
            commit.page_url,
        )
        for commit in event_message.alert.candidates[:MOST_LINES]
    ]


def decision_in_words(event_message: AlertMessage) -> str:
    """The decision of a person in words; empty for other events."""
    event = event_message.event
    move = f"{event.before} → {event.after}" if event.before and event.after else event.after
    by = without_mentions(event.who or "", 60)
    clauses = [
        clause for clause in (by, move if event.kind != "raised" else "", without_mentions(event.note, 400)) if clause
    ]
    return ": ".join(clauses)


def lines_within(lines: list[str], limit: int) -> str:
    """As many whole lines as fit into ``limit`` characters."""
    while len("\n".join(lines)) > limit:
        lines = lines[:-1]
    return "\n".join(lines)


def slack_escape(text: str) -> str:
    """Escape the three special characters of Slack's text; without < there is neither mention nor link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def slack(event_message: AlertMessage) -> Message:
    """Blocks for an incoming webhook."""
    commits = [
        f"<{url}|{slack_escape(sha)}> {slack_escape(subject)}" for sha, subject, url in commit_lines(event_message)
    ]
    lines = [slack_escape(place_in_words(event_message)), *commits]
    title = headline(event_message)
    blocks: list[Message] = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:SLACK_HEADER], "emoji": False}},
        slack_section(lines),
        slack_section([slack_escape(line) for line in change_lines(event_message)] or ["No change any more."]),
    ]
    if decision := decision_in_words(event_message):
        blocks.append({"type": "context", "elements": [mrkdwn(slack_escape(decision))]})
    blocks.append(slack_section([f"<{event_message.alert.page_url}|The evidence, and what to do>"]))
    return {"text": slack_escape(title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def slack_section(lines: list[str]) -> Message:
    return {"type": "section", "text": mrkdwn(lines_within(lines, SLACK_SECTION))}


def mrkdwn(text: str) -> Message:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def matrix(event_message: AlertMessage) -> Message:
    """The content of an ``m.room.message``.

    Its ``m.mentions`` is empty, so it mentions nobody, whatever the text contains.
    """
    commits = commit_lines(event_message)
    title, where, decision = headline(event_message), place_in_words(event_message), decision_in_words(event_message)
    url = event_message.alert.page_url
    text = [
        title,
        where,
        *(f"  {sha} {subject}" for sha, subject, _ in commits),
        *change_lines(event_message),
        decision,
        url,
    ]
    escape = html.escape
    formatted = [
        f'<strong><a href="{escape(url)}">{escape(title)}</a></strong>',
        escape(where),
        *(
            f'<a href="{escape(link)}"><code>{escape(sha)}</code></a> {escape(subject)}'
            for sha, subject, link in commits
        ),
        *(escape(line) for line in change_lines(event_message)),
        escape(decision),
    ]
    return {
        "msgtype": "m.notice",
        "body": "\n".join(line for line in text if line),
        "format": "org.matrix.custom.html",
        "formatted_body": "<br>".join(line for line in formatted if line),
        "m.mentions": {},
    }


def teams(event_message: AlertMessage) -> Message:
    """An Adaptive Card for a workflow's webhook. Text runs have no Markdown, so no foreign text becomes a link."""
    commits = [f"{sha} {subject}" for sha, subject, _ in commit_lines(event_message)]
    rows = [
        [text_run(headline(event_message), size="Medium", weight="Bolder")],
        [text_run(place_in_words(event_message), isSubtle=True)],
    ]
    rows += [[text_run(line, fontType="Monospace")] for line in commits]
    rows += [[text_run(line)] for line in change_lines(event_message)]
    rows += [[text_run(decision, isSubtle=True)]] if (decision := decision_in_words(event_message)) else []
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": row} for row in rows],
        "actions": [{"type": "Action.OpenUrl", "title": "Open the alert", "url": event_message.alert.page_url}],
        "msteams": {"width": "Full"},
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def text_run(text: str, **look: Any) -> Message:
    return {"type": "TextRun", "text": text, **look}


SHAPES: dict[str, Shape] = {"webhook": AlertMessage.named, "slack": slack, "matrix": matrix, "teams": teams}
