"""The digest changes with everything that affects the meaning of a result, and with nothing else."""

import hashlib

import pytest

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.digests import benchmark_digests, json_digest
from speedtrack.benchmarks.suitefiles import parse_suite
from speedtrack.benchmarks.workloads import Workload
from speedtrack.tests.builders import SUITE

#: One benchmark with as many keys as can stand together.
EVERY_KEY = """
name = "every"
[build]
command = "make -j{cores}"
artifacts = ["src/kvd", "other"]
timeout_s = 60
environment = { CFLAGS = "-O2" }
kind = "docker"
image = "debian"
trust = "all"
[server]
command = "{artifact:kvd} {listen}"
listen = { tcp = "--port {port}", unix = "--unixsocket {socket}" }
protocol = "resp"
ready_timeout_s = 5
cores = 2
[[benchmark]]
name = "reference"
why = "what it can do"
workload = { test = "set", requests = 1000 }
[[benchmark]]
name = "all"
why = "many keys"
[benchmark.workload]
commands = [{ request = ["GET", "__key__"], name = "read" }, { test = "set", weight = 3 }]
transport = "tcp"
threads = 2
window = "rolling"
keys = { count = 100, distribution = "zipf", exponent = 1.5 }
values = { weighted = [[10, 1], [20, 2]] }
ttl_s = [5, 10]
setup = { request = "RPUSH l 1" }
expect = { hit_rate = [0.5, 1] }
verify = 0.5
warmup_most_s = 3
duration_s = 2
mode = "open"
rate = { of = "reference", share = 0.5 }
arrivals = "poisson"
probe = { clients = 2 }
resp3 = true
tracking = false
"""


def digest(old: str = "", new: str = "", benchmark: str = "get-p1") -> str:
    assert old in SUITE
    return digests(SUITE.replace(old, new, 1) if old else SUITE)[benchmark]


def digests(text: str) -> dict[str, str]:
    return benchmark_digests(parse_suite(text, "tiny.toml").model_dump())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('test = "get"', 'test = "incr"'),
        ("clients = 50", "clients = 51"),
        ("pipeline = 1", "pipeline = 2"),
        ("count = 1000", "count = 1001"),
        ("bytes = 32", "bytes = 33"),
        ("prefill = true", "prefill = false"),
        ("prefill = true", 'prefill = true, transport = "tcp"'),
        ("prefill = true", "prefill = true, warmup_s = 1.5"),
        ("prefill = true", "prefill = true, duration_s = 2.5"),
        ("hit_rate = 1.0", "hit_rate = 0.9"),
        (", expect = { hit_rate = 1.0 }", ""),
        ("--unixsocket {socket}", "--unixsocket {socket} --fast"),
        ('command = "make"', 'command = "make -O3"'),
        ('artifacts = ["kvd"]', 'artifacts = ["kvd", "more"]'),
        ('protocol = "resp"', 'protocol = "resp"\ncores = 2'),
        ("[server]", 'environment = { CFLAGS = "-O3" }\n[server]'),
        ("[server]", 'layouts = { linker = "any", trials = "layouts" }\n[server]'),
    ],
)
def test_what_changes_the_meaning_changes_the_digest(old: str, new: str) -> None:
    assert digest(old, new) != digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("the plain read path", "another word about it"),
        ('why = "the plain read path"', 'why = "the plain read path"\ngroup = "reads of hot keys"'),
        ('name = "tiny"', 'name = "small"'),
        ("trials = 5", "trials = 50"),
        ("[server]", "timeout_s = 5\n[server]"),
        ("[server]", 'layouts = { linker = "any" }\n[server]'),
        ('protocol = "resp"', 'protocol = "resp"\nready_timeout_s = 3\ncores = 1'),
        ("smallest_effect = 0.03", "smallest_effect = 0.3"),
        ("hit_rate = 1.0", "hit_rate = 1"),
        ("clients = 50, pipeline = 1", "pipeline = 1, clients = 50"),
        ("count = 1000", "count = 1_000"),
        ("prefill = true", 'prefill = true, transport = "unix"'),
        ("prefill = true", "prefill = true, warmup_s = 0.5, duration_s = 5"),
        ('why = "the plain read path"', 'why = "reads"\ntimeout_s = 5'),
        ('command = "make"\nartifacts = ["kvd"]', 'artifacts = ["kvd"]\ncommand = "make"'),
    ],
)
def test_what_does_not_change_the_meaning_leaves_the_digest(old: str, new: str) -> None:
    assert digest(old, new) == digest()


def test_the_order_of_the_benchmarks_and_sections_leaves_the_digests() -> None:
    head, first, second = SUITE.split("[[benchmark]]")
    assert digests("[[benchmark]]".join([head, second, first])) == {
        name: digest(benchmark=name) for name in ("get-p1", "set-p1")
    }


def test_the_order_of_the_artifacts_leaves_the_digest() -> None:
    one, other = ('artifacts = ["kvd", "more"]', 'artifacts = ["more", "kvd"]')
    assert digest('artifacts = ["kvd"]', one) == digest('artifacts = ["kvd"]', other)


def test_benchmarks_that_do_the_same_have_the_same_digest_whatever_their_names() -> None:
    assert digest('name = "get-p1"', 'name = "read"', "read") == digest()


def test_another_benchmark_of_the_suite_leaves_the_digest() -> None:
    more = '[[benchmark]]\nname = "ping"\nwhy = "nothing"\nworkload = { test = "ping" }\n[[benchmark]]'
    assert digest("[[benchmark]]", more) == digest()


def test_a_digest_is_the_sha256_of_canonical_json() -> None:
    canonical = '{"a":"ü","b":[1,2.5,null,true]}'
    wanted = f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
    assert json_digest({"b": [1, 2.5, None, True], "a": "ü"}) == wanted


class LaterWorkload(Workload):
    """A workload of a later version with one more key."""

    jitter: int = 0


@pytest.mark.parametrize(("jitter", "same"), [(0, True), (5, False)])
def test_a_key_that_is_added_later_leaves_the_digest_while_it_has_its_default(
    jitter: int, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(definitions.SECTIONS, "workload", LaterWorkload)
    content = parse_suite(SUITE, "tiny.toml").model_dump()
    content["benchmark"][0]["workload"]["jitter"] = jitter
    assert (benchmark_digests(content)["get-p1"] == digest()) == same


def test_the_digests_are_those_of_the_first_version() -> None:
    """Stored rows and URLs contain digests. Changing one of these breaks every existing line."""
    assert digests(SUITE) == {
        "get-p1": "sha256:d7d0f3e72a7cf396d1ad577f339b183b487bf62e37fc9e60c31ca240806e2c9b",
        "set-p1": "sha256:047795da889004a5637111b9cbccc4d2e13860e30ba3c2fbc1239e15ce034993",
    }
    assert digests(EVERY_KEY)["all"] == "sha256:f3ee8deb61e861ccf1f6eb9fa960f77083a6585fe38fd155ef876de64082bd03"
