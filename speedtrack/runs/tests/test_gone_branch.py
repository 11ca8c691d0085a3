"""A default branch that a forge gave another name: nobody is left with a project that looks healthy."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.accounts.models import Membership, Role
from speedtrack.notices import telling
from speedtrack.notices.models import Outbox
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Delivery, Project
from speedtrack.runs.models import Alarm
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tests import builders
from speedtrack.upkeep import doctor
from speedtrack.web.tests.world import html_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> builders.Repository:
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "kvd")
    repository.commits(3)
    return repository


@pytest.fixture
def project(repository: builders.Repository) -> Project:
    return builders.track(repository, last=0).project


@pytest.fixture
def ada(client: Client, project: Project) -> Client:
    ada = User.objects.create_user("ada", "ada@example.org")
    Membership.objects.create(project=project, user=ada, role=Role.OWNER)
    client.force_login(ada)
    return client


def look(project: Project) -> None:
    pushes.look_for_news(Project.objects.get(pk=project.pk))


def test_a_renamed_default_branch_is_told_and_followed(
    project: Project, repository: builders.Repository, ada: Client
) -> None:
    repository.git("branch", "-m", "main", "trunk")
    repository.commit("after the branch was renamed")
    builders.call_hook(project, {"ref": "refs/heads/trunk"}, "push")
    look(project)
    assert "main deleted" in Delivery.objects.get().outcome
    for address in ("/p/kvd/", "/p/kvd/settings/"):
        page = html_of(ada.get(address))
        assert "<strong>main</strong> is gone (" in page and "Follow trunk" in page
    assert "branch is now trunk" in html_of(ada.get("/"))
    assert "Follow trunk" not in html_of(Client().get("/p/kvd/"))
    document = ada.get("/api/v1/projects/kvd").json()
    assert (document["successor"], bool(document["branch_gone_at"])) == ("trunk", True)
    (finding,) = doctor.examine(["repositories"])
    assert (finding.state, "kvd: main is gone; the repository's branch is now trunk" in finding.words) == ("bad", True)
    telling.tell_of_alarms()
    assert Outbox.objects.filter(recipient="ada@example.org").count() == 1
    look(project)
    assert Alarm.objects.count() == 1, "one mail"
    assert "Branch trunk is followed now" in html_of(ada.post("/p/kvd/settings/follow-branch", follow=True))
    look(project)
    after = Project.objects.get()
    assert (after.default_branch, after.successor, after.branch_gone_at) == ("trunk", "", None)
    assert after.branches.get(name="trunk").positions.count() == 4
    assert Alarm.objects.get().ended_why == "trunk is followed"
    assert "is gone (" not in html_of(ada.get("/p/kvd/"))


def test_a_branch_that_has_not_the_last_commit_is_no_successor(
    project: Project, repository: builders.Repository, ada: Client
) -> None:
    repository.git("checkout", "-q", "-b", "other", "HEAD~1")
    repository.git("branch", "-D", "main")
    look(project)
    page = html_of(ada.get("/p/kvd/"))
    assert "no branch is known that goes on from it" in page and "Follow other" not in page
    repository.git("branch", "main", "other")
    look(project)
    assert Project.objects.get().branch_gone_at is None and Alarm.objects.get().ended_at


def test_a_shallow_clone_is_named_as_one(repository: builders.Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--depth", "1", f"file://{repository.path}", str(tmp_path / "shallow"))
    with pytest.raises(RepositoryError, match="is a shallow clone"):
        tracking.track(TrackingRequest(str(tmp_path / "shallow"), "tiny", last=0))
