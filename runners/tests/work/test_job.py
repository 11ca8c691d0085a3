"""Whole runs: a claimed job becomes builds, measurements and an end, with real builds, servers and driver."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event

import pytest

from runners.documents import digest_of
from runners.loads.recordings import Recordings
from runners.machine.placement import Placement
from runners.machine.topology import allowed_cpus
from runners.measuring.tools import Tools
from runners.reporting.connection import Unreachable
from runners.tests.api import Api, RecordedCall
from runners.tests.conftest import (
    BASE_SHA,
    COMMAND,
    SHA,
    TREE,
    golden,
    make_benchmark,
    make_job,
)
from runners.work.agent import Agent

OPTIONAL_METRICS = ("server_user_ns_per_request", "server_system_ns_per_request", "bytes_per_key")


def shape(value: object) -> object:
    """The keys and types of a document, recursively; integers and floats are one type, a list is its first item."""
    match value:
        case dict():
            return {key: shape(item) for key, item in value.items()}
        case list():
            return [shape(value[0])] if value else []
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case _:
            return type(value).__name__


def test_a_run_goes_from_claim_to_complete(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(benchmarks=[make_benchmark(), make_benchmark("set-p1", "set")])]
    assert agent.work() == 1
    ends = [call.path.rsplit("/", 1)[-1] for call in api.calls]
    ends = [end for end in ends if end not in ("beat", "renew", "log")]  # as many as the time that it took
    assert ends == ["claim", f"{SHA}?token=3", "build", "measurement", "measurement", "complete", "claim"]
    build = api.bodies("/build")[0]["build"]
    assert build["succeeded"] and not build["cached"] and build["artifacts"]["tiny"]["bytes"] > 1000
    assert {body["benchmark"]["name"] for body in api.bodies("/measurement")} == {"get-p1", "set-p1"}


def test_a_measurement_has_the_shape_of_the_golden_document(api: Api, agent: Agent) -> None:
    api.jobs = [make_job()]
    agent.work()
    produced, expected = api.bodies("/measurement")[0], golden("result.v1.json")
    for document in (produced, expected):
        document["artifacts"] = list(document["artifacts"].values())
        environment = document["environment"]
        # Each kernel knows vulnerabilities of its own.
        facts = {
            key.partition("mitigation_")[0] or "mitigations": str(value) for key, value in environment["series"].items()
        }
        environment["series"] = facts
        environment["recorded"] = sorted(environment["recorded"])  # unknown or a number: the names must agree
        for trial in document["trials"]:
            # What a busy machine flags, and how many times, is not the document's shape; the driver has its own golden
            # document.
            trial["flags"] = []
            trial["driver"] = trial["driver"]["schema"]
            trial["quiet"] = sorted(trial["quiet"])  # as of the environment: unknown or a number
            # A short window may have met no clock tick, and small memory no growth.
            for optional in ("cpu_user_ns", "cpu_system_ns"):
                trial["server"].pop(optional, None)
            trial["metrics"] = sorted(set(trial["metrics"]) - set(OPTIONAL_METRICS))
            trial["reproduce"]["loads"][0]["workload"] = sorted(trial["reproduce"]["loads"][0]["workload"])
    assert shape(produced) == shape(expected)
    assert produced["environment"]["recorded"] == expected["environment"]["recorded"]


def test_the_golden_job_is_executed_and_its_result_names_its_environment(api: Api, agent: Agent) -> None:
    job = golden("job.v3.json")
    result = golden("result.v1.json")
    assert result["sha"] == job["sides"][0]["sha"] and result["token"] == job["token"]
    assert result["benchmark"]["digest"] == job["benchmarks"][0]["digest"]
    assert result["environment"]["digest"] == digest_of(result["environment"]["series"])
    api.sources[result["sha"]] = {"Makefile": "kvd:\n\tfalse\n"}
    api.jobs = [job]
    agent.work()
    assert api.bodies("/fail")[0]["error"].startswith("build failed: `make -j")


def test_the_rounds_interleave_and_a_pair_is_measured_back_to_back(api: Api, agent: Agent) -> None:
    sides = [{"side": "head", "sha": SHA}, {"side": "base", "sha": BASE_SHA}]
    api.jobs = [
        make_job(
            sides=sides, reason="confirm", trials=2, benchmarks=[make_benchmark(), make_benchmark("set-p1", "set")]
        )
    ]
    agent.work()
    measured = api.bodies("/measurement")
    assert {(body["side"], body["benchmark"]["name"]) for body in measured} == {
        (side, name) for side in ("head", "base") for name in ("get-p1", "set-p1")
    }
    places = sorted(
        (trial["order"], trial["trial"], body["benchmark"]["name"], body["side"])
        for body in measured
        for trial in body["trials"]
    )
    assert [trial for _, trial, _, _ in places] == [0] * 4 + [1] * 4
    for first, second in zip(places[::2], places[1::2], strict=True):
        assert first[1:3] == second[1:3] and first[3] != second[3] and second[0] == first[0] + 1
    assert all(body["artifacts"] == measured[0]["artifacts"] for body in measured), "equal sources, equal programs"


def test_progress_is_sent_with_the_renewals(api: Api, agent: Agent) -> None:
    api.jobs = [make_job()]
    agent.work()
    progress = [body["progress"] for body in api.bodies("/renew") if body["progress"]]
    shown = [{name: one[name] for name in ("done", "total", "now", "phase")} for one in progress]
    assert {"done": 1, "total": 2, "now": "get-p1, trial 2", "phase": "get-p1"} in shown
    assert all(one["age_s"] < one["overdue_s"] for one in progress)
    assert all(before["done"] <= after["done"] for before, after in pairwise(progress))


def test_the_pairs_so_far_are_sent_with_the_progress(api: Api, agent: Agent) -> None:
    sides = [{"side": "head", "sha": SHA}, {"side": "base", "sha": BASE_SHA}]
    api.jobs = [make_job(sides=sides, reason="confirm", trials=3, metrics=["server_cpu_ns_per_request"])]
    agent.work()
    reported = [body["progress"] for body in api.bodies("/renew") if body["progress"]]
    by_length = {len(one["pairs"].get("get-p1", [])): one["pairs"] for one in reported}
    measured = {body["side"]: [trial["metrics"] for trial in body["trials"]] for body in api.bodies("/measurement")}
    assert 0 < max(by_length) <= 3 and 0 in by_length, "they come while it measures"
    for so_far, pairs in by_length.items():
        for number, pair in enumerate(pairs.get("get-p1", [])):
            assert set(pair) == {"base", "head", "flags"} and so_far > number
            for side in ("base", "head"):
                assert pair[side].items() <= measured[side][number].items() and list(pair[side]) == [
                    "server_cpu_ns_per_request"
                ]


def test_measurements_over_tcp(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(benchmarks=[make_benchmark("get-tcp", transport="tcp")])]
    agent.work()
    driver = api.bodies("/measurement")[0]["trials"][0]["driver"]
    assert driver["target"]["address"].startswith("tcp:127.0.0.1:")


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("silent", "was not ready after 1 s"),
        ("leaves", "ended at once (exit status 3): tiny: no reason to stay"),
        ("wrong", "wrong answer: hit_rate not as expected: 0 hits"),
        ("crash", "the server ended during the trial (signal 6): tiny: broken on purpose"),
    ],
)
def test_a_faulty_server_fails_the_run_with_the_reason(api: Api, agent: Agent, behaviour: str, message: str) -> None:
    ready_timeout_s = 1 if behaviour == "silent" else 60
    changes = {"command": f"{COMMAND} --behaviour {behaviour}", "ready_timeout_s": ready_timeout_s}
    server = make_job()["server"] | changes
    api.jobs = [make_job(server=server)]
    agent.work()
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "permanent"
    assert "get-p1: " in failure["error"] and message in failure["error"]
    assert not api.of("/measurement") and message in api.text("measure")


def test_one_failing_benchmark_does_not_stop_the_others(api: Api, agent: Agent) -> None:
    server = make_job()["server"] | {"command": f"{COMMAND} --behaviour wrong"}
    api.jobs = [make_job(server=server, benchmarks=[make_benchmark(), make_benchmark("set-p1", "set")])]
    agent.work()
    assert [body["benchmark"]["name"] for body in api.bodies("/measurement")] == ["set-p1"]
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "permanent" and failure["error"].startswith("1 of 2 benchmarks failed: get-p1: ")
    assert api.calls.index(api.of("/measurement")[0]) < api.calls.index(api.of("/fail")[0])


def test_the_pairs_before_a_failure_are_sent(api: Api, tools: Tools, stopping: Event, tmp_path: Path) -> None:
    script = tmp_path / "driver"
    script.write_text(
        f"""#!/bin/sh
        [ "$1" = duel ] && echo >> {tmp_path}/duels
        [ "$(wc -l < {tmp_path}/duels)" -ge 3 ] && echo 'head: the server ended' >&2 && exit 1
        exec {tools.driver.binary} "$@"
        """
    )
    script.chmod(0o755)
    (tmp_path / "duels").touch()
    sides = [{"side": "head", "sha": SHA}, {"side": "base", "sha": BASE_SHA}]
    api.jobs = [make_job(sides=sides, reason="confirm", trials=4)]
    Agent(replace(tools, driver=replace(tools.driver, binary=script)), stopping).work()
    measured = {body["side"]: body for body in api.bodies("/measurement")}
    base, head = ([trial["trial"] for trial in measured[side]["trials"]] for side in ("base", "head"))
    assert base == head and base in ([0], [0, 1])  # the second, if the machine was not too busy for the first one
    assert {body["stopping"]["reason"] for body in measured.values()} == {"failed"}
    (failed,) = api.bodies("/fail")
    assert "the driver cannot measure: head: the server ended" in failed["error"] and failed["kind"] == "permanent"


def test_what_needs_more_files_than_the_machine_allows_is_told_at_once(api: Api, agent: Agent) -> None:
    rung = make_benchmark("get-connections.1000000000", clients=1_000_000_000)
    api.jobs = [make_job(benchmarks=[rung, make_benchmark()])]
    agent.work()
    first = api.text("measure").splitlines()[0]
    assert "get-connections.1000000000 failed: 1000000000 connections need 1000000100 open files" in first
    assert [body["benchmark"]["name"] for body in api.bodies("/measurement")] == ["get-p1"]
    (done,) = api.bodies("/complete")
    assert not api.of("/fail") and list(done["out_of_reach"]) == ["get-connections.1000000000"]
    assert "raise the hard limit of the runner" in done["out_of_reach"]["get-connections.1000000000"]


def test_a_failure_beside_what_is_out_of_reach_fails_the_run(api: Api, agent: Agent) -> None:
    server = make_job()["server"] | {"command": f"{COMMAND} --behaviour wrong"}
    rung = make_benchmark("get-connections.1000000000", clients=1_000_000_000)
    api.jobs = [make_job(server=server, benchmarks=[rung, make_benchmark(), make_benchmark("set-p1", "set")])]
    agent.work()
    assert api.bodies("/fail")[0]["error"].startswith("2 of 3 benchmarks failed: ") and not api.of("/complete")


def test_recorded_traffic_is_played(api: Api, agent: Agent, tools: Tools, tmp_path: Path) -> None:
    digest = record(tmp_path / "monday.monitor")
    played = {"test": None, "keys": None, "prefill": None, "expect": {}, "warmup_s": 0.0, "mode": "replay"}
    replay = {"file": "monday.monitor", "digest": digest, "speed": 2.0}
    fast = played | {"duration_s": None, "requests": 2000, "replay": replay | {"speed": "fast"}}
    api.jobs = [
        make_job(
            benchmarks=[
                make_benchmark("paced", **played, replay=replay),
                make_benchmark("fast", transport="tcp", **fast),
                make_benchmark("absent", **played, replay=replay | {"file": "tuesday.monitor"}),
                make_benchmark("another", **played, replay=replay | {"digest": "sha256:" + "0" * 64}),
            ]
        )
    ]
    Agent(with_recordings(tools, tmp_path), agent.stopping).work()
    measured = {body["benchmark"]["name"]: body["trials"] for body in api.bodies("/measurement")}
    assert set(measured) == {"paced", "fast"} and not api.of("/fail"), api.text("measure")
    assert all("throughput_rps" in trial["metrics"] for trial in measured["fast"])
    assert not any("throughput_rps" in trial["metrics"] for trial in measured["paced"])
    assert {trial["driver"]["tests"][0]["replay"]["sent"] for trial in measured["fast"]} == {2000}
    assert measured["fast"][0]["reproduce"]["loads"][0]["argv"][-2:] == ["--recordings", "{recordings}"]
    reasons = api.bodies("/complete")[0]["out_of_reach"]
    assert "tuesday.monitor cannot be read on this machine (No such file or directory): put it" in reasons["absent"]
    assert f"is another one, with the digest {digest}" in reasons["another"]


def test_a_recording_may_have_as_many_error_replies_as_the_suite_allows(
    api: Api, agent: Agent, tools: Tools, tmp_path: Path
) -> None:
    digest = record(tmp_path / "monday.monitor", wrong=20)
    phase = {"test": None, "keys": None, "prefill": None, "warmup_s": 0.0, "mode": "replay", "duration_s": None}
    phase |= {"requests": 2000, "replay": {"file": "monday.monitor", "digest": digest, "speed": "fast"}}
    few, enough = ({"expect": {"errors": share}} for share in (0.005, 0.01))
    api.jobs = [
        make_job(benchmarks=[make_benchmark("few", **phase, **few), make_benchmark("enough", **phase, **enough)])
    ]
    Agent(with_recordings(tools, tmp_path), agent.stopping).work()
    assert [body["benchmark"]["name"] for body in api.bodies("/measurement")] == ["enough"]
    assert "few: wrong answer: 20 error replies, the first: " in api.bodies("/fail")[0]["error"]


def record(file: Path, wrong: int = 0) -> str:
    """Writes 0.4 s of MONITOR's output, of 4000 requests, the first of them ``wrong``; returns its digest."""
    requests = ['"NOSUCH"'] * wrong + [f'"SET" "k{number % 9}" "v"' for number in range(4000 - wrong)]
    lines = (
        f"{1_700_000_000 + number / 10_000:.6f} [0 127.0.0.1:{5000 + number % 7}] {request}\n"
        for number, request in enumerate(requests)
    )
    file.write_text("".join(lines))
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


def with_recordings(tools: Tools, folder: Path) -> Tools:
    return replace(tools, driver=replace(tools.driver, recordings=Recordings(folder)))


def test_nothing_is_built_for_connections_that_the_machine_forbids(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(benchmarks=[make_benchmark("get-connections.1000000000", clients=1_000_000_000)])]
    agent.work()
    assert api.bodies("/fail")[0]["error"].startswith("1 of 1 benchmarks failed") and not api.of("/build")


def test_a_runner_that_drains_while_the_server_is_away_claims_nothing(
    api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.jobs = [make_job()]

    def away() -> None:
        agent.draining.set()
        monkeypatch.undo()
        raise Unreachable("the server is being updated")

    monkeypatch.setattr(agent.client, "claim", away)
    assert agent.work() == 0 and not agent.at_work and not api.of("claim")


def test_a_wrong_job_is_refused_naming_the_field(api: Api, agent: Agent) -> None:
    job = make_job(trials="five", most_trials=5)
    unknown = make_job(schema="speedtrack.job/99")
    api.jobs = [job, unknown]
    assert agent.work() == 2
    assert [body["error"].split(":")[1].strip() for body in api.bodies("/fail")] == [
        "the field trials must be a valid integer",
        "schema is 'speedtrack.job/99', this runner wants 'speedtrack.job/3'",
    ]


def test_a_server_with_more_cores_than_the_machine_has_is_refused(api: Api, agent: Agent, tools: Tools) -> None:
    strict = replace(tools, machine=replace(tools.machine, planner=replace(tools.machine.planner, allow_shared=False)))
    api.jobs = [make_job(server=make_job()["server"] | {"cores": 1000})]
    Agent(strict, agent.stopping).work()
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "permanent" and not api.of("/build")
    assert failure["error"].startswith("a server of 1000 cores and the driver need 1001 physical cores")
    assert "ask for fewer ([server] cores in the suite)" in failure["error"]


def test_the_runner_is_on_the_housekeeping_cores_while_it_measures(api: Api, agent: Agent, tools: Tools) -> None:
    before, seen = allowed_cpus(), []

    def look(call: RecordedCall) -> None:
        if call.path.endswith("/measurement"):
            seen.append(allowed_cpus())

    api.rules = [look]
    api.jobs = [make_job()]
    agent.work()
    assert seen == [tools.machine.placement.housekeeping] and allowed_cpus() == before


def test_the_machine_is_tuned_while_it_measures(api: Api, agent: Agent, tools: Tools) -> None:
    seen: list[object] = []

    @contextmanager
    def tuning(plan: Placement) -> Iterator[None]:
        seen.append(plan)
        yield
        seen.append("as before")

    api.rules = [lambda call: seen.append("measured") if call.path.endswith("/measurement") else None]
    api.jobs = [make_job()]
    Agent(replace(tools, tuning=tuning), agent.stopping).work()
    assert seen == [tools.machine.placement, "measured", "as before"]


def test_a_build_that_fails_ends_the_run(api: Api, agent: Agent) -> None:
    api.sources[SHA] = TREE | {"tiny.c": "int main(void) { return nothing; }\n"}
    api.jobs = [make_job()]
    agent.work()
    build = api.bodies("/build")[0]["build"]
    assert not build["succeeded"] and build["artifacts"] == {} and "ended with exit status 2" in build["error"]
    assert api.bodies("/fail")[0] == {"token": 3, "kind": "permanent", "error": f"build failed: {build['error']}"}
    assert "undeclared" in api.text(f"build {SHA}")


def test_a_lost_lease_drops_the_work_during_a_trial(api: Api, agent: Agent) -> None:
    def lost_at_the_first_trial(call: RecordedCall) -> tuple[int, dict[str, str]] | None:
        progress = call.body.get("progress") or {}
        return (409, {"error": "the lease is gone"}) if "trial" in progress.get("now", "") else None

    api.rules = [lost_at_the_first_trial]
    api.jobs = [make_job(trials=50, benchmarks=[make_benchmark(duration_s=20.0)])]
    agent.work()
    assert not api.of("/measurement") and not api.of("/fail") and not api.of("/complete")
    assert not list(agent.tools.launcher.processes.directory.iterdir())


def test_a_cancelled_run_is_dropped(api: Api, agent: Agent) -> None:
    def cancel(call: RecordedCall) -> tuple[int, dict[str, object]] | None:
        return (200, {"lease_s": 60, "cancel": True}) if call.path.endswith("/renew") else None

    api.rules = [cancel]
    api.jobs = [make_job(build=make_job()["build"] | {"command": "sleep 60"})]
    agent.work()
    assert [call.path for call in api.calls if call.path.endswith(("/fail", "/complete", "/build"))] == []


def test_without_renewals_the_runner_gives_up_the_lease(api: Api, agent: Agent) -> None:
    def renewals_fail(call: RecordedCall) -> tuple[int, dict[str, str]] | None:
        return (503, {"error": "not now"}) if call.path.endswith("/renew") else None

    api.rules = [renewals_fail]
    api.jobs = [make_job(lease_s=3, build=make_job()["build"] | {"command": "sleep 60"})]
    agent.work()
    assert not api.of("/fail") and not api.of("/complete")
    assert len(api.of("/renew")) > 2


def test_a_run_ends_at_its_deadline(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(deadline_s=1, build=make_job()["build"] | {"command": "sleep 60"})]
    agent.work()
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "permanent" and "deadline of 1 s" in failure["error"]


def test_a_program_that_was_measured_already_is_only_built(api: Api, agent: Agent) -> None:
    api.jobs.append(make_job())
    api.rules.append(
        lambda call: (200, {"linked": {"run": 4, "sha": BASE_SHA}}) if call.path.endswith("/build") else None
    )
    agent.work()
    report = api.bodies("/build")[0]
    assert report["build"]["artifacts"]["tiny"]["loaded_bytes"] > 0
    assert report["environment"]["series"]["compiler"] != "unknown"
    assert api.of("/measurement") == [] and len(api.of("/complete")) == 1
    assert "bbbbbbbbbbbb is the same program, byte for byte: not measured again" in api.text("measure")
