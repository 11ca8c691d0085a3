"""The client against small real servers: what is sent where, what is tried again, and how failures read."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_server import GOLDEN, INSTALLATION, KVD, Run, Server, check_failure
from speedtrack_client import gates, logins, main, repositories
from speedtrack_client.arguments import duration, percent
from speedtrack_client.failures import Exit, Failure

ROW = {"machine": "m1", "benchmark": "get", "metric": "cpu", "verdict": "worse", "better": "lower"}


def test_a_token_goes_to_its_own_server_only(server: Server, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    logins.store("https://other.example.org", "stpt_other")
    assert run("whoami")[0] == 0
    assert "Authorization" not in server.asked[-1][2]
    logins.store(server.url, "stpt_own")
    assert logins.place().stat().st_mode & 0o777 == 0o600
    code, out, _ = run("whoami", "--json")
    assert server.asked[-1][2]["Authorization"] == "Bearer stpt_own" and "stpt" not in out
    assert json.loads(out) == {"url": server.url, "version": "0.9", "user": "ada", "scopes": ["read"]}
    monkeypatch.setenv("SPEEDTRACK_TOKEN", "stpt_environment\n")
    run("whoami")
    assert server.asked[-1][2]["Authorization"] == "Bearer stpt_environment"
    monkeypatch.setenv("SPEEDTRACK_TOKEN", "stpt_\x1bx")
    assert run("whoami")[0] == Exit.USAGE
    monkeypatch.delenv("SPEEDTRACK_TOKEN")
    server.answers["/api/v1/"] = (302, "", {"Location": "https://evil.example.org/"})
    code, _, err = run("whoami")
    assert code == Exit.USAGE and "leads to https://evil.example.org/" in err
    logins.place().write_text("{")
    assert "is damaged. Remove it" in run("whoami")[2]


def test_a_write_is_repeated_with_the_same_key(server: Server, run: Run) -> None:
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    busy = (503, {"detail": "Busy."}, {"Retry-After": "0"})
    asked = {"id": 1, "state": "queued", "is_ended": False, "runs": []}
    # The attempt that was given up here is still at work there.
    held = (409, {"type": "/api/v1/docs#problem-busy-key", "detail": "Still at work."}, {"Retry-After": "0"})
    server.answers["/api/v1/projects/kvd/comparisons"] = [None, busy, held, (202, asked)]
    code, out, _ = run("compare", "main", "topic", "--project", "kvd")
    assert code == 0 and "compare --project kvd --id 1 --wait" in out
    posts = [one for one in server.asked if one[0] == "POST"]
    assert len(posts) == 4 and len({one[2]["Idempotency-Key"] for one in posts}) == 1
    assert json.loads(posts[0][3])["head"] == "topic"
    server.answers["/api/v1/projects/kvd/comparisons"] = [held] * 4
    assert run("compare", "main", "topic", "--project", "kvd")[0] == Exit.SERVER


def test_of_two_projects_of_a_repository_one_is_named(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEEDTRACK_REPOSITORY", "git@example.org:kvd.git")
    projects = [KVD, KVD | {"slug": "kvd-tls"}]
    server.answers["/api/v1/projects"] = (200, {"items": projects, "next": None})
    code, _, said = run("compare", "main", "topic")
    assert code == Exit.USAGE and "track this repository (kvd, kvd-tls): give --project NAME" in said


LATER_KEYS = ("summary", "base_side", "head_side", "notes", "differences", "totals")


@pytest.mark.parametrize("is_older", [False, True])
def test_a_comparison_of_what_was_measured_is_the_servers_sentence(
    server: Server, run: Run, tmp_path: Path, is_older: bool
) -> None:
    """Older servers send no sentence: then the verdicts are counted."""
    document = json.loads(GOLDEN.read_text()) | {"notes": ["m2 has not measured the head"]}
    sent = {name: value for name, value in document.items() if not (is_older and name in LATER_KEYS)}
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    server.answers["/api/v1/projects/kvd/compare"] = (200, sent)
    words = ["compare", "v1.0", "main", "--project", "kvd", "--measured", "--summary", str(tmp_path / "note.md")]
    code, out, err = run(*words)
    sentence = "1 worse" if is_older else document["summary"]
    assert code == 0 and f"9a8b7c6d5e4f against 1f0c7a2f7d3e: {sentence}." in out
    assert ("note: m2 has not measured the head" in err) is not is_older
    note = (tmp_path / "note.md").read_text()
    assert note.startswith(f"### SpeedTrack: {sentence}\n") and "in interleaved pairs" not in note
    code, out, _ = run(*words, "--fail-on-regression", "3%")
    ending = "" if is_older else f"; {sentence}"
    assert code == Exit.REGRESSION and f": 1 result got worse by 3% or more (1 worse){ending}." in out
    assert sentence not in run(*words, "--metric", "throughput_rps")[1]


@pytest.mark.parametrize("summary", ["No change in 2 benchmarks", None])
def test_the_status_of_a_project_has_the_sentence_of_its_newest_commit(
    server: Server, run: Run, summary: str | None
) -> None:
    """Older servers send no sentence."""
    commit = {"sha": "9a8b7c6d5e4f30211203", "subject": "Read less", "committed_at": "2026-01-01T00:00:00Z"}
    nothing: dict[str, Any] = {"items": [], "next": None}
    details = commit if summary is None else {**commit, "summary": summary}
    server.answers["/api/v1/projects/kvd"] = (200, {**KVD, "synced_at": commit["committed_at"], "error": ""})
    server.answers["/api/v1/projects/kvd/commits"] = (200, {"items": [commit], "next": None})
    server.answers[f"/api/v1/projects/kvd/commits/{commit['sha']}"] = (200, details)
    server.answers |= {f"/api/v1/projects/kvd/{name}": (200, nothing) for name in ("runs", "alerts")}
    code, out, _ = run("status", "--project", "kvd")
    newest = next(line for line in out.splitlines() if line.startswith("Newest commit: 9a8b7c6d5e4f Read less ("))
    assert code == 0 and newest.endswith(f"): {summary}." if summary else ")")
    document = json.loads(run("status", "--project", "kvd", "--json")[1])
    assert document["newest_commit"]["summary"] == (summary or "")


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ((401, {"detail": "This needs a token."}), Exit.REFUSED, "Run `speedtrack login"),
        ((403, {"detail": "You are no \x1b[31mmember."}), Exit.REFUSED, "You are no [31mmember."),
        ((404, {"detail": "There is no project 'kvd'."}), Exit.USAGE, "There is no project 'kvd'."),
        ((409, {"detail": "Not comparable."}), Exit.NOT_DONE, "Not comparable."),
        ((404, "<html>not found"), Exit.SERVER, "It is older than this client: upgrade it"),
        ((500, "<html>"), Exit.SERVER, "cannot answer now (HTTP 500)"),
        ((200, "<html>"), Exit.SERVER, "its answer is not JSON"),
        ([None] * 4, Exit.SERVER, "does not answer: it ended the connection"),
    ],
)
def test_failures_are_one_line_and_a_code(server: Server, run: Run, answer: Any, code: int, said: str) -> None:
    server.answers["/api/v1/projects/kvd"] = answer if isinstance(answer, list) else [answer] * 2
    found, _, err = run("status", "--project", "kvd")
    assert (found, err.count("\n")) == (code, 1), err
    assert said in err and "\x1b" not in err
    document = json.loads(run("status", "--project", "../x", "--json")[1])
    assert document["exit_code"] == 2 and document["error"]["kind"] == "usage"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["compare", "--timeout", "soon"], "'soon' is no duration"),
        (["alerts", "--limit", "x"], "invalid int value: 'x'"),
        (["results", "push"], "required: FILE"),
        (["status", "--nosuch"], "unrecognized arguments: --nosuch"),
    ],
)
def test_wrong_arguments_are_json_too(run: Run, words: list[str], said: str) -> None:
    code, out, err = run(*words, "--json")
    document = json.loads(out)
    assert code == document["exit_code"] == Exit.USAGE and document["error"]["kind"] == "usage"
    assert said in document["error"]["message"] and "--help" in err and err.count("\n") == 1
    assert run(*words)[0] == Exit.USAGE


@pytest.mark.parametrize(("version", "is_older"), [("0.9", True), ("0.10.0", True), ("99.0.0", False)])
def test_a_server_of_another_release(server: Server, run: Run, version: str, is_older: bool) -> None:
    server.answers["/api/v1/"] = (200, {**INSTALLATION, "version": version})
    code, _, err = run("status", "--project", "kvd")
    assert code == Exit.SERVER and f"SpeedTrack {version}, which cannot do what this client" in err
    assert ("It is older than this client" in err, "of its release" in err) == (is_older, True)


def test_something_else_at_the_address(server: Server, run: Run) -> None:
    for answer in ((404, "<html>"), (200, {"name": "another"}), (200, [])):
        server.answers["/api/v1/"] = answer
        assert "is no SpeedTrack with the API v1" in run("whoami")[2]


def test_lists_are_read_page_by_page(server: Server, run: Run) -> None:
    alert = {"id": 1, "status": "confirmed", "changes": [], "commit": "a" * 40, "created": "2026-01-01T00:00:00Z"}
    alert |= {"project": "kvd"}
    server.answers["/api/v1/alerts"] = [
        (200, {"items": [alert], "next": "/api/v1/alerts?cursor=x"}),
        (200, {"items": [alert], "next": None}),
    ]
    code, out, _ = run("alerts", "--all-projects")
    assert code == 0 and out.count("confirmed") == 2 and server.asked[-1][1] == "/api/v1/alerts?cursor=x"


def test_gates() -> None:
    rows = [{**ROW, "ratio": 1.04, "low": 1.02, "high": 1.06}, {**ROW, "ratio": 0.95, "better": "higher"}]
    rows += [{**ROW, "ratio": 1.2, "verdict": "uncertain"}, {**ROW, "ratio": 0.9, "verdict": "better"}]
    assert gates.regressions(rows, 3) == rows[:2] and gates.regressions(rows, 4.5) == [rows[1]]
    nothing = gates.gate_of([], 3)
    assert nothing and not nothing["passed"] and gates.gate_of(rows, None) is None
    hostile = {**ROW, "benchmark": "a|b<img>`", "ratio": 1.0, "low": None, "high": None}
    assert r"a\|b&lt;img&gt;\`" in gates.line_of(hostile)
    assert percent("3%") == 3 and percent("0.5") == 0.5 and duration("2h") == 7200
    for parse, text in ((percent, "x"), (percent, "nan"), (percent, "-1"), (duration, "soon")):
        with pytest.raises(Exception, match="is no"):
            parse(text)


def test_projects_are_found_by_remotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = [
        "https://x@GitHub.com/A/b.git",
        "git@github.com:a/b",
        "ssh://git@github.com:22/a/b.git/",
        "https://github.com/a/b",
    ]
    assert {repositories.normal(url) for url in same} == {"github.com/a/b"}
    assert repositories.normal(f"file://{tmp_path}/x.git") == repositories.normal(str(tmp_path / "x"))
    monkeypatch.chdir(tmp_path)
    assert repositories.remotes() == [] and repositories.commit_of("HEAD") is None
    for words in (
        ["init", "-q"],
        ["remote", "add", "fork", "https://f.org/me/b"],
        ["remote", "add", "origin", same[1]],
    ):
        subprocess.run(["git", *words], check=True)
    assert repositories.addresses() == repositories.remotes() == ["github.com/a/b", "f.org/me/b"]
    monkeypatch.setenv("SPEEDTRACK_REPOSITORY", "https://f.org/me/b.git")  # as a job without a checkout has it
    assert repositories.addresses() == ["f.org/me/b", "github.com/a/b"]
    tracked = [{"slug": "fork", "repository": "https://f.org/me/b"}, {"slug": "b", "repository": same[0]}]
    tracked += [{"slug": "b-tls", "repository": f"{same[1]}/"}]
    first, second = repositories.projects_of(repositories.remotes(), tracked)
    assert (first["slug"], second["slug"]) == ("b", "b-tls")
    assert (
        repositories.commit_of("--help") is None and repositories.is_own("HEAD~2") and not repositories.is_own("main")
    )


def test_addresses_of_servers() -> None:
    assert logins.normal("speedtrack.example.org/") == "https://speedtrack.example.org"
    assert logins.normal("http://127.0.0.1:8000/prefix/api/v1/") == "http://127.0.0.1:8000/prefix"
    for text in ("ftp://x", "https://user:secret@x", "https://", "https://x/?a=1", "http://[x"):
        with pytest.raises(Failure):
            logins.normal(text)


def test_it_needs_nothing_of_the_server() -> None:
    """It starts without Django, and names itself."""
    code = "import sys, speedtrack_client.main; sys.exit(bool({'django', 'speedtrack', 'runners'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, cwd="/").returncode == 0


def test_an_interrupt_and_a_limit_say_how_to_go_on(server: Server, run: Run) -> None:
    """The server goes on, so its answer can be waited for again."""
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    waiting = {"id": 5, "state": "running", "is_ended": False, "runs": []}
    server.answers["/api/v1/projects/kvd/comparisons/5"] = (200, waiting)
    words = ["compare", "--id", "5", "--project", "kvd", "--wait"]
    code, _, err = run(*words, "--timeout", "0s")
    assert code == Exit.TIMED_OUT and "speedtrack compare --project kvd --id 5 --wait" in err
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "SPEEDTRACK_URL": server.url}
    argv = [sys.executable, "-m", "speedtrack_client", *words]
    asked_before = len(server.asked)
    ready = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background of a shell ignores it
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=ready) as process:
        assert process.stderr and "Comparison 5 is running" in process.stderr.readline()
        while len(server.asked) < asked_before + 4:  # it waits by now
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == Exit.INTERRUPTED and said.count("\n") == 1, said
    assert "interrupted; the server goes on" in said and "--id 5 --wait" in said


def test_proxies_and_certificates_of_the_environment(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    code, _, err = run("whoami")
    assert code == Exit.USAGE and err.count("\n") == 1 and "certificate" in err
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.answers["http://speedtrack.invalid/api/v1/"] = (200, INSTALLATION)
    assert main.main(["whoami", "--url", "http://speedtrack.invalid"]) == 0
    assert server.asked[-1][1] == "http://speedtrack.invalid/api/v1/"


CLIENT = [sys.executable, "-m", "speedtrack_client"]
#: The words of each command that asks a server, and of one that asks none.
COMMANDS = {
    "whoami": ["whoami"],
    "login": ["login"],
    "logout": ["logout"],
    "status": ["status"],
    "alerts": ["alerts", "--project", "kvd"],
    "compare": ["compare", "a", "b", "--project", "kvd", "--fail-on-regression", "3%"],
    "measure": ["measure", "HEAD", "--project", "kvd"],
    "results": ["results", "push", "b.txt", "--project", "kvd"],
    "track": ["track", "https://example.org/kvd.git", "--suite", "kvd"],
}


def started(words: list[str], tmp_path: Path, **changes: Any) -> tuple[int, str]:
    """The exit code and standard error of the command as a process."""
    (tmp_path / "b.txt").write_text("BenchmarkGet-2 1000 812 ns/op\n")
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(main.__file__).parents[1]),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    env |= changes.pop("env", {})
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL, **changes}
    done = subprocess.run([*CLIENT, *words], env=env, cwd=tmp_path, stderr=subprocess.PIPE, timeout=120, **options)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("manner", ["full", "closed", "pipe"])
@pytest.mark.parametrize("words", [["completion"], ["whoami"], ["whoami", "--json"], ["status", "--json"]])
def test_output_that_cannot_be_written_has_a_code_of_its_own(
    server: Server, tmp_path: Path, manner: str, words: list[str]
) -> None:
    server.answers |= {"/api/v1/projects": (200, {"items": [], "next": None})}
    command = [*words, *([] if words == ["completion"] else ["--url", server.url])]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with Path("/dev/full").open("wb") as full:
            where = {"full": {"stdout": full}, "pipe": {"stdout": writer}}
            if manner == "closed":
                code, err = started(command, tmp_path, stdout=None, preexec_fn=lambda: os.close(1))
            else:
                code, err = started(command, tmp_path, **where[manner])
    finally:
        os.close(writer)
    check_failure(code, err, Exit.NO_OUTPUT)
    assert "the output cannot be written" in err


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_dead_proxy_is_named(
    server: Server, command: str, variable: str, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    if command in ("login", "logout"):
        return  # the one asks for a token first, the other no server
    (tmp_path / "b.txt").write_text("x")
    monkeypatch.setenv(variable, "http://user:secret@127.0.0.1:1")
    monkeypatch.setenv("SPEEDTRACK_TOKEN", "stpt_x")
    code = main.main([*COMMANDS[command], "--url", "https://speedtrack.invalid"])
    err = capsys.readouterr().err
    check_failure(code, err, Exit.SERVER)
    assert f"the proxy http://127.0.0.1:1 ({variable})" in err and "secret" not in err
    monkeypatch.setenv("NO_PROXY", "speedtrack.invalid")
    code = main.main([*COMMANDS[command], "--url", "https://speedtrack.invalid"])
    assert "https://speedtrack.invalid does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unexpected_error_is_no_regression(
    server: Server, command: str, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    def broken(given: Any, printer: Any) -> Exit:
        return {}["absent"]  # type: ignore[no-any-return]

    monkeypatch.setitem(main.COMMANDS, command, broken)
    code = main.main([*COMMANDS[command], "--url", server.url])
    said = capsys.readouterr()
    check_failure(code, said.err, Exit.INTERNAL)
    assert "KeyError" in said.err
    assert main.main([*COMMANDS[command], "--json", "--url", server.url]) == Exit.INTERNAL
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "internal"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"default": 1, "tokens": {}}', "\xff", "[" * 100_000])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_file_of_logins_is_named(
    server: Server, run: Run, command: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / "config" / "speedtrack").mkdir(parents=True)
    (tmp_path / "config" / "speedtrack" / "client.json").write_text(content, encoding="latin-1")
    (tmp_path / "b.txt").write_text("x")
    code, _, err = run(*COMMANDS[command])
    if "login" not in command or "cannot read" in err:
        check_failure(code, err, Exit.USAGE)


def repository(folder: Path, *remotes: str) -> None:
    folder.mkdir()
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", *words], cwd=folder, check=True, env=env)
    for number, url in enumerate(remotes):
        subprocess.run(["git", "remote", "add", f"r{number}", url], cwd=folder, check=True, env=env)


def test_why_no_project_is_found_is_true(
    server: Server, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/api/v1/projects"] = (200, {"items": [KVD], "next": None})

    def said_in(folder: Path) -> str:
        monkeypatch.chdir(folder)
        code, _, err = run("measure", "main")
        check_failure(code, err, Exit.USAGE)
        return err

    for name, remotes in {"lonely": [], "two": ["https://example.org/a.git", "https://example.org/b.git"]}.items():
        repository(tmp_path / name, *remotes)
    (tmp_path / "none").mkdir()
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "bare")], check=True)
    subprocess.run(["git", "worktree", "add", "-q", "--detach", "../tree"], cwd=tmp_path / "lonely", check=True)
    assert "as this is no git repository" in said_in(tmp_path / "none")
    for name in ("lonely", "bare", "tree"):
        assert "as this git repository has no remote" in said_in(tmp_path / name), name
    assert "tracks example.org/a or example.org/b" in said_in(tmp_path / "two")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert "belongs to another user: run `git config --global --add safe.directory" in said_in(tmp_path / "lonely")
    monkeypatch.delenv("GIT_TEST_ASSUME_DIFFERENT_OWNER")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in said_in(tmp_path / "lonely")
