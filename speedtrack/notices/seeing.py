"""Which subscribers may see the project that a mail is about."""

from collections.abc import Iterable

from speedtrack.accounts import access
from speedtrack.notices.models import Subscriber
from speedtrack.projects.models import Project


def who_see(project: Project, subscribers: Iterable[Subscriber]) -> set[int]:
    """The ids of those subscribers who may see a project: an address without an account sees the public ones."""
    candidates = list(subscribers)
    users = access.seers(project, (subscriber.user_id for subscriber in candidates))
    return {
        subscriber.pk
        for subscriber in candidates
        if (project.is_public if subscriber.user_id is None else subscriber.user_id in users)
    }


def sees(subscriber: Subscriber, project: Project) -> bool:
    return subscriber.pk in who_see(project, [subscriber])
