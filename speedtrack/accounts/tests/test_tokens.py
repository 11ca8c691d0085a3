"""Tokens of people: only their digests are stored, and one that is not valid is refused with the remedy."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from speedtrack.accounts import tokens
from speedtrack.accounts.models import PersonToken, Scope
from speedtrack.accounts.tokens import TooManyTokens, UnknownToken

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada")


def test_a_token_is_its_persons_within_its_scopes_and_its_text_is_not_stored(ada: User) -> None:
    token, text = tokens.issue(ada, "ci", [Scope.RUNS, Scope.READ, Scope.RUNS], days=None)
    caller = tokens.find(text, "192.0.2.1")
    assert (caller.user, caller.scopes, caller.project_id, caller.token_id) == (ada, {"read", "runs"}, None, token.pk)
    assert text not in str(PersonToken.objects.values().get())


def test_its_use_is_noted_once_a_minute(ada: User) -> None:
    _, text = tokens.issue(ada, "ci", [Scope.READ], days=1)
    for address in ("192.0.2.1", "192.0.2.2"):
        tokens.find(text, address)
    assert PersonToken.objects.get().last_used_from == "192.0.2.1"
    PersonToken.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    tokens.find(text, "192.0.2.2")
    assert PersonToken.objects.get().last_used_from == "192.0.2.2"


INVALID: dict[str, Any] = {
    "revoked": lambda ada, token: tokens.revoke(ada, token.pk),
    "expired": lambda ada, token: PersonToken.objects.update(expires_at=timezone.now()),
    "its person may not log in": lambda ada, token: User.objects.update(is_active=False),
    "another text of the same key": lambda ada, token: PersonToken.objects.update(digest="0" * 64),
}


@pytest.mark.parametrize("reason", INVALID)
def test_what_is_not_valid_is_refused_alike(ada: User, reason: str) -> None:
    token, text = tokens.issue(ada, "ci", [Scope.READ], days=1)
    INVALID[reason](ada, token)
    with pytest.raises(UnknownToken, match="make another in your settings"):
        tokens.find(text, "192.0.2.1")
    assert PersonToken.objects.get().last_used_at is None


def test_a_part_of_a_token_is_named_as_one(ada: User) -> None:
    _, text = tokens.issue(ada, "ci", [Scope.READ], days=1)
    for part in (text[:-1], text[1:], "", text + text):
        with pytest.raises(UnknownToken, match="copy it again"):
            tokens.find(part, None)


def test_nobody_revokes_a_token_of_somebody_else_or_one_twice(ada: User) -> None:
    token, _ = tokens.issue(ada, "ci", [Scope.READ], days=1)
    assert tokens.revoke(User.objects.create_user("eve"), token.pk) is None
    assert tokens.revoke(ada, token.pk) == token and tokens.revoke(ada, token.pk) is None


def test_only_valid_tokens_count_towards_the_most(ada: User) -> None:
    made = [tokens.issue(ada, f"{n}", [Scope.READ], days=1)[0] for n in range(tokens.MOST)]
    with pytest.raises(TooManyTokens):
        tokens.issue(ada, "one more", [Scope.READ], days=1)
    for token in made[:50]:
        tokens.revoke(ada, token.pk)
    newest, _ = tokens.issue(ada, "one more", [Scope.READ], days=1)
    shown = tokens.of(ada)
    assert shown[0] == newest and len(shown) == 51 + tokens.ENDED_SHOWN
