"""Everything that pages show is read by programs, in pages, with few queries, and by those only who may."""

from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from speedtrack.accounts.models import Role, Scope
from speedtrack.alerts.models import Alert
from speedtrack.api.v1.tests.conftest import Program, program
from speedtrack.projects.models import Branch, Project, Tag
from speedtrack.runs.models import Measurement, Run
from speedtrack.web.tests.world import CPU, World, counted

LISTS = (
    *("projects", "projects/kvd/branches", "projects/kvd/commits", "projects/kvd/tags", "projects/kvd/pulls"),
    *("projects/kvd/benchmarks", "projects/kvd/series", "projects/kvd/measurements", "projects/kvd/alerts", "alerts"),
    *("projects/kvd/change-points", "projects/kvd/mutes?all=true", "projects/kvd/runs", "runs", "metrics", "machines"),
    *("projects/kvd/annotations", "machines/kvd-m1/environments"),
)


def test_all_lists_and_what_they_link_to(slow: tuple[World, Alert], anybody: Program) -> None:
    made, alert = slow
    found = {path: anybody.read(path)["items"] for path in LISTS}
    assert [one["slug"] for one in found["projects"]] == ["kvd"]
    assert [one["sha"] for one in found["projects/kvd/commits"]] == made.shas[::-1]
    assert found["alerts"][0]["changes"][0]["is_slowdown"]
    assert {one["benchmark"] for one in found["projects/kvd/series"]} == {"get-p1", "set-p1"}
    linked = [one["url"] for items in found.values() for one in items if one.get("url")]
    assert len(linked) > 60
    for address in linked:
        anybody.read(address)
    assert anybody.read(f"alerts/{alert.pk}")["history"][0]["kind"] == "raised"
    assert anybody.read("queue")["machines"][0]["machine"] == "kvd-m1"


def test_points_and_raw_samples(slow: tuple[World, Alert], anybody: Program) -> None:
    made, _ = slow
    (series,) = anybody.read(f"projects/kvd/series?benchmark=get-p1&metric={CPU}")["items"]
    document = anybody.read(series["points_url"])
    assert document["points"]["sha"] == made.shas
    assert document["points"]["position"] == list(range(8))
    assert document["points"]["value"][5] > 1.1 * document["points"]["value"][4]
    assert document["points"]["committed_at"][0] == "2023-11-14T23:13:20Z"
    measured = anybody.read(f"projects/kvd/measurements?series={series['id']}&commit={made.shas[0]}&paired=false")
    (one,) = measured["items"]
    details = anybody.read(one["url"])
    assert len(details["samples"]) == len(details["trials"]) == 5
    assert document["points"]["value"][0] == details["value"]
    first, second = (anybody.read(f"{series['points_url']}?limit=5{more}") for more in ("", ""))
    assert first == second and first["points"]["sha"] == made.shas[:5]
    assert anybody.read(first["next"])["points"]["sha"] == made.shas[5:]
    part = anybody.read(f"{series['points_url']}?after={made.shas[1]}&until={made.shas[3][:8]}")
    assert part["points"]["sha"] == made.shas[2:4]
    assert anybody.read(f"{series['points_url']}?last=2")["points"]["sha"] == made.shas[6:]


def test_a_page_is_stable_while_rows_come(kvd: World, anybody: Program) -> None:
    first = anybody.read("projects/kvd/commits?limit=3")
    kvd.push(2)
    second = anybody.read(first["next"])
    assert [one["sha"] for one in (*first["items"], *second["items"])] == kvd.shas[3::-1]
    assert second["next"] is None
    problem = anybody.refused("GET", "projects/kvd/commits?cursor=nonsense")
    assert problem["errors"][0]["parameter"] == "cursor"
    assert anybody.refused("GET", "projects/kvd/commits?limit=1001")["errors"][0]["parameter"] == "limit"


def test_a_branch_with_a_slash_in_its_name_names_a_commit(kvd: World, anybody: Program) -> None:
    main = Branch.objects.get(project=kvd.project)
    Branch.objects.create(project=kvd.project, name="fix/a#1", head=main.head)
    for name in ("fix/a%231", "fix%2Fa%231"):
        assert anybody.read(f"projects/kvd/commits/{name}")["sha"] == kvd.shas[-1]
    assert "no branch, tag or commit 'fix/b'" in anybody.refused("GET", "projects/kvd/commits/fix/b")["detail"]


def test_pages_of_releases_are_full(kvd: World, anybody: Program) -> None:
    for name in ("1.0.0", "1.0.1-rc1", "nightly", "v1.1.0", "v2.0.0"):
        Tag.objects.create(project=kvd.project, name=name, sha=kvd.shas[0])
    first = anybody.read("projects/kvd/tags?releases=true&limit=2")
    second = anybody.read(first["next"])
    assert [[one["name"] for one in page["items"]] for page in (first, second)] == [["1.0.0", "v1.1.0"], ["v2.0.0"]]
    assert second["next"] is None and len(anybody.read("projects/kvd/tags")["items"]) == 5


def test_versions(kvd: World, anybody: Program) -> None:
    """An answer that the client has is not sent again, until something changes."""
    address = anybody.read("projects/kvd/series")["items"][0]["points_url"]
    version = anybody.call("GET", address).headers["ETag"]
    again = anybody.call("GET", address, **{"If-None-Match": version})
    assert (again.status_code, again.content) == (304, b"")
    kvd.push(1)
    kvd.measure()
    assert anybody.call("GET", address, **{"If-None-Match": version}).status_code == 200


def test_head_is_answered_like_get_without_a_body(kvd: World, anybody: Program) -> None:
    for address in ("projects", "projects/kvd/commits?limit=3", "projects/nobody", "openapi.json"):
        got, head = anybody.call("GET", address), anybody.call("HEAD", address)
        assert (head.status_code, head.content) == (got.status_code, b"")
        for name in ("ETag", "Content-Type", "Content-Length"):
            assert head.headers.get(name) == got.headers.get(name)
    assert anybody.call("HEAD", "projects/kvd/results").status_code == 405


def test_comparison(slow: tuple[World, Alert], anybody: Program) -> None:
    made, _ = slow
    found = anybody.read(f"projects/kvd/compare?base={made.shas[0]}&head=main")
    assert found["machine"] == "kvd-m1"
    worst = found["rows"][0]
    assert (worst["benchmark"], worst["metric"], worst["verdict"]) == ("get-p1", CPU, "worse")
    assert 1.15 < worst["low"] < worst["ratio"] < worst["high"] < 1.25
    problem = anybody.refused("GET", "projects/kvd/compare?base=nothing&head=main")
    assert problem["errors"] == [{"parameter": "base", "detail": "kvd has no branch, tag or commit 'nothing'"}]


def test_run_and_log(kvd: World, anybody: Program) -> None:
    run = Run.objects.order_by("pk")[0]
    found = anybody.read(f"runs/{run.pk}")
    assert found["benchmarks"] == ["get-p1", "set-p1"]
    assert [event["after"] for event in found["events"]][-1] == "succeeded"
    assert found["builds"][0]["artifacts"][0]["bytes"] > 0
    assert anybody.read(found["log_url"])["run"] == run.pk


def test_who_may_read(kvd: World, anybody: Program) -> None:
    """A private project is there for its members only; each address of it is as if it were not there."""
    run, measurement = Run.objects.order_by("pk")[0], Measurement.objects.order_by("pk")[0]
    Project.objects.update(is_public=False)
    paths = [path for path in LISTS if "kvd/" in path and "machines" not in path]
    paths += ["projects/kvd", f"runs/{run.pk}", f"runs/{run.pk}/log", f"measurements/{measurement.pk}", "series/1"]
    paths += [f"series/{measurement.series_id}/points", "projects/kvd/compare?base=main&head=main"]
    member = program("ada", Scope.READ, project=kvd.project, role=Role.READER)
    stranger, results = program("bob", Scope.READ), program("ada", Scope.RESULTS)
    for path in paths:
        assert anybody.refused("GET", path)["status"] == 404
        assert stranger.refused("GET", path)["status"] == 404
    assert member.call("GET", "projects/kvd/series").status_code == 200
    assert results.refused("GET", "projects/kvd/series")["status"] == 403
    for path in ("projects", "runs", "alerts"):
        assert anybody.read(path)["items"] == []
    assert member.read("projects")["items"][0]["is_public"] is False
    browser = Program(Client(raise_request_exception=False))
    browser.client.force_login(User.objects.get(username="ada"))
    assert browser.call("GET", "projects/kvd").status_code == 200
    assert browser.refused("POST", f"runs/{run.pk}/cancel")["status"] == 401
    assert member.read("")["user"] == "ada"


def test_queries_do_not_grow_with_rows(slow: tuple[World, Alert], anybody: Program) -> None:
    made, alert = slow
    paths = [*LISTS, "queue", f"alerts/{alert.pk}", f"projects/kvd/compare?base={made.shas[0]}&head={made.shas[3]}"]

    def queries(path: str) -> int:
        anybody.read(path)
        with counted() as context:
            anybody.read(path)
        return len(context)

    small = {path: queries(f"{path}{'&' if '?' in path else '?'}limit=1") for path in paths}
    large = {path: queries(path) for path in paths}
    assert small == large
    assert max(large.values()) <= 13


def test_no_values_that_json_lacks(kvd: World, anybody: Program) -> None:
    Measurement.objects.update(value=float("nan"), high=float("inf"))
    series: Any = anybody.read("projects/kvd/series")["items"][0]
    assert set(anybody.read(series["points_url"])["points"]["value"]) == {None}
    assert anybody.read("projects/kvd/measurements")["items"][0]["high"] is None
