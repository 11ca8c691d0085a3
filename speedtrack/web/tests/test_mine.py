"""My pushes: home begins with what the newest commits and pull requests of the person did."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Commit, Project, PullRequest
from speedtrack.runs.planning import pullrequests
from speedtrack.web.pages.mine import MOST_COMMITS
from speedtrack.web.tests.world import World, html_of, queries

MOST_WITHOUT_PUSHES = 12
#: What commits, or commits and approved pull requests, show takes up to ten more.
MOST_OF_OWN_HOME = 22


def login(name: str, email: str) -> Client:
    client = Client()
    client.force_login(User.objects.create_user(name, email))
    return client


def now(made: World, *places: int) -> None:
    """Let these commits be of now, the last the newest."""
    for age, place in enumerate(reversed(places)):
        Commit.objects.filter(pk=made.commit(place).pk).update(committed_at=timezone.now() - timedelta(minutes=age))


def mine(client: Client) -> list[tuple[str, str]]:
    rows = client.get("/home.json").json()["mine"]
    return [(row["sha"], row["summary"]) for row in rows]


def test_own_commits_of_the_last_days_come_first(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    now(made, 4, 5, 6)
    Commit.objects.filter(pk=made.commit(6).pk).update(author_email="bob@example.org")
    ada = login("ada", "Ada@Example.org")
    seen = "No change in 2 benchmarks; 3.1% or more would be seen within 4 commits"
    worse = "Slower +20.1%: get-p1 and 1 more, confirmed"
    assert mine(ada) == [(made.shas[5], worse), (made.shas[4], seen)]
    page = html_of(ada.get("/"))
    assert page.index("My pushes") < page.index(worse) < page.index("<h1>Projects</h1>")
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page
    assert queries(login("eva", "eva@example.org"), "/") <= MOST_WITHOUT_PUSHES
    part = html_of(ada.get("/?part=mine"))
    assert worse in part and "<h1>" not in part and 'data-version="v' in part
    assert "No commit by eve@example.org in the last 14 days" in html_of(login("eve", "eve@example.org").get("/"))
    assert "confirmed mail address" in html_of(login("nobody", "").get("/"))
    assert "My pushes" not in html_of(client.get("/")) and mine(client) == []


def test_others_private_projects_are_absent(kvd: World) -> None:
    now(kvd, 3)
    ada = login("ada", "ada@example.org")
    assert len(mine(ada)) == 1
    Project.objects.update(is_public=False)
    assert mine(ada) == []


def offered(kvd: World) -> tuple[Client, str]:
    """Ada with an approved pull request, and its head."""
    repository = kvd.repository
    repository.git("checkout", "--quiet", "--detach")
    sha = repository.commit("What Ada offers")
    repository.git("update-ref", "refs/pull/7/head", sha)
    repository.git("checkout", "--quiet", "main")
    pull = PullRequest.objects.create(
        project=kvd.project, number=7, title="An offer", head_sha=sha, base_ref="main", updated_at=timezone.now()
    )
    pullrequests.approve(pull, sha, None)
    pullrequests.plan_approved()
    return login("ada", "ada@example.org"), sha


def test_a_pull_request_by_its_pairs(kvd: World) -> None:
    ada, sha = offered(kvd)
    ((head, waits),) = mine(ada)
    assert head == sha and waits.startswith("Being measured in pairs. Machine kvd-m1")
    kvd.slow.add(sha)
    kvd.measure()
    assert mine(ada) == [(sha, "Slower +19.9%: set-p1 and 1 more, by pairs")]
    assert queries(ada, "/") <= MOST_OF_OWN_HOME
    assert ">#7</a>" in html_of(ada.get("/"))


def test_the_number_of_lines_and_of_queries_is_limited(kvd: World) -> None:
    ada = login("ada", "ada@example.org")
    kvd.push(12)
    now(kvd, *range(16))
    few = queries(ada, "/")
    kvd.measure()
    now(kvd, *range(16))
    assert len(mine(ada)) == MOST_COMMITS
    assert max(few, queries(ada, "/")) <= MOST_OF_OWN_HOME
