"""Every page shows what retention has left, and says what it has deleted."""

from typing import Any

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Branch
from speedtrack.retention import kept
from speedtrack.retention.tests.ages import contents, let_pass, measure_fully, prune
from speedtrack.runs.models import Measurement, Profile, Reason, Run
from speedtrack.tests import builders
from speedtrack.web.tests.world import World, html_of

YEARS = 10_000  # days


@pytest.fixture
def pruned(kvd: World) -> Run:
    """A run with all that a run can have, of which retention has left the summaries."""
    kvd.push(1)
    run = measure_fully(builders.claim(kvd.machines[0]))
    let_pass(YEARS)
    prune()
    assert not any(contents([run.pk]).values())
    return run


def test_the_page_of_a_run_says_what_is_deleted(client: Client, pruned: Run) -> None:
    page = html_of(client.get(f"/runs/{pruned.pk}/"))
    assert "Server CPU per request" in page and "5.00 µs" in page
    for sentence in (
        "Its log was deleted after 90 days by retention.",
        "Its trials and their samples were deleted after 730 days by retention.",
        "What its trials reported, and the script that repeats them, were deleted after 90 days by retention.",
        "The changes of its status were deleted after 365 days by retention.",
    ):
        assert sentence in page
    assert "Reproduce this" not in page


def test_a_run_that_has_all_says_nothing_of_retention(client: Client, kvd: World) -> None:
    kvd.push(1)
    run = measure_fully(builders.claim(kvd.machines[0]))
    assert "by retention" not in html_of(client.get(f"/runs/{run.pk}/"))


def test_the_log_says_that_it_is_deleted(client: Client, pruned: Run) -> None:
    response = client.get(f"/runs/{pruned.pk}/log.txt")
    assert response.getvalue().decode() == "Its log was deleted after 90 days by retention.\n"


def test_the_script_says_that_it_is_deleted(client: Client, pruned: Run) -> None:
    response = client.get(f"/runs/{pruned.pk}/reproduce.sh")
    assert response.status_code == 404
    assert "the script that repeats them, were deleted after 90 days by retention." in html_of(response)


def test_a_policy_that_is_for_ever_now_has_no_days(client: Client, pruned: Run, settings: Any) -> None:
    settings.KEEP_DAYS = settings.KEEP_DAYS | {"logs": 0}
    assert "Its log was deleted by retention." in html_of(client.get(f"/runs/{pruned.pk}/"))


def test_commit_timeline_and_lists_show_the_summaries(client: Client, pruned: Run) -> None:
    commit = html_of(client.get(f"/p/kvd/c/{pruned.commit.sha}/"))
    assert "Server CPU per request" in commit and "5.00 µs" in commit
    line = "/p/kvd/timeline/get-p1/server_cpu_ns_per_request"
    points = client.get(f"{line}.json").json()
    assert len(points["lines"][0]["value"]) == Branch.objects.get().positions.count()
    assert b"5002" in client.get(f"{line}.csv").getvalue()
    for address in (line, "/", "/p/kvd/", "/p/kvd/sensitivity/", "/queue/", "/machines/kvd-m1/", "/alerts/"):
        assert client.get(address).status_code == 200


def test_the_page_of_an_alert_has_all_its_evidence(client: Client, slow: tuple[World, Alert]) -> None:
    _, alert = slow
    before = client.get(f"/alerts/{alert.pk}/")
    let_pass(YEARS)
    prune()
    after = client.get(f"/alerts/{alert.pk}/")
    assert after.status_code == 200
    for word in ("pairs", "Evidence", "20"):
        assert html_of(before).count(word) == html_of(after).count(word)


def test_a_profile_run_says_that_its_profiles_are_deleted(client: Client, slow: tuple[World, Alert]) -> None:
    world, _ = slow
    run = Run.objects.filter(reason=Reason.PROFILE).order_by("pk").last()
    if run is None:
        from speedtrack.alerts.triage import profiling

        profiling.plan_missing_profiles()
        world.measure()
        run = Run.objects.get(reason=Reason.PROFILE)
    profile = Profile.objects.filter(attempt__run=run).first()
    assert profile
    let_pass(YEARS)
    prune()
    assert client.get(f"/profiles/{profile.pk}.folded").status_code == 200, "the alert rests on it"
    Alert.objects.all().delete()
    world.project.tags.all().delete()
    for model in (kept.Verdict, kept.ChangePoint, kept.BestLevel):
        model.objects.all().delete()
    prune("--again")
    assert "The profiles were deleted after 365 days by retention." in html_of(client.get(f"/runs/{run.pk}/"))
    gone = client.get(f"/profiles/{profile.pk}.folded")
    assert gone.status_code == 404 and "Profiles are deleted after 365 days by retention." in html_of(gone)


def test_a_run_that_is_gone_says_which_ones_are_deleted(client: Client, kvd: World) -> None:
    gone = client.get("/runs/123456/")
    assert gone.status_code == 404
    words = "Runs of canaries with all that they measured are deleted after 90 days by retention."
    assert words in html_of(gone)


def test_new_commits_are_compared_with_what_is_left(client: Client, kvd: World) -> None:
    """Detection and the comparison of a commit read summaries where samples are gone."""
    let_pass(YEARS)
    prune()
    kvd.push(3, slow=True)
    kvd.measure()
    assert kvd.settle() is not None
    assert Measurement.objects.filter(accepted=True).exists()
