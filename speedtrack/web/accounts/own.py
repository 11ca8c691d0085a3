"""The pages of a person's own account: what it is, its tokens and sessions, and how it is deleted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from allauth.account.decorators import reauthentication_required
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django import forms
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.accounts import people, tokens
from speedtrack.accounts.access import person, visible
from speedtrack.accounts.logins import browsers, second_step, sessions
from speedtrack.accounts.models import MOST_DAYS, PersonToken, Scope
from speedtrack.operations import accounts
from speedtrack.operations.performing import Actor, Done, Ended
from speedtrack.projects.models import Project
from speedtrack.web.accounts import logins
from speedtrack.web.requests.operating import actor_of, perform, tell

DEFAULT_DAYS = 90


def user_of(request: HttpRequest) -> User:
    return cast(User, request.user)


@dataclass(frozen=True)
class AccountPage:
    """The state of an account, in a few lines."""

    has_password: bool
    email: str
    email_is_proven: bool
    has_second_step: bool
    needs_second_step: bool
    connected: list[str]
    ways_in: list[str]
    tokens: int
    sessions: int


def load(user: User) -> AccountPage:
    proven = EmailAddress.objects.filter(user=user, email__iexact=user.email, verified=True).exists()
    return AccountPage(
        user.has_usable_password(),
        user.email,
        proven,
        second_step.is_set_up(user),
        second_step.is_required(user),
        [account.get_provider().name for account in SocialAccount.objects.filter(user=user)],
        logins.ways_in(),
        tokens.valid_of(user).count(),
        len(sessions.of(user)),
    )


@require_safe
@login_required
@never_cache
def account(request: HttpRequest) -> HttpResponse:
    return render(request, "account/account.html", {"page": load(user_of(request))})


class TokenForm(forms.Form):
    name = forms.CharField(label="What it is for", max_length=100)
    scopes = forms.MultipleChoiceField(label="It may", choices=Scope.choices, widget=forms.CheckboxSelectMultiple)
    project = forms.ModelChoiceField(
        Project.objects.none(), label="In", required=False, to_field_name="slug", empty_label="all projects"
    )
    days = forms.IntegerField(label="Valid for (days)", min_value=1, max_value=MOST_DAYS, initial=DEFAULT_DAYS)

    def __init__(self, user: User, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        field = cast("forms.ModelChoiceField[Project]", self.fields["project"])
        field.queryset = visible(person(user)).order_by("slug")
        self.fields["name"].widget.attrs["placeholder"] = "nightly results of the build farm"


#: The label of a scope's box.
SCOPE_WORDS = {
    Scope.READ: "read what you may see",
    Scope.TRIAGE: "decide on alerts, annotate, mute",
    Scope.RUNS: "queue, cancel and retry runs",
    Scope.RESULTS: "send results measured elsewhere",
    Scope.SETTINGS: "policies, webhooks and their deliveries; for operators, tracking and machines",
}


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
@reauthentication_required(allow_get=True)
def own_tokens(request: HttpRequest) -> HttpResponse:
    """All tokens; a POST makes one, and shows its text in the answer."""
    if request.method != "POST":
        return tokens_page(request, TokenForm(user_of(request)))
    form = TokenForm(user_of(request), request.POST)
    if not form.is_valid():
        return tokens_page(request, form)
    fields = form.cleaned_data
    scopes = [Scope(name) for name in fields["scopes"]]
    try:
        result = accounts.add_token(
            actor_of(request), user_of(request), fields["name"], scopes, fields["days"], fields["project"]
        )
    except tokens.TooManyTokens as e:
        form.add_error(None, f"Not made: {e}.")
        return tokens_page(request, form)
    return tokens_page(request, TokenForm(user_of(request)), result.row, result.secret)


def tokens_page(
    request: HttpRequest, form: TokenForm, token: PersonToken | None = None, text: str = ""
) -> HttpResponse:
    """``text``: of the token that was just made; it is in this answer only, in no session and no message."""
    context = {
        "tokens": tokens.of(user_of(request)),
        "form": form,
        "token": token,
        "text": text,
        "words": [(scope.value, SCOPE_WORDS[scope]) for scope in Scope],
        "chosen": form["scopes"].value() or [Scope.READ.value],
    }
    return render(request, "account/tokens.html", context)


@require_POST
@login_required
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    tell_or_404(request, accounts.revoke_token, pk)
    return redirect("own-tokens")


def tell_or_404(request: HttpRequest, verb: Callable[[Actor, User, int], Done], pk: int) -> None:
    try:
        tell(request, verb(actor_of(request), user_of(request), pk))
    except Ended as e:
        raise Http404(f"{str(e)[:1].upper()}{str(e)[1:]}.") from None


@require_safe
@login_required
@never_cache
def own_sessions(request: HttpRequest) -> HttpResponse:
    here = request.session.session_key
    rows = [
        (session, browsers.words(session.user_agent), session.session_key == here)
        for session in sessions.of(user_of(request))
    ]
    return render(request, "account/sessions.html", {"sessions": rows, "unknown": sessions.NO_ADDRESS})


@require_POST
@login_required
def end_session(request: HttpRequest, pk: int) -> HttpResponse:
    tell_or_404(request, accounts.end_session, pk)
    return redirect("own-sessions")


@require_POST
@login_required
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    perform(request, accounts.end_other_sessions, user_of(request), request.session.session_key)
    return redirect("own-sessions")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
@reauthentication_required
def delete_account(request: HttpRequest) -> HttpResponse:
    user, error = user_of(request), ""
    if request.method == "POST":
        try:
            return removed(request, user)
        except people.AccountUnchanged as e:
            error = f"Not deleted: {e}."
    return render(request, "account/delete.html", {"error": error, "alone_in": people.alone_in(user)})


def removed(request: HttpRequest, user: User) -> HttpResponse:
    """Delete the account of who asks for it. Raises AccountUnchanged."""
    if request.POST.get("name", "").strip() != user.username:
        raise people.AccountUnchanged(f"type {user.username}, exactly")
    result = accounts.remove(actor_of(request), user)
    logout(request)
    messages.success(request, f"Your account is deleted. What you have decided and noted stays, by “{result.target}”.")
    return redirect("home")
