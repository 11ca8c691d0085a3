"""The pages where people choose their notifications: with a login, or through the links in their mails."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from speedtrack.accounts import audit
from speedtrack.accounts.access import person
from speedtrack.notices import subscribing
from speedtrack.notices.models import Pace, Subscriber, Subscription
from speedtrack.runs.errors import NoSuchThing
from speedtrack.web.pages.settings import notifications as page
from speedtrack.web.requests.operating import way_back

Act = Callable[[Subscriber, QueryDict], None]
#: What each form of the page does, and the message when it is done.
ACTS: dict[str, tuple[Act, str]] = {
    "person": (page.save_person, "Saved."),
    "subscription": (page.save_subscription, "Saved."),
    "remove": (page.remove_subscription, "Removed."),
}
TRIAL: tuple[Act, str] = (
    lambda subscriber, form: page.send_trial(subscriber),
    "The mail server has accepted the test mail.",
)
NO_LINK = "This link is not from a mail of SpeedTrack, or it is no longer valid."


@require_http_methods(["GET", "HEAD", "POST"])
def own_notifications(request: HttpRequest) -> HttpResponse:
    """The notifications of the user who is logged in."""
    assert isinstance(request.user, User)
    try:
        subscriber = subscribing.subscriber_of(request.user)
    except NoSuchThing as e:
        return render(request, "web/notifications.html", {"lack": str(e)})
    return notifications_page(request, subscriber, ACTS | {"trial": TRIAL})


@require_http_methods(["GET", "HEAD", "POST"])
def address_notifications(request: HttpRequest, token: str) -> HttpResponse:
    """The notifications of an address without an account: the link in its mails gives access."""
    subscriber = subscribing.managed_by(token)
    if subscriber is None:
        raise Http404(NO_LINK)
    return notifications_page(request, subscriber, ACTS)


def notifications_page(request: HttpRequest, subscriber: Subscriber, acts: dict[str, tuple[Act, str]]) -> HttpResponse:
    if request.method == "POST":
        act, sentence = acts.get(request.POST.get("act", ""), (None, ""))
        if act is None:
            raise Http404("There is no such form.")
        try:
            act(subscriber, request.POST)
            note_own(request, request.POST.get("act", ""))
            messages.success(request, sentence)
        except ValidationError as e:
            messages.error(request, " ".join(e.messages))
        return redirect(way_back(request, request.path))
    context = {
        "subscriber": subscriber,
        "subscriptions": page.subscriptions_of(subscriber),
        "projects": page.projects_of(subscriber),
        "directions": Subscription.Direction.choices,
        "paces": Pace.choices,
        "zones": page.ZONES,
        "may_try": "trial" in acts,
    }
    return render(request, "web/notifications.html", context)


def note_own(request: HttpRequest, act: str) -> None:
    """Note in the audit log what people with an account change in their own notifications.

    Others are known by their mails only.
    """
    if isinstance(request.user, User):
        audit.note(person(request.user), f"notification.{act}", "their own")


@csrf_exempt  # a mail program posts here without a cookie; the signed token identifies the subscriber
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """End what the token names. Only a POST does: programs that check mails follow links (RFC 8058)."""
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
