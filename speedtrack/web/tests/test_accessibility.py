"""Every page in a real browser: axe-core finds no violation in either theme, no page scrolls sideways from 320 pixels
on, and no hostile name runs or breaks the layout.

The pages are those of ``urls.py``; VALUES has what stands in their addresses.
"""

from typing import Any

import pytest
from django.conf import settings as live_settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page

from speedtrack.accounts import audit, invitations, members
from speedtrack.accounts.access import Caller
from speedtrack.accounts.models import Role
from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.models import Alert, Bisection
from speedtrack.alerts.triage import triage
from speedtrack.alerts.triage.triage import Decision
from speedtrack.benchmarks.models import Benchmark
from speedtrack.notices.models import Channel
from speedtrack.notices.tests.channels import channel
from speedtrack.projects import hooks
from speedtrack.projects.models import Annotation, Branch, Commit, Delivery, Project, Refusal, Tag
from speedtrack.runs.models import Machine, PairedComparison, Run
from speedtrack.runs.requests import byhand
from speedtrack.tests import builders
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, watched  # noqa: F401 - a fixture
from speedtrack.web.tests.test_compare import put_latencies
from speedtrack.web.tests.test_ladders import LADDER
from speedtrack.web.tests.test_triage_browser import log_in
from speedtrack.web.tests.world import CPU, World, slowed

pytestmark = pytest.mark.browser

AXE = live_settings.BASE_DIR / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
WITHOUT_PAGE = {
    *("codespeed-add", "codespeed-add-json", "codespeed-token-add", "codespeed-token-add-json"),
    *("logout", "hook", "notifications-of", "unsubscribe", "profile-folded", "run-script", "channel-act"),
    *(
        "project-act",
        "project-secret",
        "project-access",
        "machine-token",
        "machine-return",
        "machine-act",
        "annotation-delete",
    ),
    *("suite-check", "suite-file", "suite-restore", "suite-version", "track-check", "compare-measure"),
    *("member-act", "invitation-make", "invitation-revoke"),
    *("account_logout", "own-token-revoke", "own-session-end", "own-sessions-end"),
    *("account_reauthenticate", "mfa_reauthenticate", "mfa_authenticate", "socialaccount_login_error"),
    *("first-owner", "mfa_view_recovery_codes", "mfa_download_recovery_codes", "mfa_deactivate_totp"),
    *(f"{provider}_{page}" for provider in ("github", "openid_connect") for page in ("login", "callback")),
    *("readyz", "metrics", "pull-approve", "try-approve", "run-act", "machine-plan", "bisection-stop"),
    *("api-openapi", "takes-values"),  # the noise of the world is not known
}
HOSTILE = (
    '<img src=x onerror="window.hurt=1"> \u202egnirts\u202c \U0001f680 {{ 7*7 }} \'"&amp; '
    + "wide" * 40
    + " "
    + "many words " * 25
)
UNBROKEN = ("unbroken_" * 9)[:80]
LONG_TAG = "unbroken" * 10 + "-1.1"
WIDTHS = (320, 390, 768, 1280)
#: Pages that may be empty without an error: what each shows here.
FILLED = {
    "releases": "unbroken-1.1",
    "story": "Largest losses",
    "ladders": "linechart",
    "latency": "heatmap",
    "hits": '<ul class="hits">',
}
CHECK = """
    async only => {
        const rules = only ? { runOnly: { type: "rule", values: [only] } } : {};
        const found = await axe.run(document, { resultTypes: ["violations"], ...rules });
        return found.violations.map(one => `${one.id}: ${one.nodes.map(node => node.html.slice(0, 160)).join(" | ")}`);
    }
"""
FIELDS = """
    () => [...document.querySelectorAll("form, input, textarea, button")].filter(one => one.checkVisibility())
        .map(one => one.outerHTML.slice(0, 120))
"""
# What is wider than the page and does not lie in a frame that scrolls by itself.
WIDE = """
    () => [...document.querySelectorAll("body *")].filter(one => {
        if (one.getBoundingClientRect().right <= innerWidth + 1) return false;
        for (let outer = one; outer; outer = outer.parentElement)
            if (getComputedStyle(outer).overflowX !== "visible") return false;
        return true;
    }).map(one => one.outerHTML.slice(0, 120)).slice(0, 3)
"""


def hostile(made: World, alert: Alert, ada: User) -> None:
    """Hostile names in every place that others may fill."""
    Commit.objects.filter(project=made.project).update(subject=HOSTILE[:480], author_name=HOSTILE[:90])
    Run.objects.filter(status="failed").update(error=HOSTILE)
    lengthen_names(made)
    made.project.name = UNBROKEN
    made.project.save()
    triage.decide(alert, Decision("confirmed", "confirmed", ada, HOSTILE), ada)
    Annotation.objects.create(project=made.project, commit=alert.commit, text=HOSTILE, author=ada)
    hostile_calls(made.project)
    run = Run.objects.filter(reason="confirm", status="succeeded").latest("pk")
    names = {"project": made.project, "head_name": HOSTILE[:250], "base_name": UNBROKEN, "by": ada}
    PairedComparison.objects.create(head=run.commit, base=run.base, planned_at=timezone.now(), **names).runs.add(run)


def lengthen_names(made: World) -> None:
    """Names of benchmark, branch and tag without a blank where a line could break."""
    Benchmark.objects.filter(name="get-p1").update(name=UNBROKEN)
    Branch.objects.filter(project=made.project, name="main").update(name=UNBROKEN)
    Tag.objects.filter(project=made.project, name="v1.1").update(name=LONG_TAG)
    Machine.objects.filter(pk=made.machines[0].pk).update(name=UNBROKEN[:50])
    made.machines[0].name = UNBROKEN[:50]
    made.project.default_branch = UNBROKEN


def hostile_calls(project: Project) -> None:
    """Webhook calls of every state, and a new name, by somebody who may sign and push."""
    named = {"action": "renamed", "repository": {"full_name": HOSTILE[:290]}}
    head, base = {"ref": HOSTILE, "sha": "a1" * 20}, {"ref": HOSTILE, "sha": "b2" * 20}
    pull = {"number": 1, "pull_request": {"number": 1, "title": HOSTILE, "head": head, "base": base}}
    builders.call_hook(project, named, "repository", "1")
    builders.call_hook(project, pull, "pull_request", HOSTILE[:90])
    builders.call_hook(project, {"text": HOSTILE}, HOSTILE[:49], "3")
    Delivery.objects.filter(event="repository").update(outcome=HOSTILE, status="processed", with_former=True)
    hooks.rotate(project)
    Refusal.objects.create(project=project, hour=timezone.now(), reason="wrong", event=HOSTILE[:50], count=1000)


def releases_with_ladders(settings: Any, made: World) -> None:
    """Two releases, each with a ladder and with latencies."""
    builders.use_suite(settings, settings.SUITES, builders.SUITE + LADDER)
    for name, place in (("v1.0", 4), ("v1.1", 5)):
        made.repository.git("tag", name, made.shas[place])  # the next look finds it
        byhand.queue_by_hand(byhand.choose(made.project.slug, made.shas[place], ["get-ladder"], None))
    made.measure()
    for place in (4, 5):
        put_latencies(made, place, 50_000.0 * place)


def values(made: World, alert: Alert) -> dict[str, Any]:
    """What stands in the addresses: by the name of the address and the parameter, else by the parameter."""
    run = Run.objects.filter(reason="confirm", status="succeeded").latest("pk")
    return {
        "slug": made.project.slug,
        "sha": made.shas[5],
        "benchmark": UNBROKEN,
        "metric": CPU,
        "form": "json",
        "key": "a-link-that-has-expired",
        "uidb36": "1",
        "kind": "webhook",
        "code": invitations.make(made.project, Role.READER, None)[1],
        "name": made.machines[0].name,
        "help name": "methodology",
        "suite name": made.project.suite,
        "alert pk": alert.pk,
        "run pk": run.pk,
        **{f"{name} pk": run.pk for name in ("run-values", "run-log", "run-log-lines", "run-log-text")},
        "annotation pk": Annotation.objects.latest("pk").pk,
        "try number": PairedComparison.objects.latest("pk").pk,
        "bisection pk": Bisection.objects.latest("pk").pk,
        "channel pk": Channel.objects.latest("pk").pk,
        "delivery pk": Delivery.objects.latest("pk").pk,
    }


def addresses(known: dict[str, Any]) -> dict[str, str]:
    """Name -> address of everything that a GET may show."""
    resolver, found = get_resolver(), {}
    for name in sorted(str(name) for name in resolver.reverse_dict if isinstance(name, str)):
        parameters = resolver.reverse_dict[name][0][0][1]
        if name in WITHOUT_PAGE or name.startswith(("alert-", "mute-")):
            continue
        missing = [one for one in parameters if f"{name} {one}" not in known and one not in known]
        assert not missing, f"say in `values` what {missing} of the address {name!r} is"
        found[name] = reverse(name, kwargs={one: known.get(f"{name} {one}", known.get(one)) for one in parameters})
    return found


def faults_of(page: Page) -> list[str]:
    """In the light on a phone and a desk with all rules, then in the dark those of colours, and all widths."""
    page.evaluate(AXE.read_text())
    page.emulate_media(color_scheme="light")
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if page.evaluate(OVERFLOW) > 0:
            found.append(f"{width} px: wider than the page: {page.evaluate(WIDE)}")
        if width in (390, 1280):
            found += [f"light, {width} px: {one}" for one in page.evaluate(CHECK, None)]
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {one}" for one in page.evaluate(CHECK, "color-contrast")]
    page.emulate_media(media="print")
    if page.evaluate(FIELDS):
        found.append(f"print: a form is on paper: {page.evaluate(FIELDS)}")
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 390, "height": 800})
    if page.evaluate("() => window.hurt"):
        found.append("a hostile name was run")
    return found


def test_every_page_is_accessible_in_both_themes_and_on_a_phone(
    live_server: Any,
    settings: Any,
    tmp_path: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    made, alert = slowed(settings, tmp_path)
    ada = User.objects.create_superuser("ada", is_staff=True)
    channel(made.project, "webhook", "https://example.org/")
    releases_with_ladders(settings, made)
    made.push(2)
    failed = made.fail(HOSTILE[:200])
    bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    hostile(made, alert, ada)
    audit.note(Caller(ada), "project.change", HOSTILE, made.project, {HOSTILE[:60]: (HOSTILE, None)})
    members.give_role(made.project, ada, Role.OWNER)
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    log_in(page, live_server.url, ada)
    client, faults = Client(), {}
    client.force_login(ada)
    more = {"a failed run": f"/runs/{failed.pk}/", "an empty list": "/alerts/?q=nothing", "hits": "/search/?q=kvd"}
    for name, address in (addresses(values(made, alert)) | more).items():
        answer = client.get(address)
        assert answer.status_code in (200, 302), (address, answer.status_code)
        assert name not in FILLED or FILLED[name] in answer.content.decode(), f"{name} shows nothing"
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            page.goto(live_server.url + address)
            if page.locator(".chartstate").count():
                page.wait_for_function("() => document.querySelector('.chartstate').textContent === ''")
            if found := faults_of(page):
                faults[name] = found
    assert not faults, "\n".join(f"{name}: {one}" for name, found in faults.items() for one in found)
    assert complaints == []
