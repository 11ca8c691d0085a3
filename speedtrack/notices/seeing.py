"""Which subscribers may see what a mail would tell them."""

from collections.abc import Iterable

from speedtrack.accounts import access
from speedtrack.notices.models import Subscriber
from speedtrack.projects.models import Project


def who_see(project: Project, subscribers: Iterable[Subscriber]) -> set[int]:
    """Those of these subscribers who may see a project, by their ids. An address without an account is no member."""
    found = list(subscribers)
    if project.is_public:
        return {one.pk for one in found}
    users = access.seers(project, (one.user_id for one in found))
    return {one.pk for one in found if one.user_id in users}


def sees(subscriber: Subscriber, project: Project) -> bool:
    return subscriber.pk in who_see(project, [subscriber])
