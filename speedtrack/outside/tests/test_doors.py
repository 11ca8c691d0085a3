"""The doors for results from outside: the API, Codespeed's addresses, and files."""

import base64
import json
import shutil
import threading
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client

from speedtrack.accounts import tokens
from speedtrack.accounts.models import AuditEntry, Membership, Role, Scope
from speedtrack.outside import commits, document, importing, taking
from speedtrack.outside.importing import Unreadable
from speedtrack.outside.readers import Options
from speedtrack.outside.readers.folders import folder_of
from speedtrack.outside.readers.formats import asv
from speedtrack.outside.readers.tests.test_field_files import CASES
from speedtrack.outside.tests.conftest import document_of, row
from speedtrack.projects import sync
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Import, Machine, Measurement, Samples, Series
from speedtrack.tests import builders

GOLDEN = Path(__file__).parent / "points.v1.json"


def token_of(project: Project, role: Role | None, *scopes: Scope) -> str:
    user, _ = User.objects.get_or_create(username="ada")
    if role:
        Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    return tokens.issue(user, "ci", scopes or [Scope.RESULTS], days=None)[1]


def post(client: Client, token: str, body: Any, path: str = "/api/v1/projects/kvd/results", **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.generic(
        "POST", path, raw, content_type="application/json", headers={"Authorization": f"Bearer {token}", **headers}
    )


def test_the_api_takes_batches_once(client: Client, project: Project, shas: list[str]) -> None:
    token = token_of(project, Role.MAINTAINER)
    answer = post(client, token, GOLDEN.read_bytes())
    assert (answer.status_code, answer.json()) == (200, {"taken": 3, "unchanged": 0, "refused": []})
    assert post(client, token, GOLDEN.read_bytes()).json()["unchanged"] == 3
    mixed = document_of(row(shas[0]), row("f" * 40))
    assert post(client, token, mixed).json() == {
        "taken": 1,
        "unchanged": 0,
        "refused": [{"index": 1, "pointer": "/results/1/commit", "detail": post_detail("f" * 40)}],
    }
    first = Import.objects.earliest("pk")
    assert (first.name, first.door, first.tool, first.url) == (
        *("ada", "api", "pyperf 2.9.0"),
        "https://ci.example.org/jobs/4711",
    )
    entries = AuditEntry.objects.filter(action="results.import").order_by("pk")
    assert [entry.target for entry in entries] == ["3 results", "1 results"]
    key = {"Idempotency-Key": "4f1b2f9a"}
    other = document_of(row(shas[1]))
    assert [post(client, token, other, **key).json()["taken"] for _ in range(2)] == [1, 1]


def post_detail(sha: str) -> str:
    return f"kvd has no commit, branch or tag {sha!r}: check it, and push it before its results are sent"


def test_the_api_refuses_with_problem_documents(client: Client, project: Project, shas: list[str]) -> None:
    token, right = token_of(project, Role.MAINTAINER), document_of(row(shas[0]))
    path = "/api/v1/projects/kvd/results"
    worse = document_of(row(shas[0]), row(shas[1], value=-1))
    headers = {"Authorization": f"Bearer {token}"}
    large = {"CONTENT_LENGTH": str(100 * 1024**2), "content_type": "application/json", "headers": headers}
    refused: list[tuple[int, str, Any]] = [
        (404, "", post(client, token, right, path="/api/v1/projects/nosuch/results")),
        (422, "", post(client, token, GOLDEN.read_bytes()[:300])),
        (422, "", post(client, token, b"[" * 100_000)),
        (422, "/schema", post(client, token, {**right, "schema": "x"})),
        (422, "/results/0/commit", post(client, token, document_of(row("f" * 40)))),
        (422, "/results/1/value", post(client, token, worse, path=f"{path}?all_or_nothing=true")),
        (413, "", post(client, token, document_of(*[{}] * 10_001))),
        (413, "", client.generic("POST", path, b"", **large)),
        (415, "", client.generic("POST", path, b"a=b", content_type="text/plain", headers=headers)),
        (401, "", post(client, "stpt_wrong", right)),
        (401, "", client.generic("POST", path, b"{}", content_type="application/json")),
        (403, "", post(client, token_of(project, Role.MAINTAINER, Scope.READ), right)),
        (403, "", post(client, token_of(project, Role.TRIAGER), right)),
    ]
    for status, pointer, answer in refused:
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
        if status == 422:
            assert answer.json()["errors"][0]["pointer"] == pointer
    assert not Measurement.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_nobody_waits_long_for_a_repository(
    client: Client, project: Project, repository: builders.Repository, monkeypatch: Any
) -> None:
    """Another process looks at it for a long time; what needs no look is taken."""
    token, head = token_of(project, Role.MAINTAINER), repository.commit("pushed just now")
    known = Commit.objects.earliest("pk").sha
    Project.objects.update(polled_at=None)
    monkeypatch.setattr(commits, "PATIENCE_S", 0.3)
    begun, goes_on = threading.Event(), threading.Event()

    def look_long() -> None:
        with sync.project_lock(project):
            begun.set()
            goes_on.wait(60)
        connection.close()

    other = threading.Thread(target=look_long)
    other.start()
    try:
        begun.wait(60)
        report = post(client, token, document_of(row(known), row(head))).json()
    finally:
        goes_on.set()
        other.join()
    assert (report["taken"], report["refused"][0]["index"]) == (1, 1)
    assert "send the result again in a minute" in report["refused"][0]["detail"]
    assert Project.objects.get().error == ""
    monkeypatch.undo()
    assert post(client, token, document_of(row(known), row(head))).json()["taken"] == 1


@pytest.mark.django_db(transaction=True)
def test_no_program_waits_long_for_another_import(
    client: Client, project: Project, shas: list[str], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import by command holds the project for minutes; there are few threads that take results."""
    token, key = token_of(project, Role.MAINTAINER), {"Idempotency-Key": "4f1b2f9a"}
    settings.CODESPEED_ANONYMOUS = True
    Machine.objects.create(name="Dual-Core", outside=True)
    monkeypatch.setattr(taking, "PATIENCE_S", 0.1)
    begun, goes_on = threading.Event(), threading.Event()

    def import_long() -> None:
        batch = document.batch_of(document_of(row(shas[0])))
        prepared = taking.prepare(project, batch, taking.Sender(Import.Door.COMMAND))
        with transaction.atomic():
            taking.store(prepared)
            begun.set()
            goes_on.wait(60)
        connection.close()

    with ThreadPoolExecutor(1) as others:
        slow = others.submit(import_long)
        try:
            assert begun.wait(60)
            answer = post(client, token, document_of(row(shas[1])), **key)
            codespeed = client.post("/result/add/", codespeed_result(shas[1]))
        finally:
            goes_on.set()
            slow.result()
    for refused in (answer, codespeed):
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10"), refused.content
    assert "another import of kvd is under way" in answer.json()["detail"].lower()
    assert post(client, token, document_of(row(shas[1])), **key).json()["taken"] == 1


class CodespeedClient:
    """The requests of Codespeed's own samples (tools/save_single_result.py, save_multiple_results.py): urlencoded
    forms by urllib, to the address that they have, with the path at its end."""

    def __init__(self, url: str) -> None:
        self.url = url

    def send(self, path: str, form: dict[str, Any]) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, urllib.parse.urlencode(form).encode()) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def add(self, **form: Any) -> tuple[int, str]:
        return self.send("result/add/", form)

    def add_all(self, results: Any) -> tuple[int, str]:
        return self.send(
            "result/add/json/", {"json": results if isinstance(results, str) else json.dumps(results, default=str)}
        )


def codespeed_result(sha: str, **changes: Any) -> dict[str, Any]:
    return {
        "commitid": sha,
        "branch": "default",
        "project": "kvd",
        "executable": "myexe O3 64bits",
        "benchmark": "float",
        "environment": "Dual Core",
        "result_value": 4000,
        **changes,
    }


SAVED, ALL_SAVED = (202, "Result data saved successfully"), (202, "All result data saved successfully")


@pytest.mark.django_db(transaction=True)
def test_codespeeds_clients_work_unchanged(live_server: Any, settings: Any, project: Project, shas: list[str]) -> None:
    now = datetime.today()
    token = token_of(project, Role.MAINTAINER)
    codespeed = CodespeedClient(f"{live_server.url}/codespeed/{token}/")
    optional = {"revision_date": now, "result_date": now, "std_dev": 1.11111, "max": 4001.6, "min": 3995.1}
    assert codespeed.add(**codespeed_result(shas[0], **optional)) == SAVED
    assert codespeed.add(**codespeed_result(shas[0], **optional)) == SAVED
    (only,) = Measurement.objects.select_related("series__benchmark", "series__machine", "origin")
    assert (only.value, only.low, only.high) == (4000, 3995.1, 4001.6)
    assert only.series.benchmark.name == "float (executable=myexe O3 64bits)"
    assert (only.series.metric, only.series.machine.name) == ("Time--s--lower", "Dual-Core")
    assert only.origin.tags == {"branch": "default", "std_dev": "1.11111"}
    described = {"units": "req/s", "units_title": "Rate", "lessisbetter": False, "benchmark": "rate"}
    more = [codespeed_result(shas[0], **described), codespeed_result(shas[1], result_date=None)]
    assert codespeed.add_all(more) == ALL_SAVED
    assert codespeed.add_all([codespeed_result(shas[1], benchmark="rate")]) == ALL_SAVED, "it remembers units"
    assert set(Series.objects.values_list("metric", flat=True)) == {
        "Time--s--lower",
        "Rate-20in-20req-2Fs--req-2Fs--higher",
    }
    wrong = [
        (codespeed_result(""), 'Value for key "commitid" empty in request'),
        ({"commitid": shas[0]}, 'Key "branch" missing from request'),
        (codespeed_result(shas[0], project="nosuch"), "Project nosuch not found"),
        (codespeed_result("23"), "commitid: kvd has no commit"),
        (codespeed_result(shas[0], result_value="nan"), 'Value for key "result_value" is not a number'),
        (codespeed_result(shas[0], result_value="x"), 'Value for key "result_value" is not a number'),
        (codespeed_result(shas[0], result_value="-3"), "result_value: Input should be greater than or equal to 0"),
        (codespeed_result(shas[0], result_date="yesterday"), 'Value for key "result_date" is not a date'),
        (codespeed_result(shas[0], result_date=now + timedelta(days=9)), "in the future"),
        (codespeed_result(shas[0], environment="!?"), "environment: the name of a machine"),
        (codespeed_result(shas[0], benchmark="a\0"), "cannot be stored"),
        (codespeed_result(shas[0], benchmark="a" * 1001), "benchmark: "),
        (codespeed_result(shas[0], units="x" * 30), "unit: "),
    ]
    for form, words in wrong:
        for status, said in (codespeed.add(**form), codespeed.add_all([form])):
            assert (status, words in said) == (400, True), said
    for text in ("", "[", "[" * 100_000, "{}", "[1]", "null", '[{"benchmark": "\\ud800"}]'):
        assert codespeed.add_all(text)[0] == 400
    assert codespeed.add_all("")[1] == "No key 'json' in POST payload"
    partly = codespeed.add_all([codespeed_result(shas[2]), codespeed_result("23")])
    assert partly[0] == 400 and "(1 other results of this request are stored)\nresult 2 of 2 is left out" in partly[1]
    other = Project.objects.create(slug="other", name="other", url="https://example.org/other.git", suite="tiny")
    Membership.objects.create(project=other, user=User.objects.get(), role=Role.MAINTAINER)
    both = codespeed.add_all([codespeed_result("23", project="other"), codespeed_result(shas[2])])
    assert both[0] == 400 and "(1 other results of this request are stored)\nresult 1 of 2 is left out" in both[1]
    assert Measurement.objects.count() == 5
    for place, (form, words) in enumerate(wrong):
        good = [codespeed_result(shas[0], benchmark=f"good{place}-{number}") for number in range(2)]
        status, said = codespeed.add_all([good[0], form, good[1]])
        assert status == 400 and "(2 other results of this request are stored)" in said, said
        assert said.splitlines()[0].startswith(words) or words in said.splitlines()[0]
        assert "result 2 of 3 is left out: " in said and words in said.splitlines()[1], said
    assert Measurement.objects.count() == 5 + 2 * len(wrong)
    several = codespeed.add_all(
        json.dumps([1, {}, {**codespeed_result(shas[0], benchmark="last"), "result_date": None}])
    )
    assert several[0] == 400 and [line[:24] for line in several[1].splitlines()[1:]] == [
        "result 1 of 3 is left ou",
        "result 2 of 3 is left ou",
    ]
    assert Measurement.objects.count() == 6 + 2 * len(wrong)


def test_codespeeds_addresses_need_a_token(client: Client, settings: Any, project: Project, shas: list[str]) -> None:
    form = codespeed_result(shas[0])
    token = token_of(project, Role.MAINTAINER)

    def status(token: str = "", kind: str = "Basic", user: str = "ada", query: str = "") -> int:
        given = base64.b64encode(f"{user}:{token}".encode()).decode() if kind == "Basic" else token
        headers = {"Authorization": f"{kind} {given}"} if token else {}
        return client.post(f"/result/add/{query}", form, headers=headers).status_code

    assert [status(), status("stpt_no"), status("\0"), status("é", "Bearer")] == [401] * 4
    assert client.post("/result/add/", form).headers["WWW-Authenticate"] == 'Basic realm="results"'
    assert client.get("/result/add/").status_code == 405
    assert status(token_of(project, Role.TRIAGER)) == 403
    assert status(token_of(project, Role.MAINTAINER, Scope.READ)) == 403
    assert not Measurement.objects.exists()
    assert [status(token), status(token, "Bearer"), status(query=f"?token={token}")] == [202] * 3
    assert AuditEntry.objects.get(action="results.import").user == User.objects.get()
    settings.CODESPEED_ANONYMOUS = True
    assert status() == 202
    form["environment"] = "Unknown Box"
    answer = client.post("/result/add/", form)
    assert (answer.status_code, answer.content) == (400, b"Environment Unknown Box not found")
    assert not Machine.objects.filter(name="Unknown-Box").exists()
    Project.objects.update(is_public=False)
    answer = client.post("/result/add/", codespeed_result(shas[0]))
    assert (answer.status_code, answer.content[:21]) == (400, b"Project kvd not found")
    settings.API_RATE_ANONYMOUS = 1
    for password in ("", "stpt_no"):
        answers = [client.post(f"/result/add/?token={password}", form) for _ in range(12)]
        assert answers[-1].status_code == 429 and int(answers[-1].headers["Retry-After"]) >= 1
    assert status(token, "Bearer") == 202, "a token has an allowance of its own"


def imported(*arguments: Any) -> str:
    out = StringIO()
    call_command("import", "kvd", *map(str, arguments), stdout=out)
    return out.getvalue()


def test_files_are_imported_whole_or_named_with_what_is_wrong(
    project: Project, shas: list[str], tmp_path: Path, monkeypatch: Any
) -> None:
    assert imported(GOLDEN) == "points.v1.json: 3 taken, 0 unchanged, 0 refused\n"
    assert "3 unchanged" in imported(GOLDEN, "--format", "native")
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps({"schema": "speedtrack.points/1", "results": [row()]}))
    said = ("--commit", shas[0], "--machine", "desk", "--environment", "cpu=Z80", "--measured-at", "2026-03-01T12:00")
    assert "1 taken" in imported(bare, *said)
    stored = Import.objects.latest("pk")
    assert (stored.door, stored.source) == ("command", "bare.json")
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(document_of(row(shas[1]), row("f" * 40))))
    with pytest.raises(CommandError, match="1 results were not stored") as some:
        imported(wrong)
    assert some.value.returncode == 1
    monkeypatch.setattr(document, "MOST_RESULTS", 1)  # of a batch: the next file is several
    several = tmp_path / "several.json"
    several.write_text(json.dumps([{"name": name, "unit": "hops", "value": 2} for name in ("sort", "search")]))
    said = (several, wrong, "--commit", shas[2], "--machine", "ci", "--option", "better=lower")
    with pytest.raises(CommandError, match="results were not stored"):
        imported(*said, "--all-or-nothing")
    assert not Measurement.objects.filter(commit__sha=shas[2]).exists()
    with pytest.raises(CommandError, match="results were not stored"):
        imported(*said)
    assert Measurement.objects.filter(commit__sha=shas[2]).count() == 2
    (tmp_path / "cut.json").write_bytes(GOLDEN.read_bytes()[:500])
    (tmp_path / "unknown.txt").write_text("hello")
    (tmp_path / "folder").mkdir()
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(101 * 1024**2)
    before = Measurement.objects.count()
    for name in ("cut.json", "unknown.txt", "nosuch.json", "folder", "large.json"):
        with pytest.raises(CommandError, match=name) as unreadable:
            imported(GOLDEN, tmp_path / name, "--machine", "other")
        assert unreadable.value.returncode == 2
    assert Measurement.objects.count() == before
    with pytest.raises(CommandError, match="there is no project"):
        call_command("import", "nosuch", str(GOLDEN))


def test_the_smallest_effect_of_a_metric_is_stated_by_command(project: Project, shas: list[str]) -> None:
    imported(GOLDEN)
    out = StringIO()
    call_command("metric", "kvd", "time", "--smallest-effect", "1%", stdout=out)
    assert out.getvalue() == "time: s, lower is better, changes from 1% on\n"
    call_command("metric", "kvd", stdout=out)
    assert "rate: requests/s, higher is better, changes from 3% on" in out.getvalue()
    for arguments in (("nosuch",), ("time", "--smallest-effect", "x"), ("time", "--smallest-effect", "0")):
        with pytest.raises(CommandError):
            call_command("metric", "kvd", *arguments)


def test_a_metric_is_renamed_with_its_history_and_deleted_by_command(project: Project, shas: list[str]) -> None:
    imported(GOLDEN)
    count = Measurement.objects.count()
    named = Series.objects.filter(metric="time--s--lower").count()
    out = StringIO()
    call_command("metric", "kvd", "time", "--rename", "wall time", stdout=out)
    assert "time is wall time now" in out.getvalue()
    assert Series.objects.filter(metric="wall-20time--s--lower").count() == named > 0
    with pytest.raises(CommandError, match="has a metric 'rate' already"):
        call_command("metric", "kvd", "wall time", "--rename", "rate")
    for name, words in (("throughput_rps", "is a metric of runners"), ("a\x1b[31m", "visible"), (" ", "visible")):
        with pytest.raises(CommandError, match=words):
            call_command("metric", "kvd", "wall time", "--rename", name)
    call_command("metric", "kvd", "wall time", "--delete", stdout=out)
    assert "wall time is deleted with" in out.getvalue()
    assert Measurement.objects.count() < count
    assert not Series.objects.filter(metric="wall-20time--s--lower").exists()


def test_a_file_sent_again_after_a_metric_was_renamed_is_recognised(
    project: Project, shas: list[str], tmp_path: Path
) -> None:
    """Under the name that the metric had, and under each that it got; other results of it are stored once, too."""
    results = json.loads(GOLDEN.read_text())
    imported(GOLDEN)
    count = Measurement.objects.count()
    names = ("time", "wall time", "real time", "time")
    for before, name in pairwise(names):
        call_command("metric", "kvd", before, "--rename", name, stdout=StringIO())
        for sent_as in {"time", name}:
            renamed = [one | ({"metric": sent_as} if one["metric"] == "time" else {}) for one in results["results"]]
            (path := tmp_path / "again.json").write_text(json.dumps(results | {"results": renamed}))
            imported(path)
            assert Measurement.objects.count() == count, (name, sent_as)
    new = [one | {"id": "other"} for one in results["results"] if one["metric"] == "time"]
    path.write_text(json.dumps(results | {"results": new}))
    for _ in range(2):
        imported(path)
        assert Measurement.objects.count() == count + len(new) > count


def test_what_cannot_be_used_ends_the_command_with_1_and_refusals_of_a_commit_are_one_sentence(
    project: Project, shas: list[str], tmp_path: Path
) -> None:
    lines = "".join(f"BenchmarkGet{place}-2 10 {place + 1} ns/op\n" for place in range(3))
    path = tmp_path / "bench.txt"
    path.write_text(lines + "BenchmarkBad-2 10 NaN ns/op\n")
    out = StringIO()
    with pytest.raises(CommandError, match="1 results were not stored") as refused:
        call_command("import", "kvd", str(path), "--commit", shas[0], "--machine", "ci", stdout=out)
    assert refused.value.returncode == 1
    assert out.getvalue() == "bench.txt: 3 taken, 0 unchanged, 1 refused\n  line 4, ns/op: 'NaN' is no number\n"
    path.write_text(lines)
    out = StringIO()
    with pytest.raises(CommandError, match="3 results were not stored"):
        call_command("import", "kvd", str(path), "--commit", "f" * 40, "--machine", "ci", stdout=out)
    assert out.getvalue().count("f" * 40) == 1 and "  3 results: kvd has no commit" in out.getvalue()
    with pytest.raises(CommandError, match="there is no option 'bettr': known is better"):
        call_command("import", "kvd", str(path), "--option", "bettr=lower")


@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_example_of_the_docs_and_hyperfine_share_a_metric(
    project: Project, shas: list[str], tmp_path: Path, is_first: bool
) -> None:
    timed = tmp_path / "hyperfine.json"
    timed.write_text('{"results": [{"command": "sort", "mean": 0.121, "times": [0.121]}]}')
    files = [(CASES / "docs-first-example.json", []), (timed, ["--commit", shas[0], "--machine", "ci"])]
    for path, options in files if is_first else reversed(files):
        assert "1 taken, 0 unchanged, 0 refused" in imported(path, *options)
    second = 0.121 if is_first else 121_000_000
    assert Samples.objects.order_by("pk")[1].values[0] == pytest.approx(second, rel=1e-15)
    assert Series.objects.values("metric").distinct().count() == 1


def test_a_history_of_asv_is_read_part_by_part(project: Project, shas: list[str], tmp_path: Path) -> None:
    folder, source = tmp_path / "results", CASES / "asv-negative"
    shutil.copytree(source, folder)
    (only,) = (folder / "box").glob("0*.json")
    text = only.read_text().replace("-0.25", "0.25")
    only.unlink()
    for number, sha in enumerate(shas * 30):
        environment = f'"python": "3.{number}"'  # another line each
        (folder / "box" / f"{number:08}-e.json").write_text(
            text.replace("0" * 40, sha).replace('"python": "3.11"', environment)
        )
    contents = importing.contents_of(folder, "auto", Options())
    assert contents.count is None and len(next(iter(contents.parcels)).batch.results) == asv.FILES_AT_ONCE
    assert "results: 120 taken, 0 unchanged, 0 refused, 120 left out" in imported(folder)
    assert "0 taken, 120 unchanged" in imported(folder)


def test_a_file_of_a_folder_that_cannot_be_read_is_named(project: Project, shas: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(CASES / "asv-negative", folder)
    (only,) = (folder / "box").glob("0*.json")
    file = folder_of(folder)
    only.unlink()
    with pytest.raises(Unreadable, match=r"box/00000000-e.json: it cannot be read \(No such file or directory\)"):
        importing.contents_in(file, "auto", Options(name="results"))


def large_file(folder: Path, sha: str, count: int, **changes: Any) -> Path:
    """A file of the native format with so many results; ``changes``: by place, as `at_7={...}`."""
    rows = [
        {"benchmark": f"b{place}", "metric": "seconds", "unit": "s", "better": "lower", "value": 1.0 + place}
        | changes.get(f"at_{place}", {})
        for place in range(count)
    ]
    path = folder / "large.json"
    path.write_text(json.dumps({"schema": "speedtrack.points/1", "commit": sha, "machine": "ci", "results": rows}))
    return path


def test_a_native_file_of_any_size_is_stored_in_batches(
    project: Project, shas: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MOST_RESULTS", 10)
    path = large_file(tmp_path, shas[0], 35, at_27={"value": -1})
    out = StringIO()
    with pytest.raises(CommandError, match="1 results were not stored"):
        call_command("import", "kvd", str(path), stdout=out)
    assert "34 taken, 0 unchanged, 1 refused" in out.getvalue() and "/results/27/value: " in out.getvalue()
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("import", "kvd", str(path), stdout=out)
    assert "0 taken, 34 unchanged, 1 refused" in out.getvalue() and Measurement.objects.count() == 34


@pytest.mark.parametrize("whole", [False, True])
def test_an_import_that_breaks_off_says_what_is_stored(
    project: Project, shas: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """The third batch meets a value that the database refuses, as a full disk would."""
    monkeypatch.setattr(document, "MOST_RESULTS", 10)
    path = large_file(tmp_path, shas[0], 35)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE runs_measurement ADD CONSTRAINT full_disk CHECK (value <> 26.0)")
    words = "nothing was stored" if whole else "20 of large.json are stored"
    with pytest.raises(CommandError, match=words):
        call_command("import", "kvd", str(path), *(["--all-or-nothing"] if whole else []))
    assert Measurement.objects.count() == (0 if whole else 20)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE runs_measurement DROP CONSTRAINT full_disk")
    out = StringIO()
    call_command("import", "kvd", str(path), stdout=out)
    assert ("35 taken" if whole else "15 taken, 20 unchanged") in out.getvalue() and Measurement.objects.count() == 35
