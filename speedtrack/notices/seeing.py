"""Which subscribers may see the project that a mail is about."""

from collections.abc import Iterable

from speedtrack.accounts import access
from speedtrack.notices.models import Subscriber
from speedtrack.projects.models import Project


def who_see(project: Project, subscribers: Iterable[Subscriber]) -> set[int]:
    """The ids of those subscribers who may see a project. An address without an account belongs to no member."""
    candidates = list(subscribers)
    if project.is_public:
        return {subscriber.pk for subscriber in candidates}
    users = access.seers(project, (subscriber.user_id for subscriber in candidates))
    return {subscriber.pk for subscriber in candidates if subscriber.user_id in users}


def sees(subscriber: Subscriber, project: Project) -> bool:
    return subscriber.pk in who_see(project, [subscriber])
