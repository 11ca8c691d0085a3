"""What people ask of the planner, on pages and by commands; and what they are told before it is done."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from speedtrack.accounts.models import AuditEntry
from speedtrack.projects.models import Project, PullRequest, Tag
from speedtrack.runs.models import Approval, Deferral, Machine, PlanningPolicy, Run, Status
from speedtrack.runs.planning import pullrequests, pushes
from speedtrack.tests import builders
from speedtrack.web.tests.world import World, html_of


@pytest.fixture
def ada(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def said(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def taken_times() -> None:
    for run in Run.objects.filter(status=Status.SUCCEEDED):
        builders.take_time(run, build_s=60.0, trial_s=2.0, between_s=0.5, around_s=6.0)


def followed(client: Client, address: str, **form: Any) -> str:
    return html_of(client.post(address, form, follow=True))


def waiting() -> int:
    return Run.objects.filter(status=Status.QUEUED).count()


def rows() -> dict[str, int]:
    return {model.__name__: model.objects.count() for model in (Run, PlanningPolicy, Deferral)}


def test_a_dry_run_of_measuring_says_how_much_and_how_long(kvd: World) -> None:
    taken_times()
    before = rows()
    answer = said("measure", "kvd", f"{kvd.shas[0]}..main", "--every", "2", "--dry-run")
    assert "Nothing was done. It would be: 2 runs of 2 commits queued" in answer
    assert "on kvd-m1: 2 runs queued, which take about 1 min" in answer or "about 3 min" in answer
    assert kvd.shas[3][:10] in answer and kvd.shas[1][:10] in answer and kvd.shas[2][:10] not in answer
    assert rows() == before
    assert said("measure", "kvd", f"{kvd.shas[0]}..main", "--every", "2").strip() == "2 runs of 2 commits queued"
    assert rows() != before


def test_by_halves_the_ends_are_measured_first(kvd: World) -> None:
    kvd.push(5)
    Run.objects.filter(status=Status.QUEUED).delete()
    said("measure", "kvd", f"{kvd.shas[0]}..main", "--bisect")
    taken = [run.commit.sha for run in builders.work(kvd.machines[0], kvd.speed)]
    assert [kvd.shas.index(sha) for sha in taken[:3]] == [8, 1, 5]
    assert len(taken) == 8


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["kvd", "main", "--every", "0"], "every 0th commit cannot be measured"),
        (["kvd", "main..main"], "has no commits"),
        (["kvd", "main", "--benchmarks", "nothing"], "has no benchmark nothing: it has get-p1"),
        (["kvd", "main", "--machine", "nowhere"], "no machine 'nowhere'"),
        (["kvd", "nowhere"], "no commit, branch or tag 'nowhere'"),
        (["nothing", "main"], "no project 'nothing'"),
        (["kvd", "main", "--every", "2", "--bisect"], "not allowed with"),
    ],
)
def test_what_cannot_be_measured_is_refused(kvd: World, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call_command("measure", *words)


@pytest.mark.parametrize("words", ["--output=/tmp/x", "--output=/tmp/x..main", "main..--all", "^main", "-n1"])
def test_a_range_that_looks_like_an_option_is_a_name_that_is_not_there(ada: Client, kvd: World, words: str) -> None:
    page = followed(ada, "/p/kvd/measure/", range=words, every=1, order="newest")
    assert "Nothing was queued: " in page and waiting() == 0


def test_the_page_queues_a_range_after_saying_what_that_means(ada: Client, kvd: World) -> None:
    taken_times()
    form = {"range": f"{kvd.shas[0]}..main", "every": 1, "order": "halves", "benchmarks": "get-p1", "machine": "kvd-m1"}
    assert "3 runs queued, which take about" in followed(ada, "/p/kvd/measure/", **form, preview="yes")
    assert waiting() == 0
    assert "3 runs of 3 commits queued" in followed(ada, "/p/kvd/measure/", **form)
    assert waiting() == 3
    assert "cannot be measured" in followed(ada, "/p/kvd/measure/", **form | {"every": 0})


def test_the_page_queues_the_releases_that_are_known(ada: Client, kvd: World) -> None:
    for place, name in ((0, "v1.0.0"), (1, "v1.0.1"), (2, "v1.1.0"), (3, "v2.0.0")):
        Tag.objects.create(project=kvd.project, name=name, sha=kvd.shas[place])
    form = {"range": "v1.*", "every": 1, "order": "newest", "releases": "on"}
    assert "2 runs of 2 commits queued" in followed(ada, "/p/kvd/measure/", **form), "1.0.1 and 1.1.0"
    assert "no release of kvd matches" in followed(ada, "/p/kvd/measure/", **form | {"range": "v3.*"})


def test_a_run_is_raised_cancelled_and_retried_on_its_page(ada: Client, kvd: World) -> None:
    kvd.push(2)
    last = Run.objects.filter(status=Status.QUEUED).order_by("rank")[0]
    address = f"/runs/{last.pk}/act/"
    assert "Nothing was done" in followed(ada, f"{address}raise", preview="yes")
    assert "is measured next" in followed(ada, f"{address}raise")
    assert builders.claim(kvd.machines[0]) == last
    first = Run.objects.get(status=Status.QUEUED)
    assert "1 waiting run taken from the queue" in followed(ada, f"/runs/{first.pk}/act/cancel", preview="yes")
    assert "is cancelled" in followed(ada, f"/runs/{first.pk}/act/cancel")
    assert "Queue it again" in html_of(ada.get(f"/runs/{first.pk}/"))
    assert "is queued again" in followed(ada, f"/runs/{first.pk}/act/retry")
    assert "only a run that waits can be raised" in followed(ada, f"{address}raise")
    assert ada.post(f"{address}explode").status_code == 404
    ada.logout()
    assert "Cancel" not in html_of(ada.get(address)) and ada.post(f"{address}cancel").status_code == 302


def test_runs_are_raised_by_command(kvd: World) -> None:
    kvd.push(2)
    last = Run.objects.filter(status=Status.QUEUED).order_by("rank")[0]
    assert "It would be" in said("run", "raise", str(last.pk), "--dry-run")
    assert f"run {last.pk} is measured next on kvd-m1" in said("run", "raise", str(last.pk))
    assert builders.claim(kvd.machines[0]) == last


def test_a_policy_is_made_tried_and_removed_by_command(kvd: World) -> None:
    said("policy", "kvd", "--every", "3", "--ignored-paths", "docs/**", "--most-waiting", "5")
    assert "one commit in 3, at most 5 commits waiting, without changes of docs/** only" in said("policy", "kvd")
    kvd.push(4)
    assert waiting() == 1 and Deferral.objects.count() == 3
    before = rows()
    assert "3 runs queued" in said("policy", "kvd", "--every", "1", "--dry-run")
    assert rows() == before and PlanningPolicy.objects.get().every == 3
    assert "removed; 3 put-off runs queued" in said("policy", "kvd", "--remove")
    assert "every commit" in said("policy", "kvd")
    for words, why in (
        (["--remove"], "has no policy"),
        (["--every", "0"], "cannot be"),
        (["--extended-at", "25"], "time"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("policy", "kvd", *words)


def test_a_policy_is_made_on_its_page(ada: Client, kvd: World) -> None:
    form = {"branches": "", "every": 2, "zone": "UTC", "ignored_paths": "docs/**\r\n*.md"}
    assert "Nothing was done" in followed(ada, "/p/kvd/policies/", **form, preview="yes")
    assert not PlanningPolicy.objects.exists()
    page = followed(ada, "/p/kvd/policies/", **form)
    assert "one commit in 2, without changes of docs/**, *.md only" in page and "<td>main</td>" in page
    kvd.push(2)
    sha = Deferral.objects.get().commit.sha
    assert "one commit in 2 of its branch is measured" in html_of(ada.get("/p/kvd/policies/"))
    assert "Not measured by itself on main: one commit in 2 of its branch" in html_of(ada.get(f"/p/kvd/c/{sha}/"))
    assert "not measured: one commit in 2 of its branch" in html_of(ada.get("/p/kvd/"))
    assert "match every path" in followed(ada, "/p/kvd/policies/", **form | {"ignored_paths": "*"})
    assert "cannot be measured" in followed(ada, "/p/kvd/policies/", **form | {"every": 0})
    assert "Select a valid choice" in followed(ada, "/p/kvd/policies/", **form | {"suite": "nothing"})
    asked = followed(ada, "/p/kvd/policies/", **form, preview="remove")
    assert "Nothing was done" in asked and " removed" in asked and "1 run queued" in asked and "docs/**" in asked
    assert PlanningPolicy.objects.exists() and not AuditEntry.objects.filter(action="policy.remove").exists()
    assert "removed" in followed(ada, "/p/kvd/policies/", **form, remove="yes")
    assert "has no policy" in followed(ada, "/p/kvd/policies/", **form, preview="remove")


def test_windows_and_shares_are_shown_and_changed_on_the_page_of_a_machine(ada: Client, kvd: World) -> None:
    page = html_of(ada.get("/machines/kvd-m1/"))
    assert "It takes work at any time" in page and "with pushes, after them" in page
    address = "/settings/machines/kvd-m1/plan/"
    form = {"windows": "mon-fri 22:00-06:00\nsat 00:00-24:00", "zone": "Europe/Rome", "share-backfill": "10"}
    asked = followed(ada, address, **form, preview="yes")
    assert "Nothing was done. It would be: machine kvd-m1: it takes work in mon-fri 22:00-06:00" in asked
    assert ">mon-fri 22:00-06:00 sat 00:00-24:00</textarea>" in asked and 'name="zone" value="Europe/Rome"' in asked
    assert 'name="share-backfill" value="10"' in asked and '<details class="numbers" open' in asked
    assert "history 10%" in asked and (Machine.objects.get().windows, Machine.objects.get().shares) == ([], {})
    assert not AuditEntry.objects.exists()
    page = followed(ada, address, **form)
    assert "mon-fri 22:00-06:00, sat 00:00-24:00 (Europe/Rome)" in page and ">10%<" in page.replace(" ", "")
    for wrong, why in (
        ({"windows": "mon 10:00-10:00"}, "begins when it ends"),
        ({"zone": "Moon"}, "no time zone"),
        ({"share-backfill": "99"}, "at most 99"),
        ({"share-aa": "-1"}, "no number"),
    ):
        refused = followed(ada, address, **form | wrong)
        held = refused.split("Change its windows and shares")[1]
        assert why in refused and all(f'value="{text}"' in held or f">{text}<" in held for text in wrong.values())
    assert Machine.objects.get().shares == {"backfill": 10}


def test_windows_and_shares_by_command(kvd: World) -> None:
    assert "it takes work in 22:00-06:00 (UTC)" in said("machine", "windows", "kvd-m1", "22:00-06:00", "--dry-run")
    assert Machine.objects.get().windows == []
    said("machine", "windows", "kvd-m1", "22:00-06:00")
    assert "history 20%" in said("machine", "shares", "kvd-m1", "backfill=20")
    assert (Machine.objects.get().windows, Machine.objects.get().shares) == (["22:00-06:00"], {"backfill": 20})
    for words, why in (
        (["windows", "kvd-m1", "22:00"], "is not a window"),
        (["shares", "kvd-m1", "backfill=x"], "no share"),
        (["pause", "kvd-m1", "now"], "takes one name"),
        (["token", "kvd-m1", "--dry-run"], "no dry run"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("machine", *words)


def test_pausing_draining_and_untracking_say_what_they_would_do(ada: Client, kvd: World) -> None:
    kvd.push(3)
    builders.claim(kvd.machines[0])
    assert "It would be: machine kvd-m1 is paused" in said("machine", "pause", "kvd-m1", "--now", "--dry-run")
    assert "1 run queued" in said("machine", "pause", "kvd-m1", "--now", "--dry-run")
    assert "Nothing was done" in followed(ada, "/settings/machines/kvd-m1/drain", preview="yes")
    assert not Machine.objects.get().paused
    assert "2 waiting runs taken from the queue" in said("untrack", "kvd", "--dry-run")
    asked = followed(ada, "/p/kvd/settings/untrack/", slug="kvd", preview="yes")
    assert "2 waiting runs taken" in asked and 'value="kvd"' in asked
    retired = followed(ada, "/settings/machines/kvd-m1/retire", name="kvd-m1", preview="yes")
    assert "Nothing was done" in retired and 'name="name" value="kvd-m1"' in retired
    assert Project.objects.get().untracked_at is None
    assert "kvd is no longer tracked; 2 waiting runs cancelled" in said("untrack", "kvd")
    with pytest.raises(CommandError, match="not tracked already"):
        call_command("untrack", "kvd")


def mirrors() -> list[str]:
    return sorted(file.name for file in Path(settings.MIRRORS).iterdir())


def test_tracking_says_what_it_would_queue_and_that_is_what_it_queues(ada: Client, kvd: World) -> None:
    """A repository of another name that nobody has cloned; its machine has measured the suite of another project."""
    taken_times()
    url, tracks = kvd.project.url, "again: main of "
    kvd.machines[0].projects.clear()
    before, projects, clones = rows(), Project.objects.count(), mirrors()
    words = ["track", url, "--suite", "tiny", "--name", "again", "--last", "2"]
    answer = said(*words, "--dry-run")
    assert f"Nothing was done. It would be: {tracks}{url} is tracked with suite tiny; 2 runs queued" in answer
    assert "on kvd-m1: 2 runs queued, which take about" in answer
    assert f"commits: {kvd.shas[-1][:10]}, {kvd.shas[-2][:10]}" in answer
    form = {"url": url, "suite": "tiny", "name": "again", "last": "2"}
    page = followed(ada, "/settings/track/", **form, preview="yes")
    assert f"{tracks}{url} is tracked with suite tiny; 2 runs queued; on kvd-m1: 2 runs queued" in page
    assert 'name="name" value="again"' in page and 'name="last" value="2"' in page
    assert (rows(), Project.objects.count(), mirrors()) == (before, projects, clones)
    assert not AuditEntry.objects.exists()
    followed(ada, "/settings/track/", **form)
    again = Project.objects.get(slug="again")
    assert pushes.sync_and_plan(again) == 2
    shas = Run.objects.filter(project=again).order_by("-priority").values_list("commit__sha", flat=True)
    assert list(shas) == [kvd.shas[-1], kvd.shas[-2]]


def test_tracking_another_branch_says_what_it_would_queue(kvd: World) -> None:
    kvd.repository.git("checkout", "--quiet", "-b", "8.0")
    [new] = kvd.repository.commits(1)
    kvd.repository.git("checkout", "--quiet", "main")
    before, words = rows(), ["track", kvd.project.url, "--suite", "tiny", "--name", "kvd", "--branch", "8.0"]
    answer = said(*words, "--last", "1", "--dry-run")
    assert "kvd: 8.0 of" in answer and f"commits: {new[:10]}" in answer
    assert rows() == before and not kvd.project.branches.filter(name="8.0").exists()
    assert "1 runs queued" in said(*words, "--last", "1")
    assert Run.objects.get(status=Status.QUEUED).commit.sha == new


def test_what_cannot_be_tracked_has_no_dry_run(kvd: World, tmp_path: Path) -> None:
    words = ["track", kvd.project.url, "--dry-run", "--suite"]
    for more, why in ((["no"], "no suite 'no'"), (["tiny", "--branch", "no"], "has no branch 'no'")):
        with pytest.raises(CommandError, match=why):
            call_command(*words, *more, "--name", "again")
    other = builders.Repository(tmp_path / "other" / "kvd")
    other.commit()
    with pytest.raises(CommandError, match="give this one another --name"):
        call_command("track", str(other.path), "--suite", "tiny", "--dry-run")


def test_a_head_of_a_pull_request_is_approved_on_the_page(ada: Client, kvd: World) -> None:
    kvd.repository.git("checkout", "--quiet", "--detach")
    sha = kvd.repository.commit("What <somebody> offers")
    kvd.repository.git("update-ref", "refs/pull/3/head", sha)
    kvd.repository.git("checkout", "--quiet", "main")
    PullRequest.objects.create(
        project=kvd.project, number=3, title="A <b>", head_sha=sha, base_ref="main", updated_at=timezone.now()
    )
    page = html_of(ada.get("/p/kvd/pulls/"))
    assert "#3 A &lt;b&gt;" in page and f"Approve {sha[:10]}" in page
    assert "has another head now" in followed(ada, "/p/kvd/pulls/3/approve", head="b" * 40)
    asked = followed(ada, "/p/kvd/pulls/3/approve", head=sha, preview="yes")
    assert f"Nothing was done. It would be: kvd #3 at {sha[:10]} is approved" in asked
    assert "on kvd-m1: 1 run queued" in asked and f"commits: {sha[:10]}" in asked
    assert "on kvd-m1: 1 run queued" in said("pulls", "kvd", "3", "--head", sha, "--dry-run")
    assert not Approval.objects.exists() and not AuditEntry.objects.exists() and waiting() == 0
    assert "is approved" in followed(ada, "/p/kvd/pulls/3/approve", head=sha)
    assert ada.post("/p/kvd/pulls/4/approve").status_code == 404
    pullrequests.plan_approved()
    kvd.slow.add(sha)
    kvd.shas.append(sha)
    kvd.measure()
    page = html_of(ada.get("/p/kvd/pulls/"))
    assert "approved by ada" in page and "<strong>Slower +20" in page and ", by pairs</strong>" in page
    assert "approved" in said("pulls", "kvd")
    ada.logout()
    assert "Approve" not in html_of(ada.get("/p/kvd/pulls/"))
    assert ada.post("/p/kvd/pulls/3/approve", {"head": sha}).status_code == 302


def test_a_pull_request_is_approved_by_command(kvd: World) -> None:
    known = {"title": "An offer", "head_sha": "a" * 40, "base_ref": "main", "updated_at": timezone.now()}
    PullRequest.objects.create(project=kvd.project, number=3, **known)
    assert "waits for approval" in said("pulls", "kvd")
    with pytest.raises(CommandError, match=f"--head {'a' * 40}"):
        call_command("pulls", "kvd", "3")
    with pytest.raises(CommandError, match="no pull request 4"):
        call_command("pulls", "kvd", "4")
    assert "is approved" in said("pulls", "kvd", "3", "--head", "a" * 40)


def test_a_look_goes_on_where_nothing_is_to_be_planned(kvd: World) -> None:
    assert pushes.sync_and_plan(kvd.project) == 0
