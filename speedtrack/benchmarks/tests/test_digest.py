"""The digest changes with everything that changes the meaning of a number, and with nothing else."""

import hashlib

import pytest

from speedtrack.benchmarks import definitions
from speedtrack.tests.builders import SUITE


def digest(old: str = "", new: str = "", benchmark: str = "get-p1") -> str:
    assert old in SUITE
    suite = definitions.parse(SUITE.replace(old, new, 1) if old else SUITE, "tiny.toml")
    [section] = [b for b in suite.benchmark if b.name == benchmark]
    return definitions.digest_of(definitions.meaning(suite, section))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('test = "get"', 'test = "incr"'), ("clients = 50", "clients = 51"), ("pipeline = 1", "pipeline = 2"),
        ("count = 1000", "count = 1001"), ("bytes = 32", "bytes = 33"),
        ("prefill = true", "prefill = false"), ("prefill = true", 'prefill = true, transport = "tcp"'),
        ("prefill = true", "prefill = true, warmup_s = 1.5"), ("prefill = true", "prefill = true, duration_s = 2.5"),
        ("hit_rate = 1.0", "hit_rate = 0.9"), (", expect = { hit_rate = 1.0 }", ""),
        ("--unixsocket {socket}", "--unixsocket {socket} --fast"), ('command = "make"', 'command = "make -O3"'),
        ('artifacts = ["kvd"]', 'artifacts = ["kvd", "more"]'), ('protocol = "resp"', 'protocol = "resp"\ncores = 2'),
        ("[server]", 'environment = { CFLAGS = "-O3" }\n[server]'),
    ],
)  # fmt: skip
def test_what_changes_the_meaning_changes_the_digest(old: str, new: str) -> None:
    assert digest(old, new) != digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("the plain read path", "another word about it"), ('name = "tiny"', 'name = "small"'),
        ("trials = 5", "trials = 50"), ("[server]", "timeout_s = 5\n[server]"),
        ('protocol = "resp"', 'protocol = "resp"\nready_timeout_s = 3\ncores = 1'), ("smallest_effect = 0.03",
        "smallest_effect = 0.3"), ("hit_rate = 1.0", "hit_rate = 1"),
        ("clients = 50, pipeline = 1", "pipeline = 1, clients = 50"), ("count = 1000", "count = 1_000"),
        ("prefill = true", 'prefill = true, transport = "unix"'),
        ("prefill = true", "prefill = true, warmup_s = 0.5, duration_s = 5"),
        ('why = "the plain read path"', 'why = "reads"\ntimeout_s = 5'),
        ('command = "make"\nartifacts = ["kvd"]', 'artifacts = ["kvd"]\ncommand = "make"'),
    ],
)  # fmt: skip
def test_what_does_not_change_the_meaning_leaves_the_digest(old: str, new: str) -> None:
    assert digest(old, new) == digest()


def test_the_order_of_the_benchmarks_and_sections_leaves_the_digests() -> None:
    head, first, second = SUITE.split("[[benchmark]]")
    suite = definitions.parse("[[benchmark]]".join([head, second, first]), "tiny.toml")
    found = {b.name: definitions.digest_of(definitions.meaning(suite, b)) for b in suite.benchmark}
    assert found == {name: digest(benchmark=name) for name in ("get-p1", "set-p1")}


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
    assert definitions.digest_of({"b": [1, 2.5, None, True], "a": "ü"}) == wanted
