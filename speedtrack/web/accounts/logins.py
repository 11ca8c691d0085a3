"""The ways in: the login page, and those of other providers."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import requests
from allauth.account.internal.stagekit import clear_login
from allauth.account.views import LoginView
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.github import views as github
from allauth.socialaccount.providers.openid_connect import views as openid
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.accounts.logins import signup

View = Callable[..., HttpResponse]


class LoginPage(LoginView):
    template_name = "web/login.html"

    def _redirect_to_pending_stage(self, request: HttpRequest, stage: Any) -> None:
        """Start a new login if somebody comes back from the second step to this page, perhaps as somebody else."""
        clear_login(request)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        providers = get_adapter().list_providers(self.request)
        names = [(provider.name, provider.get_login_url(self.request)) for provider in providers]
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {
            "providers": names,
            "may_sign_up": signup.is_open(self.request),
            "next": self.request.POST.get("next") or self.request.GET.get("next", ""),
        }


def of_provider(view: View) -> View:
    """A view of a provider's login: 404 if it is not set up, an error page if the provider is away.

    What leads to the provider is a page that goes on by itself, not a redirect: of forms that redirect to another host,
    browsers make what the content security policy says of forms, and the provider may redirect to a host of its own.
    """

    @wraps(view)
    def answered(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, **kwargs)
        except SocialApp.DoesNotExist:
            raise Http404("This installation has no such login.") from None
        except (requests.RequestException, KeyError, ValueError):
            return render(request, "socialaccount/authentication_error.html", status=502)
        if isinstance(response, HttpResponseRedirect) and response.url.startswith(("https://", "http://")):
            return render(request, "socialaccount/go_on.html", {"address": response.url})
        return response

    return never_cache(answered)


login = LoginPage.as_view()
github_login = require_http_methods(["GET", "HEAD", "POST"])(of_provider(github.oauth2_login))
github_callback = require_safe(of_provider(github.oauth2_callback))
openid_login = require_http_methods(["GET", "HEAD", "POST"])(of_provider(openid.login))
openid_callback = require_safe(of_provider(openid.callback))


def ways_in() -> list[str]:
    """What one may log in with, in words."""
    names = {"github": "GitHub", "openid_connect": settings.OIDC_NAME}
    return ["password", *(names[key] for key in settings.SOCIALACCOUNT_PROVIDERS)]
