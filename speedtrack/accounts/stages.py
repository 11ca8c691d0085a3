"""The steps between a right password and a session."""

from typing import Any

from allauth.account.app_settings import AppSettings
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage


class FirstLogin(EmailVerificationStage):
    """Who gave a mail address when signing up proves it before the first login; later ones need no mail server."""

    def handle(self) -> Any:
        user = self.login.user
        if user is not None and (user.last_login or not EmailAddress.objects.filter(user=user).exists()):
            return None, True
        self.login.email_verification = AppSettings.EmailVerificationMethod.MANDATORY
        return super().handle()
