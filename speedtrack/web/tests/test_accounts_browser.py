"""The pages of an account on a phone, in a real browser: a first account, the second step, and a login with it."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, expect

from speedtrack.accounts.logins import firstowner
from speedtrack.web.tests.test_accessibility import faults_of
from speedtrack.web.tests.test_accounts import PASSWORD, code_of
from speedtrack.web.tests.test_browser import chromium, watched  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser


def sees(page: Page, heading: str) -> None:
    """The page with this heading, without faults in both themes and both widths."""
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert faults_of(page) == [], heading


def test_from_the_first_link_to_a_login_with_a_second_step(
    live_server: Any,
    settings: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.goto(live_server.url + firstowner.make_link().removeprefix(settings.URL))
    sees(page, "The first account")
    for label, text in {"User name": "ada", "Password": PASSWORD, "The same password again": PASSWORD}.items():
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_role("button", name="Make the account").click()
    expect(page.get_by_text("Welcome, ada.")).to_be_visible()

    page.goto(f"{live_server.url}/accounts/")
    sees(page, "Your account")
    page.get_by_role("link", name="Second step", exact=True).click()
    page.get_by_role("link", name="Set it up").click()
    sees(page, "Is it you?")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    sees(page, "Set up the second step")
    assert page.locator("img.qr").evaluate("one => one.complete && one.naturalWidth > 0")
    secret = page.locator("code.secret").inner_text()
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Turn it on").click()
    sees(page, "Your recovery codes")
    page.goto(f"{live_server.url}/accounts/2fa/")
    sees(page, "Your second step")

    page.get_by_role("button", name="Log out").click()
    page.goto(f"{live_server.url}/login/?next=/accounts/tokens/")
    sees(page, "Log in")
    page.get_by_label("User name or mail address").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    sees(page, "The second step")
    page.get_by_label("Code").fill(code_of(secret, 1))
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url("**/accounts/tokens/")
    page.get_by_label("What it is for").fill("nightly")
    page.get_by_role("button", name="Make it").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("stpt_", exact=False).first).to_be_visible()
    assert User.objects.get().tokens.get().name == "nightly"
    sees(page, "The token “nightly”")
    assert complaints == []


def test_pages_before_a_login_suit_phones_and_both_themes(live_server: Any, settings: Any, chromium: Browser) -> None:  # noqa: F811
    settings.SIGNUP = "open"
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    for path, heading in {
        "signup": "Make an account",
        "password/reset": "Password lost?",
        "password/reset/done": "Look into your mails",
        "confirm-email": "Look into your mails",
        "confirm-email/x": "This link has expired",
        "password/reset/1/x": "This link has expired",
        "password/changed": "Your password is changed",
        "inactive": "This account is off",
        "connected/cancelled": "Not logged in",
    }.items():
        page.goto(f"{live_server.url}/accounts/{path}/")
        sees(page, heading)
    assert complaints == []
