"""The command ``speedtrack``, and what CI runs of it, against a real server whose runner measures real pairs.

Its shell is taken from the GitHub Action and the job for GitLab as they are, and run by bash.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import httpx
import pytest
import yaml
from django.contrib.auth.models import User
from django.db import connection

from runners.tests.broker_servers import Valkey
from speedtrack.accounts import tokens
from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.processes import devstack
from speedtrack.projects.mirrors import patches
from speedtrack.projects.models import Commit
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Measurement, PairedComparison
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tasks.git import pulls
from speedtrack.tests import builders
from speedtrack.tests.real_system import SUITE, System, write_history

pytestmark = pytest.mark.django_db(transaction=True)
CLIENT = devstack.BASE_DIR / "client"
BEFORE_SLOWDOWN, SLOWDOWN = 6, 7  # commits of the sample server's history
NO_ANSWER = 6  # the command's end if nothing was measured that can be trusted


@dataclass
class Checkout:
    """A clone of the tracked repository, as CI has it, and what its shell sees."""

    place: Path
    environment: dict[str, str] = field(default_factory=dict)

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        done = subprocess.run(["git", *who, *words], cwd=self.place, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def run(self, *argv: str, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            argv, cwd=self.place, env=self.environment | more, capture_output=True, text=True, timeout=400
        )

    def speedtrack(self, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        done = self.run("speedtrack", *words, **more)
        assert "Traceback" not in done.stderr, done.stderr
        return done


@dataclass
class Ci:
    system: System
    checkout: Checkout

    def played(self, work: Callable[[], "subprocess.CompletedProcess[str]"]) -> "subprocess.CompletedProcess[str]":
        """The command's end; meanwhile this process is dispatcher and worker."""
        found: list[subprocess.CompletedProcess[str]] = []
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        self.system.until(lambda: pulls() or not thread.is_alive())
        thread.join()
        return found[0]

    def answered(self, work: Callable[[], "subprocess.CompletedProcess[str]"]) -> "subprocess.CompletedProcess[str]":
        """As ``played``; asked again while the machine is so busy that no pair can be trusted."""
        for _ in range(2):
            done = self.played(work)
            if done.returncode != NO_ANSWER:
                return done
        return self.played(work)


@pytest.fixture
def ci(live_server: Any, tmp_path: Path, settings: Any, broker: Valkey) -> Iterator[Ci]:
    """The newest tracked commit is the one before the slowdown; the slowdown is pushed to a branch nobody tracks."""
    builders.use_suite(settings, tmp_path / "suites", SUITE)
    settings.LEASE_S, settings.API_RATE, settings.API_RATE_ANONYMOUS = 60, 0, 0
    bare, whole, clone = tmp_path / "kvd.git", tmp_path / "whole", tmp_path / "clone"
    write_history(whole, SLOWDOWN)
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "--quiet", "--bare", bare], check=True)
    subprocess.run(
        [*git, "push", "--quiet", bare, "main~1:refs/heads/main", "main:refs/heads/slower"], cwd=whole, check=True
    )
    subprocess.run([*git, "clone", "--quiet", bare, clone], check=True)
    token = registering.add_machine("m1")
    project = tracking.track(TrackingRequest(str(bare), "tiny", last=0, name="kvd")).project
    system = System(tmp_path, live_server.url, broker, bare, project, token)
    try:
        yield Ci(system, Checkout(clone, environment_of_ci(tmp_path, live_server.url, project)))
    finally:
        system.stop_runner()


def environment_of_ci(place: Path, url: str, project: Any) -> dict[str, str]:
    """With the command on PATH, as an installed one, and a maintainer's token."""
    programs = place / "bin"
    programs.mkdir()
    command = programs / "speedtrack"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m speedtrack_client "$@"\n')
    command.chmod(0o755)
    user = User.objects.create(username="ada")
    Membership.objects.create(project=project, user=user, role=Role.MAINTAINER)
    _, text = tokens.issue(user, "CI", (Scope.READ, Scope.RUNS, Scope.RESULTS), days=None)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(place),
        "PYTHONPATH": str(CLIENT),
        "SPEEDTRACK_URL": url,
        "SPEEDTRACK_TOKEN": text,
    }


def steps_of_action() -> list[str]:
    action = yaml.safe_load((CLIENT / "action.yml").read_text())
    return [step["run"] for step in action["runs"]["steps"] if "compare" in step.get("run", "")]


def job_of_gitlab(ci: Ci, place: Path, **of_gitlab: str) -> "subprocess.CompletedProcess[str]":
    """As the shipped job runs: in an image that has no git, and without a checkout, as its strategy is none."""
    job = yaml.safe_load((CLIENT / "gitlab-ci.yml").read_text())["speedtrack"]
    assert job["variables"]["GIT_STRATEGY"] == "none" and "slim" in job["image"]
    place.mkdir()
    programs = place.with_suffix(".bin")
    programs.mkdir()
    (programs / "rm").symlink_to("/bin/rm")
    (programs / "speedtrack").symlink_to(ci.checkout.place.parent / "bin" / "speedtrack")
    of_gitlab |= {"CI_PROJECT_URL": str(ci.system.repository)}
    variables = {name: Template(value).substitute(of_gitlab) for name, value in job["variables"].items()}
    environment = ci.checkout.environment | {"PATH": str(programs)} | variables | of_gitlab
    script = "\n".join(line for line in job["script"] if "pip install" not in line)
    argv = ["/bin/bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(argv, cwd=place, env=environment, capture_output=True, text=True, timeout=400)


def test_a_pull_request_passes_or_not(ci: Ci, tmp_path: Path) -> None:
    """A slower commit ends with 1 by the Action, one that changes no code with 0 by the job for GitLab."""
    checkout = ci.checkout
    ci.system.start_runner()
    checkout.git("checkout", "--quiet", "origin/slower")
    base, head = checkout.git("rev-parse", "origin/main"), checkout.git("rev-parse", "HEAD")
    summary = tmp_path / "summary.md"
    (script,) = steps_of_action()
    of_action = {"BASE_SHA": base, "HEAD_SHA": head, "FAIL_ON_REGRESSION": "3%", "TIMEOUT": "10m", "BENCHMARKS": ""}
    of_action |= {
        "PROJECT": "",
        "MACHINE": "",
        "METRICS": "server_cpu_ns_per_request",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    slower = ci.answered(lambda: checkout.run("bash", "-eo", "pipefail", "-c", script, **of_action))
    assert slower.returncode == 1, (slower.stdout, slower.stderr)
    assert "1 result got worse by 3% or more" in slower.stdout and "worse" in slower.stdout
    assert "❌ SpeedTrack: 1 result got worse" in summary.read_text() and f"`{head[:12]}`" in summary.read_text()
    checkout.git("checkout", "--quiet", "origin/main", "-b", "documented")
    (checkout.place / "NOTES").write_text("nothing that is built\n")
    checkout.git("add", "NOTES")
    checkout.git("commit", "--quiet", "-m", "Write notes")
    checkout.git("push", "--quiet", "origin", "documented")
    of_gitlab = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_COMMIT_SHA": checkout.git("rev-parse", "HEAD")}
    of_gitlab |= {"SPEEDTRACK_OPTIONS": "--metric server_cpu_ns_per_request"}
    empty = tmp_path / "builds"
    equal = ci.played(lambda: job_of_gitlab(ci, empty, **of_gitlab))
    assert equal.returncode == 0, (equal.stdout, equal.stderr)
    assert "✅ SpeedTrack: nothing got worse" in (empty / "speedtrack.md").read_text()
    read_again(checkout)


def test_a_patch_is_tried(ci: Ci) -> None:
    """Nothing is pushed: the change of a working tree is built and measured as it is, and its page tells the same."""
    checkout = ci.checkout
    empty = checkout.speedtrack("try")
    assert empty.returncode == 2 and "nothing differs from" in empty.stderr
    ci.system.start_runner()
    checkout.git("checkout", "--quiet", "origin/slower", "--", ".")
    words = ("--metric", "server_cpu_ns_per_request", "--fail-on-regression", "3%")
    slower = ci.answered(lambda: checkout.speedtrack("try", *words, "--json"))
    document = json.loads(slower.stdout)
    assert slower.returncode == document["exit_code"] == 1, slower.stderr
    comparison = document["comparison"]
    assert comparison["verdict"] == "worse" and comparison["summary"].startswith("Slower +")
    head = Commit.objects.get(sha=comparison["head"])
    assert head.parents == [comparison["base"]] == [checkout.git("rev-parse", "origin/main")]
    assert not head.positions.exists() and patches.kept("kvd") == {head.sha}
    assert not Measurement.objects.filter(commit=head, paired=False).exists()
    page = httpx.get(f"{ci.system.url}{comparison['page']}", timeout=60).text
    assert comparison["summary"] in page and "Try a patch of" in page
    nosuch = checkout.speedtrack("try", "--diff", "nosuch.diff")
    assert nosuch.returncode == 2 and "cannot read nosuch.diff" in nosuch.stderr
    for text, fault in ((b"hello", "not a diff"), ("hello".encode("utf-16"), "not UTF-8")):
        (checkout.place / "x.diff").write_bytes(text)
        refused = checkout.speedtrack("try", "--diff", "x.diff")
        assert refused.returncode == 2 and fault in refused.stderr, refused.stderr
    branch = checkout.speedtrack("try", "--branch", "slower", "--timeout", "1s")
    assert branch.returncode == 5 and "/tries/" in branch.stderr
    connection.close()


@pytest.mark.parametrize(
    ("more", "sides", "said"),
    [
        ({}, "One Three", ""),
        ({"BASE_SHA": "0" * 40}, "Two Three", ""),  # a new branch was pushed
        ({"BASE_SHA": ""}, "Two Three", ""),  # by hand or by the clock: there is no other side
        ({"SPEEDTRACK_TOKEN": ""}, None, "::error::"),
        ({"SPEEDTRACK_TOKEN": "", "HEAD_REPOSITORY": "stranger/kvd"}, "", "::notice::"),
        ({"SPEEDTRACK_TOKEN": "", "HEAD_REPOSITORY": ""}, "", "::notice::"),  # the fork was deleted
        ({"SPEEDTRACK_TOKEN": "", "GITHUB_EVENT_NAME": "push", "HEAD_REPOSITORY": ""}, None, "::error::"),
        ({"SPEEDTRACK_TOKEN": "", "ACTOR": "dependabot[bot]"}, "", "::notice::"),
    ],
)
def test_what_the_action_asks(tmp_path: Path, more: dict[str, str], sides: str | None, said: str) -> None:
    """None: it fails, as a token is missing where GitHub would give one."""
    checkout = Checkout(tmp_path, {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    program = tmp_path / "speedtrack"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\ngit log --no-walk=unsorted --format=%s "$2" "$3"\n'
    )
    program.chmod(0o755)
    checkout.git("init", "--quiet", "-b", "main")
    for subject in ("One", "Two", "Three"):
        checkout.git("commit", "--quiet", "--allow-empty", "-m", subject)
    checkout.git("branch", "topic")
    checkout.git("reset", "--quiet", "--hard", "HEAD~1")
    of_action = {"GITHUB_STEP_SUMMARY": "summary.md", "TIMEOUT": "1m", "GITHUB_EVENT_NAME": "pull_request"}
    of_action |= {"SPEEDTRACK_TOKEN": "stpt_x", "BASE_SHA": "main~1", "HEAD_SHA": "topic", "DEFAULT_BRANCH": "main"}
    of_action |= dict.fromkeys(("PROJECT", "BENCHMARKS", "MACHINE", "METRICS", "FAIL_ON_REGRESSION"), "")
    of_action |= {"GITHUB_REPOSITORY": "redis/kvd", "HEAD_REPOSITORY": "redis/kvd", "ACTOR": "ada"} | more
    (script,) = steps_of_action()
    done = checkout.run("bash", "-eo", "pipefail", "-c", script, **of_action)
    assert done.returncode == (4 if sides is None else 0), (done.stdout, done.stderr)
    assert said in done.stdout and (said or done.stdout.split() == (sides or "").split())


def read_again(checkout: Checkout) -> None:
    """What was measured before is read by its number, with the keys that docs/client.md promises."""
    number = str(PairedComparison.objects.order_by("pk").values_list("pk", flat=True)[0])
    again = checkout.speedtrack("compare", "--id", number, "--json", "--fail-on-regression", "3%")
    document = json.loads(again.stdout)
    assert again.returncode == document["exit_code"] == 1
    assert document["gate"]["passed"] is False and document["comparison"]["state"] == "done"
    assert {row["verdict"] for row in document["gate"]["regressions"]} == {"worse"}
    connection.close()


def test_files_are_sent_and_measured_commits_shown(ci: Ci, tmp_path: Path) -> None:
    """What needs no waiting: the other commands, on a real server."""
    checkout = ci.checkout
    (tmp_path / "go.txt").write_text("goos: linux\nBenchmarkGet-2 1000 812 ns/op\nBenchmarkGet-2 1000 815 ns/op\n")
    words = ("results", "push", str(tmp_path / "go.txt"), "--commit", "HEAD", "--machine", "ci")
    assert "1 taken, 0 unchanged, 0 refused" in checkout.speedtrack(*words).stdout
    assert "0 taken, 1 unchanged, 0 refused" in checkout.speedtrack(*words).stdout
    report = json.loads(checkout.speedtrack(*words, "--json").stdout)
    assert report["files"][0]["unchanged"] == 1 and report["project"] == "kvd"
    damaged = tmp_path / "x.json"
    damaged.write_text("{")
    refused = checkout.speedtrack("results", "push", str(damaged), "--json")
    assert refused.returncode == 2 and json.loads(refused.stdout)["error"]["kind"] == "usage"
    damaged.write_text('{"schema": "speedtrack.points/1", "results": [{"commit": "nosuch", "value": 1}]}')
    refused = checkout.speedtrack("results", "push", str(damaged), words[2], *words[3:])
    assert refused.returncode == 6 and "0 taken, 0 unchanged, 1 refused" in refused.stdout, refused.stderr
    assert "go.txt: 0 taken, 1 unchanged" in refused.stdout  # the next file is sent all the same
    queued = checkout.speedtrack("measure", "HEAD~2..HEAD")
    assert "2 runs of 2 commits are queued" in queued.stdout, queued.stderr
    assert "kvd:" in checkout.speedtrack("status").stdout
    assert checkout.speedtrack("alerts").stdout == "No alert is open.\n"
    assert "there is nothing to measure" in checkout.speedtrack("compare", "HEAD", "main", "--wait").stdout
    nothing = checkout.speedtrack("compare", "HEAD~1", "HEAD", "--measured", "--fail-on-regression", "3%")
    assert nothing.returncode == 6
    late = checkout.speedtrack("compare", "HEAD~1", "HEAD", "--wait", "--timeout", "1s")
    assert late.returncode == 5 and "speedtrack compare --project kvd --id" in late.stderr
    denied = checkout.speedtrack("track", "https://github.com/valkey-io/valkey", "--suite", "tiny")
    assert denied.returncode == 4 and "needs an operator" in denied.stderr
    assert "You are ada" in checkout.speedtrack("whoami").stdout
    token = checkout.environment.pop("SPEEDTRACK_TOKEN")
    login = ("sh", "-c", 'echo "$TOKEN" | speedtrack login --token-stdin "$SPEEDTRACK_URL"')
    assert token not in (done := checkout.run(*login, TOKEN=token)).stdout and done.returncode == 0, done.stderr
    stored = tmp_path / ".config" / "speedtrack" / "client.json"
    assert stored.stat().st_mode & 0o777 == 0o600 and token in stored.read_text()
    del checkout.environment["SPEEDTRACK_URL"]
    assert json.loads(checkout.speedtrack("whoami", "--json").stdout)["user"] == "ada"
    assert json.loads(checkout.speedtrack("logout", "--json").stdout)["forgotten"] is True
    assert checkout.speedtrack("whoami").returncode == 2
