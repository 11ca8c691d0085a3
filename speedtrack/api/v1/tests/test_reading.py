"""Everything that pages show is read by programs, in pages, with few queries, and by those only who may."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from speedtrack.accounts.models import Role, Scope
from speedtrack.alerts.models import Alert, Bisection, Mute
from speedtrack.alerts.triage import muting
from speedtrack.alerts.triage.muting import MuteRequest
from speedtrack.api.tests.test_golden import shape
from speedtrack.api.v1.published.pages import schema
from speedtrack.api.v1.tests.conftest import Program, evidence_of, program
from speedtrack.benchmarks.metrics import LONGEST_KEY, Direction, outside_key
from speedtrack.benchmarks.models import LONGEST_NAME, Benchmark
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.projects.models import Annotation, Branch, Project, Tag
from speedtrack.runs import packing
from speedtrack.runs.models import Import, Measurement, PairedComparison, Profile, Result, Run, Series
from speedtrack.runs.requests import comparing
from speedtrack.runs.requests.comparing import AskedComparison
from speedtrack.tests.latencies import encoded
from speedtrack.web.tests.world import CPU, World, counted

LISTS = (
    *("projects", "projects/kvd/branches", "projects/kvd/commits", "projects/kvd/tags", "projects/kvd/pulls"),
    *("projects/kvd/benchmarks", "projects/kvd/series", "projects/kvd/measurements", "projects/kvd/alerts", "alerts"),
    *("projects/kvd/change-points", "projects/kvd/mutes?all=true", "projects/kvd/runs", "runs", "metrics", "machines"),
    *("projects/kvd/annotations", "machines/kvd-m1/environments", "machines/kvd-m1/canary-checks"),
    *("projects/kvd/imports", "projects/kvd/bisections", "projects/kvd/sensitivity"),
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


def test_what_stands_behind_numbers(slow: tuple[World, Alert], anybody: Program) -> None:
    made, _ = slow
    evidence_of(made)
    (brought,) = anybody.read("projects/kvd/imports")["items"]
    assert anybody.read(brought["url"]) == brought
    assert (brought["door"], brought["by"], brought["tool"], brought["runs"]) == ("command", "ada", "hyperfine", 1)
    (sent,) = anybody.read("projects/kvd/measurements?benchmark=sort")["items"]
    assert anybody.read(sent["url"])["origin"] == {
        "import_id": brought["id"],
        "measured_at": "2026-03-01T12:00:00Z",
        "id": "",
        "page": "",
        "tags": {"job": "7"},
    }
    (searched,) = anybody.read("projects/kvd/bisections")["items"]
    found = anybody.read(searched["url"])["searches"]
    assert [(one["benchmark"], one["after"], one["until"]) for one in found] == [
        ("get-p1", made.shas[2], made.shas[3]),
        ("set-p1", None, None),
    ]
    assert {one["sha"]: one["answer"] for one in found[0]["answers"]} == {
        made.shas[3]: "different",
        made.shas[2]: "old",
    }
    (check,) = anybody.read("machines/kvd-m1/canary-checks")["items"]
    assert (check["project"], check["answer"], check["is_good"]) == ("kvd", "steady", True)
    (profile,) = anybody.read(f"runs/{check['run']}/profiles")["items"]
    assert anybody.read(profile["url"])["stacks"] == ["main;get 2", "main 1"]
    shown = anybody.read(f"projects/kvd/sensitivity?benchmark=get-p1&metric={CPU}")["items"][0]
    assert (shown["benchmark"], shown["metric"], shown["machine"]) == ("get-p1", CPU, "kvd-m1")
    assert shown["points"] > 0 and isinstance(shown["is_too_noisy"], bool)


def test_a_percentile_curve(kvd: World, anybody: Program) -> None:
    place = f"projects/kvd/latency?commit={kvd.shas[0]}&benchmark=get-p1&machine=kvd-m1"
    empty = anybody.read(place)
    assert (empty["trials"], empty["requests"], empty["curve"]) == (0, 0, [])
    trial = {"name": "get", "latency_hdr_v2": encoded(range(10_000, 20_000)), "flags": []}
    documents = [{"trial": 1, "driver": {"schema": "speedbench.v1", "tests": [trial]}}]
    own = Result.objects.filter(attempt__run__commit=kvd.commit(0), benchmark__name="get-p1")
    assert own.update(documents=packing.pack(documents)) == 1
    found = anybody.read(place)
    assert (found["trials"], found["requests"], found["is_flagged"]) == (1, 10_000, False)
    curve = {round(one["share"], 6): one["ns"] for one in found["curve"]}
    assert curve[0] == pytest.approx(10_000, rel=1e-3) and curve[1] == pytest.approx(20_000, rel=1e-3)
    assert curve[0.9] == pytest.approx(19_000, rel=1e-3) and list(curve.values()) == sorted(curve.values())
    assert anybody.refused("GET", place.replace(kvd.shas[0], "no"))["errors"][0]["parameter"] == "commit"
    assert anybody.refused("GET", "projects/kvd/latency?commit=main&machine=kvd-m1")["errors"][0] == {
        "parameter": "benchmark",
        "detail": "Field required",
    }


def test_the_longest_names_are_muted_and_looked_for(slow: tuple[World, Alert], anybody: Program) -> None:
    """Names of benchmarks from outside contain their parameters, and those of metrics their units."""
    made, _ = slow
    metric = outside_key("m" * (LONGEST_KEY - len("--ms--lower")), "ms", Direction.LOWER)
    name = "n" * LONGEST_NAME
    Benchmark.objects.filter(name="set-p1").update(name=name)
    Series.objects.filter(benchmark__name=name, metric=CPU).update(metric=metric)
    triager = program("ada", Scope.READ, Scope.TRIAGE, project=made.project, role=Role.TRIAGER)
    order = {"benchmark": name, "metric": metric, "reason": "noise", "days": 3}
    mute = triager.write("POST", "projects/kvd/mutes", order, 201)
    assert (mute["benchmark"], mute["metric"]) == (name, metric)
    (series,) = anybody.read(f"projects/kvd/series?benchmark={name}&metric={metric}")["items"]
    (benchmark,) = anybody.read(f"projects/kvd/benchmarks?name={name}")["items"]
    assert (series["metric"], benchmark["name"]) == (metric, name)


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
    for early in ("0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59", "10000-01-01T00:00:00Z", "2026-01-01"):
        problem = anybody.refused("GET", f"projects/kvd/commits?since={early}")
        assert (problem["status"], problem["errors"][0]["parameter"]) == (422, "since"), early
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


def shape_of(comparison: Any) -> Any:
    """The comparison with the first of its rows and totals."""
    return shape({**comparison, "rows": comparison["rows"][:1], "totals": comparison["totals"][:1]})


def test_comparison(slow: tuple[World, Alert], anybody: Program) -> None:
    made, _ = slow
    found = anybody.read(f"projects/kvd/compare?base={made.shas[0]}&head=main")
    assert found["machine"] == "kvd-m1"
    worst = found["rows"][0]
    assert (worst["benchmark"], worst["metric"], worst["verdict"]) == ("get-p1", CPU, "worse")
    assert 1.15 < worst["low"] < worst["ratio"] < worst["high"] < 1.25
    assert found["summary"] == "Slower +20.0%: get-p1 and 1 more, in single measurements"
    golden = json.loads((BASE_DIR / "client" / "tests" / "golden" / "compare.v2.json").read_text())
    assert shape_of(found) == shape_of(golden), "the client is tested with this document"
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


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
NUMBERS = {  # by the parameter of an address: what it numbers
    "run_id": Run,
    "alert_id": Alert,
    "mute_id": Mute,
    "annotation_id": Annotation,
    "bisection_id": Bisection,
    "measurement_id": Measurement,
    "series_id": Series,
    "profile_id": Profile,
    "import_id": Import,
    "comparison_id": PairedComparison,
}
OTHER_PARTS = {"sha": "main", "name": "main", "revision": "main", "branch": "main", "number": "1", "role": "reader"}


def both_addresses(path: str) -> tuple[str, str]:
    """An address of a private project, and one of none, which is as long."""
    hidden, absent = path.replace("{slug}", "kvd"), path.replace("{slug}", "non")
    for name, model in NUMBERS.items():
        row = model._default_manager.order_by("pk").first()
        number = row.pk if row else 1
        hidden = hidden.replace(f"{{{name}}}", str(number))
        absent = absent.replace(f"{{{name}}}", str(number + 10**9))
    for name in re.findall(r"\{(\w+)\}", hidden):
        hidden, absent = (one.replace(f"{{{name}}}", OTHER_PARTS.get(name, "1")) for one in (hidden, absent))
    return hidden, absent


ORDERS: dict[str, list[dict[str, Any]]] = {  # by the end of an address: bodies that are right elsewhere
    "bisections": [{"base": "main~1", "head": "main", "machine": "kvd-m1", "benchmarks": ["get-p1"]}],
    "comparisons": [{"head": "main"}],
    "patches": [{"diff": "x"}, {"diff": "x", "dry_run": True}],
    "{alert_id}": [{"seen": "confirmed", "status": "fixed"}, {"seen": "confirmed", "assignee": "bob"}],
    "mutes": [{"benchmark": "get-p1", "reason": "noise", "days": 3}],
    "runs": [{"branch": "main"}, {"branch": "main", "dry_run": True}, {"pull_request": 1, "head": "a" * 40}],
    "annotations": [{"commit": "main", "text": "x"}],
    "{annotation_id}": [{"text": "x"}],
    "policies": [{"ignored_paths": ["*.md"]}],
    "purge": [{"older_than_days": 1}],
    "results": [{"schema": "speedtrack.points/1", "commit": "main", "machine": "ci", "tool": "x", "results": []}],
    "files": [{"tool": "hyperfine", "name": "a.json", "content": "e30=", "commit": "main", "machine": "ci"}],
}


def bodies_of(path: str, operation: dict[str, Any]) -> list[Any]:
    return [None, {}, *ORDERS.get(path.rpartition("/")[2], [])] if "requestBody" in operation else [None]


def answer_to(caller: Program, method: str, address: str, body: Any) -> tuple[Any, ...]:
    answer = caller.call(method, address, body)
    text = b"".join(answer.streaming_content) if answer.streaming else answer.content
    names = re.compile(r"non\b|kvd\b|\b1?0*\d{1,10}\b")
    headers = {
        name: value for name, value in answer.items() if not name.startswith("RateLimit") and name != "Content-Length"
    }
    return answer.status_code, headers, names.sub("N", text.decode())


def test_no_operation_tells_a_private_project_from_none(slow: tuple[World, Alert], settings: Any) -> None:
    settings.API_RATE = settings.API_RATE_ANONYMOUS = 0
    made, _ = slow
    evidence_of(made)
    muting.mute(made.project, MuteRequest("set-p1", "", None, "noise", 1), User.objects.create_superuser("olga"))
    Annotation.objects.create(project=made.project, moment=timezone.now(), text="moved")
    comparing.ask(made.project, AskedComparison("main", made.shas[0]), None)
    Project.objects.update(is_public=False)
    callers = {
        "nobody": Program(Client(raise_request_exception=False)),
        "a stranger": program("bob"),
        "a token without a scope": program("bob", Scope.RESULTS),
        "no token": Program(Client(raise_request_exception=False), "nonsense"),
    }
    callers["a session"] = Program(Client(raise_request_exception=False))
    callers["a session"].client.force_login(User.objects.get(username="bob"))
    told = []
    for path, operations in schema()["paths"].items():
        hidden, absent = both_addresses(path)
        for method in METHODS if hidden != absent else ():
            for body in bodies_of(path, operations.get(method.lower(), {})):
                for name, caller in callers.items():
                    one, two = (answer_to(caller, method, address, body) for address in (hidden, absent))
                    if one != two:
                        told.append(f"{name}: {method} {hidden} {body}: {one} is not {two}")
    assert not told, "\n".join(told)


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
