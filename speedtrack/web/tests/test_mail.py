"""The mail about an alert: short, complete as text, escaped as HTML."""

import re
from typing import cast

from speedtrack.alerts.models import Alert
from speedtrack.notices import mail
from speedtrack.notices.models import Outbox
from speedtrack.runs.models import Series
from speedtrack.web.tests.world import World


def bodies(alert: Alert) -> tuple[str, str]:
    row = Outbox.objects.create(recipient="team@example.org", alert=alert, event="shown")
    message = mail.alert_message(row)
    html = next(part for part in message.message().walk() if part.get_content_type() == "text/html")
    return str(message.body), cast(bytes, html.get_payload(decode=True)).decode()


def test_the_text_says_the_finding_first(slow: tuple[World, Alert]) -> None:
    made, alert = slow
    text, _ = bodies(alert)
    first = text.splitlines()[0]
    assert first.startswith("Slower +20.1% (")
    assert "get-p1" in first or "set-p1" in first
    assert made.shas[5] in text
    assert '<script>alert(1)</script> & "quotes"' in text
    assert f"/alerts/{alert.pk}/" in text
    assert "/p/kvd/" in text
    assert "Ada Example" in text
    assert re.search(r"\d+ pairs", text)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_html_is_escaped_and_says_the_same(slow: tuple[World, Alert]) -> None:
    _, alert = slow
    html = " ".join(bodies(alert)[1].split())
    assert "Slower +20.1%" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "http" in html
    assert f"/alerts/{alert.pk}/" in html


def test_the_subject_says_what_the_change_is(slow: tuple[World, Alert]) -> None:
    _, alert = slow
    assert mail.subject_of(alert).startswith("[kvd] slower +20.1%: ")
    Series.objects.filter(pk=mail.changes_of(alert)[0].series_id).update(metric="peak_rss_bytes")
    assert mail.subject_of(alert).startswith("[kvd] more memory +20.1%: ")
    assert "<title>kvd: more memory +20.1%: " in bodies(alert)[1]
