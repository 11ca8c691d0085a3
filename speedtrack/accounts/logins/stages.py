"""The steps between a correct password and a session."""

from typing import Any

from allauth.account.app_settings import AppSettings
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage


class FirstLogin(EmailVerificationStage):
    """Refuses the first login until the mail address of the sign-up is confirmed.

    Later logins send no mail.
    """

    def handle(self) -> Any:
        user = self.login.user
        if user is not None and (user.last_login or not EmailAddress.objects.filter(user=user).exists()):
            return None, True
        self.login.email_verification = AppSettings.EmailVerificationMethod.MANDATORY
        return super().handle()
