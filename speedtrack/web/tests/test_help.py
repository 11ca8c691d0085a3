"""Words that explain themselves, and the documentation as pages."""

import re

import pytest
from django.conf import settings
from django.test import Client

from speedtrack.accounts.models import Role
from speedtrack.alerts.models import Alert, ChangePoint, Verdict
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Alarm, CanaryCheck, MachineEvent, Reason, Run, Status
from speedtrack.web.help import KINDS, STATISTICS, TERMS
from speedtrack.web.pages import documents
from speedtrack.web.tests.world import CPU, World, html_of

ALWAYS = ("machine_drift",)  # flags that no metric lists: they void all


def test_every_metric_flag_and_state_is_explained() -> None:
    known = {
        "metric": METRICS,
        "flag": [*{flag for metric in METRICS.values() for flag in metric.voided_by}, *ALWAYS],
        "run": Status.values,
        "reason": Reason.values,
        "alert": Alert.Status.values,
        "change": ChangePoint.Status.values,
        "verdict": Verdict.Answer.values,
        "check": CanaryCheck.Answer.values,
        "event": MachineEvent.Kind.values,
        "role": Role.values,
        "alarm": Alarm.Kind.values,
    }
    named = {f"{kind} {name}" for kind, names in known.items() for name in names}
    assert named - TERMS.keys() == set()
    of_these_kinds = {key for key in TERMS if key.partition(" ")[0] in known}
    assert of_these_kinds - named == set()


def test_the_flags_are_those_of_the_methodology() -> None:
    text = (settings.BASE_DIR / "docs" / "methodology.md").read_text().partition("## Flags")[2].partition("\n## ")[0]
    listed = {
        flag for row in text.splitlines() if row.startswith("| `") for flag in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert {f"flag {flag}" for flag in listed} == {key for key in TERMS if key.startswith("flag ")}


@pytest.mark.parametrize("name", documents.NAMES)
def test_every_page_of_the_documentation_is_served(client: Client, db: None, name: str) -> None:
    html = client.get(f"/help/{name}/").content.decode()
    assert " style=" not in html
    for page, anchor in re.findall(r'href="(?:/help/([\w-]+)/)?#([^"]+)"', html):
        if anchor != "main":
            assert f'id="{anchor}"' in documents.load(page or name).html, (page, anchor)


def test_every_document_is_served() -> None:
    assert set(documents.NAMES) == {path.stem for path in (settings.BASE_DIR / "docs").glob("*.md")}


def test_every_explanation_has_a_heading() -> None:
    """The words before the first space of a key; statistics have none."""
    kinds = {key.partition(" ")[0] for key in TERMS if key not in STATISTICS}
    assert kinds == KINDS.keys() - {""}


def test_every_explanation_leads_to_a_place_that_exists(client: Client, db: None) -> None:
    for term in TERMS.values():
        name, _, anchor = term.page.partition("#")
        assert not anchor or f'id="{anchor}"' in documents.load(name).html, term.page
    page = html_of(client.get("/help/"))
    assert all(term.text[:40] in page.replace("&#x27;", "'") for term in TERMS.values())


def test_an_unknown_page_names_those_that_exist(client: Client, db: None) -> None:
    answer = client.get("/help/nothing/")
    assert answer.status_code == 404
    assert "methodology" in answer.content.decode()


def test_states_explain_themselves(client: Client, kvd: World) -> None:
    run = Run.objects.order_by("pk").first()
    assert run
    page = client.get(f"/runs/{run.pk}/").content.decode()
    explained = r'<a class="term" href="/help/[\w/#-]+" title="All its measurements are accepted\.">succeeded</a>'
    assert re.search(explained, page)


def test_pages_explain_their_words(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    for place, name in ((1, "v1.0"), (6, "v1.1")):
        Tag.objects.create(project=made.project, name=name, sha=made.shas[place])
    cpu = METRICS[CPU].title
    expected = {
        "/": {cpu, "geometric mean", "never seen", "since"},
        "/p/kvd/": {cpu, "Since", "confirmed", "unreliable", "same program", "nothing that shows"},
        f"/p/kvd/timeline/get-p1/{CPU}": {cpu, "median", "95% interval", "unreliable", "suspected", "new environment"},
        f"/p/kvd/c/{made.shas[6]}/": {cpu, "Change", "95% interval", "push", "succeeded"},
        "/p/kvd/compare/?base=v1.0&head=v1.1": {cpu, "Geometric mean", "95% interval", "uncertain", "Change"},
        "/p/kvd/releases/": {cpu, "Mean", "95% interval"},
        "/p/kvd/sensitivity/": {cpu, "Smallest change", "A/A runs"},
        "/ladders/": {"95% intervals", "unreliable"},
    }
    for address, words in expected.items():
        explained = re.findall(r'<a class="term"[^>]*>\s*(.*?)\s*</a>', client.get(address).content.decode(), re.DOTALL)
        assert words - {" ".join(one.split()) for one in explained} == set(), address
