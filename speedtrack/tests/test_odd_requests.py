"""No address, query, form or body makes the server answer 5xx. New addresses of urls.py are tried by themselves."""

import itertools
import json
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.http import browserheaders
from speedtrack.monitoring import heartbeats
from speedtrack.monitoring.heartbeats import DISPATCHER, Beating
from speedtrack.monitoring.models import Heartbeat
from speedtrack.projects.models import Annotation, Branch, Project
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, Run
from speedtrack.web.tests.world import CPU, HOSTILE, World, slow  # noqa: F401

ODD = {
    "int": ["0", "2147483648", "9223372036854775807", "9223372036854775808", "9" * 20, "9" * 400, "9" * 5000],
    "slug": ["-", "_", "a" * 51, "a" * 300, "0"],
    "str": [
        "%00",
        "a%00b",
        "%01",
        "%ff",
        "%ed%a0%80",
        "%E2%80%A8",
        "%0a",
        "%F0%9F%90%98",
        "a" * 300,
        "'",
        "%25",
        "..",
        "%2e",
    ],
}
ODD["path"] = ODD["str"]
ODD["metric"] = [*ODD["str"], "a,b", "%2C%2C", "p99+latency,ms,lower", "x,ms,sideways", "x,%00,lower"]
TEXTS = [
    "%00",
    "a%00b",
    "%ff",
    "%ed%a0%80",
    "%E2%80%A8",
    "a" * 300,
    "'",
    "9" * 20,
    "9" * 5000,
    "-1",
    "1e308",
    "NaN",
    "%D9%A3",
    "",
]
# What each page reads of the query; a page that reads nothing has an empty list.
QUERIES: dict[str, list[str]] = {
    "home": [],
    **{key: [] for key in ("home-values", "alert-values", "run-values")},
    "commit-values": ["branch", "machine"],
    "latency-values": ["branch", "machine", "last", "commit"],
    "project": ["branch", "machine", "metric", "tag", "q", "page", "part"],
    "board": ["branch", "machine", "metric", "q", "page", "part"],
    "pins": ["part"],
    "timeline": [
        "branch",
        "machine",
        "last",
        "from",
        "to",
        "around",
        "since",
        "until",
        "metric",
        "why",
        "part",
        "line",
        "axis",
        "y",
        "base",
    ],
    "timeline-values": ["branch", "machine", "last", "from", "to", "around", "line", "y", "base", "trials", "width"],
    "lines": ["q", "benchmark"],
    "timeline-why": ["branch", "machine", "commit"],
    **{key: ["see", "machine", "branch"] for key in ("takes", "takes-values")},
    **{key: ["month"] for key in ("gains", "all-gains")},
    **{key: ["base", "head", "metric", "machine"] for key in ("story", "story-text")},
    "commit": ["branch"],
    "project-values": ["branch", "machine", "metric", "tag", "q", "before", "page"],
    **{key: ["status", "metric", "order", "project", "assignee", "after", "q"] for key in ("alerts", "all-alerts")},
    **{key: ["status", "order", "after"] for key in ("alerts-values", "all-alerts-values")},
    "alert-decide": [],
    "search": ["q"],
    "search-values": ["q"],
    "machines": [],
    "badge": ["show"],
    "export": ["branch", "benchmark", "metric", "machine", "environment", "since", "until", "after", "samples"],
    "openmetrics": ["branch"],
    "embed": ["branch", "machine", "theme", "width"],
    **{key: ["branch", "machine"] for key in ("timeline-picture", "project-picture")},
    **{key: [] for key in ("alert-picture", "changes-feed", "help-index", "help")},
    "alert": ["zoom", "pairs"],
    "run": ["part", "zoom"],
    "run-log": ["from", "before", "phase", "q"],
    "run-log-lines": ["from", "before", "phase", "q"],
    "run-log-text": ["phase"],
    "run-script": ["benchmark", "side"],
    "profile-folded": [],
    "queue": ["part"],
    "machine": [],
    "machine-values": [],
    "login": ["next"],
    "logout": [],
    **{key: [] for key in ("account_login", "account_logout", "account_inactive", "account_change_password")},
    **{key: [] for key in ("account_set_password", "account_reset_password_done", "account_email_verification_sent")},
    **{key: [] for key in ("account_reset_password_from_key", "account_reset_password_from_key_done")},
    **{
        key: []
        for key in ("mfa_index", "mfa_authenticate", "mfa_activate_totp", "mfa_deactivate_totp", "mfa_reauthenticate")
    },
    **{key: [] for key in ("mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_download_recovery_codes")},
    **{key: [] for key in ("socialaccount_connections", "socialaccount_signup")},
    **{key: [] for key in ("socialaccount_login_cancelled", "socialaccount_login_error", "account_email")},
    **{key: ["next"] for key in ("account_reauthenticate", "account_reset_password", "account_confirm_email")},
    "account_signup": ["next", "email"],
    **{f"{one}_login": ["process", "next", "action"] for one in ("github", "openid_connect")},
    **{f"{one}_callback": ["code", "state", "error"] for one in ("github", "openid_connect")},
    **{key: [] for key in ("account", "own-tokens", "own-token-revoke", "own-sessions", "account-delete")},
    **{key: [] for key in ("own-session-end", "own-sessions-end", "first-owner")},
    "healthz": [],
    "readyz": [],
    "metrics": [],
    "hook": [],
    **{key: ["token"] for key in ("codespeed-add", "codespeed-add-json")},
    **{key: [] for key in ("codespeed-token-add", "codespeed-token-add-json")},
    "alerts-feed": ["status"],
    "all-alerts-feed": ["status"],
    "releases": ["metric", "machine", "benchmark", "before", "totals"],
    "releases-feed": ["before"],
    "releases-values": ["metric", "machine", "benchmark"],
    "compare": ["base_project", "base", "head", "machine", "base_machine", "metric", "verdict", "q", "benchmark"],
    "compare-values": [],
    "compare-picture": ["base_project", "base", "head", "machine", "base_machine"],
    "compare-measure": ["base", "head"],
    "bisect": ["before", "commit", "machine", "metric", "benchmark"],
    **{key: [] for key in ("bisection", "bisection-stop")},
    "latency": ["branch", "machine", "last", "commit"],
    "ladders": ["project", "ladder", "metric", "machine", "scale", "line", "beside", "environments"],
    "ladders-values": ["project", "ladder", "metric", "machine", "scale", "line", "beside", "environments"],
    "sensitivity": [],
    "sensitivity-values": [],
    "mutes": [],
    "mute-end": [],
    "alert-move": [],
    "alert-split": [],
    "alert-merge": [],
    "channels": [],
    "channel-add": [],
    "channel": [],
    "channel-act": [],
    "notifications": [],
    "notifications-of": [],
    "unsubscribe": [],
    "source": ["token"],
    "settings": [],
    "deliveries": ["status", "before"],
    "delivery": [],
    "track": ["url", "suite"],
    "track-check": [],
    **{key: [] for key in ("project-settings", "project-access", "project-secret", "project-untrack", "project-act")},
    **{key: [] for key in ("suites", "suite-check", "suite", "suite-file", "suite-version", "suite-restore")},
    "suite-new": ["from"],
    "policies": ["branches"],
    "measure": ["range", "every", "machine"],
    **{key: [] for key in ("pulls", "pull-approve", "try", "try-approve", "run-act", "machine-plan")},
    "tries": ["base", "branch", "diff"],
    **{key: [] for key in ("machine-settings", "machine-token", "machine-return", "machine-act", "installation")},
    "annotations": ["at", "part"],
    "all-annotations": ["at", "part"],
    "annotation": [],
    "annotation-delete": [],
    **{key: ["person", "action", "project", "since", "until", "before"] for key in ("audit", "project-audit")},
    **{key: ["since", "until", "before"] for key in ("audit-values", "project-audit-values")},
    **{key: [] for key in ("members", "member-act", "invitation-make", "invitation-revoke", "invitation")},
    "project-visibility": [],
}
FORMS = {
    "codespeed-add": ["commitid", "project", "benchmark", "environment", "result_value", "result_date"],
    "codespeed-add-json": ["json"],
    "alert": ["seen", "status", "assignee", "note"],
    "alert-decide": ["alert", "action", "note", "assignee"],
    "machine": ["level"],
    "login": ["username", "password", "next"],
    "account_login": ["username", "password", "next"],
    "account_signup": ["username", "email", "password1", "password2"],
    "account_reset_password": ["email"],
    "account_email": ["email", "action_add"],
    "account_change_password": ["oldpassword", "password1", "password2"],
    "account_reauthenticate": ["password", "next"],
    "mfa_activate_totp": ["code"],
    "mfa_reauthenticate": ["code", "next"],
    "socialaccount_connections": ["account"],
    "own-tokens": ["name", "scopes", "project", "days"],
    "account-delete": ["name"],
    "first-owner": ["username", "email", "password1", "password2"],
    "hook": ["payload"],
    "logout": ["next"],
    "pins": ["pin", "unpin", "earlier", "later"],
    "alert-move": ["commit", "note"],
    "alert-split": ["change", "note"],
    "alert-merge": ["into", "note"],
    "mutes": ["benchmark", "metric", "machine", "days", "reason"],
    "compare-measure": ["what", "benchmark"],
    "bisect": ["before", "commit", "machine", "metric", "benchmark"],
    "channel-add": ["name", "url", "place", "secret"],
    "track": ["url", "suite", "branch", "last", "name"],
    "track-check": ["url"],
    "project-settings": ["name", "url", "suite", "default_branch"],
    "project-untrack": ["slug"],
    "project-act": ["branch"],
    "project-secret": ["sure", "days", "given"],
    "deliveries": ["act", "delivery", "days", "sure", "preview"],
    "suite-check": ["name", "text"],
    "takes": ["trials", "seen", "preview"],
    "suite-new": ["text", "save"],
    "machine-settings": ["name"],
    "policies": ["branches", "every", "most_waiting", "ignored_paths", "suite", "machines", "extended_at", "zone"],
    "measure": ["range", "every", "order", "benchmarks", "machine"],
    "invitation-make": ["role", "days", "uses"],
    "project-visibility": ["slug", "to"],
    "member-act": ["act", "role"],
    "pull-approve": ["head", "preview"],
    "try-approve": ["head", "preview"],
    "tries": ["diff", "base", "branch", "preview"],
    "machine-plan": ["windows", "zone", "share-backfill", "preview"],
    "annotations": ["place", "text", "everywhere"],
    "notifications": ["act", "subscription", "project", "branches", "benchmarks", "smallest_percent", "time_zone"],
}
BODIES = [
    ("application/x-www-form-urlencoded", b"\xff\x00=%ff&&=;%"),
    ("application/x-www-form-urlencoded; charset=nonsense", b"a=b"),
    ("text/plain; charset=rot13", b"a"),
    ("application/x-www-form-urlencoded; charset=utf-7", b"note=+2AA-"),
    (
        "multipart/form-data; charset=utf-7; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="note"\r\n\r\n+2AA-\r\n--x--\r\n',
    ),
    ("multipart/form-data", b"no boundary"),
    ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="note"\r\n\r\nhalf'),
    ("multipart/form-data; boundary=\xe9", b"--x"),
    ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\x00\r\n--x--\r\n'),
    ("application/json", b""),
    ("application/json", b"\xff\xfe"),
    ("application/json", b"null"),
    ("application/json", b'{"a": "\\u0000"}'),
    ("application/json", b'{"a": NaN}'),
    ("application/json", b"1" * 5000),
    ("application/json", b"[" * 100_000),
    ("application/json", b'{"a":' * 5000),
    ("nonsense", b"{}"),
    ("", b"{}"),
]
HEADERS = [
    ("Authorization", "Bearer a\0b"),
    ("Authorization", "Bearer strn_a\0b_c"),
    ("Authorization", "Bearer " + "_" * 9000),
    ("Authorization", "Bearer strn_\xed\xa0\x80_x"),
    ("X-Hub-Signature-256", "sha256=\xe9"),
    ("Host", "a\0b"),
    *(
        ("Cookie", f"{name}={value}")
        for name in ("sessionid", "csrftoken", "messages")
        for value in ('"a\\000bcdefghij"', "a" * 5000, '"\\355\\240\\200aaaaaaaaa"', "\xe9" * 40)
    ),
]


@pytest.fixture
def clients(
    slow: tuple[World, Alert],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Client, dict[str, str]]]:
    """A visitor who is logged in, and right values for the parts of an address."""
    made, alert = slow
    Beating(DISPATCHER, every_s=5).beat()  # /readyz answers 503 without it
    monkeypatch.setattr(heartbeats, "LATE_S", 3600)  # the test may take longer than a dispatcher may be silent
    Beating(DISPATCHER, every_s=5).beat()  # /readyz answers 503 without it,
    Heartbeat.objects.update(at=Now() + timedelta(hours=1))  # and once it is old, as on a machine that is busy
    run = Run.objects.filter(commit__sha=made.shas[5]).order_by("pk").first()
    assert run
    call_it_names(made, alert)
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("ada", is_staff=True))
    yield client, right_parts(made, alert, run)


def right_parts(made: World, alert: Alert, run: Run) -> dict[str, str]:
    """Of the parts of addresses those with which they show something."""
    return {
        "slug": "kvd",
        "benchmark": "get-p1",
        "metric": CPU,
        "form": "json",
        "sha": made.shas[5],
        "revision": made.shas[5],
        "run_id": str(run.pk),
        "alerts pk": str(alert.pk),
        "cards pk": str(alert.pk),
        "runs pk": str(run.pk),
        "profiles pk": "1",
        "p pk": "1",
        "bisections pk": "1",
        "annotations pk": str(Annotation.objects.get().pk),
        "number": "1",
        "kind": "webhook",
        "action": "pause",
        "token": "no-token",
        "code": "no-code",
        "name": made.machines[0].name,
        "hook_id": made.project.hook_id,
        "accounts pk": "1",
        "key": "no-key",
        "uidb36": "1",
        "provider_id": "oidc",
    }


def call_it_names(made: World, alert: Alert) -> None:
    """Hostile texts where strangers may write some; the subject of the commit that is measured is one already."""
    hidden = f"{HOSTILE}\u202e\x1b[31m"
    Project.objects.update(name=hidden[:100])
    Branch.objects.create(project=made.project, name=hidden, head=made.commit(0))
    Machine.objects.update(facts={"cpu_model": hidden}, quarantined_at=Now(), quarantined_why=hidden)
    Annotation.objects.create(project=made.project, commit=made.commit(5), text=hidden)
    AlertEvent.objects.filter(alert=alert).update(note=hidden)


def shown_raw(answer: HttpResponseBase) -> list[str]:
    """What a page must not show as it was written: markup, and characters that turn or colour what follows."""
    if answer.streaming or not answer.get("Content-Type", "").startswith("text/html"):
        return []
    text = answer.content.decode()  # type: ignore[attr-defined]
    return [repr(one) for one in ("<script>alert(1)", "\u202e", "\x1b") if one in text]


def patterns(resolver: URLResolver | None = None, before: str = "") -> Iterator[tuple[str, str]]:
    """(name, route) of each address."""
    for each in (resolver or get_resolver()).url_patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from patterns(each, route)
        elif isinstance(each, URLPattern):
            yield each.name or "", route


PART = re.compile(r"<(\w+):(\w+)>")


def right_value(route: str, name: str, right: dict[str, str]) -> str:
    return right[f"{route.split('/')[0]} {name}" if name == "pk" else name]


def addresses(route: str, right: dict[str, str]) -> Iterator[str]:
    """The route with right values, and with each part in turn replaced by each odd one."""
    parts = PART.findall(route)
    yield "/" + PART.sub(lambda part: right_value(route, part[2], right), route)
    for kind, name in parts:
        for odd in ODD[kind]:
            yield "/" + PART.sub(lambda part: odd if part[2] == name else right_value(route, part[2], right), route)  # noqa: B023


def read(answer: HttpResponseBase) -> int:
    """The status, once the whole answer has been made."""
    if answer.streaming:
        b"".join(answer.streaming_content)
    return answer.status_code


def headers_lacking(answer: HttpResponseBase) -> list[str]:
    """Those that each answer has whatever its status, and a policy that would allow inline scripts or styles."""
    policy = answer.get("Content-Security-Policy", "")
    unsafe = [word for word in ("unsafe-inline", "unsafe-eval", "http:", "*") if word in policy]
    return [name for name in (*browserheaders.WITHOUT_PAGE, "Permissions-Policy") if name not in answer] + unsafe


def test_odd_parts_of_an_address(clients: tuple[Client, dict[str, str]]) -> None:
    client, right = clients
    failed, unprotected = [], []
    for _, route in patterns():
        methods = {"get", "post"}
        for address, method in itertools.product(addresses(route, right), ("get", "post")):
            if method not in methods:
                continue
            answer = getattr(client, method)(address)
            status = read(answer)
            if status == 405:
                methods.discard(method)  # whatever the parts: the first address has right ones
            if status >= 500:
                failed.append((method, address, status))
            framed = route.startswith("embed/")  # it is made for frames of other sites
            if lacking := [
                name for name in headers_lacking(answer) if not (framed and name in ("X-Frame-Options", "*"))
            ]:
                unprotected.append((method, address, lacking))
            if raw := shown_raw(answer):
                unprotected.append((method, address, raw))
    assert failed == []
    assert unprotected == []


def test_odd_queries(clients: tuple[Client, dict[str, str]]) -> None:
    client, right = clients
    failed = []
    for name, route in patterns():
        address = next(addresses(route, right))
        for key, odd in itertools.product(QUERIES["source"] if route.startswith("api/") else QUERIES[name], TEXTS):
            if read(client.get(f"{address}?{key}={odd}")) >= 500:
                failed.append((address, key, odd))
    assert failed == []


def test_odd_forms(clients: tuple[Client, dict[str, str]]) -> None:
    client, right = clients
    routes = dict(patterns())
    failed = []
    for name, fields in FORMS.items():
        address = next(addresses(routes[name], right))
        for key, odd in itertools.product(fields, TEXTS):
            form = "&".join([f"{key}={odd}", *(f"{other}=open" for other in fields if other != key)])
            if read(client.post(address, form, content_type="application/x-www-form-urlencoded")) >= 500:
                failed.append((address, key, odd))
    assert failed == []
    assert Alert.objects.exists()


def test_odd_bodies(clients: tuple[Client, dict[str, str]]) -> None:
    client, right = clients
    failed = []
    headers = {"Authorization": f"Bearer {machines.renew_token(right['name'])}"}
    for _, route in patterns():
        address = next(addresses(route, right))
        for content_type, body in BODIES:
            status = read(client.generic("POST", address, body, content_type=content_type, headers=headers))
            if status == 405:
                break  # nothing reads its body
            if status >= 500:
                failed.append((address, content_type, body[:80]))
    assert failed == []


def test_odd_headers(clients: tuple[Client, dict[str, str]]) -> None:
    client, right = clients
    client.cookies.clear()
    failed = []
    for name, value in HEADERS:
        for path in ("/api/runner/claim", f"/hooks/{right['hook_id']}", "/login/"):
            if client.generic("POST", path, b"{}", headers={name: value}).status_code >= 500:
                failed.append((path, name, value))
    assert failed == []


def test_a_refusal_names_the_place_and_the_remedy(clients: tuple[Client, dict[str, str]]) -> None:
    client, right = clients
    page, hook = client.get(f"/runs/{right['runs pk']}/log/?phase=%00"), client.post("/hooks/%00")
    form = client.post(f"/alerts/{right['alerts pk']}/", {"note": "a\0b"})
    assert [answer.status_code for answer in (page, hook, form)] == [400, 400, 400]
    assert page.content.decode() == "The query holds a character that cannot be stored (U+0000): leave it out.\n"
    assert json.loads(hook.content)["error"].startswith("The path holds")
    assert form.content.decode().startswith("The form holds")
