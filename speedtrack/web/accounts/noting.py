"""Note in the audit log what django-allauth's views have changed, and use a new mail address for subscriptions.

List each session that begins. These views report changes by signals only, and Django each login, by whatever door, so
this is the one place of this code where signals are used.
"""

from typing import Any

from allauth.account import signals as account
from allauth.account.models import EmailAddress
from allauth.mfa import signals as second_step
from allauth.socialaccount import signals as provider
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from speedtrack.accounts import audit
from speedtrack.accounts.access import Caller
from speedtrack.accounts.logins import sessions
from speedtrack.notices import subscribing


def connect() -> None:
    """Connect the signals. Called once, when Django starts."""
    for signal, receiver in {
        user_logged_in: session_begun,
        account.user_signed_up: signed_up,
        account.password_changed: password_changed,
        account.password_set: password_changed,
        account.password_reset: password_reset,
        account.email_changed: email_changed,
        second_step.authenticator_added: step_added,
        second_step.authenticator_removed: step_removed,
        second_step.authenticator_reset: codes_renewed,
        provider.social_account_added: login_connected,
        provider.social_account_removed: login_disconnected,
    }.items():
        signal.connect(receiver, dispatch_uid=receiver.__name__)


def note(user: User, action: str, **changes: Any) -> None:
    audit.note(Caller(user), action, user, changes=changes)


def session_begun(user: User, request: HttpRequest, **kwargs: Any) -> None:
    sessions.begin(request, user)


def signed_up(user: User, **kwargs: Any) -> None:
    note(user, "account.add")


def password_changed(user: User, request: HttpRequest, **kwargs: Any) -> None:
    sessions.end_all(user, request.session.session_key)
    note(user, "account.password")


def password_reset(user: User, **kwargs: Any) -> None:
    sessions.end_all(user)
    note(user, "account.password-reset")


def email_changed(
    user: User, from_email_address: EmailAddress | None, to_email_address: EmailAddress, **_: Any
) -> None:
    before = from_email_address.email if from_email_address else None
    note(user, "account.email", email=(before, to_email_address.email))
    subscribing.follow(user, to_email_address.email)


def step_added(user: User, authenticator: Any, **kwargs: Any) -> None:
    note(user, "account.second-step-on", kind=(None, str(authenticator.type)))


def step_removed(user: User, authenticator: Any, **kwargs: Any) -> None:
    note(user, "account.second-step-off", kind=(str(authenticator.type), None))


def codes_renewed(user: User, **kwargs: Any) -> None:
    note(user, "account.recovery-codes")


def login_connected(sociallogin: Any, **kwargs: Any) -> None:
    note(sociallogin.user, "account.connect", login=(None, sociallogin.account.provider))


def login_disconnected(socialaccount: Any, **kwargs: Any) -> None:
    note(socialaccount.user, "account.disconnect", login=(socialaccount.provider, None))
