"""The page of the one-time link by which the first operator makes an account."""

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.core import ratelimit
from django import forms
from django.contrib import messages
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from speedtrack.accounts import audit
from speedtrack.accounts.access import person
from speedtrack.accounts.logins import firstowner
from speedtrack.web.requests import errors


class FirstOwnerForm(forms.Form):
    username = forms.CharField(label="User name", max_length=150)
    email = forms.EmailField(label="Mail address, for alerts and lost passwords", required=False)
    password1 = forms.CharField(label="Password", strip=False, widget=forms.PasswordInput)
    password2 = forms.CharField(label="The same password again", strip=False, widget=forms.PasswordInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field, purpose in {"username": "username", "email": "email", "password1": "new-password"}.items():
            self.fields[field].widget.attrs["autocomplete"] = purpose
        self.fields["username"].widget.attrs["autocapitalize"] = "none"
        self.fields["password2"].widget.attrs["autocomplete"] = "new-password"

    def clean_username(self) -> str:
        return str(get_adapter().clean_username(self.cleaned_data["username"]))

    def clean_password1(self) -> str:
        password: str = self.cleaned_data["password1"]
        validate_password(password)
        return password

    def clean(self) -> None:
        if self.cleaned_data.get("password1") != self.cleaned_data.get("password2", ""):
            raise ValidationError("The two passwords differ.")


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def first_owner(request: HttpRequest, code: str) -> HttpResponse:
    if not ratelimit.consume(request, action="first_owner"):
        return errors.too_many_requests(request)
    try:
        firstowner.check(code)
        form = FirstOwnerForm(request.POST if request.method == "POST" else None)
        if not form.is_valid():
            return render(request, "account/first_owner.html", {"form": form})
        return admit(request, code, form.cleaned_data)
    except firstowner.NoLonger as e:
        return render(request, "account/first_owner.html", {"why_not": str(e)}, status=410)


def admit(request: HttpRequest, code: str, fields: dict[str, str]) -> HttpResponse:
    """Make the account, and log it in. Raises NoLonger."""
    with transaction.atomic():
        user = firstowner.use(code, fields["username"], fields["password1"], fields["email"])
        audit.note(person(user), "account.add", user, changes={"operator": (None, True)})
    get_adapter().login(request, user)
    messages.success(request, f"Welcome, {user.username}. You operate this installation now.")
    return redirect("home")
