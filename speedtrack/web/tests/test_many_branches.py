"""Pages of a project with hundreds of branches: they offer some, and find each by its name."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.projects.models import Branch
from speedtrack.web import scope
from speedtrack.web.pages.settings.project_settings import MOST_BRANCHES
from speedtrack.web.tests.world import CPU, World, html_of

COUNT = 300
LAST = f"topic/{COUNT - 1:03}"
LINE = f"/p/kvd/timeline/get-p1/{CPU}"


@pytest.fixture
def crowded(kvd: World) -> World:
    """``main`` and 300 branches that sort behind it, all tracked, as long as ``main``."""
    head = Branch.objects.get(name="main").head
    Branch.objects.bulk_create(
        Branch(project=kvd.project, name=f"topic/{number:03}", head=head) for number in range(COUNT)
    )
    return kvd


@pytest.mark.parametrize("address", ["/p/kvd/", "/p/kvd/board/", LINE, "/p/kvd/latency/get-p1/"])
def test_pages_offer_some_branches_and_take_the_name_of_any(client: Client, crowded: World, address: str) -> None:
    plain = html_of(client.get(address))
    assert plain.count('<option value="topic/') == scope.MOST_CHOICES - 1
    assert 'value="main"' in plain, "the default branch is offered whatever its name"
    assert LAST not in plain
    named = client.get(address, {"branch": LAST}).content.decode()
    assert f'<option value="{LAST}">' in named and "type the name of any other" in named


def test_a_wrong_name_is_answered_with_a_few_right_ones(client: Client, crowded: World) -> None:
    answer = client.get("/p/kvd/?branch=nope")
    assert answer.status_code == 404
    text = html_of(answer)
    assert "There is no branch" in text and " and others." in text
    assert text.count("topic/") < 15


def test_a_line_of_a_branch_that_is_not_offered_is_shown(client: Client, crowded: World) -> None:
    document = client.get(f"{LINE}.json", {"machine": "kvd-m1", "line": f":{LAST}"}).json()
    assert [line["branch"] for line in document["shown"]] == ["main", LAST] and not document["problems"]
    (problem,) = client.get(f"{LINE}.json", {"machine": "kvd-m1", "line": ":nope"}).json()["problems"]
    assert problem.startswith("kvd has no branch 'nope': there are main, topic/000, ")
    assert problem.endswith(f" and {COUNT + 1 - 6} more.")


def test_lines_are_suggested_by_the_name_of_any_branch(client: Client, crowded: World) -> None:
    answer = client.get("/p/kvd/lines.json", {"q": LAST, "near": f"kvd/get-p1/{CPU}@kvd-m1:main"}).json()
    assert {line["line"].rpartition(":")[2] for line in answer["lines"]} == {LAST}


def test_settings_list_some_branches_and_stop_any_by_its_name(client: Client, crowded: World) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    page = html_of(client.get("/p/kvd/settings/"))
    assert page.count('<input type="hidden" name="branch"') == MOST_BRANCHES - 1, "each but the default branch"
    assert f"{COUNT + 1 - MOST_BRANCHES} more branches are not listed" in page
    assert "<option" in page and LAST not in page
    client.post("/p/kvd/settings/drop-branch", {"branch": LAST})
    assert not Branch.objects.get(name=LAST).tracked
