"""The steps between a right password and a session."""

from typing import Any

from allauth.account.app_settings import AppSettings
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage


class FirstLogin(EmailVerificationStage):
    """Lets nobody log in for the first time before the mail address that they gave when signing up is confirmed.

    Later logins send no mail.
    """

    def handle(self) -> Any:
        user = self.login.user
        if user is not None and (user.last_login or not EmailAddress.objects.filter(user=user).exists()):
            return None, True
        self.login.email_verification = AppSettings.EmailVerificationMethod.MANDATORY
        return super().handle()
