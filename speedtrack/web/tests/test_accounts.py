"""Ways into an installation and out of it, through the real pages, with mails by a real mail server."""

import base64
import hmac
import re
import struct
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from speedtrack.accounts import access, audit, invitations, people, tokens
from speedtrack.accounts.logins import firstowner, second_step, sessions, signup
from speedtrack.accounts.logins.browsers import words
from speedtrack.accounts.models import AuditEntry, Membership, OwnerLink, PersonToken, Role, Scope
from speedtrack.notices.models import Outbox, Subscriber
from speedtrack.notices.tests.servers import Mailbox, serving
from speedtrack.projects.models import Annotation, Project
from speedtrack.runs.models import Alarm, Import, MachineEvent
from speedtrack.runs.scheduling import quarantine
from speedtrack.web.tests.world import World, html_of

PASSWORD, OTHER = "gut gewählt 17", "noch besser 18!"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PATIENCE_S = 30


@pytest.fixture
def ada(db: None) -> User:
    return people.add("ada", "ada@example.org", PASSWORD)


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    with serving(Mailbox(), settings) as found:
        yield found


def log_in(client: Client, name: str = "ada", password: str = PASSWORD, **more: Any) -> Any:
    return client.post("/login/", {"username": name, "password": password}, **more)


def is_in(client: Client) -> bool:
    """Return whether somebody is logged in, whose session is listed then, whatever it began with."""
    is_listed = UserSession.objects.filter(session_key=client.session.session_key).exists()
    found = client.get("/accounts/").status_code == 200
    assert is_listed or not found
    return found


def confirm(client: Client, password: str = PASSWORD, page: str = "/accounts/tokens/") -> None:
    """Say the password again, as what is sensitive asks for."""
    assert client.post(f"/accounts/reauthenticate/?next={page}", {"password": password}).status_code == 302


def mailed(mailbox: Mailbox, number: int = 1) -> Any:
    """The mail that came last, once there are so many."""
    deadline = time.monotonic() + PATIENCE_S
    while len(mailbox.messages) < number:
        assert time.monotonic() < deadline, f"{len(mailbox.messages)} mails came"
        time.sleep(0.02)
    return mailbox.messages[-1]


def link_in(message: Any, settings: Any) -> str:
    found = re.search(re.escape(settings.URL) + r"(/\S+)", message.get_content())
    assert found, message.get_content()
    return found[1]


def code_of(secret: str, steps: int = 0) -> str:
    """What an app shows: RFC 6238, with the defaults that apps have."""
    count = struct.pack(">Q", int(time.time()) // 30 + steps)
    digest = hmac.digest(base64.b32decode(secret), count, "sha1")
    place = digest[-1] & 15
    return f"{(int.from_bytes(digest[place : place + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"


def set_up_second_step(client: Client) -> str:
    """Through the pages; the app's secret."""
    confirm(client, page="/accounts/2fa/totp/activate/")
    page = html_of(client.get("/accounts/2fa/totp/activate/"))
    secret = re.search(r'<code class="secret">(\w+)</code>', page)
    assert secret and 'src="data:image/svg+xml;base64,' in page
    assert client.post("/accounts/2fa/totp/activate/", {"code": "000000"}).status_code == 200
    answer = client.post("/accounts/2fa/totp/activate/", {"code": code_of(secret[1])})
    assert answer["Location"] == "/accounts/2fa/recovery-codes/"
    return secret[1]


def noted(action: str) -> int:
    return AuditEntry.objects.filter(action=action).count()


def command(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


# The first account


def owner_link() -> str:
    return command("owner-link").split()[-1].removeprefix("http://127.0.0.1:8000")


def test_a_link_makes_the_first_operator_once(client: Client, db: None) -> None:
    link, another = owner_link(), owner_link()
    assert link.split("/")[-2] not in str(list(OwnerLink.objects.values()))
    form = {"username": "ada", "email": "Ada@example.org", "password1": PASSWORD, "password2": PASSWORD}
    wrong = {"username": "a b", "password1": "12345678", "password2": "other"}
    page = html_of(client.post(link, wrong))
    for why in ("valid username", "at least 10 characters", "entirely numeric"):
        assert why in page, why
    assert client.get(link.replace("first/", "first/x")).status_code == 410
    assert client.post(link, form)["Location"] == "/"
    ada = User.objects.get()
    assert ada.is_superuser and ada.password.startswith("argon2$") and is_in(client)
    assert EmailAddress.objects.get().email == "ada@example.org"
    entries = AuditEntry.objects.order_by("pk")
    assert [one.action for one in entries] == ["account.owner-link", "account.owner-link", "account.add"]
    assert PASSWORD not in str(entries.values()) and link.split("/")[-2] not in str(entries.values())
    for spent in (link, another):
        answer = Client().post(spent, form | {"username": "eve"})
        assert answer.status_code == 410 and "has an operator already" in html_of(answer)
    with pytest.raises(CommandError, match="an operator already"):
        owner_link()
    assert command("owner-link", "--if-needed") == ""


@pytest.mark.django_db(transaction=True)
def test_of_two_who_open_links_at_once_one_wins() -> None:
    codes = [firstowner.make_link().split("/")[-2] for _ in range(4)]
    begin, outcomes = threading.Barrier(len(codes)), []

    def use(code: str) -> None:
        begin.wait()
        try:
            outcomes.append(firstowner.use(code, f"user-{code[:5]}", PASSWORD).username)
        except firstowner.NoLonger as e:
            outcomes.append(str(e)[:32])
        connection.close()

    threads = [threading.Thread(target=use, args=[code]) for code in codes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert User.objects.count() == 1 and len(set(outcomes)) == 2, outcomes
    assert not OwnerLink.objects.exists()


def test_old_links_of_the_first_account_are_few_and_guesses_are_limited(client: Client, db: None) -> None:
    for _ in range(firstowner.MOST_LINKS + 2):
        firstowner.make_link()
    assert OwnerLink.objects.count() == firstowner.MOST_LINKS
    answers = [client.post(f"/accounts/first/guess-{n}/").status_code for n in range(21)]
    assert answers == [410] * 20 + [429]


# Signing up


def sign_up(client: Client, name: str = "bob", email: str = "bob@example.org", **more: str) -> Any:
    form = {"username": name, "email": email, "password1": PASSWORD, "password2": PASSWORD, **more}
    return client.post("/accounts/signup/", form)


def invited(client: Client) -> str:
    """Open an invitation: its address."""
    project = Project.objects.create(slug="kvd", name="kvd", url="/srv/kvd", default_branch="main", suite="tiny")
    address = f"/invite/{invitations.make(project, Role.TRIAGER, None)[1]}/"
    assert client.get(address).status_code == 200
    return address


def test_accounts_are_made_by_invitation_only(client: Client, db: None, settings: Any) -> None:
    for kind in ("invited", "closed"):
        settings.SIGNUP = kind
        assert "by invitation" in html_of(sign_up(client)) and not User.objects.exists()
    assert "Make one" not in html_of(client.get("/login/"))
    settings.SIGNUP = "invited"
    address = invited(client)
    assert "Make an account" in html_of(client.get(address))
    assert "Make one" in html_of(client.get("/login/"))
    assert "too common" in html_of(sign_up(client, password1="password123", password2="password123"))
    assert sign_up(client, email="")["Location"] == address
    bob = User.objects.get()
    assert not bob.is_superuser and is_in(client) and noted("account.add") == 1
    assert client.post(address)["Location"] == "/p/kvd/" and signup.INVITATION not in client.session
    assert access.role_of(access.person(bob), Project.objects.get()) == Role.TRIAGER
    other = Client()
    other.get(address)
    assert "by invitation" in html_of(other.get("/accounts/signup/")), "it admitted one person"


def test_who_gives_an_address_proves_it_before_the_first_login(
    client: Client, db: None, settings: Any, mailbox: Mailbox
) -> None:
    settings.SIGNUP, settings.ACCOUNT_EMAIL_VERIFICATION = "open", "mandatory"
    assert sign_up(client)["Location"] == "/accounts/confirm-email/"
    link = link_in(mailed(mailbox), settings)
    assert not is_in(client)
    assert log_in(client, "bob")["Location"] == "/accounts/confirm-email/" and not is_in(client)
    assert "address of bob" in html_of(client.get(link))
    assert not EmailAddress.objects.filter(verified=True).exists(), "programs that check mails follow links"
    assert client.post(link)["Location"] == "/login/"
    assert log_in(client, "BOB@example.org")["Location"] == "/" and is_in(client)
    assert "expired" in html_of(Client().get(link.rstrip("/") + "x/"))
    # Somebody else who tries this address is told nothing; its owner is.
    stranger = Client()
    cache.clear()  # an address gets such mails every three minutes
    assert sign_up(stranger, "eve")["Location"] == "/accounts/confirm-email/"
    assert "There is one already" in mailed(mailbox, 2).get_content()
    assert [user.username for user in User.objects.all()] == ["bob"]
    assert [sign_up(stranger, f"eve{n}", f"e{n}@example.org").status_code for n in range(10)][-1] == 429


# Passwords and addresses


def test_a_lost_password_is_replaced_by_mail(ada: User, settings: Any, mailbox: Mailbox) -> None:
    here, elsewhere = Client(), Client()
    log_in(elsewhere)
    pages = [here.post("/accounts/password/reset/", {"email": f"{who}@example.org"}) for who in ("ada", "nobody")]
    assert pages[0].headers["Location"] == pages[1].headers["Location"]
    message = mailed(mailbox)
    link = link_in(message, settings)
    assert message["To"] == "ada@example.org" and message["Subject"] == "SpeedTrack: a new password"
    form_page = here.get(link)["Location"]
    assert link.split("/")[-2] not in form_page, "the page with the form has no secret in its address"
    form = {"password1": OTHER, "password2": OTHER}
    assert "too short" in html_of(here.post(form_page, {"password1": "kurz", "password2": "kurz"}))
    assert here.post(form_page, form)["Location"] == "/accounts/password/changed/"
    assert not is_in(elsewhere), "whoever knew the old one is out"
    assert "expired" in html_of(Client().get(link))
    assert log_in(here, password=PASSWORD).status_code == 200 and log_in(here, password=OTHER).status_code == 302
    assert noted("account.password-reset") == 1
    assert "by a link in a mail" in mailed(mailbox, 2).get_content()
    assert all(message["To"] == "ada@example.org" for message in mailbox.messages), "strangers get no mail"


def test_a_mail_server_that_is_away_delays_no_page_and_the_log_has_no_link(
    ada: User, client: Client, settings: Any, caplog: Any
) -> None:
    settings.EMAIL_BACKEND, settings.EMAIL_PORT = "speedtrack.notices.smtp.SmtpBackend", 1
    assert client.post("/accounts/password/reset/", {"email": ada.email}).status_code == 302
    deadline = time.monotonic() + PATIENCE_S
    while "was not sent" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "/accounts/password/reset/" not in caplog.text


def test_passwords_and_addresses_are_changed_by_those_who_know_the_password(
    ada: User, client: Client, settings: Any, mailbox: Mailbox
) -> None:
    Subscriber.objects.create(email=ada.email, user=ada)
    Subscriber.objects.create(email="ada@example.com")
    elsewhere = Client()
    log_in(client), log_in(elsewhere)
    form = {"oldpassword": PASSWORD, "password1": OTHER, "password2": OTHER}
    assert client.post("/accounts/password/change/", form | {"oldpassword": "x"}).status_code == 200
    assert client.post("/accounts/password/change/", form)["Location"] == "/accounts/"
    assert is_in(client) and not is_in(elsewhere) and len(sessions.of(ada)) == 1
    assert "Your password was changed" in mailed(mailbox).get_content()
    change = {"email": "ada@example.com", "action_add": "yes"}
    answer = client.post("/accounts/email/", change)
    assert answer["Location"].startswith("/accounts/reauthenticate/")
    client.post(answer["Location"], {"password": OTHER})
    link = link_in(mailed(mailbox, 2), settings)
    assert User.objects.get().email == "ada@example.org"
    client.post(link)
    assert User.objects.get().email == Subscriber.objects.get().email == "ada@example.com"
    assert "from ada@example.org to ada@example.com" in mailed(mailbox, 3).get_content()
    assert mailbox.messages[-1]["To"] == "ada@example.org", "who loses the address is told"
    assert AuditEntry.objects.get(action="account.email").changes == {"email": ["ada@example.org", "ada@example.com"]}


def test_what_can_be_tried_often_is_limited_for_all_processes(ada: User, client: Client) -> None:
    answers = [client.post("/accounts/password/reset/", {"email": f"a{n}@example.org"}) for n in range(21)]
    assert [answer.status_code for answer in answers] == [302] * 20 + [429]
    assert "too many" in html_of(answers[-1]).lower() and answers[-1]["Retry-After"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM limits_of_logins")
        assert cursor.fetchone()[0] > 0
    other = client.post("/accounts/password/reset/", {"email": ada.email}, REMOTE_ADDR="192.0.2.9")
    assert other.status_code == 302


def test_spellings_of_a_name_are_one_name_for_the_limit(ada: User, client: Client) -> None:
    names = ["ada", "Ada", "ADA", " ada ", "aDa"]
    assert [log_in(client, name, "wrong").status_code for name in names][-1] == 429
    cache.clear()
    assert log_in(client, "ada").status_code == 429


def test_names_of_an_account_are_one_name_for_the_limit(ada: User, client: Client) -> None:
    """Its user name, its mail addresses, confirmed or not, and what is said again for a sensitive page."""
    EmailAddress.objects.create(user=ada, email="countess@example.com")
    log_in(client)
    names = ["ada@example.org", "ADA", "Countess@Example.com", "ada"]
    assert {log_in(Client(), name, "wrong").status_code for name in names} == {200}
    answer = client.post("/accounts/reauthenticate/", {"password": "wrong"})
    assert (answer.status_code, AccessAttempt.objects.get().username) == (429, "ada")
    for name in names:
        assert log_in(Client(), name).status_code == 429
    people.add("bob", "bob@example.org", PASSWORD)
    assert log_in(Client(), "bob@example.org").status_code == 302


def test_names_that_nobody_has_are_limited_as_those_of_accounts(ada: User) -> None:
    def statuses(names: list[str]) -> list[tuple[int, bytes]]:
        answers = [log_in(Client(), name, "wrong") for name in names]
        return [(one.status_code, re.sub(rb'value="[^"]*"|in \d+ min( \d+ s)?', b"", one.content)) for one in answers]

    known = statuses(["ada@example.org"] * 4 + ["ADA@EXAMPLE.ORG"])
    unknown = statuses(["eve@example.org"] * 4 + ["EVE@EXAMPLE.ORG"])
    assert known == unknown and known[-1][0] == 429


# The second step


def test_a_second_step_from_set_up_to_a_lost_phone(
    ada: User, client: Client, django_capture_on_commit_callbacks: Any
) -> None:
    log_in(client)
    with django_capture_on_commit_callbacks(execute=True):
        secret = set_up_second_step(client)
    codes = re.findall(r"\b\d{8}\b", html_of(client.get("/accounts/2fa/recovery-codes/")))
    assert len(codes) == 10 and client.get("/accounts/2fa/recovery-codes/download/").content.decode().split() == codes
    assert secret not in str(list(Authenticator.objects.values())), "it is encrypted at rest"
    assert "set up <time" in html_of(client.get("/accounts/2fa/"))
    client.post("/logout/")

    assert log_in(client)["Location"] == "/accounts/2fa/authenticate/" and not is_in(client)
    code = code_of(secret)
    assert client.post("/accounts/2fa/authenticate/", {"code": code})["Location"] == "/" and is_in(client)
    client.post("/logout/")

    log_in(client)
    assert "was used already" in html_of(client.post("/accounts/2fa/authenticate/", {"code": code}))
    assert client.post("/accounts/2fa/authenticate/", {"code": codes[0]}).status_code == 302 and is_in(client)
    client.post("/logout/")
    log_in(client)
    assert client.post("/accounts/2fa/authenticate/", {"code": codes[0]}).status_code == 200, "each is valid once"
    wrong = [client.post("/accounts/2fa/authenticate/", {"code": "123456"}) for _ in range(6)]
    assert "too many attempts" in html_of(wrong[-1])
    assert "too many attempts" in html_of(client.post("/accounts/2fa/authenticate/", {"code": codes[1]}))
    assert command("user", "drop-second-step", "ada").startswith("account ada logs in by its password alone")
    assert log_in(client)["Location"] == "/" and noted("account.second-step-off") == 1
    assert noted("account.second-step-on") == 2  # the app and the recovery codes


def test_a_new_key_encrypts_the_secrets_of_apps_too(ada: User, client: Client, settings: Any) -> None:
    log_in(client)
    secret = set_up_second_step(client)
    settings.SPEEDTRACK_ENCRYPTION_KEYS = ["k" * 40, settings.SECRET_KEY]
    assert "2 secrets are encrypted" in command("reseal")
    settings.SPEEDTRACK_ENCRYPTION_KEYS = ["k" * 40]
    settings.SECRET_KEY = "another" * 9
    log_in(client)
    assert client.post("/accounts/2fa/authenticate/", {"code": code_of(secret, 1)}).status_code == 302


def test_an_installation_can_ask_operators_for_a_second_step(ada: User, client: Client, settings: Any) -> None:
    settings.REQUIRE_MFA = "operators"
    log_in(client)
    assert client.get("/queue/").status_code == 200
    User.objects.update(is_superuser=True)
    for address in ("/queue/", "/accounts/tokens/"):
        assert client.get(address)["Location"] == "/accounts/2fa/totp/activate/"
    assert client.get("/api/v1/projects").status_code == 403
    set_up_second_step(client)
    assert client.get("/queue/").status_code == 200
    answer = client.post("/accounts/2fa/totp/deactivate/")
    assert "cannot be turned off" in html_of(answer) and second_step.is_set_up(ada)
    User.objects.update(is_superuser=False)
    assert client.post("/accounts/2fa/totp/deactivate/").status_code == 302 and not second_step.is_set_up(ada)


# Sessions and tokens


def test_sessions_are_listed_and_ended(ada: User, client: Client) -> None:
    phone, third = Client(), Client()
    log_in(client, headers={"user-agent": FIREFOX}), log_in(phone, REMOTE_ADDR="192.0.2.4"), log_in(third)
    page = html_of(client.get("/accounts/sessions/"))
    assert page.count("Log it out") == 2 and "Firefox on Linux" in page and "192.0.2.4" in page and "this one" in page
    found = UserSession.objects.get(ip="192.0.2.4")
    assert client.post(f"/accounts/sessions/{found.pk}/end").status_code == 302
    assert not is_in(phone) and is_in(third)
    assert client.post(f"/accounts/sessions/{found.pk}/end").status_code == 404
    eve = Client()
    eve.force_login(User.objects.create_user("eve"))
    mine = UserSession.objects.get(session_key=client.session.session_key)
    assert eve.post(f"/accounts/sessions/{mine.pk}/end").status_code == 404 and is_in(client)
    client.post("/accounts/sessions/end-others")
    assert not is_in(third) and is_in(client) and is_in(eve) and noted("session.end") == 2


def by_first_link() -> Client:
    form = {"username": "ada", "password1": PASSWORD, "password2": PASSWORD}
    client = Client()
    client.post(owner_link(), form)
    return client


def by_signing_up() -> Client:
    client = Client()
    sign_up(client, "ada", "")
    return client


def by_password() -> Client:
    people.add("ada", "", PASSWORD)
    client = Client()
    log_in(client)
    return client


def by_second_step() -> Client:
    first, client = by_password(), Client()
    secret = set_up_second_step(first)
    log_in(client)
    client.post("/accounts/2fa/authenticate/", {"code": code_of(secret, 1)})
    return client


def by_saying_the_password_again() -> Client:
    client = by_password()
    confirm(client)
    return client


def by_changing_the_password() -> Client:
    """The session's key changes with it."""
    client = by_password()
    form = {"oldpassword": PASSWORD, "password1": OTHER, "password2": OTHER}
    client.post("/accounts/password/change/", form)
    return client


def by_djangos_own_login() -> Client:
    client = Client()
    client.force_login(people.add("ada", "", PASSWORD))
    return client


def by_another_account_before() -> Client:
    """Django makes a new session, whose key is given with the answer only."""
    client = Client()
    client.force_login(people.add("bob", "", PASSWORD))
    people.add("ada", "", PASSWORD)
    client.force_login(User.objects.get(username="ada"))
    return client


DOORS = (
    *(by_first_link, by_signing_up, by_password, by_second_step, by_saying_the_password_again),
    *(by_changing_the_password, by_djangos_own_login, by_another_account_before),
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_session_is_listed_and_ended_whatever_it_began_with(db: None, settings: Any, door: Any) -> None:
    settings.SIGNUP = "open"
    client, other = door(), Client()
    ada = User.objects.get(username="ada")
    assert client.session.session_key in [one.session_key for one in sessions.of(ada)]
    other.force_login(ada)
    assert is_in(client) and is_in(other)
    other.post("/accounts/sessions/end-others")
    assert not is_in(client) and is_in(other)
    assert [one.session_key for one in sessions.of(ada)] == [other.session.session_key]


def test_a_session_without_a_row_is_ended_too_and_listed_once_it_is_used(ada: User, client: Client) -> None:
    """As an older version began that of the first operator."""
    old, unused = Client(), Client()
    for one in (client, old, unused):
        log_in(one)
    UserSession.objects.exclude(session_key=client.session.session_key).delete()
    for one in (old, unused):
        session = one.session
        del session[sessions.LISTED]
        session.save()
    old.get("/accounts/")
    assert len(sessions.of(ada)) == 2
    client.post("/accounts/sessions/end-others")
    assert is_in(client) and not is_in(old) and not is_in(unused)


def test_it_is_noted_every_few_minutes_when_a_session_is_used(ada: User, client: Client) -> None:
    log_in(client)
    before = UserSession.objects.get().last_seen_at
    client.get("/queue/")
    assert UserSession.objects.get().last_seen_at == before
    session = client.session
    session[sessions.LAST_NOTED] -= sessions.SEEN_EVERY.total_seconds() + 1
    session[sessions.LAST_NOTED] = int(session[sessions.LAST_NOTED])
    session.save()
    client.get("/queue/", REMOTE_ADDR="192.0.2.8")
    found = UserSession.objects.get()
    assert found.last_seen_at > before and found.ip == "192.0.2.8"


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit Chrome/130 Safari/537 Edg/130", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18) AppleWebKit Version/18 Safari/604", "Safari on iPhone"),
        ("", "An unknown browser"),
        ("x" * 500, "x" * 40),
    ],
)
def test_browsers_have_names(agent: str, shown: str) -> None:
    assert words(agent) == shown


def test_a_token_is_made_shown_once_used_and_revoked(ada: User, client: Client, kvd: World) -> None:
    Project.objects.create(slug="hidden", name="Hidden", url="https://example.org/h.git", suite="tiny", is_public=False)
    log_in(client)
    form = {"name": "nightly", "scopes": ["read", "results"], "project": "kvd", "days": "90"}
    answer = client.post("/accounts/tokens/", form)
    assert answer["Location"].startswith("/accounts/reauthenticate/") and not PersonToken.objects.exists()
    made = client.post(answer["Location"], {"password": PASSWORD})
    text = re.search(r"stpt_\w{12}_\w+_\w{6}", html_of(made))
    assert text, "what was entered before the password was asked for is not lost"
    caller = tokens.find(text[0], "192.0.2.1")
    assert (caller.user, caller.scopes) == (ada, {"read", "results"}) and caller.project_id == kvd.project.pk
    page = html_of(client.get("/accounts/tokens/"))
    assert text[0] not in page and "from 192.0.2.1" in page and "hidden" not in page.lower().replace('"hidden"', "")
    for change in ({"days": "0"}, {"days": "9999"}, {"scopes": "all"}, {"name": ""}, {"project": "hidden"}):
        assert 'role="alert"' in html_of(client.post("/accounts/tokens/", form | change)), change
    token = PersonToken.objects.get()
    assert client.post(f"/accounts/tokens/{token.pk}/revoke").status_code == 302
    with pytest.raises(tokens.UnknownToken):
        tokens.find(text[0], None)
    assert client.post(f"/accounts/tokens/{token.pk}/revoke").status_code == 404
    old, _ = tokens.issue(ada, "old", [Scope.READ], 1)
    PersonToken.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(days=1))
    page = html_of(client.get("/accounts/tokens/"))
    assert "expired" in page and "revoked" in page
    assert [noted("token.add"), noted("token.revoke")] == [1, 1]
    assert text[0].split("_")[2] not in str(list(AuditEntry.objects.values()))


def test_there_is_an_end_to_tokens(ada: User, client: Client) -> None:
    for _ in range(tokens.MOST):
        tokens.issue(ada, "one of many", [Scope.READ], 1)
    log_in(client)
    confirm(client)
    form = {"name": "one more", "scopes": ["read"], "days": "90"}
    assert "valid tokens already" in html_of(client.post("/accounts/tokens/", form))


# The end of an account


def test_who_leaves_is_forgotten_but_not_what_they_did(ada: User, client: Client, kvd: World) -> None:
    note = Annotation.objects.create(project=kvd.project, commit=kvd.commit(1), text="a new compiler", author=ada)
    AuditEntry.objects.create(user=ada, name="ada", door="page", action="alert.decide", target="alert 1")
    _, text = tokens.issue(ada, "mine", [Scope.READ], 90)
    command("address", "ada", "ada@new.example.net")
    leave_traces(ada, kvd)
    Membership.objects.create(project=kvd.project, user=ada, role=Role.OWNER)
    Project.objects.update(is_public=False)
    elsewhere = Client()
    log_in(client), log_in(elsewhere)
    set_up_second_step(client)
    page = client.post("/accounts/delete/", {"name": "ada"})
    assert "hand over first" in html_of(page) and User.objects.get(pk=ada.pk).is_active
    bob = User.objects.create_user("bob")
    Membership.objects.create(project=kvd.project, user=bob, role=Role.OWNER)
    assert "type ada, exactly" in html_of(client.post("/accounts/delete/", {"name": "Ada"}))
    assert client.post("/accounts/delete/", {"name": "ada"})["Location"] == "/"
    assert rows_with(r"\mada(@|\M)|192\.0\.2\.77") == []
    assert Subscriber.objects.get().email == "bob@example.org", "an address that was not proven is somebody else's"
    assert not is_in(client) and not is_in(elsewhere) and log_in(client).status_code == 200
    with pytest.raises(tokens.UnknownToken):
        tokens.find(text, None)
    former, note = User.objects.get(pk=ada.pk), Annotation.objects.get(pk=note.pk)
    assert note.author == former and former.username == f"former user {ada.pk}"
    for model in User._meta.related_objects:
        assert not model.related_model._base_manager.filter(**{model.field.name: former}).exists(), model
    with pytest.raises(CommandError, match="gone for ever"):
        command("user", "activate", former.username)


def leave_traces(ada: User, kvd: World) -> None:
    """In tables that point to nobody, and in texts."""
    Subscriber.objects.create(email="ada@new.example.net", user=ada)
    Subscriber.objects.create(email="Ada@example.org")
    Subscriber.objects.create(email="bob@example.org")
    EmailAddress.objects.create(user=ada, email="bob@example.org", verified=False)
    EmailAddress.objects.create(user=ada, email="ada@example.org", verified=True)
    AccessAttempt.objects.create(username="Ada@example.org", ip_address="192.0.2.77", failures_since_start=1)
    alarm = Alarm.objects.create(machine=kvd.machines[0], kind=Alarm.Kind.UNABLE)
    Outbox.objects.create(recipient="ada@new.example.net", alarm=alarm, event="begin")
    Import.objects.create(project=kvd.project, door="api", by=ada, name="ada")
    quarantine.record_event(kvd.machines[0], MachineEvent.Kind.ENROLLED, "by a code of ada", ada)
    caller = access.Caller(ada)
    audit.note(caller, "account.email", ada, changes={"email": ("ada@example.org", "ada@new.example.net")})
    audit.note(caller, "session.end", "Firefox at 192.0.2.77")
    audit.note(None, "member.add", ada, kvd.project, {"role": (None, "owner")})


def rows_with(pattern: str) -> list[str]:
    """Rows of any table but that of commits, whose authors are git's."""
    found: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            if table != "projects_commit":
                cursor.execute(f'SELECT t::text FROM "{table}" t WHERE t::text ~* %s', [pattern])
                found += [f"{table}: {row}" for (row,) in cursor.fetchall()]
    return found


def test_the_address_that_an_operator_gives_is_that_of_the_account(ada: User, client: Client) -> None:
    """For logging in and lost passwords, too; the former one opens nothing any more."""
    people.add("bob", "bob@example.org", PASSWORD)
    with pytest.raises(CommandError, match="belongs to another account"):
        command("address", "ada", "Bob@example.org")
    command("address", "ada", "Ada@new.example.net")
    assert log_in(client, name="ada@example.org").status_code == 200
    assert log_in(client, name="ada@new.example.net").status_code == 302
    (address,) = EmailAddress.objects.filter(user=ada)
    assert (address.email, address.primary, address.verified) == ("ada@new.example.net", True, True)


def test_an_operator_adds_lets_out_and_makes_others_operators(ada: User, client: Client) -> None:
    assert "“Password lost?”" in command("user", "add", "bob", "--email", "bob@example.org", "--operator")
    _, text = tokens.issue(ada, "mine", [Scope.READ], 90)
    log_in(client)
    assert is_in(client)
    command("user", "deactivate", "ada")
    assert not is_in(client) and not UserSession.objects.exists()
    assert log_in(client)["Location"] == "/accounts/inactive/"
    command("user", "activate", "ada")
    assert log_in(client)["Location"] == "/"
    with pytest.raises(tokens.UnknownToken):
        tokens.find(text, None)
    for refused in (["deactivate", "bob"], ["remove", "bob"], ["operator", "bob", "--revoke"]):
        with pytest.raises(CommandError, match="bob is the only operator"):
            command("user", *refused)
    command("user", "operator", "ada")
    assert "former user" in command("user", "remove", "bob")
    for refused, why in (
        (["add", "ADA"], "there is an account"),
        (["add", "a b"], "valid username"),
        (["add", "cyd", "--email", "x"], "valid email"),
        (["add", "cyd", "--email", "ADA@example.org"], "another account has"),
        (["operator", "nobody"], "no account 'nobody'"),
        (["remove"], "name the account"),
    ):
        with pytest.raises(CommandError, match=why):
            command("user", *refused)
    listed = command("user", "list")
    assert re.search(r"^ada +operator +0 tokens  last login \d{4}-", listed, re.M)
    for action in ("add", "deactivate", "activate", "operator", "remove"):
        assert AuditEntry.objects.filter(door="command", action=f"account.{action}").exists(), action


def test_an_operator_that_djangos_command_makes_is_one_like_others(ada: User, client: Client) -> None:
    """Known by the address, too, and in the audit log, as is the link for the first one."""
    assert owner_link() and AuditEntry.objects.filter(door="command", action="account.owner-link").exists()
    with pytest.raises(CommandError, match="another account has"):
        command("createsuperuser", "--noinput", "--username", "bob", "--email", "ADA@example.org")
    command("createsuperuser", "--noinput", "--username", "bob", "--email", "bob@example.org")
    bob = User.objects.get(username="bob")
    assert EmailAddress.objects.get(user=bob).verified and bob.is_superuser
    entry = AuditEntry.objects.get(action="account.add", target="bob")
    assert (entry.door, entry.changes) == ("command", {"operator": [None, True]})


def test_a_password_that_an_operator_changes_is_in_the_audit_log_and_ends_sessions(
    client: Client, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(client)
    typed = iter(["short", "short"] * 3)
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    with pytest.raises(CommandError, match="after 3 attempts"):
        command("changepassword", "ada")
    assert not AuditEntry.objects.filter(action="account.password").exists()
    typed = iter(["another long password"] * 2)
    assert "changed successfully" in command("changepassword", "ada")
    entry = AuditEntry.objects.get(action="account.password")
    assert (entry.door, entry.target, entry.changes) == ("command", "ada", {})
    assert not sessions.of(ada)


def test_older_passwords_are_hashed_anew_by_a_login(client: Client, ada: User) -> None:
    from django.contrib.auth.hashers import make_password

    User.objects.update(password=make_password(PASSWORD, hasher="pbkdf2_sha256"))
    assert log_in(client).status_code == 302
    assert User.objects.get().password.startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")


def test_no_answer_says_who_has_an_account(ada: User, client: Client) -> None:
    pages = [re.sub(r'value="[^"]*"', "", html_of(log_in(client, name, "wrong"))) for name in ("ada", "nobody")]
    assert pages[0] == pages[1]
