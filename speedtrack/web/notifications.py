"""The pages where people say what they want to be told of: with a login, or by the links in their mails."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from speedtrack.notices import subscribing
from speedtrack.notices.models import Pace, Subscriber, Subscription
from speedtrack.projects.models import Project
from speedtrack.runs.tracking import NoSuchThing
from speedtrack.web.pages import notifications as page

Act = Callable[[Subscriber, QueryDict], None]
#: What a form of the page does, and what is said once it is done.
ACTS: dict[str, tuple[Act, str]] = {
    "person": (page.save_person, "Saved."),
    "subscription": (page.save_subscription, "Saved."),
    "remove": (page.remove_subscription, "Removed."),
}
TRIAL: tuple[Act, str] = (lambda subscriber, given: page.send_trial(subscriber), "The mail server took the test mail.")
NO_LINK = "This link is not one of SpeedTrack's mails, or what it was for is gone."


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def own(request: HttpRequest) -> HttpResponse:
    """The notifications of who is logged in."""
    assert isinstance(request.user, User)
    try:
        subscriber = subscribing.subscriber_of(request.user)
    except NoSuchThing as e:
        return render(request, "web/notifications.html", {"lack": str(e)})
    return notifications(request, subscriber, ACTS | {"trial": TRIAL})


@require_http_methods(["GET", "HEAD", "POST"])
def of_address(request: HttpRequest, token: str) -> HttpResponse:
    """The notifications of an address without an account, for who has the link of its mails."""
    subscriber = subscribing.managed_by(token)
    if subscriber is None:
        raise Http404(NO_LINK)
    return notifications(request, subscriber, ACTS)


def notifications(request: HttpRequest, subscriber: Subscriber, acts: dict[str, tuple[Act, str]]) -> HttpResponse:
    if request.method == "POST":
        act, done = acts.get(request.POST.get("act", ""), (None, ""))
        if act is None:
            raise Http404("There is no such form.")
        try:
            act(subscriber, request.POST)
            messages.success(request, done)
        except ValidationError as e:
            messages.error(request, " ".join(e.messages))
        return redirect(request.path)
    context = {
        "subscriber": subscriber,
        "subscriptions": subscriber.subscriptions.select_related("project").order_by("pk"),
        "projects": Project.objects.order_by("slug"),
        "directions": Subscription.Direction.choices,
        "paces": Pace.choices,
        "zones": page.ZONES,
        "may_try": "trial" in acts,
    }
    return render(request, "web/notifications.html", context)


@csrf_exempt  # a mail program posts here for its user, without a cookie; the signed token says who asks
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """End what the token names: by POST only, for programs that check mails follow their links (RFC 8058)."""
    ending = subscribing.unsubscription_of(token)
    if ending is None:
        raise Http404(NO_LINK)
    if request.method == "POST":
        subscribing.unsubscribe(ending)
    context = {
        "ending": ending,
        "is_done": request.method == "POST" or ending.is_empty,
        "left": ending.subscriber.subscriptions.count(),
        "manage": None if ending.subscriber.user_id else subscribing.manage_token(ending.subscriber),
    }
    return render(request, "web/unsubscribe.html", context)
