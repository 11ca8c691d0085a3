"""This installation's rules for django-allauth: who may log in, the target of links, and the sending of mails."""

import logging
from typing import Any

import requests
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context as current
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, _build_apps_from_settings
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.github.views import GitHubOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import AbstractUser, User
from django.http import HttpRequest
from django.shortcuts import render
from django.urls import reverse

from speedtrack.accounts.logins import mailing, outgoing, second_step, sessions, signup
from speedtrack.ground.secrets.sealed import Secret

MISMATCH = "User name and password do not match."

log = logging.getLogger(__name__)


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": MISMATCH,
        "email_password_mismatch": MISMATCH,
        "incorrect_password": "This is not your password.",
        "incorrect_code": "This code is wrong, or was used already: wait for the next one.",
        "too_many_login_attempts": "There were too many attempts. Try again in five minutes.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return signup.is_open(request)

    def get_client_ip(self, request: HttpRequest) -> str:
        return sessions.address_of(request)

    def get_login_stages(self) -> list[str]:
        return ["speedtrack.accounts.logins.stages.FirstLogin", "allauth.mfa.stages.AuthenticateStage"]

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Do nothing: django-axes counts wrong passwords, for each pair of user name and address."""

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        code = signup.invitation(request)
        return f"/invite/{code}/" if code else str(super().get_login_redirect_url(request))

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        return self.get_login_redirect_url(request)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account")

    def get_reset_password_from_key_url(self, key: str) -> str:
        uid, _, reset_key = key.partition("-")
        return settings.URL + reverse("account_reset_password_from_key", kwargs={"uidb36": uid, "key": reset_key})

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return settings.URL + reverse("account_confirm_email", args=[emailconfirmation.key])

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send a mail whose links begin with SPEEDTRACK_URL, whatever host the request named."""
        links = {"site": settings.URL, "password_reset_url": settings.URL + reverse("account_reset_password")}
        mailing.post(self.render_mail(template_prefix, email, links | {"request": current.request} | context))


class SocialAdapter(DefaultSocialAccountAdapter):
    def list_apps(self, request: Any, provider: Any = None, client_id: Any = None) -> list[Any]:
        """Return the apps of the settings only.

        Apps in the database are ignored: a row must not send people or secrets to another server.
        """
        apps_by_provider = _build_apps_from_settings(provider=provider, client_id=client_id)
        return [app for apps in apps_by_provider.values() for app in apps]

    def get_requests_session(self) -> requests.Session:
        """Return a session for all calls of a login. It calls only servers of the settings at private addresses."""
        issuers = [app.settings["server_url"] for app in self.list_apps(None) if "server_url" in app.settings]
        return outgoing.session_to([*issuers, GitHubOAuth2Adapter.access_token_url, GitHubOAuth2Adapter.api_url])

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        if settings.SIGNUP == "invited" and signup.is_restricted(sociallogin.account.provider):
            return True  # the restriction of the provider replaces an invitation
        return signup.is_open(request)

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse people whom the provider's restriction does not admit. Every login is checked, since people leave."""
        if why := self.why_refused(sociallogin):
            log.warning("a login by %s was refused: %s", sociallogin.account.provider, why)
            raise ImmediateHttpResponse(render(request, "socialaccount/refused.html", {"why": why}, status=403))

    def why_refused(self, sociallogin: SocialLogin) -> str:
        if sociallogin.account.provider == "github":
            organisation = settings.GITHUB_ORGANISATION
            if organisation and not self.is_member(sociallogin.token.token, organisation):
                return f"only members of {organisation} at GitHub may log in by it"
            return ""
        domains = settings.OIDC_EMAIL_DOMAINS
        proven = [address.email.lower() for address in sociallogin.email_addresses if address.verified is True]
        if domains and not any(address.rpartition("@")[2] in domains for address in proven):
            return f"only people with a confirmed address of {' or '.join(domains)} may log in by {settings.OIDC_NAME}"
        return ""

    def is_member(self, token: str, organisation: str) -> bool:
        """Return whether GitHub confirms the membership; False if GitHub does not answer."""
        headers = {"Authorization": f"token {token}", "Accept": "application/vnd.github+json"}
        address = f"{GitHubOAuth2Adapter.api_url}/user/memberships/orgs/{organisation}"
        try:
            with self.get_requests_session() as session:
                answer = session.get(address, headers=headers)
                return bool(answer.status_code == 200 and answer.json().get("state") == "active")
        except (requests.RequestException, ValueError) as e:
            log.warning("GitHub does not say who is a member of %s: %s", organisation, e)
            return False

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        log.warning("a login by %s failed: %s %s", provider, error, exception or "")


class SecondStepAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "cannot_delete_authenticator": "This installation asks you for a second step: it cannot be turned off.",
        "incorrect_code": AccountAdapter.error_messages["incorrect_code"],
    }

    def encrypt(self, text: str) -> str:
        return Secret.of(text).token

    def decrypt(self, encrypted_text: str) -> str:
        return Secret(encrypted_text).reveal()

    def get_totp_label(self, user: AbstractUser) -> str:
        return user.get_username()

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        user = User.objects.get(pk=authenticator.user_id)
        return not (authenticator.type == Authenticator.Type.TOTP and second_step.is_required(user))
