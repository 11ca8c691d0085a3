"""Suites accept the workloads that the driver accepts, and refuse the others with the place of the mistake."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.digests import benchmark_digests
from speedtrack.benchmarks.suitefiles import load_suite, parse_suite
from speedtrack.tests.builders import SUITE

#: The runner's tests show the same table to the driver.
TABLE: dict[str, Any] = json.loads(
    (Path(settings.BASE_DIR) / "runners" / "tests" / "golden" / "workloads.json").read_text("utf-8")
)
RECORDED: dict[str, Any] = {"mode": "replay", "replay": {"file": "a/b.monitor", "digest": "sha256:" + "0" * 64}}
FAST = RECORDED["replay"] | {"speed": "fast"}
HEAD = SUITE.partition("[[benchmark]]")[0]


def toml(value: Any) -> str:
    """A value of JSON as TOML writes it in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def suite(workload: dict[str, Any], more: str = "") -> str:
    protocol = workload.get("protocol", "resp")
    phase = toml({key: value for key, value in workload.items() if key != "protocol"})
    head = HEAD.replace('protocol = "resp"', f'protocol = "{protocol}"')
    return f'{head}[[benchmark]]\nname = "one"\nwhy = "to see"\n{more}workload = {phase}\n'


def refusal(workload: dict[str, Any], more: str = "") -> str:
    with pytest.raises(DefinitionError) as caught:
        parse_suite(suite(workload, more), "tiny.toml")
    return str(caught.value)


@pytest.mark.parametrize("workload", TABLE["good"], ids=json.dumps)
def test_what_the_driver_takes_is_taken(workload: dict[str, Any]) -> None:
    [section] = parse_suite(suite(workload), "tiny.toml").benchmark
    phase = section.work()["workload"]
    assert {key: phase[key] for key in workload.keys() & {"test", "clients", "requests", "rate", "ttl_s"}}.items() <= (
        workload.items()
    )
    assert "transport" not in phase and None not in phase.values()


@pytest.mark.parametrize(("place", "workload"), TABLE["bad"], ids=json.dumps)
def test_what_the_driver_refuses_is_refused_by_its_place(place: str, workload: dict[str, Any]) -> None:
    said = refusal(workload)
    assert place in said and "Traceback" not in said
    assert all(line.startswith("tiny.toml: ") for line in said.splitlines())


@pytest.mark.parametrize("workload", TABLE["good"], ids=json.dumps)
def test_a_stored_workload_is_read_back_as_it_was(workload: dict[str, Any]) -> None:
    suite_read = parse_suite(suite(workload), "tiny.toml")
    stored = json.loads(json.dumps(suite_read.model_dump()))
    assert definitions.Definition.model_validate(stored) == suite_read
    assert benchmark_digests(stored) == benchmark_digests(suite_read.model_dump())


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"test": "get", "mode": "idle"}, "workload.mode: Input should be 'closed', 'open' or 'replay'"),
        ({"mode": "replay"}, "exactly one of test, commands, sequence, replay is needed (none given)"),
        (RECORDED | {"test": "get"}, "replay is needed (test and replay given)"),
        (RECORDED | {"mode": "closed"}, 'mode = "replay" and the key replay need each other'),
        ({"mode": "replay", "replay": {"file": "a"}}, "workload.replay.digest: this key is missing"),
        ({"mode": "replay", "replay": FAST | {"digest": "sha256:0"}}, "the 64 digits that `sha256sum FILE` prints"),
        ({"mode": "replay", "replay": FAST | {"file": "../a"}}, "give its path from the folder of recordings on"),
        ({"mode": "replay", "replay": FAST | {"file": "/etc/passwd"}}, "give its path from the folder of recordings"),
        ({"mode": "replay", "replay": FAST | {"file": "a/../../b"}}, "give its path from the folder of recordings on"),
        ({"mode": "replay", "replay": FAST | {"speed": "slow"}}, "workload.replay.speed: Input should be 'fast'"),
        ({"mode": "replay", "replay": FAST | {"speed": 0}}, "workload.replay.speed: Input should be greater than 0"),
        ({"mode": "replay", "replay": FAST}, 'replay.speed = "fast" needs requests'),
        (RECORDED | {"requests": 9}, 'requests is for replay.speed = "fast": give duration_s'),
        (RECORDED | {"keys": {"count": 9}}, 'keys is not for mode = "replay", which sends what was recorded'),
        (RECORDED | {"prefill": True}, "prefill is not for mode"),
        (RECORDED | {"warmup_s": 1.0}, "warmup_s is not for mode"),
        (RECORDED | {"expect": {"hit_rate": 1.0}}, "expect.hit_rate is not for mode"),
        (RECORDED | {"rate": 5.0}, 'rate is for mode = "open"'),
        ({"test": "get", "expect": {"errors": 0.1}}, 'expect.errors is for mode = "replay"'),
        (
            {"protocol": "memcached", "mode": "replay", "replay": FAST | {"format": "aof"}, "requests": 9},
            "a cache trace",
        ),
        ({"test": "get", "mode": "open", "rate": {"of": "one", "share": 0.5}, "replay": FAST}, "test and replay given"),
        ({"test": "get", "setup": {"request": "SET a 1"}, "prefill": True}, "prefill needs an empty server"),
        ({"protocol": "memcached", "test": "get", "setup": {"request": "set a 0 0 1"}}, 'are for protocol = "resp"'),
        ({"test": "get", "mode": "open", "rate": {"of": "two", "share": 0.5}}, "there is no benchmark 'two'"),
        ({"test": "get", "mode": "open", "rate": {"of": "one", "share": 0.5}}, "one has a rate itself"),
        ({"test": "get", "mode": "open", "rate": {"of": "one", "share": 1.5}}, "workload.rate.share: "),
        ({"test": "get", "mode": "open", "rate": {"of": "one"}}, "workload.rate.share: this key is missing"),
        ({"test": "get", "mode": "open", "rate": {"off": "one", "share": 0.5}}, "no such key: did you mean of?"),
        ({"test": "get", "mode": "open", "rate": "fast"}, "workload.rate: Input should be a valid number"),
    ],
)
def test_what_only_a_suite_can_get_wrong(workload: dict[str, Any], words: str) -> None:
    assert words in refusal(workload)


def test_a_recording_is_known_by_its_digest_and_its_speed_not_by_its_name() -> None:
    def digest(**changes: Any) -> str:
        text = suite(RECORDED | {"replay": RECORDED["replay"] | changes})
        return benchmark_digests(parse_suite(text, "tiny.toml").model_dump())["one"]

    assert digest(file="renamed.aof") == digest() == digest(speed=1.0)
    assert len({digest(), digest(digest="sha256:" + "1" * 64), digest(speed=2.0), digest(format="monitor")}) == 4


def test_a_recording_is_not_counted() -> None:
    """By default all benchmarks are counted that are measured of every commit, so this one is left out."""
    counted = '[instructions]\ninside = ["f"]\n[[benchmark]]'
    definition = parse_suite(suite(RECORDED).replace("[[benchmark]]", counted), "tiny.toml")
    assert definition.functions_of(definition.benchmark[0]) == []
    assert "and no recording" in refusal(RECORDED, 'instructions = "callgrind"\n')
    named = suite(RECORDED).replace(
        "[[benchmark]]", '[instructions]\ninside = ["f"]\nbenchmarks = ["one"]\n[[benchmark]]'
    )
    with pytest.raises(DefinitionError, match="and no recording"):
        parse_suite(named, "tiny.toml")


def test_a_sequence_of_setup_is_told_to_the_runner() -> None:
    workload = {"commands": [{"request": "LRANGE l 0 9"}], "setup": {"request": "RPUSH l __data__", "times": 10}}
    [section] = parse_suite(suite(workload), "tiny.toml").benchmark
    assert section.work()["workload"]["setup"] == {"request": "RPUSH l __data__", "times": 10}


@pytest.mark.parametrize(
    ("driver", "workload", "words"),
    [
        ("redis-benchmark", {"test": "get"}, "use requests, without times"),
        ("redis-benchmark", {"test": "get", "requests": 100, "mode": "open", "rate": 5.0}, "does not support mode"),
        ("redis-benchmark", {"test": "get", "requests": 100, "ttl_s": 5}, "does not support ttl_s"),
        ("redis-benchmark", {"test": "get", "requests": 100, "values": {"range": [1, 2]}}, "use values.bytes"),
        ("redis-benchmark", {"test": "get", "requests": 100, "keys": {"distribution": "zipf"}}, "it has uniform"),
        ("redis-benchmark", {"test": "lrange_100", "requests": 100}, "no test 'lrange_100': there are ping_inline"),
        ("redis-benchmark", {"test": "get:9+set:1", "requests": 100}, "has no mixes"),
        ("redis-benchmark", {"commands": [{"test": "get"}], "requests": 100}, "give one request, or a test"),
        ("redis-benchmark", {"test": "get", "requests": 100, "protocol": "memcached"}, "supports only resp"),
        ("memtier", {"test": "incr", "requests": 100}, "no test 'incr': there are get, set"),
        ("memtier", {"commands": [{"request": "GET a"}], "requests": 100}, "does not support commands"),
        ("memtier", {"test": "get", "requests": 100, "clients": 3, "threads": 2}, "clients must divide by threads"),
        ("memtier", {"test": "get", "requests": 100, "keys": {"distribution": "latest"}}, "it has uniform, sequential"),
        ("magic", {"test": "get"}, "benchmark.0.driver: Input should be 'speedbench', 'redis-benchmark'"),
        ("command", {"test": "get"}, "needs a command and no workload"),
    ],
)
def test_what_another_driver_cannot_do_is_refused(driver: str, workload: dict[str, Any], words: str) -> None:
    assert words in refusal(workload, f'driver = "{driver}"\n')


def test_another_driver_is_another_benchmark() -> None:
    drivers = ("speedbench", "redis-benchmark", "memtier")
    suites = [parse_suite(suite({"test": "get", "requests": 9}, f'driver = "{d}"\n'), "") for d in drivers]
    assert len({benchmark_digests(one.model_dump())["one"] for one in suites}) == 3


def test_the_rate_of_an_open_loop_is_part_of_its_meaning() -> None:
    """Another reference means another rate, so it is another benchmark."""
    text = SUITE + suite({"test": "set", "mode": "open", "rate": {"of": "get-p1", "share": 0.5}})[len(HEAD) :]
    digests = benchmark_digests(parse_suite(text, "tiny.toml").model_dump())
    other = benchmark_digests(parse_suite(text.replace("count = 1000", "count = 1001", 1), "").model_dump())
    assert digests["get-p1"] != other["get-p1"] and digests["one"] != other["one"]


def own(command: str) -> str:
    return f'{HEAD}[[benchmark]]\nname = "one"\nwhy = "to see"\ndriver = "command"\ncommand = "{command}"\n'


@pytest.mark.parametrize(
    ("command", "transport"), [("load -s {socket} -o {output}", "unix"), ("load {host}:{port} {output}", "tcp")]
)
def test_a_command_of_ones_own_says_its_transport(command: str, transport: str) -> None:
    [section] = parse_suite(own(command), "tiny.toml").benchmark
    assert section.work() == {
        "driver": "command",
        "transport": transport,
        "workload": {},
        "command": command,
        "timeout_s": 300,
        "instructions": "",
        "target": 0.01,
    }


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("load {socket}", "command needs {output}"),
        ("load {output}", "either {host} and {port} or {socket}"),
        ("load {socket} {port} {output}", "either {host} and {port} or {socket}"),
        ("load {sock} {output}", "{sock} is not a placeholder"),
        ("load '{socket} {output}", "cannot be split: No closing quotation"),
    ],
)
def test_a_command_that_cannot_work_is_refused(command: str, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_suite(own(command), "tiny.toml")
    assert words in str(caught.value)


def test_listen_has_words_for_every_transport_that_is_used() -> None:
    server = 'command = "{artifact:kvd} {listen}"\nlisten = { tcp = "-p {port}" }'
    text = suite({"test": "get"}).replace('command = "{artifact:kvd} --unixsocket {socket}"', server)
    with pytest.raises(DefinitionError, match=r"server\.listen has no text for transport 'unix'"):
        parse_suite(text, "tiny.toml")
    tcp = parse_suite(text.replace('test = "get"', 'test = "get", transport = "tcp"'), "tiny.toml")
    assert tcp.server.listen == {"tcp": "-p {port}"}


def test_redis_and_valkey_are_measured_alike(db: None) -> None:
    redis, valkey = load_suite("redis"), load_suite("valkey")
    assert redis.benchmark == valkey.benchmark
