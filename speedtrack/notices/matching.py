"""Decide who is notified of an alert, by which subscription, and how soon."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.db.models import Q
from django.db.models.functions import Lower

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.judging.instructions import works_of
from speedtrack.notices.models import Pace, Subscriber, Subscription
from speedtrack.notices.seeing import who_see

SOONEST = {pace: rank for rank, pace in enumerate(Pace)}
MOST_AUTHORS = 10  # in a wider range no commit counts as a person's own


@dataclass(frozen=True)
class MatchedChange:
    """A change of the alert. ``is_time_only``: the same instructions take other time.

    ``is_gain``: the one commit of the alert certainly made its benchmark better.
    """

    benchmark: str
    percent: float
    is_slowdown: bool
    is_time_only: bool
    is_gain: bool


@dataclass(frozen=True)
class AlertFacts:
    """The facts about an alert that are compared with subscriptions."""

    branches: list[str]
    changes: list[MatchedChange]
    authors: frozenset[str]


@dataclass(frozen=True)
class Interest:
    """A subscriber to notify; ``subscription`` is None if it is about the subscriber's own commit."""

    subscriber: Subscriber
    subscription: Subscription | None
    pace: str

    @property
    def is_own(self) -> bool:
        return self.subscription is None


def facts_of(alert: Alert) -> AlertFacts:
    works = works_of(list(alert.change_points.select_related("series__benchmark")))
    changes = [
        MatchedChange(
            cp.series.benchmark.name,
            abs(cp.ratio - 1) * 100,
            cp.is_slowdown,
            work.is_time_only,
            is_gain=not cp.is_slowdown and cp.status == ChangePoint.Status.CONFIRMED and alert.width == 1,
        )
        for work in works
        for cp in [work.change]
    ]
    emails = list(alert.candidates().values_list("author_email", flat=True)[: MOST_AUTHORS + 1])
    if alert.drift:
        return AlertFacts(alert.branch_names(), changes, frozenset())  # no single commit causes a drift
    candidates = emails or [alert.commit.author_email]
    authors = frozenset(e.lower() for e in candidates) if len(candidates) <= MOST_AUTHORS else frozenset()
    return AlertFacts(alert.branch_names(), changes, authors)


def interests_in(alert: Alert) -> list[Interest]:
    """Return one interest for each subscriber to notify: the one with the soonest pace.

    An alert about a subscriber's own commits is sent at once. For a private project, only members are notified.
    """
    facts = facts_of(alert)
    interests: dict[int, Interest] = {}
    about = Subscription.objects.filter(Q(project=alert.project_id) | Q(project=None))
    subscriptions = list(about.select_related("subscriber").order_by("id"))
    for s in subscriptions:
        earlier = interests.get(s.subscriber_id)
        if matches(s, facts) and (earlier is None or SOONEST[Pace(s.pace)] < SOONEST[Pace(earlier.pace)]):
            interests[s.subscriber_id] = Interest(s.subscriber, s, s.pace)
    interests |= {author.pk: Interest(author, None, Pace.NOW) for author in authors_to_notify(facts, subscriptions)}
    seeing = who_see(alert.project, (interest.subscriber for interest in interests.values()))
    return [interest for interest in interests.values() if interest.subscriber.pk in seeing]


def authors_to_notify(facts: AlertFacts, subscriptions: Sequence[Subscription]) -> list[Subscriber]:
    """The authors to notify of their commits, because of a slowdown or a certain gain that counts for them.

    What moved in time alone counts for authors who asked for that only. The subscriptions of an author to the project
    decide what else counts; their branches and benchmarks do not matter, because these are the author's own commits.
    """
    authors = Subscriber.objects.alias(address=Lower("email")).filter(own_commits=True, address__in=facts.authors)
    changes = [change for change in facts.changes if change.is_slowdown or change.is_gain]
    limits: dict[int, list[Subscription]] = defaultdict(list)
    for subscription in subscriptions:
        limits[subscription.subscriber_id].append(subscription)
    return [
        author
        for author in authors
        if any(
            counts_for(limits[author.pk], change)
            for change in changes
            if author.own_time_only or not change.is_time_only
        )
    ]


def counts_for(limits: Sequence[Subscription], change: MatchedChange) -> bool:
    """Return whether a change counts for a receiver with these subscriptions; without any, every change counts."""
    return not limits or any(is_counted(subscription, change) for subscription in limits)


def is_counted(subscription: Subscription, change: MatchedChange) -> bool:
    """Return whether a change is large enough for a subscription, and of a kind that it asks for."""
    is_skipped = subscription.skip_same_instructions and change.is_time_only
    return change.percent >= subscription.smallest_percent and not is_skipped


def matches(subscription: Subscription, facts: AlertFacts) -> bool:
    """Return whether the alert has a branch and a change that the subscription names."""
    both = subscription.direction == Subscription.Direction.BOTH
    return any(fits_globs(branch, subscription.branches) for branch in facts.branches) and any(
        fits_globs(change.benchmark, subscription.benchmarks)
        and (both or change.is_slowdown)
        and is_counted(subscription, change)
        for change in facts.changes
    )


def fits_globs(name: str, globs: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in split_globs(globs))


def split_globs(globs: str) -> Iterable[str]:
    return globs.split() or ["*"]
