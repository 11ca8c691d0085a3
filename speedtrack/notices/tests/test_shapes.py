import html
import json
import re
from typing import Any

import pytest

from speedtrack.notices.channels import shapes
from speedtrack.notices.channels.document import sample_message
from speedtrack.projects.models import Project
from speedtrack.reports.alerts import AlertMessage

HOSTILE = (
    "<!channel> @channel @here @room <@U123> <https://evil.example|click> [click](https://evil.example) "
    "<script>alert(1)</script> &amp; <at>everyone</at> *bold* `code`"
)
URL = "https://speed.example.org/alerts/7/"


def document(text: str = HOSTILE, commits: int = 10, changes: int = 50, **event: Any) -> AlertMessage:
    sample = sample_message(Project(slug="kvd", default_branch="main"))
    alert = sample.alert
    change = alert.changes[0].model_copy(update={"benchmark": text[:100]})
    commit = alert.candidates[0].model_copy(update={"subject": text, "author": text, "page_url": URL})
    altered = {"summary": text, "branch": text, "branches": [text] * 3, "commits": commits, "page_url": URL}
    altered |= {"changes": [change] * changes, "candidates": [commit] * commits}
    known = {"kind": "raised", "who": text, "before": "", "after": "", "note": text} | event
    return AlertMessage(
        delivery="d",
        event=sample.event.model_copy(update=known),
        alert=alert.model_copy(update=altered),
    )


def texts(message: Any) -> list[str]:
    """All strings of a message, however deep."""
    if isinstance(message, dict):
        return [text for value in message.values() for text in texts(value)]
    if isinstance(message, list):
        return [text for value in message for text in texts(value)]
    return [message] if isinstance(message, str) else []


@pytest.mark.parametrize("kind", ["slack", "matrix", "teams"])
@pytest.mark.parametrize("text", [HOSTILE, "&" * 500, "<" * 500, "𝔘" * 500, "@a" * 300, "", "\n\r\t x"])
def test_no_message_exceeds_the_limits_of_its_chat(kind: str, text: str) -> None:
    message = shapes.SHAPES[kind](document(text))
    size = len(json.dumps(message, ensure_ascii=False).encode())
    assert size <= {"slack": 40_000, "matrix": 65_536 - 5_000, "teams": 28_000}[kind]
    if kind == "slack":
        assert len(message["blocks"]) <= 50
        for block in message["blocks"]:
            limit = 150 if block["type"] == "header" else 3000
            for part in [block.get("text"), *block.get("elements", [])]:
                assert part is None or 0 < len(part["text"]) <= limit


@pytest.mark.parametrize("kind", ["slack", "matrix", "teams"])
def test_nobody_is_called_by_text_of_others(kind: str) -> None:
    message = shapes.SHAPES[kind](document())
    for text in texts(message):
        assert not re.search(r"@(channel|here|room|U123)", text)


def test_slack_sees_no_mention_and_no_link_but_ours() -> None:
    message = shapes.slack(document())
    for block in message["blocks"]:
        parts = [part for part in [block.get("text"), *block.get("elements", [])] if part]
        for part in parts:
            if part["type"] == "mrkdwn":
                assert part["verbatim"] is True
                assert all(found.startswith(URL) for found in re.findall(r"<([^>]*)>", part["text"]))
                assert not re.search(r"&(?!amp;|lt;|gt;)", part["text"])
    assert "<" not in message["text"]


def test_matrix_gets_text_and_html_without_foreign_markup_or_mentions() -> None:
    message = shapes.matrix(document())
    assert message["msgtype"] == "m.notice" and message["m.mentions"] == {}
    tags = set(re.findall(r"</?(\w+)", message["formatted_body"]))
    assert tags <= {"strong", "a", "code", "br"}
    assert set(re.findall(r'href="([^"]*)"', message["formatted_body"])) == {URL}
    assert "<script>alert(1)</script>" in html.unescape(message["formatted_body"])
    assert URL in message["body"]


def test_teams_gets_a_card_whose_texts_know_no_markdown() -> None:
    message = shapes.teams(document())
    [attachment] = message["attachments"]
    card = attachment["content"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert {inline["type"] for block in card["body"] for inline in block["inlines"]} == {"TextRun"}
    assert [action["url"] for action in card["actions"]] == [URL]


def test_what_is_left_out_is_counted() -> None:
    lines = shapes.change_lines(document(changes=50))
    assert len(lines) == shapes.MOST_LINES + 1 and lines[-1] == "and 42 more"
    assert len(shapes.change_lines(document(changes=2))) == 2


def test_what_a_person_decided_is_said() -> None:
    said = shapes.decision_in_words(
        document(kind="decided", who="ann", before="confirmed", after="expected", note="new default")
    )
    assert said == "ann: confirmed → expected: new default"
