"""Logging in by other providers: by a real OpenID Connect server, and by a server that speaks as GitHub does."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser

from runners.tests.ports import free_port
from speedtrack.accounts import invitations, people
from speedtrack.accounts.models import AuditEntry, Role
from speedtrack.projects.models import Project
from speedtrack.web.tests.test_accounts import PASSWORD, is_in, log_in
from speedtrack.web.tests.test_browser import chromium, watched  # noqa: F401 - a fixture
from speedtrack.web.tests.world import html_of

LOGIN = "/accounts/oidc/oidc/login/"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The address of an OpenID Connect server, a process of its own."""
    port = free_port()
    argv = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 60
        while not answers(f"{address}/.well-known/openid-configuration"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        yield address
        process.terminate()


def answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=60).status_code == 200
    except httpx.HTTPError:
        return False


def use(settings: Any, issuer: str) -> None:
    app = {"provider_id": "oidc", "name": "Example", "client_id": "us", "secret": "s", "settings": {}}
    app["settings"] = {"server_url": issuer}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
    settings.OIDC_NAME = "Example"


def known_there(issuer: str, who: str, **claims: Any) -> None:
    assert httpx.put(f"{issuer}/users/{who}", json=claims, timeout=60).status_code == 204


def way_back(client: Client, who: str, **query: str) -> str:
    """Begin a login here, say who one is there; the address to which the other server sends the browser back."""
    page = client.post(f"{LOGIN}?{urlencode(query)}")
    assert page.status_code == 200, page
    address = re.search(r'content="0;url=([^"]+)"', html_of(page))
    assert address
    sent = httpx.post(unescape(address[1]), data={"sub": who}, timeout=60)
    back = urlsplit(sent.headers["location"])
    return f"{back.path}?{back.query}"


def test_people_come_in_by_another_provider(db: None, settings: Any, issuer: str) -> None:
    use(settings, issuer)
    known_there(issuer, "17", email="Ada@example.org", email_verified=True, preferred_username="ada", name="Ada L")
    client = Client()
    assert "Log in with Example" in html_of(client.get("/login/"))
    assert "by invitation" in html_of(client.get(way_back(client, "17"))) and not User.objects.exists()

    settings.SIGNUP = "open"
    back = way_back(client, "17", next="/queue/")
    assert client.get(back)["Location"] == "/queue/" and is_in(client)
    ada = User.objects.get()
    assert (ada.username, ada.email.lower(), ada.has_usable_password()) == ("ada", "ada@example.org", False)
    assert AuditEntry.objects.get(action="account.add").name == "ada"
    assert "did not answer" in html_of(Client().get(back)), "the way back is that of one browser, and of one login"

    settings.SIGNUP = "closed"
    again = Client()
    assert again.get(way_back(again, "17"))["Location"] == "/", "who has an account needs no invitation"
    assert "Example" in html_of(again.get("/accounts/"))


def test_who_is_restricted_to_comes_in_uninvited_and_nobody_else(db: None, settings: Any, issuer: str) -> None:
    use(settings, issuer)
    settings.OIDC_EMAIL_DOMAINS = ["example.org"]
    known_there(issuer, "1", email="ada@example.org", email_verified=True)
    known_there(issuer, "2", email="eve@example.org", email_verified=False)
    known_there(issuer, "3", email="eve@example.org.example.com", email_verified=True)
    known_there(issuer, "4")
    for who in ("2", "3", "4"):
        client = Client()
        answer = client.get(way_back(client, who))
        assert answer.status_code == 403 and "confirmed address of example.org" in html_of(answer)
    client = Client()
    assert client.get(way_back(client, "1"))["Location"] == "/" and User.objects.get().username == "ada"
    settings.OIDC_EMAIL_DOMAINS = ["example.com"]
    client = Client()
    assert client.get(way_back(client, "1")).status_code == 403, "people leave, and are refused with the next login"


def test_an_account_is_taken_over_by_no_address_of_elsewhere(db: None, settings: Any, issuer: str) -> None:
    use(settings, issuer)
    people.add("ada", "ada@example.org", PASSWORD)
    settings.SIGNUP = "open"
    known_there(issuer, "66", email="ada@example.org", email_verified=True, preferred_username="ada")
    client = Client()
    client.get(way_back(client, "66"))
    assert not is_in(client) and not SocialAccount.objects.exists()


def test_another_login_is_connected_used_and_disconnected(db: None, settings: Any, issuer: str) -> None:
    use(settings, issuer)
    people.add("ada", "", PASSWORD)
    client, other = Client(), Client()
    log_in(client)
    assert client.get(way_back(client, "99", process="connect"))["Location"] == "/accounts/reauthenticate/"
    assert client.post("/accounts/reauthenticate/", {"password": "wrong"}).status_code == 200
    assert not SocialAccount.objects.exists(), "a browser that was left open connects nothing"
    assert client.post("/accounts/reauthenticate/", {"password": PASSWORD})["Location"] == "/accounts/connected/"
    assert "Disconnect" in html_of(client.get("/accounts/connected/"))
    assert other.get(way_back(other, "99"))["Location"] == "/" and is_in(other)
    account = SocialAccount.objects.get()
    answer = client.post("/accounts/connected/", {"account": account.pk})
    assert answer.status_code == 302 and not SocialAccount.objects.exists()
    actions = AuditEntry.objects.values_list("action", flat=True)
    assert {"account.connect", "account.disconnect"} <= set(actions)


def test_a_provider_that_is_away_or_unknown_is_said_to_be(db: None, settings: Any, client: Client) -> None:
    assert client.get(LOGIN).status_code == client.post("/accounts/github/login/").status_code == 404
    assert client.get("/accounts/github/login/callback/?code=1&state=2").status_code == 404
    use(settings, f"http://127.0.0.1:{free_port()}")
    answer = client.post(LOGIN)
    assert answer.status_code == 502 and "did not answer" in html_of(answer)
    assert client.post("/accounts/oidc/other/login/").status_code == 404
    assert "Go on" in html_of(client.get(LOGIN)), "a link alone logs nobody in"


@pytest.mark.browser
def test_a_browser_goes_to_the_other_host_and_back(
    live_server: Any,
    settings: Any,
    issuer: str,
    chromium: Browser,  # noqa: F811
) -> None:
    use(settings, issuer)
    settings.SIGNUP = "open"
    known_there(issuer, "5", email="ada@example.org", email_verified=True, preferred_username="ada")
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.goto(f"{live_server.url}/login/?next=/accounts/sessions/")
    page.get_by_role("button", name="Log in with Example").click()
    page.wait_for_url(f"{issuer}/**")
    page.locator("input[name=sub]").fill("5")
    complaints.clear()  # about the page of that server
    page.locator("form [type=submit], form button").first.click()
    page.wait_for_url(f"{live_server.url}/accounts/sessions/")
    assert page.get_by_text("this one").is_visible() and complaints == []


@dataclass
class Forge:
    """What GitHub answers: who somebody is, the addresses, and where they are a member."""

    address: str = ""
    addresses: list[dict[str, Any]] = field(default_factory=list)
    organisations: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> dict[str, Any] | list[dict[str, Any]] | None:
        self.asked.append(path)
        if path.startswith("/api/v3/user/memberships/orgs/"):
            state = self.organisations.get(path.rpartition("/")[2])
            return {"state": state} if state else None
        known: dict[str, Any] = {
            "/login/oauth/access_token": {"access_token": "gho_secret", "token_type": "bearer"},
            "/api/v3/user": {"id": 7, "login": "ada", "name": "Ada", "email": None},
            "/api/v3/user/emails": self.addresses,
        }
        return known.get(path)


@pytest.fixture
def forge(settings: Any, monkeypatch: Any) -> Iterator[Forge]:
    made = Forge(addresses=[{"email": "ada@example.org", "primary": True, "verified": True}])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = made.answer(self.path.partition("?")[0])
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.address = f"http://127.0.0.1:{server.server_port}"
    for name in ("access_token_url", "authorize_url", "profile_url", "emails_url", "api_url"):  # read once, at import
        old = getattr(GitHubOAuth2Adapter, name)
        path = urlsplit(old).path if old.startswith("https://github.com") else "/api/v3" + urlsplit(old).path
        monkeypatch.setattr(GitHubOAuth2Adapter, name, made.address + path)
    settings.SOCIALACCOUNT_PROVIDERS = {"github": {"APPS": [{"client_id": "us", "secret": "s"}]}}
    yield made
    server.shutdown()
    server.server_close()


def log_in_by(client: Client) -> Any:
    page = html_of(client.post("/accounts/github/login/"))
    address = re.search(r'content="0;url=([^"]+)"', page)
    assert address
    state = parse_qs(urlsplit(unescape(address[1])).query)["state"][0]
    return client.get(f"/accounts/github/login/callback/?code=1&state={state}")


def test_members_of_an_organisation_come_in_by_github(db: None, settings: Any, forge: Forge) -> None:
    settings.GITHUB_ORGANISATION = "example"
    for state in ({}, {"example": "pending"}, {"another": "active"}):
        forge.organisations = state
        answer = log_in_by(Client())
        assert answer.status_code == 403 and "only members of example" in html_of(answer)
    forge.organisations = {"example": "active"}
    client = Client()
    assert log_in_by(client)["Location"] == "/" and is_in(client)
    assert User.objects.get().username == "ada" and "gho_secret" not in str(list(SocialAccount.objects.values()))
    forge.organisations = {}
    assert log_in_by(Client()).status_code == 403


def test_an_invitation_is_followed_after_a_login_by_github(db: None, forge: Forge) -> None:
    client = Client()
    project = Project.objects.create(slug="kvd", name="kvd", url="/srv/kvd", default_branch="main", suite="tiny")
    address = f"/invite/{invitations.make(project, Role.READER, None)[1]}/"
    client.get(address)
    assert log_in_by(client)["Location"] == address and is_in(client)
    forge.addresses = [{"email": "eve@example.org", "primary": True, "verified": False}]
    assert "by invitation" in html_of(Client().get("/accounts/signup/"))
