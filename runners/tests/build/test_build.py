"""Real builds by a real compiler: equal programs, the cache, and every way in which a build goes wrong."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.build import Build, CommitSource, CompilerCache
from runners.build.builders import CachedBuilder
from runners.build.docker import daemon
from runners.build.output import LOG_LIMIT_BYTES
from runners.build.store import ArtifactStore, StoreLimits
from runners.documents import BuildRecipe
from runners.errors import Cancelled, Permanent, Stopped, Transient
from runners.machine.topology import allowed_cpus
from runners.processes.children import Processes
from runners.processes.control import Control
from runners.tests.api import Api
from runners.tests.conftest import SHA, TREE, make_builder, marked, running
from runners.work.space import Space

PROGRAM = {
    "Makefile": "tiny: tiny.c\n\t$(CC) -O2 -o $@ $<\n",
    "tiny.c": '#include <stdio.h>\nint main(void) { puts(__FILE__ " " __DATE__); return 0; }\n',
}


@pytest.fixture
def builder(home: Path, processes: Processes) -> CachedBuilder:
    return make_builder(home, processes)


class Room:
    """Builds trees of files with one builder and keeps the log."""

    def __init__(self, builder: CachedBuilder, stopping: threading.Event) -> None:
        self.builder = builder
        self.control = Control(stopping)
        self.log: list[str] = []

    def build(
        self,
        command: str = "make",
        tree: dict[str, str] = PROGRAM,
        artifacts: tuple[str, ...] = ("tiny",),
        timeout_s: float = 60,
        sha: str = SHA,
        trust: str = "default",
        **environment: str,
    ) -> Build:
        tar = Api(sources={sha: tree}).tar(sha)
        recipe = BuildRecipe(command, artifacts, timeout_s, environment, trust=trust)
        source = CommitSource(sha, lambda file: file.write_bytes(tar) and None)
        return self.builder.build("head", source, recipe, self.log.append, self.control)

    @property
    def text(self) -> str:
        return "".join(self.log)


@pytest.fixture
def room(builder: CachedBuilder, stopping: threading.Event) -> Room:
    return Room(builder, stopping)


def test_equal_files_give_equal_programs(room: Room) -> None:
    first, second = room.build(sha="a" * 40), room.build(sha="b" * 40)
    assert first.succeeded and second.succeeded and not second.cached
    assert first.artifacts["tiny"].digest == second.artifacts["tiny"].digest


def test_the_second_build_of_a_commit_comes_from_the_store(room: Room) -> None:
    first, second = room.build(), room.build()
    assert (first.cached, second.cached) == (False, True)
    assert first.artifacts == second.artifacts and first.recipe_digest == second.recipe_digest
    assert room.build(CFLAGS="-O1").recipe_digest != first.recipe_digest


def test_a_damaged_artifact_is_built_again(room: Room) -> None:
    path = room.build().artifacts["tiny"].path
    path.chmod(0o755)
    path.write_bytes(b"#!/bin/sh\n")
    again = room.build()
    assert not again.cached and again.artifacts["tiny"].path.read_bytes().startswith(b"\x7fELF")


def test_the_store_drops_the_least_recently_used_builds(room: Room, home: Path) -> None:
    old = room.build(sha="a" * 40).artifacts["tiny"]
    tree = PROGRAM | {"tiny.c": "int main(void) { return 7; }\n"}
    new = room.build(sha="b" * 40, tree=tree).artifacts["tiny"]
    ArtifactStore(home, StoreLimits(size_bytes=old.size_bytes + new.size_bytes - 1)).prune()
    assert not old.path.exists() and new.path.exists()
    assert room.build(sha="b" * 40, tree=tree).cached and not room.build(sha="a" * 40).cached


def test_the_store_drops_old_builds_and_keeps_pinned_artifacts(room: Room, home: Path) -> None:
    old = room.build(sha="a" * 40).artifacts["tiny"]
    kept = room.build(sha="b" * 40, tree=PROGRAM | {"tiny.c": "int main(void) { return 7; }\n"}).artifacts["tiny"]
    cache = ArtifactStore(home, StoreLimits(age_s=3600))
    cache.pin_only([kept.digest])
    cache.prune()
    assert old.path.exists()
    for record in cache.records.glob("*.json"):
        os.utime(record, (1, 1))
    cache.prune()
    assert not old.path.exists() and cache.artifact(kept.digest) == kept
    cache.pin_only([])
    room.build(sha="a" * 40)
    ArtifactStore(home, StoreLimits(size_bytes=1)).prune()
    assert cache.artifact(kept.digest) is None


def test_debug_information_does_not_make_a_program_larger(room: Room) -> None:
    plain, debug = (room.build("make && strip tiny"), room.build(CC="cc -g3"))
    (one,), (other,) = plain.artifacts.values(), debug.artifacts.values()
    assert one.size_bytes < other.size_bytes and 0 < one.loaded_bytes == other.loaded_bytes


def test_each_trust_level_has_a_compiler_cache_of_its_own(room: Room) -> None:
    tree = PROGRAM | {"Makefile": "tiny: tiny.o\n\tcc -o $@ $<\ntiny.o: tiny.c\n\tcc -O2 -c $<\n"}
    builds = [room.build(sha=sha * 40, tree=tree, trust=trust) for sha, trust in (("a", "t"), ("b", "u"), ("c", "t"))]
    assert [build.ccache and build.ccache.hits for build in builds] == [0, 0, 1]


def test_a_build_writes_no_core_dump_and_no_endless_file(room: Room) -> None:
    room.build("ulimit -c; ulimit -f; make")
    assert f"0\n{16 * 2**30 // 512}\n" in room.text


def test_a_build_sees_a_fixed_environment_and_all_cores(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEEDTRACK_TOKEN", "secret")
    room.build("env; echo jobs {cores}; ls -A $HOME | wc -l; make", EXTRA="yes")
    assert "secret" not in room.text and "EXTRA=yes" in room.text and "SOURCE_DATE_EPOCH=0" in room.text
    assert f"jobs {len(allowed_cpus())}\n0\n" in room.text


def test_ccache_is_used_by_the_next_commit(room: Room) -> None:
    tree = PROGRAM | {
        "tiny.c": "int main(void) { return 0; }\n",
        "Makefile": "tiny: tiny.o\n\tcc -o $@ $<\ntiny.o: tiny.c\n\tcc -O2 -c $<\n",
    }
    room.build(sha="a" * 40, tree=tree)
    room.build("make && ccache --print-stats", sha="b" * 40, tree=tree | {"README": "new"})
    assert "direct_cache_hit\t1" in room.text


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("exit 3", "ended with exit status 3"),
        ("true", "left no artifact tiny"),
        ("touch tiny", "tiny is not executable"),
        ("mkdir tiny", "tiny is not a regular file"),
        ("ln -s /bin/sh tiny", "tiny lies outside the source tree"),
        ("ln -s tiny tiny", "left no artifact tiny"),
        ("kill -9 $$", "ended with signal 9"),
    ],
)
def test_a_failed_build_says_why(room: Room, command: str, error: str) -> None:
    build = room.build(command)
    assert build.error is not None and error in build.error
    assert build.artifacts == {} and f"build failed: {build.error}" in room.text


def test_a_hanging_build_is_ended_with_everything_it_started(room: Room, home: Path) -> None:
    build = room.build("trap '' TERM; sleep 300 & setsid sleep 301 & echo started; wait", timeout_s=1)
    assert build.error == "the build was ended after its time limit of 1 s"
    assert "started" in room.text and marked(home) == []


def test_processes_that_a_build_leaves_running_are_ended(room: Room, home: Path) -> None:
    build = room.build("make; (setsid nohup sh -c 'echo up; sleep 300.25' &) ; sleep 0.2")
    assert build.succeeded and "\nup\n" in room.text
    assert running("300.25") == [] and marked(home) == []


def test_invalid_utf8_and_nul_are_replaced(room: Room) -> None:
    room.build("printf 'a\\377b\\0c\\303\\251\\n'; make")
    assert "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\u00e9\n" in room.text


def test_long_output_of_a_build_is_truncated_and_a_line_says_so(room: Room) -> None:
    build = room.build(f"head -c {LOG_LIMIT_BYTES + 1000} /dev/zero | tr '\\0' x; make")
    assert build.succeeded and "[the log is cut here: the build printed more than 20 MB]" in room.text
    assert len(room.text) < LOG_LIMIT_BYTES + 2000


def test_an_abort_and_a_shutdown_end_a_build(room: Room, home: Path, stopping: threading.Event) -> None:
    def soon(act: Callable[[], None]) -> None:
        threading.Timer(0.3, act).start()

    soon(stopping.set)
    with pytest.raises(Stopped, match="shutting down"):
        room.build("sleep 300")
    stopping.clear()
    soon(lambda: room.control.abort(Cancelled("asked to stop")))
    with pytest.raises(Cancelled):
        room.build("sleep 300")
    assert marked(home) == []


def test_a_wrong_list_of_artifacts_is_permanent(room: Room) -> None:
    with pytest.raises(Permanent, match="same file name"):
        room.build("mkdir -p a b; touch a/x b/x; chmod +x a/x b/x", artifacts=("a/x", "b/x"))
    with pytest.raises(Permanent, match="lists no artifact"):
        room.build("true", artifacts=())


def test_a_broken_tar_is_transient(builder: CachedBuilder) -> None:
    source = CommitSource(SHA, lambda file: file.write_bytes(b"no tar") and None)
    with pytest.raises(Transient, match="cannot be unpacked"):
        builder.build("head", source, BuildRecipe("make", ("tiny",), 60, {}), str, Control())


def test_the_test_server_builds(room: Room) -> None:
    assert room.build("make -j{cores}", tree=TREE).succeeded


@contextlib.contextmanager
def less_memory_than(most_bytes: int) -> Iterator[None]:
    """The peak of this process in the block, which begins with what it has before."""
    Path("/proc/self/clear_refs").write_text("5")  # man 5 proc: resets the peak
    before = peak_bytes()
    yield
    assert peak_bytes() - before < most_bytes


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


NOT_REGULAR = "ccache.statistics is not a regular file"
NEST = "mkdir -p $(printf 'd/%.0s' $(seq 1500))"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("make; rm -f ../ccache.statistics; mkfifo ../ccache.statistics", NOT_REGULAR),
        ("make; ln -sf /dev/zero ../ccache.statistics", NOT_REGULAR),
        ("make; ln -sf /proc/self/environ ../ccache.statistics", NOT_REGULAR),
        ("make; rm -f ../ccache.statistics; mkdir ../ccache.statistics", NOT_REGULAR),
        ("make; truncate -s 15G ../ccache.statistics", "ccache.statistics is larger than 64 MB"),
        ("truncate -s 15G tiny; chmod +x tiny", "the artifact tiny is larger than 4096 MB"),
        ("ln -s /proc/self/exe tiny", "tiny lies outside the source tree"),
        ("mkfifo -m 755 tiny", "tiny is not a regular file"),
        ("cd ..; mv source other; ln -s other source; cd other; make", "replaced its source tree by a link"),
    ],
)
def test_what_a_build_replaced_by_something_else_fails_the_build(room: Room, command: str, error: str) -> None:
    room.build("make", sha="c" * 40)
    with less_memory_than(100 << 20):
        build = room.build(command)
    assert build.error is not None and error in build.error
    assert room.build("make", sha="d" * 40).succeeded


def test_a_large_artifact_is_stored_without_reading_it_into_memory(room: Room) -> None:
    with less_memory_than(100 << 20):
        build = room.build("truncate -s 600M tiny; chmod +x tiny")
    assert build.artifacts["tiny"].size_bytes == 600 << 20


def test_a_large_list_of_statistics_is_counted_without_reading_it_into_memory(room: Room) -> None:
    with less_memory_than(100 << 20):
        build = room.build("make; (yes 'a a a a' | head -c 20M; echo; echo cache_miss) > ../ccache.statistics")
    assert build.succeeded and build.ccache == CompilerCache(0, 1)


def test_what_a_build_leaves_costs_no_later_build(room: Room, home: Path) -> None:
    left = "mkdir -p a/b; touch a/b/c; chmod 0 a/b a"
    for number, command in enumerate((f"make; {NEST}", f"make; {left}", f"{left}; false", "make")):
        build = room.build(command, sha=str(number) * 40)
        assert build.succeeded == ("false" not in command), build.error
        assert not (home / "build").exists() and not list(home.glob("*.removed-*"))


def test_what_cannot_be_removed_fails_its_build_and_no_other(
    room: Room, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal that has no time stands for a file that cannot be removed."""
    monkeypatch.setattr("runners.removal.LIMIT_S", -1.0)
    build = room.build("make; mkdir a; touch a/b")
    assert build.error is not None and "cannot be removed" in build.error and "remove it by hand" in build.error
    assert list(home.glob("build.removed-*")) and not (home / "build").exists()
    monkeypatch.undo()
    assert room.build("make; true").succeeded
    Space(home, 0).make_room()
    assert not list(home.glob("build.removed-*"))


def test_a_daemon_over_tls_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "https://127.0.0.1:1")
    with pytest.raises(Transient, match="over TLS: set DOCKER_HOST to its socket"), daemon():
        pass
