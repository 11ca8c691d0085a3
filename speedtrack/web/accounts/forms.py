"""django-allauth's forms, with the words of our pages."""

from typing import Any

from allauth.account import forms as account
from allauth.mfa.base import forms as steps
from allauth.mfa.totp import forms as totp
from allauth.socialaccount import forms as providers

LABELS = {
    "username": "User name",
    "email": "Mail address",
    "oldpassword": "Your password now",
    "password": "Password",
    "password1": "New password",
    "password2": "The same again",
    "code": "Code",
}
PASSWORD_HELP = "At least 10 characters; not one that many have, not your name, not only digits."  # noqa: S105


class InOurWords:
    """Labels beside the fields instead of hints within them, and rules of passwords in a line."""

    fields: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.label = LABELS.get(name, field.label)
            field.help_text = PASSWORD_HELP if name == "password1" else ""
            field.widget.attrs.pop("placeholder", None)
        if (email := self.fields.get("email")) and not email.required:
            email.help_text = "May be left out; then a lost password cannot be replaced by mail."


class AddEmail(InOurWords, account.AddEmailForm):
    pass


class ChangePassword(InOurWords, account.ChangePasswordForm):
    pass


class SetPassword(InOurWords, account.SetPasswordForm):
    pass


class ResetPassword(InOurWords, account.ResetPasswordForm):
    pass


class ResetPasswordKey(InOurWords, account.ResetPasswordKeyForm):
    pass


class Reauthenticate(InOurWords, account.ReauthenticateForm):
    pass


class Signup(InOurWords, account.SignupForm):
    pass


class ProviderSignup(InOurWords, providers.SignupForm):
    pass


class StepAuthenticate(InOurWords, steps.AuthenticateForm):
    pass


class StepReauthenticate(InOurWords, steps.ReauthenticateForm):
    pass


class StepActivate(InOurWords, totp.ActivateTOTPForm):
    pass
