"""A patch is pasted, approved if need be, measured in pairs, and judged on a page that can be shared."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from speedtrack.accounts import members
from speedtrack.accounts.models import AuditEntry, Role, Scope
from speedtrack.api.v1.tests.conftest import program
from speedtrack.projects.mirrors import git, housekeeping, patches
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.models import Position, Project
from speedtrack.runs.models import PairedComparison, Reason, Run, Status
from speedtrack.runs.requests import comparing
from speedtrack.tests import builders
from speedtrack.tests.duels import report_pairs
from speedtrack.web.tests.world import World

PATCH = """\
diff --git a/file.txt b/file.txt
--- a/file.txt
+++ b/file.txt
@@ -1 +1 @@
-{}
+slower
"""


def patch_of(made: World) -> str:
    """A patch of the newest commit."""
    return PATCH.format((made.repository.path / "file.txt").read_text().strip())


@pytest.fixture
def patch(kvd: World) -> str:
    return patch_of(kvd)


def member(made: World, role: Role) -> Client:
    user, _ = User.objects.get_or_create(username=role.value)
    members.give_role(made.project, user, role)
    client = Client()
    client.force_login(user)
    return client


def pasted(client: Client, text: str, **fields: str) -> Any:
    return client.post("/p/kvd/tries/", {"diff": text.replace("\n", "\r\n"), **fields}, follow=True)


def test_a_patch_is_tried(kvd: World, patch: str, django_capture_on_commit_callbacks: Any) -> None:
    """Pasted into the project's page, as a browser sends it; its commit is in no line, its page tells the verdict."""
    maintainer = member(kvd, Role.MAINTAINER)
    assert "Try a patch or a branch" in maintainer.get("/p/kvd/").content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        page = pasted(maintainer, patch).content.decode()
    comparison = PairedComparison.objects.get()
    head = comparison.head
    assert head and (head.parents, head.author_name) == ([kvd.shas[-1]], "maintainer")
    assert "Try a patch of file.txt" in page and "Being measured in pairs." in page and "+slower" in page
    assert patches.kept("kvd") == {head.sha}
    run = comparison.runs.get()
    assert (run.base_id, run.reason, run.trials) == (comparison.base_id, Reason.MANUAL, 15)
    assert AuditEntry.objects.get().action == "comparison.try"
    kvd.slow |= {head.sha}
    kvd.measure()
    text = Client().get(f"/p/kvd/tries/{comparison.pk}/").content.decode()
    assert "Slower +19.9%" in text and text.count('<th scope="row">') == 4
    assert (
        not Position.objects.filter(commit=head).exists()
        and head.sha[:10] not in Client().get("/p/kvd/").content.decode()
    )
    pasted(maintainer, patch)
    again = PairedComparison.objects.latest("pk")
    assert again.head_id == head.pk and again.runs.get().round == 1


def test_the_live_part_shows_the_pairs(kvd: World, patch: str) -> None:
    pasted(member(kvd, Role.MAINTAINER), patch)
    Run.objects.filter(status="queued").exclude(paired_comparisons__isnull=False).update(status="cancelled")
    run = builders.claim(kvd.machines[0])
    report_pairs(run, 8)
    number = PairedComparison.objects.get().pk
    live = Client().get(f"/p/kvd/tries/{number}/?part=live").content.decode()
    assert 'data-going="yes"' in live and "after 8 of 15 pairs" in live and "decided" in live


def test_what_is_refused_stays_in_the_form(kvd: World, patch: str) -> None:
    maintainer = member(kvd, Role.MAINTAINER)
    for text, fault in {
        "": "Paste a patch, or name a branch",
        "make it faster": "the patch is not a diff",
        patch.replace("file.txt", "nosuch.txt"): "which has no nosuch.txt",
        patch.replace("\n-", "\n-9").replace("-9-- a", "--- a"): "the hunk of file.txt at line 1",
        f"{patch}{'#' * patches.MOST_BYTES}": "longer than 500 kB",
    }.items():
        page = pasted(maintainer, text).content.decode()
        assert fault in page, page
        assert text in page.replace("\r\n", "\n").replace("&gt;", ">")
    assert "Paste a patch, or name a branch" in pasted(maintainer, patch, branch="main").content.decode()
    assert "no commit, branch or tag &#x27;nosuch&#x27;" in pasted(maintainer, patch, base="nosuch").content.decode()
    preview = pasted(maintainer, patch, preview="yes").content.decode()
    assert "kvd-m1" in preview and "+slower" in preview
    kvd.project.machines.clear()
    assert "no machine measures kvd" in pasted(maintainer, patch).content.decode()
    Project.objects.update(untracked_at=timezone.now())
    assert "track it again first" in pasted(maintainer, patch).content.decode()
    assert not PairedComparison.objects.exists() and not AuditEntry.objects.exists()


def test_a_branch_is_tried(kvd: World) -> None:
    kvd.repository.git("checkout", "--quiet", "-b", "topic", kvd.shas[1])
    head = kvd.repository.commit("slower")
    maintainer = member(kvd, Role.MAINTAINER)
    for branch in ("topic", "nosuch"):
        page = maintainer.post("/p/kvd/tries/", {"diff": "", "branch": branch}, follow=True).content.decode()
        assert "Its commits are being fetched" in page
    comparing.plan_asked()
    good, bad = PairedComparison.objects.order_by("pk")
    assert good.head and (good.head.sha, good.base and good.base.sha) == (head, kvd.shas[1])
    assert "no commit, branch or tag" in Client().get(f"/p/kvd/tries/{bad.pk}/").content.decode()
    refused = member(kvd, Role.TRIAGER).post("/p/kvd/tries/", {"diff": "", "branch": "topic"}, follow=True)
    assert "role maintainer" in refused.content.decode() and PairedComparison.objects.count() == 2


def test_the_patch_of_a_triager_waits_for_a_maintainer(kvd: World, patch: str) -> None:
    assert "waits for the approval of a maintainer" in pasted(member(kvd, Role.TRIAGER), patch).content.decode()
    comparison = PairedComparison.objects.get()
    assert comparison.head and not comparison.runs.exists() and comparing.plan_asked() == 0
    address = f"/p/kvd/tries/{comparison.pk}/"
    assert "Waits for the approval of a maintainer" in Client().get(address).content.decode()
    on_top = patch.replace("-4", "-slower").replace("+slower", "+slow")
    refused = pasted(member(kvd, Role.TRIAGER), on_top, base=comparison.head.sha).content.decode()
    assert "is on no tracked branch" in refused, "whoever approves it would not see the first one"
    order = {"head": comparison.head.sha}
    assert member(kvd, Role.TRIAGER).post(f"{address}approve", order).status_code == 403
    maintainer = member(kvd, Role.MAINTAINER)
    assert "Approve" in maintainer.get(address).content.decode()
    for head, fault in (("f" * 40, "has another head now"), (comparison.head.sha[:10], "only a part of a commit id")):
        assert fault in maintainer.post(f"{address}approve", {"head": head}, follow=True).content.decode()
    maintainer.post(f"{address}approve", order | {"preview": "yes"})
    assert not Run.objects.filter(reason=Reason.MANUAL).exists()
    assert "is measured in pairs" in maintainer.post(f"{address}approve", order, follow=True).content.decode()
    assert comparison.runs.count() == 1
    assert "needs no approval" in maintainer.post(f"{address}approve", order, follow=True).content.decode()
    assert list(AuditEntry.objects.values_list("action", flat=True).order_by("pk")) == [
        "comparison.try",
        "comparison.approve",
    ]


def test_a_private_project_shows_its_tries_to_its_members(kvd: World, patch: str) -> None:
    maintainer = member(kvd, Role.MAINTAINER)
    pasted(maintainer, patch)
    Project.objects.update(is_public=False)
    address = f"/p/kvd/tries/{PairedComparison.objects.get().pk}/"
    assert maintainer.get(address).status_code == member(kvd, Role.READER).get(address).status_code == 200
    stranger = Client()
    stranger.force_login(User.objects.create(username="stranger"))
    for client in (Client(), stranger):
        assert client.get(address).status_code == client.get("/p/kvd/tries/").status_code == 404
    assert stranger.post("/p/kvd/tries/", {"diff": patch}).status_code == 404


def test_a_program_tries_a_patch(kvd: World, patch: str) -> None:
    maintainer = program("ada", Scope.READ, Scope.RUNS, project=kvd.project, role=Role.MAINTAINER)
    path = "projects/kvd/comparisons/patches"
    tried = maintainer.write("POST", path, {"diff": patch, "dry_run": True}, 200)
    assert tried["dry_run"] is True and not PairedComparison.objects.exists() and patches.kept("kvd") == set()
    made = maintainer.write("POST", path, {"diff": patch, "base": kvd.shas[-1], "benchmarks": ["get-p1"]}, 202)
    assert (made["state"], made["base"]) == ("queued", kvd.shas[-1]) and made["page"].endswith(f"/tries/{made['id']}/")
    kvd.slow |= {made["head"]}
    kvd.measure()
    done = maintainer.read(made["url"])
    assert done["verdict"] == "worse" and done["summary"] == "Slower +19.9%: get-p1, by pairs"
    problem = maintainer.refused("POST", path, {"diff": "hello"})
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "/diff")
    triager = program("tri", Scope.READ, Scope.RUNS, project=kvd.project, role=Role.TRIAGER)
    assert triager.write("POST", path, {"diff": patch}, 202)["state"] == "unapproved"
    assert program("eve", Scope.READ, Scope.RUNS).refused("POST", path, {"diff": patch})["status"] == 403


def test_the_commits_of_old_patches_are_deleted(
    kvd: World, patch: str, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        pasted(member(kvd, Role.MAINTAINER), patch)
    comparing.tidy_mirror(kvd.project)
    (sha,) = patches.kept("kvd")
    old = timezone.now() - comparing.KEPT_FOR - timedelta(hours=1)
    PairedComparison.objects.update(created=old)
    Run.objects.filter(paired_comparisons__isnull=False).update(created=old)
    for is_kept, status in ((True, Status.QUEUED), (False, Status.CANCELLED)):
        Run.objects.filter(paired_comparisons__isnull=False).update(status=status)
        (mirror_of("kvd") / housekeeping.MARK).unlink()
        comparing.tidy_mirror(kvd.project)
        assert patches.kept("kvd") == ({sha} if is_kept else set())
    assert git.commits_among("kvd", [sha]) == {sha}, "git deletes it later"
    assert Client().get(f"/p/kvd/tries/{PairedComparison.objects.get().pk}/").status_code == 200
