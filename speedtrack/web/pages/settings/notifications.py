"""The forms of a subscriber: hours and limits, and each subscription."""

from typing import Any, ClassVar
from zoneinfo import available_timezones

from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import QuerySet
from django.http import QueryDict

from speedtrack.accounts.access import ANYBODY, Caller, visible
from speedtrack.notices import sending
from speedtrack.notices.errors import PermanentFailure, TemporaryFailure
from speedtrack.notices.mail import trial_message
from speedtrack.notices.models import MOST_SUBSCRIPTIONS, Subscriber, Subscription
from speedtrack.projects.models import Project

ZONES = sorted(zone for zone in available_timezones() if "/" in zone or zone == "UTC")


class PersonForm(forms.ModelForm):  # type: ignore[type-arg]
    time_zone = forms.CharField(max_length=64)

    class Meta:
        model = Subscriber
        fields: ClassVar = [
            "own_commits",
            "own_time_only",
            "follow_ups",
            "time_zone",
            "quiet_from",
            "quiet_until",
            "digest_hour",
            "most_per_day",
        ]

    def clean_time_zone(self) -> str:
        zone: str = self.cleaned_data["time_zone"]
        if zone not in ZONES:
            raise ValidationError(f"There is no time zone {zone}: give one such as Europe/Berlin, or UTC.")
        return zone

    def clean(self) -> dict[str, Any]:
        fields = self.cleaned_data
        begin, end = fields.get("quiet_from"), fields.get("quiet_until")
        if (begin is None) != (end is None) or (begin is not None and begin == end):
            raise ValidationError("Quiet hours need a beginning and a different end: give both, or neither.")
        if (fields.get("digest_hour") or 0) > 23:
            raise ValidationError("The hour of a digest is a number from 0 to 23.")
        if fields.get("most_per_day") == 0:
            raise ValidationError("The limit is at least one mail a day: unsubscribe if you want none.")
        return fields


class SubscriptionForm(forms.ModelForm):  # type: ignore[type-arg]
    project = forms.ModelChoiceField(Project.objects.none(), to_field_name="slug", required=False)
    branches = forms.CharField(max_length=200, required=False)
    benchmarks = forms.CharField(max_length=200, required=False)

    class Meta:
        model = Subscription
        fields: ClassVar = [
            "project",
            "branches",
            "benchmarks",
            "smallest_percent",
            "direction",
            "pace",
            "skip_same_instructions",
        ]

    def __init__(self, form_data: QueryDict, instance: Subscription) -> None:
        super().__init__(form_data, instance=instance)
        self.fields["project"].queryset = projects_of(instance.subscriber)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        fields = self.cleaned_data
        for field in ("branches", "benchmarks"):
            fields[field] = " ".join((fields.get(field) or "").split()) or "*"
        if not 0 <= fields.get("smallest_percent", 0) <= 1000:
            raise ValidationError("The smallest change is a number from 0 to 1000 percent.")
        siblings = self.instance.subscriber.subscriptions.exclude(pk=self.instance.pk)
        same = {field: fields.get(field) for field in ("project", "branches", "benchmarks", "direction")}
        if siblings.filter(**{**same, "project": same["project"]}).exists():
            raise ValidationError("The same subscription exists already: change that one.")
        if not self.instance.pk and siblings.count() >= MOST_SUBSCRIPTIONS:
            raise ValidationError(f"There are {MOST_SUBSCRIPTIONS} subscriptions already: remove one first.")
        return fields


def projects_of(subscriber: Subscriber) -> QuerySet[Project]:
    """The projects that a subscriber sees; an address without an account sees the public ones."""
    return visible(Caller(subscriber.user) if subscriber.user else ANYBODY).order_by("slug")


def subscriptions_of(subscriber: Subscriber) -> list[Subscription]:
    """The subscriptions, without those to projects that the subscriber may no longer see."""
    hidden = Project.objects.exclude(pk__in=projects_of(subscriber).values("pk"))
    return list(subscriber.subscriptions.exclude(project__in=hidden).select_related("project").order_by("pk"))


def bell_of(user: User | AnonymousUser, project: Project) -> int | None:
    """The number of the user's subscription to slowdowns of the whole project; None without one."""
    if not user.is_authenticated:
        return None
    subscriptions = Subscription.objects.filter(project=project, branches="*", benchmarks="*", subscriber__user=user)
    return subscriptions.values_list("pk", flat=True).first()


def save_person(subscriber: Subscriber, form_data: QueryDict) -> None:
    """Save the hours and limits. Raises ValidationError, whose messages say what to change."""
    save_valid(PersonForm(form_data, instance=Subscriber.objects.get(pk=subscriber.pk)))


def save_subscription(subscriber: Subscriber, form_data: QueryDict) -> None:
    """Change the subscription that ``number`` names, or add one. Raises ValidationError."""
    save_valid(
        SubscriptionForm(
            form_data, instance=subscription_named(subscriber, form_data) or Subscription(subscriber=subscriber)
        )
    )


def remove_subscription(subscriber: Subscriber, form_data: QueryDict) -> None:
    if subscription := subscription_named(subscriber, form_data):
        subscription.delete()


def subscription_named(subscriber: Subscriber, form_data: QueryDict) -> Subscription | None:
    """The subscriber's subscription with this number. Raises ValidationError if it is gone."""
    number = form_data.get("number", "")
    if not number:
        return None
    subscription = (
        subscriber.subscriptions.filter(pk=int(number)).first() if number.isdecimal() and len(number) < 18 else None
    )
    if subscription is None:
        raise ValidationError("That subscription does not exist any more.")
    return subscription


def save_valid(form: PersonForm | SubscriptionForm) -> None:
    """Save a valid form. Raises ValidationError; each message begins with the name of its field."""
    if not form.is_valid():
        faults = [(field, str(text)) for field, texts in form.errors.items() for text in texts]
        raise ValidationError([t if f == NON_FIELD_ERRORS else f"{f.replace('_', ' ')}: {t}" for f, t in faults])
    form.save()


def send_trial(subscriber: Subscriber) -> None:
    """Send a test mail and wait for the server's answer. Raises ValidationError with that answer."""
    try:
        sending.send_mail_now(trial_message(subscriber))
    except (TemporaryFailure, PermanentFailure) as e:
        raise ValidationError(f"The test mail was not sent: {e}") from e
