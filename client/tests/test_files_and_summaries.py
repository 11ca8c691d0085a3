"""The client's files: results that it sends, summaries that it writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_server import GOLDEN, KVD, Run, Server, check_failure
from speedtrack_client.failures import Exit


def test_results_push_says_what_was_taken(server: Server, run: Run, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("x")
    commits = [{"sha": "ab" * 20, "url": "https://s.example.org/p/kvd/c/abab/"}]
    report = {
        "taken": 2,
        "unchanged": 0,
        "refused": [],
        "left_out": [],
        "benchmarks": ["get", "set"],
        "commits": commits,
    }
    server.answers |= {"/api/v1/projects/kvd": (200, KVD), "/api/v1/projects/kvd/files": (200, report)}
    code, out, _ = run("results", "push", "b.txt", "--project", "kvd")
    assert code == 0 and "2 taken" in out and "benchmarks: get, set" in out
    assert "commit abababababab: https://s.example.org/p/kvd/c/abab/" in out
    for key in ("benchmarks", "commits"):
        del report[key]  # an older server
    assert run("results", "push", "b.txt", "--project", "kvd")[0] == 0


FILES = "/api/v1/projects/kvd/files"
SENT = {"taken": 1, "unchanged": 0, "refused": [], "refused_count": 0, "left_out": []}


def problem(kind: str, *faults: tuple[str, str], **more: Any) -> tuple[int, dict[str, Any]]:
    errors = [{"pointer": pointer, "detail": detail} for pointer, detail in faults]
    return 422, {"type": f"/api/v1/docs#problem-{kind}", "detail": faults[0][1], "errors": errors, **more}


@pytest.mark.parametrize("count", [3, None])
def test_of_a_file_whose_results_are_all_refused_results_are_counted(
    server: Server, run: Run, tmp_path: Path, count: int | None
) -> None:
    """One reason may be that of many results. Older servers do not send the number."""
    (tmp_path / "b.txt").write_text("x")
    more = {"refused_count": count} if count else {}
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    server.answers[FILES] = problem("refused-results", ("/content", "3 results: kvd has no commit 'no'"), **more)
    code, out, _ = run("results", "push", "b.txt", "--project", "kvd")
    assert code == Exit.NOT_DONE
    assert f"b.txt: 0 taken, 0 unchanged, {count or 1} refused\n  3 results: kvd has no commit" in out


@pytest.mark.parametrize("unusable", ["", "x"])
def test_a_file_that_cannot_be_used_does_not_keep_others_from_being_sent(
    server: Server, run: Run, tmp_path: Path, unusable: str
) -> None:
    """An empty file is not sent; another one is refused by the server."""
    for name, content in {"a.txt": "x", "b.txt": unusable, "c.txt": "x"}.items():
        (tmp_path / name).write_text(content)
    unread = [problem("invalid", ("/content", "b.txt: no format of a known tool"))] if unusable else []
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    words = ["results", "push", "a.txt", "b.txt", "c.txt", "--project", "kvd"]
    for as_json in ([], ["--json"]):
        server.answers[FILES] = [(200, SENT), *unread, (200, SENT)]
        code, out, err = run(*words, *as_json)
        assert code == Exit.NOT_DONE and server.answers[FILES] == [], err
        reason = "no format of a known tool" if unusable else "b.txt is empty"
        if as_json:
            files = json.loads(out)["files"]
            assert [file["taken"] for file in files] == [1, 0, 1] and reason in files[1]["error"]
        else:
            assert "a.txt: 1 taken" in out and "b.txt: cannot be used\n  " in out and "c.txt: 1 taken" in out
            assert reason in out


def test_what_concerns_all_files_ends_the_command(server: Server, run: Run, tmp_path: Path) -> None:
    """A misspelt name is found before anything is sent; a format that the server lacks is told once."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x")
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    code, _, err = run("results", "push", "a.txt", "nosuch.txt", "--project", "kvd")
    check_failure(code, err, Exit.USAGE)
    assert not any(path == FILES for _, path, *_ in server.asked)
    server.answers[FILES] = [problem("invalid", ("/format", "there is no format 'x'"))]
    code, _, err = run("results", "push", "a.txt", "b.txt", "--project", "kvd")
    check_failure(code, err, Exit.USAGE)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("")
    code, _, err = run("results", "push", "a.txt", "b.txt", "--project", "kvd")
    check_failure(code, err, Exit.USAGE)
    assert "a.txt is empty" in err and "b.txt is empty" in err


@pytest.mark.parametrize("gate", [[], ["--fail-on-regression", "3%"]])
def test_a_summary_that_cannot_be_written_is_told_in_the_one_document(
    server: Server, run: Run, tmp_path: Path, gate: list[str]
) -> None:
    """A regression is told nevertheless. A wrong name is found before anything is asked."""
    server.answers["/api/v1/projects/kvd"] = (200, KVD)
    server.answers["/api/v1/projects/kvd/compare"] = (200, json.loads(GOLDEN.read_text()))
    words = ["compare", "v1.0", "main", "--project", "kvd", "--measured", "--summary"]
    code, out, err = run(*words, "/dev/full", *gate, "--json")
    document = json.loads(out)
    assert code == document["exit_code"] == (Exit.REGRESSION if gate else Exit.NO_OUTPUT)
    assert document["comparison"]["project"] == "kvd"
    assert err == "speedtrack: cannot write /dev/full: No space left on device\n"
    count = len(server.asked)
    code, out, err = run(*words, str(tmp_path / "no" / "s.md"), *gate, "--json")
    assert code == json.loads(out)["exit_code"] == Exit.USAGE and len(server.asked) == count
    check_failure(code, err, Exit.USAGE)
