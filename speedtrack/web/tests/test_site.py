"""What applies to every page: headers, login, errors, the build of the front end."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as live_settings
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from speedtrack.alerts.models import Alert
from speedtrack.notices.models import Subscriber
from speedtrack.notices.subscribing import manage_token
from speedtrack.runs.models import Run
from speedtrack.web import checks
from speedtrack.web.tests.world import CPU, World, html_of, queries

GZIP = {"accept-encoding": "gzip"}


def test_every_page_sends_the_policy_and_has_nothing_inline(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    run = Run.objects.filter(reason="confirm").first()
    assert run
    addresses = [
        "/",
        "/p/kvd/",
        f"/p/kvd/timeline/get-p1/{CPU}",
        f"/p/kvd/c/{made.shas[5]}/",
        "/p/kvd/alerts/",
        "/alerts/",
        f"/alerts/{alert.pk}/",
        f"/runs/{run.pk}/",
        "/queue/",
        "/login/",
    ]
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200, address
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        page = html_of(answer)
        assert " style=" not in page, address
        assert "<style" not in page, address
        assert " onclick=" not in page, address
        assert page.count("<script") == page.count("<script src="), address


def test_health(client: Client) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


def test_log_in_and_out(client: Client, db: None) -> None:
    User.objects.create_superuser("ada", password="secret")
    assert "do not match" in html_of(client.post("/login/", {"username": "ada", "password": "wrong"}))
    form = {"username": "ada", "password": "secret", "next": "/queue/"}
    assert client.post("/login/", form)["Location"] == "/queue/"
    assert "Log out" in html_of(client.get("/"))
    assert client.post("/logout/").status_code == 302
    assert "Log in" in html_of(client.get("/"))


def test_a_login_leads_to_no_other_site(client: Client, db: None) -> None:
    User.objects.create_superuser("ada", password="secret")
    form = {"username": "ada", "password": "secret", "next": "https://evil.example/"}
    assert client.post("/login/", form)["Location"] == "/"


def test_not_found_has_a_page(client: Client, db: None) -> None:
    answer = client.get("/p/nope/")
    assert answer.status_code == 404
    assert b"There is no project" in answer.content


def test_an_address_that_leads_nowhere_is_named_without_words_of_the_framework(client: Client, db: None) -> None:
    page = html_of(client.get("/nowhere/"))
    assert "/nowhere/" in page and "Resolver404" not in page


def test_pages_take_no_other_method(client: Client, db: None) -> None:
    refused = client.post("/")
    assert refused.status_code == 405 and refused["Allow"] == "GET, HEAD"
    assert "This address does not accept the method" in refused.content.decode()


def test_a_missing_front_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finders, "find", lambda name: None if name == "site.css" else name)
    (warning,) = checks.check_built_files(None)
    assert "frontend/dist lacks site.css" in warning.msg
    assert "npm run build" in str(warning.hint)
    monkeypatch.setattr(finders, "find", lambda name: name)
    assert checks.check_built_files(None) == []


def test_templates_mark_nothing_as_safe() -> None:
    folder = Path(live_settings.BASE_DIR) / "speedtrack"
    for template in folder.rglob("templates/**/*.html"):
        text = template.read_text()
        assert "|safe" not in text, template
        assert "autoescape off" not in text, template


def test_the_debug_page_is_off(settings: Any) -> None:
    assert settings.DEBUG is False


AGO = re.compile(rb'<time class="ago".*?</time>')  # goes on between two answers


def test_what_has_no_secret_is_compressed(client: Client, kvd: World) -> None:
    page, values = "/p/kvd/", f"/p/kvd/timeline/get-p1/{CPU}.json"
    for address in (page, values):
        plain, small = client.get(address), client.get(address, headers=GZIP)
        assert small["Content-Encoding"] == "gzip", address
        assert AGO.sub(b"", gzip.decompress(small.content)) == AGO.sub(b"", plain.content)
        assert len(small.content) < len(plain.content)
        assert "Accept-Encoding" in small["Vary"]
        assert "Content-Encoding" not in plain


def test_people_get_compressed_pages_but_those_that_show_a_secret(client: Client, kvd: World) -> None:
    ada = User.objects.create_superuser("ada", "ada@example.org", "a long password")
    client.force_login(ada)
    for address in ("/", "/p/kvd/", f"/p/kvd/c/{kvd.shas[1]}/", "/queue/", "/p/kvd/annotations/"):
        assert client.get(address, headers=GZIP)["Content-Encoding"] == "gzip", address
    with_forms = [gzip.decompress(client.get("/p/kvd/annotations/", headers=GZIP).content).decode() for _ in range(2)]
    tokens = [set(re.findall(r'name="csrfmiddlewaretoken" value="(\w{64})"', page)) for page in with_forms]
    assert all(tokens) and tokens[0].isdisjoint(tokens[1]), "the same token would be found by its length"

    client.post("/accounts/reauthenticate/?next=/accounts/tokens/", {"password": "a long password"})
    made: list[tuple[str, dict[str, Any]]] = [
        ("/accounts/tokens/", {"name": "for a test", "scopes": ["read"], "days": 3}),
        ("/p/kvd/settings/secret", {"sure": "yes"}),
        ("/settings/machines/", {"name": "kvd-m9"}),
        ("/settings/machines/", {"name": "kvd-m8", "how": "token"}),
    ]
    for address, fields in made:
        answer = client.post(address, fields, headers=GZIP)
        assert answer.status_code == 200 and "Content-Encoding" not in answer, address
    for address in ("/p/kvd/channels/add/webhook/", "/accounts/2fa/totp/activate/"):
        answer = client.get(address, headers=GZIP)
        assert answer.status_code == 200 and "Content-Encoding" not in answer, address
    client.logout()
    subscriber = Subscriber.objects.create(email="ada@example.org")
    of_address = client.get(reverse("notifications-of", args=[manage_token(subscriber)]), headers=GZIP)
    assert of_address.status_code == 200 and "Content-Encoding" not in of_address


def test_no_page_of_a_visitor_takes_many_queries(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    paired = Run.objects.filter(reason="confirm").latest("pk")
    measured = Run.objects.filter(reason="push").latest("pk")
    most = {
        "/": 11,
        "/p/kvd/": 11,
        f"/p/kvd/timeline/get-p1/{CPU}": 12,
        f"/p/kvd/timeline/get-p1/{CPU}?part=values": 11,
        f"/p/kvd/timeline/get-p1/{CPU}.json": 12,
        f"/p/kvd/timeline/get-p1/{CPU}.csv": 11,
        f"/p/kvd/c/{made.shas[5]}/": 11,
        "/p/kvd/sensitivity/": 5,
        "/p/kvd/alerts/?status=all": 7,
        "/alerts/?status=all": 5,
        "/alerts.atom?status=all": 8,
        f"/alerts/{alert.pk}/": 15,
        f"/runs/{paired.pk}/": 12,
        f"/runs/{measured.pk}/": 12,
        f"/runs/{measured.pk}/log/": 3,
        f"/runs/{measured.pk}/log.json": 3,
        f"/runs/{measured.pk}/log.txt": 3,
        "/queue/": 12,
        "/machines/kvd-m1/": 12,
        "/machines/": 7,
    }
    found = {address: queries(client, address) for address in most}
    which_are_private = 1  # each page asks that first
    assert {address: count for address, count in found.items() if count > most[address] + which_are_private} == {}
