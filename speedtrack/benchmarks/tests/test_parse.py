"""Every mistake in a suite gives a line that names file, place, cause and remedy."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from speedtrack.benchmarks.definitions import Definition, DefinitionError
from speedtrack.benchmarks.groups import group_by_name, groups_of
from speedtrack.benchmarks.suitefiles import PATTERNS, load_suite, parse_suite
from speedtrack.tests.builders import SUITE


def refusal(old: str, new: str) -> str:
    """The error for the builders' suite with ``old`` replaced by ``new``."""
    assert old in SUITE
    with pytest.raises(DefinitionError) as caught:
        parse_suite(SUITE.replace(old, new), "tiny.toml")
    return str(caught.value)


def test_a_right_suite_is_read() -> None:
    suite = parse_suite(SUITE, "tiny.toml")
    assert [b.name for b in suite.benchmark] == ["get-p1", "set-p1"]
    assert suite.benchmark[0].workload.clients == 50
    assert suite.build.timeout_s == 1800


@pytest.mark.parametrize("path", sorted(Path(django_settings.SUITES).glob("*.toml")), ids=lambda p: p.name)
def test_every_suite_that_is_shipped_is_right(db: None, path: Path) -> None:
    suite = load_suite(path.stem)
    assert suite.name == path.stem
    assert suite.benchmark


def test_there_are_suites_to_ship() -> None:
    assert {"redis", "valkey", "memcached", "sample"} <= {p.stem for p in Path(django_settings.SUITES).glob("*.toml")}


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("trials = 5", "trails = 5", "trails", "no such key: did you mean trials?"),
        ("trials = 5", "trials = 4", "trials", "greater than or equal to 5 (given: 4)"),
        ("trials = 5", 'trials = "5"', "trials", "valid integer (given: '5')"),
        ("trials = 5", "trials = true", "trials", "valid integer"),
        ('name = "tiny"', "", "name", "this key is missing"),
        ('name = "tiny"', 'name = "Tiny Suite"', "name", "use 1 to 61 lower-case letters"),
        ('command = "make"', 'comand = "make"', "build.comand", "no such key: did you mean command?"),
        ('command = "make"', "", "build.command", "this key is missing"),
        ('command = "make"', 'command = ""', "build.command", "at least 1 character"),
        ('artifacts = ["kvd"]', "artifacts = []", "build.artifacts", "at least 1 item"),
        ('artifacts = ["kvd"]', 'artifacts = "kvd"', "build.artifacts", "valid array"),
        ('artifacts = ["kvd"]', 'artifacts = ["/bin/kvd"]', "build.artifacts", "inside the source tree"),
        ('artifacts = ["kvd"]', 'artifacts = ["a/../../kvd"]', "build.artifacts", "inside the source tree"),
        ("[server]", "layouts = {}\n[server]", "build.layouts", "needs either linker, such as"),
        ("[server]", 'layouts = { linker = "any", link = "a {layout}" }\n[server]', "build.layouts", "needs either"),
        ("[server]", 'layouts = { link = "cc a.o" }\n[server]', "build.layouts", "link needs {layout}: the number"),
        ("[server]", 'layouts = { link = "cc {seed}" }\n[server]', "build.layouts", "{seed} is not a placeholder"),
        ("[server]", 'layouts = { linker = "ld" }\n[server]', "build.layouts.linker", "'bfd' (given: 'ld')"),
        ("[server]", 'layouts = { linker = "any", trials = 3 }\n[server]', "build.layouts.trials", "'plain' or"),
        ('protocol = "resp"', 'protocol = "http"', "server.protocol", "'memcached' (given: 'http')"),
        ('protocol = "resp"', "", "server.protocol", "this key is missing"),
        ('"{artifact:kvd} ', '"kvd ', "suite", "must start an artifact: use {artifact:kvd}"),
        ("[build]", "[biuld]", "build", "this key is missing"),
        ("[server]", "[servers]", "servers", "no such key: did you mean server?"),
        ('name = "set-p1"', 'name = "get-p1"', "benchmark", "get-p1 occurs twice"),
        ('why = "the plain read path"', "", "benchmark.0.why", "this key is missing"),
        ('why = "the plain read path"', 'why = ""', "benchmark.0.why", "at least 1 character"),
        ('test = "get"', 'test = "hget"', "suite", "benchmark get-p1: resp has no test 'hget': there are ping"),
        ("prefill = true", 'duration_s = "5s"', "benchmark.0.workload.duration_s", "valid number (given: '5s')"),
        ("prefill = true", "duration_ms = 5", "benchmark.0.workload.duration_ms", "duration_s"),
        ("prefill = true", "duration_s = 0", "benchmark.0.workload.duration_s", "greater than 0"),
        ("prefill = true", "duration_s = inf", "benchmark.0.workload.duration_s", "3600"),
        ("prefill = true", "prefill = 1", "benchmark.0.workload.prefill", "valid boolean"),
        (
            "clients = 50, pipeline = 1, keys = { count = 1000 }, values = { bytes = 32 }, prefill",
            "clients = 1.5, \
prefill",
            "benchmark.0.workload.clients",
            "integer",
        ),
        ("hit_rate = 1.0", "hit_rate = 1.5", "benchmark.0.workload.expect.hit_rate", "less than or equal to 1"),
        ("hit_rate = 1.0", "hitrate = 1.0", "benchmark.0.workload.expect.hitrate", "did you mean hit_rate?"),
        ("[metrics.server_cpu_ns_per_request]", "[metrics.cpu]", "suite", "no metric cpu: there are server_cpu_ns"),
        (
            "smallest_effect = 0.03",
            "smallest_effect = 3",
            "metrics.server_cpu_ns_per_request.smallest_effect",
            "less than 1",
        ),
        (
            "smallest_effect = 0.03",
            "effect = 0.03",
            "metrics.server_cpu_ns_per_request.effect",
            "no such key; allowed here: smallest_effect",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(old: str, new: str, place: str, words: str) -> None:
    lines = refusal(old, new).splitlines()
    assert any(line.startswith(f"tiny.toml: {place}: ") and words in line for line in lines), lines


def patterns_in(schema: Any) -> set[str]:
    """The regular expressions of a JSON schema."""
    if isinstance(schema, list):
        return set[str]().union(*map(patterns_in, schema))
    if not isinstance(schema, dict):
        return set()
    own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
    return own.union(*map(patterns_in, schema.values()))


def test_every_pattern_of_suites_has_words() -> None:
    assert patterns_in(Definition.model_json_schema()) == set(PATTERNS)


@pytest.mark.parametrize("value", ["nan", "+nan", "-nan"])
@pytest.mark.parametrize("key", ["duration_s", "warmup_s"])
def test_a_duration_that_is_no_number_is_refused(key: str, value: str) -> None:
    assert f"benchmark.0.workload.{key}" in refusal("prefill = true", f"{key} = {value}")


def test_a_hit_rate_that_is_no_number_is_refused() -> None:
    assert "benchmark.0.workload.expect.hit_rate" in refusal("hit_rate = 1.0", "hit_rate = nan")


def test_every_mistake_has_a_line_of_its_own() -> None:
    said = refusal('trials = 5\n[build]\ncommand = "make"', "trials = 1\n[build]\ncomand = 7")
    assert len(said.splitlines()) == 3
    assert all(line.startswith("tiny.toml: ") for line in said.splitlines())


def test_of_thousands_of_mistakes_the_first_ones_are_named_and_the_others_counted() -> None:
    head, *_ = SUITE.partition("[[benchmark]]")
    wrong = "".join(f'[[benchmark]]\nname = "b{number}"\n' for number in range(5000))
    with pytest.raises(DefinitionError) as caught:
        parse_suite(head + wrong, "tiny.toml")
    lines = str(caught.value).splitlines()
    assert len(lines) == 11 and lines[0] == "tiny.toml: benchmark.0.why: this key is missing"
    assert caught.value.count == 5000 and lines[-1] == "and 4,990 more"
    first_line = head.count("\n") + 1
    assert [mistake.line for mistake in caught.value.mistakes] == list(range(first_line, first_line + 20, 2))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("trials = 5", f'trials = "{"x" * 100_000}"', "trials: Input should be a valid integer"),
        ("trials = 5", f"{'x' * 100_000} = 5", ": no such key; allowed here: "),
        ('artifacts = ["kvd"]', f'artifacts = ["/{"x" * 100_000}"]', "build.artifacts: '/xxx"),
    ],
)
def test_of_long_values_and_names_a_message_has_the_beginning(old: str, new: str, words: str) -> None:
    message = refusal(old, new)
    assert words in message and len(message) < 5000


def test_a_suite_without_a_benchmark_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"tiny\.toml: benchmark: this key is missing"):
        parse_suite(SUITE.partition("[[benchmark]]")[0], "tiny.toml")


@pytest.mark.parametrize("text", ["name =", "[build\n", "\x00", "a = 1\na = 2"])
def test_what_is_not_toml_is_said_with_its_place(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"tiny\.toml: not TOML: .*(line \d+|end of document)"):
        parse_suite(text, "tiny.toml")


def test_a_date_in_a_suite_is_refused() -> None:
    assert refusal("trials = 5", "trials = 2026-01-01").startswith("tiny.toml: ")


def test_an_unknown_suite_is_answered_with_those_there_are(db: None, tmp_path: Path, settings: Any) -> None:
    settings.SUITES = tmp_path
    with pytest.raises(DefinitionError, match="there are none"):
        load_suite("redis")
    (tmp_path / "tiny.toml").write_text(SUITE)
    with pytest.raises(DefinitionError, match=r"there is no suite 'redis' in .*: there are tiny"):
        load_suite("redis")


@pytest.mark.parametrize("name", ["../tiny", "/etc/passwd", "tiny.toml", "", "."])
def test_a_suite_is_named_never_reached_by_a_path(db: None, tmp_path: Path, settings: Any, name: str) -> None:
    (tmp_path / "tiny.toml").write_text(SUITE)
    settings.SUITES = tmp_path / "suites"
    settings.SUITES.mkdir()
    with pytest.raises(DefinitionError, match="there is no suite"):
        load_suite(name)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "--unixsocket {socket}",
            "--port {prot}",
            "server.command: {prot} is not a placeholder; there are {artifact:kvd}, {clients}, {data}, "
            "{known:--OPTION}, {port}",
        ),
        ("--unixsocket {socket}", "{known:no option}", "server.command: {known:no option} is not a placeholder"),
        ("--unixsocket {socket}", "{known:-x}", "server.command: {known:-x} is not a placeholder"),
        ("--unixsocket {socket}", "--unixsocket {SOCKET}", "server.command: {SOCKET} is not a placeholder"),
        ("--unixsocket {socket}", "{artifact:kvdd}", "server.command: {artifact:kvdd} is not a placeholder"),
        ("--unixsocket {socket}", "-j{cores}", "server.command: {cores} is not a placeholder"),
        (
            'command = "make"',
            'command = "make -j{core}"',
            "build.command: {core} is not a placeholder; there are {cores}",
        ),
        ('command = "make"', 'command = "make {port}"', "build.command: {port} is not a placeholder"),
    ],
)
def test_an_unknown_placeholder_is_named_with_those_there_are(old: str, new: str, words: str) -> None:
    assert words in refusal(old, new)


def test_an_option_may_be_for_programs_that_know_it() -> None:
    command = "{known:--protected-mode no} --unixsocket {socket}"
    suite = parse_suite(SUITE.replace("--unixsocket {socket}", command), "tiny.toml")
    assert suite.server.command.endswith(command)


@pytest.mark.parametrize("command", ["make -j{cores}", "make CC=${CC}", "cp {a,b} .", "awk '{ print }' x", "echo {}"])
def test_braces_of_the_shell_are_no_placeholders(command: str) -> None:
    suite = parse_suite(SUITE.replace('command = "make"', f'command = "{command}"'), "tiny.toml")
    assert suite.build.command == command


def test_a_suite_file_that_is_not_utf8_is_refused_by_name(db: None, tmp_path: Path, settings: Any) -> None:
    (tmp_path / "tiny.toml").write_bytes(SUITE.replace("plain", "Größe").encode("latin-1"))
    settings.SUITES = tmp_path
    with pytest.raises(DefinitionError, match=r"tiny\.toml: not UTF-8: .*save it as UTF-8"):
        load_suite("tiny")


@pytest.mark.parametrize("artifacts", ['["kvd", ""]', '["kvd", "."]', '["kvd", "src/kvd"]'])
def test_artifacts_without_a_name_of_their_own_are_refused(artifacts: str) -> None:
    assert "tiny.toml: build.artifacts: " in refusal('artifacts = ["kvd"]', f"artifacts = {artifacts}")


def test_the_cap_of_trials_is_at_least_their_number() -> None:
    with pytest.raises(DefinitionError, match=r"most_trials is below trials, which is 9"):
        parse_suite(SUITE.replace("trials = 5", "trials = 9\nmost_trials = 8"), "tiny.toml")
    assert parse_suite(SUITE, "tiny.toml").cap == 15
    assert parse_suite(SUITE.replace("trials = 5", "trials = 20"), "tiny.toml").cap == 20


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("settle = { budget_s = 0 }", "settle.budget_s: Input should be greater than or equal to 1"),
        ("settle = { budget_s = 1_000_000 }", "settle.budget_s: Input should be less than or equal to 604800"),
        ("settle = { pairs = 3 }", "settle.budget_s: this key is missing"),
        ("settle = 600", "settle"),
    ],
)
def test_the_time_that_settles_a_suspicion_is_some_seconds_up_to_a_week(line: str, words: str) -> None:
    suite = parse_suite(f"settle = {{ budget_s = 600 }}\n{SUITE}", "tiny.toml")
    assert suite.settle and suite.settle.budget_s == 600
    assert parse_suite(SUITE, "tiny.toml").settle is None
    with pytest.raises(DefinitionError) as caught:
        parse_suite(f"{line}\n{SUITE}", "tiny.toml")
    assert words in str(caught.value)


COUNTED = SUITE + '[instructions]\ninside = ["serve", "serve_all"]\nbenchmarks = ["get-p1"]\n'


def test_instructions_are_counted_inside_the_functions_of_the_suite_or_of_the_benchmark() -> None:
    suite = parse_suite(COUNTED, "tiny.toml")
    assert [suite.functions_of(one) for one in suite.benchmark] == [["serve", "serve_all"], []]
    own = 'why = "the plain write path"\ninstructions = { inside = ["write_key"] }'
    suite = parse_suite(COUNTED.replace('why = "the plain write path"', own), "tiny.toml")
    assert [suite.functions_of(one) for one in suite.benchmark] == [["serve", "serve_all"], ["write_key"]]
    assert suite.benchmark[1].work()["instructions"] == ""
    suite = parse_suite(COUNTED.replace('benchmarks = ["get-p1"]', ""), "tiny.toml")
    assert all(suite.functions_of(one) == ["serve", "serve_all"] for one in suite.benchmark)


@pytest.mark.parametrize("name", ["redis", "valkey", "memcached", "sample"])
def test_shipped_suites_count_the_default_set(name: str) -> None:
    suite = parse_suite((Path(django_settings.SUITES) / f"{name}.toml").read_text(), name)
    assert all(bool(suite.functions_of(one)) != one.extended for one in suite.benchmark)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('benchmarks = ["get-p1"]', 'benchmarks = ["got-p1"]', "instructions.benchmarks: there is no benchmark got-p1"),
        ('benchmarks = ["get-p1"]', "benchmarks = []", "instructions.benchmarks: List should have at least 1 item"),
        ('inside = ["serve", "serve_all"]', "inside = []", "instructions.inside: List should have at least 1 item"),
        ('inside = ["serve", "serve_all"]', 'inside = ["serve*"]', "use letters, digits, dots, _ and $"),
        ('why = "the plain read path"', 'why = "a"\ninstructions = "perf"', "'callgrind' (given: 'perf')"),
        (
            'why = "the plain write path"',
            'why = "a"\ndriver = "redis-benchmark"\ninstructions = { inside = ["f"] }',
            "instructions needs the native driver",
        ),
    ],
)
def test_mistakes_about_instructions_are_explained(old: str, new: str, words: str) -> None:
    assert old in COUNTED
    with pytest.raises(DefinitionError) as caught:
        parse_suite(COUNTED.replace(old, new), "tiny.toml")
    assert words in str(caught.value)


def test_the_group_of_a_benchmark_is_that_of_the_suite_or_goes_by_its_name() -> None:
    text = SUITE.replace('name = "get-p1"', 'name = "get-p1"\ngroup = "hot keys"')
    assert groups_of(parse_suite(text, "tiny.toml").model_dump()) == {"get-p1": "hot keys", "set-p1": "writes"}
    assert [group_by_name(name) for name in ("lrange-100-p1", "build", "getter")] == ["structures", "other", "other"]
    assert "group" in refusal('name = "get-p1"', 'name = "get-p1"\ngroup = "<b>"')
