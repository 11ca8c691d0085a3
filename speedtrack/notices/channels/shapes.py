"""The message of each kind of chat, made from a document (document.py); pure functions.

Anybody may write commit subjects, names and notes: they are shown as text, mention nobody, become no links, and are cut
before they are escaped, so that no message exceeds its chat's limits.
"""

import html
import re
from collections.abc import Callable
from typing import Any

from speedtrack.notices.channels.document import EventDocument

Message = dict[str, Any]
Shape = Callable[[EventDocument], Message]

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


def headline(document: EventDocument) -> str:
    kind, project = document["event"]["kind"], document["project"]["slug"]
    title = HEADLINES.get(kind, document["alert"]["status"])
    return f"[{without_mentions(project, 50)}] {title}{without_mentions(document['summary'])}"


#: kind of event -> text before the summary
HEADLINES = {
    "raised": "",
    "fixed": "fixed: ",
    "decided": "decided: ",
    "narrowed": "narrowed: ",
    "moved": "moved to another commit: ",
    "noted": "note: ",
    "grew": "more: ",
    "test": "TEST: ",
}


def place_in_words(document: EventDocument) -> str:
    """The commit or range of commits in words."""
    count, branches = document["range"]["count"], ", ".join(document["range"]["branches"][:3])
    cause = "since this commit" if count == 1 else f"by one of {count} commits"
    return f"{cause}, on {without_mentions(branches)}"


def change_lines(document: EventDocument) -> list[str]:
    lines = [
        f"{change['effect']} {change['change']} {without_mentions(change['benchmark'], 60)}, {change['title']} "
        f"(95%: {100 * (change['low'] - 1):+.1f}% to {100 * (change['high'] - 1):+.1f}%)"
        for change in document["changes"][:MOST_LINES]
    ]
    left_out = document["change_count"] - len(lines)
    return [*lines, f"and {left_out} more"] if left_out > 0 else lines


def commit_lines(document: EventDocument) -> list[tuple[str, str, str]]:
    """(short sha, the rest of the line, URL) of the newest commits of the range."""
    return [
        (
            commit["short"],
            f"{without_mentions(commit['subject'])} ({without_mentions(commit['author'], 60)})",
            commit["url"],
        )
        for commit in document["commits"][:MOST_LINES]
    ]


def decision_in_words(document: EventDocument) -> str:
    """The decision of a person in words; empty for other events."""
    event = document["event"]
    move = f"{event['before']} → {event['after']}" if event["before"] and event["after"] else event["after"]
    by = without_mentions(event["by"] or "", 60)
    clauses = [
        clause
        for clause in (by, move if event["kind"] != "raised" else "", without_mentions(event["note"], 400))
        if clause
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


def slack(document: EventDocument) -> Message:
    """Blocks for an incoming webhook."""
    commits = [f"<{url}|{slack_escape(sha)}> {slack_escape(subject)}" for sha, subject, url in commit_lines(document)]
    lines = [slack_escape(place_in_words(document)), *commits]
    title = headline(document)
    blocks: list[Message] = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:SLACK_HEADER], "emoji": False}},
        slack_section(lines),
        slack_section([slack_escape(line) for line in change_lines(document)] or ["No change any more."]),
    ]
    if decision := decision_in_words(document):
        blocks.append({"type": "context", "elements": [mrkdwn(slack_escape(decision))]})
    blocks.append(slack_section([f"<{document['alert']['url']}|The evidence, and what to do>"]))
    return {"text": slack_escape(title), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def slack_section(lines: list[str]) -> Message:
    return {"type": "section", "text": mrkdwn(lines_within(lines, SLACK_SECTION))}


def mrkdwn(text: str) -> Message:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def matrix(document: EventDocument) -> Message:
    """The content of an ``m.room.message``.

    Its ``m.mentions`` is empty, so it mentions nobody, whatever the text contains.
    """
    commits = commit_lines(document)
    title, where, decision = headline(document), place_in_words(document), decision_in_words(document)
    url = document["alert"]["url"]
    text = [
        title,
        where,
        *(f"  {sha} {subject}" for sha, subject, _ in commits),
        *change_lines(document),
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
        *(escape(line) for line in change_lines(document)),
        escape(decision),
    ]
    return {
        "msgtype": "m.notice",
        "body": "\n".join(line for line in text if line),
        "format": "org.matrix.custom.html",
        "formatted_body": "<br>".join(line for line in formatted if line),
        "m.mentions": {},
    }


def teams(document: EventDocument) -> Message:
    """An Adaptive Card for a workflow's webhook. Text runs have no Markdown, so no foreign text becomes a link."""
    commits = [f"{sha} {subject}" for sha, subject, _ in commit_lines(document)]
    rows = [
        [text_run(headline(document), size="Medium", weight="Bolder")],
        [text_run(place_in_words(document), isSubtle=True)],
    ]
    rows += [[text_run(line, fontType="Monospace")] for line in commits]
    rows += [[text_run(line)] for line in change_lines(document)]
    rows += [[text_run(decision, isSubtle=True)]] if (decision := decision_in_words(document)) else []
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": row} for row in rows],
        "actions": [{"type": "Action.OpenUrl", "title": "Open the alert", "url": document["alert"]["url"]}],
        "msteams": {"width": "Full"},
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def text_run(text: str, **look: Any) -> Message:
    return {"type": "TextRun", "text": text, **look}


SHAPES: dict[str, Shape] = {"webhook": dict, "slack": slack, "matrix": matrix, "teams": teams}
