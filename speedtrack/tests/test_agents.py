"""``speedtrack mcp``: a real client of the protocol starts the real command, which asks a real server."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

from speedtrack.accounts.models import Role, Scope
from speedtrack.alerts.models import Alert
from speedtrack.api.v1.tests.conftest import program
from speedtrack.processes import devstack
from speedtrack.projects.models import Project
from speedtrack.runs.models import PairedComparison, Run
from speedtrack.web.tests.test_browser import shown
from speedtrack.web.tests.world import CPU, World

__all__ = ["shown"]

Call = Callable[..., Awaitable[CallToolResult]]
CLIENT = devstack.BASE_DIR / "client"
CLOSED = "http://127.0.0.1:9"


def asked(
    place: Path, work: Callable[[Call], Awaitable[None]], url: str, token: str = "", project: str = "kvd"
) -> None:
    """Do some work with a session of an agent, whose server was started in this folder."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "PYTHONPATH": str(CLIENT),
        "SPEEDTRACK_URL": url,
        "SPEEDTRACK_TOKEN": token,
    }
    argv = ["-m", "speedtrack_client", "mcp", *(["--project", project] if project else [])]
    command = StdioServerParameters(command=sys.executable, args=argv, env=environment, cwd=place)

    async def session() -> None:
        async with Client(command) as client:
            await work(lambda tool, **arguments: client.call_tool(tool, arguments))

    asyncio.run(session())


def answer_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error and result.structured_content, result.content
    return result.structured_content


def error_of(result: CallToolResult) -> str:
    assert result.is_error and len(result.content) == 1
    text = str(getattr(result.content[0], "text", ""))
    assert "Traceback" not in text and "\n" not in text and len(text) < 500, text
    return text


@pytest.mark.django_db(transaction=True)
def test_what_an_agent_is_told(shown: tuple[World, Alert, str], tmp_path: Path) -> None:
    made, alert, url = shown
    base, head = made.shas[4], made.shas[5]

    async def work(call: Call) -> None:
        compared = answer_of(await call("compare", base=base, head="main"))
        assert compared["document"]["base"] == base
        assert compared["sentence"].endswith(f" against {base[:12]}: {compared['document']['summary']}.")
        assert compared["document"]["summary"].startswith("Slower +20.")
        assert {row["verdict"] for row in compared["document"]["rows"]} == {"worse"}
        calm = {"base": made.shas[1], "head": made.shas[3]}
        assert answer_of(await call("compare", **calm))["document"]["rows"] == []
        assert len(answer_of(await call("compare", **calm, all_rows=True))["document"]["rows"]) == 4

        verdict = answer_of(await call("verdict", commit=head))
        assert verdict["sentence"] == f"{head[:12]}: Slower +20.1%: get-p1 and 1 more, confirmed."
        assert {row["basis"] for row in verdict["document"]["rows"]} == {"change"}
        same = answer_of(await call("verdict", commit=made.shas[3]))
        assert f"{made.shas[3][:12]}: No change in 2 benchmarks; " in same["sentence"]
        assert same["document"]["rows"] == []

        why = answer_of(await call("why", commit=head, benchmark="get-p1"))
        assert f"get-p1 {CPU} is confirmed to have changed with this commit." in why["sentence"]
        assert {row["benchmark"] for row in why["comparison"]["rows"] + why["sensitivity"]} == {"get-p1"}
        assert "show a change: the sharpest from " in answer_of(await call("why", commit=made.shas[3]))["sentence"]

        alerts = answer_of(await call("alerts"))
        assert alerts["sentence"] == "1 open alerts of kvd." and alerts["alerts"][0]["id"] == alert.pk
        assert answer_of(await call("alerts", status="fixed"))["alerts"] == []

    asked(tmp_path, work, url)


@pytest.mark.django_db(transaction=True)
def test_an_agent_queues_what_its_person_may(shown: tuple[World, Alert, str], tmp_path: Path) -> None:
    made, _, url = shown
    maintainer = program("mia", Scope.READ, Scope.RUNS, project=made.project, role=Role.MAINTAINER)
    reader = program("rob", Scope.READ, project=made.project, role=Role.READER)
    before = Run.objects.count()

    async def queue(call: Call) -> None:
        tried = answer_of(await call("measure", revision="main", dry_run=True))
        assert tried["sentence"].startswith("Nothing is queued") and tried["document"]["dry_run"] is True
        done = answer_of(await call("measure", revision="main", benchmarks=["get-p1"]))
        assert done["sentence"] == f"1 runs of 1 commits are queued: {url}/p/kvd/"
        pairs = answer_of(await call("measure", revision="main", against=made.shas[2]))["document"]
        read = answer_of(await call("paired_comparison", number=pairs["id"]))
        assert read["document"]["is_ended"] is False and f"Comparison {pairs['id']} of kvd is " in read["sentence"]
        assert "`dry_run`" in error_of(await call("measure", revision="main", against="main", dry_run=True))

    async def be_refused(call: Call) -> None:
        assert "scope" in error_of(await call("measure", revision="main"))
        assert answer_of(await call("alerts"))["alerts"]

    asked(tmp_path, queue, url, maintainer.token)
    assert Run.objects.count() == before + 2 and PairedComparison.objects.count() == 1
    asked(tmp_path, be_refused, url, reader.token)
    asked(tmp_path, lambda call: refusals(call), url, maintainer.token, project="")
    Project.objects.update(is_public=False)

    async def be_hidden_from(call: Call) -> None:
        assert "no project" in error_of(await call("alerts")).lower()

    asked(tmp_path, be_hidden_from, url, program("eve", Scope.READ).token)
    assert Run.objects.count() == before + 2


async def refusals(call: Call) -> None:
    """Hostile and wrong arguments."""
    assert "give --project NAME" in error_of(await call("alerts"))
    assert "There is no project 'nosuch'" in error_of(await call("alerts", project="nosuch"))
    assert "is no name of a project" in error_of(await call("alerts", project="../../admin"))
    assert "has no branch, tag or commit" in error_of(await call("compare", base="main", head="a/../b", project="kvd"))
    assert "has no branch, tag or commit" in error_of(await call("verdict", commit="\x1b[31m\u202ex", project="kvd"))
    assert "is no single commit" in error_of(await call("verdict", commit="main~1..main", project="kvd"))
    assert "`limit` must be" in error_of(await call("alerts", limit=10**9, project="kvd"))
    assert "status" in error_of(await call("alerts", status="x' or 1=1", project="kvd"))
    assert "`head`: Field required" in error_of(await call("compare", base="main"))
    assert "`number`: Input should be a valid integer" in error_of(await call("paired_comparison", number="1;2"))
    assert "no paired comparison 99" in error_of(await call("paired_comparison", number=99, project="kvd"))


def test_a_server_that_is_gone_and_one_that_is_unknown(tmp_path: Path) -> None:
    async def work(call: Call) -> None:
        assert error_of(await call("compare", base="a", head="b")).startswith(f"{CLOSED} does not answer: ")

    async def without_login(call: Call) -> None:
        assert "which server? Run `speedtrack login" in error_of(await call("alerts"))

    asked(tmp_path, work, CLOSED)
    asked(tmp_path, without_login, "")


def test_without_the_library_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('No module named mcp', name='mcp')\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{CLIENT}"}
    argv = [sys.executable, "-m", "speedtrack_client", "mcp"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "install the client as speedtrack-client[mcp]" in done.stderr and done.stderr.count("\n") == 1
