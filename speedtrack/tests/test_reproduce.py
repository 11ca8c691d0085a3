"""The script on a run's page repeats what was measured: by a real runner, then by hand in a fresh place."""

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.benchmarks.definitions import BuildSection, LayoutsSection
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Result, Run, Status
from speedtrack.runs.requests import byhand, tracking
from speedtrack.runs.results import reproduce

# What a runner sends of a trial in the layout of the number 5, of a build section as JSON.
BY_HAND = """
import json, sys
from runners.build.layouts import by_hand
from runners.documents import BuildRecipe, parse
print(json.dumps(by_hand(parse(BuildRecipe, json.loads(sys.argv[1]), "build"), 5)))
"""
DRIVER = BASE_DIR / "runners" / "driver" / "target" / "release" / "speedbench"


def program(home: Path, *argv: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    own = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
    return subprocess.run(argv, cwd=home, env=own, capture_output=True, text=True, timeout=600)


def test_the_script_of_a_measurement_builds_starts_and_loads_the_same(
    live_server: Any, client: Client, tmp_path: Path, settings: Any
) -> None:
    settings.MIRRORS = tmp_path / "mirrors"
    repository = tmp_path / "kvd"
    written = program(
        tmp_path, sys.executable, "-m", "runners.sample", str(repository), "--upto", "2", PYTHONPATH=str(BASE_DIR)
    )
    assert written.returncode == 0, written.stderr
    token = registering.add_machine("m1")
    tracking.track(tracking.TrackingRequest(str(repository), "sample", last=0))
    byhand.queue_by_hand(byhand.choose("kvd", "HEAD", ["get-p16"], None))
    ran = program(
        tmp_path,
        sys.executable,
        "-m",
        "runners",
        "--once",
        PYTHONPATH=str(BASE_DIR),
        SPEEDTRACK_URL=live_server.url,
        SPEEDTRACK_TOKEN=token,
        SPEEDTRACK_DRIVER=str(DRIVER),
        SPEEDTRACK_RUNNER_HOME=str(tmp_path / "runner"),
        SPEEDTRACK_ALLOW_SHARED_CORES="1",
        SPEEDTRACK_PATIENCE_S="1",  # a machine that runs tests is never quiet
        SPEEDTRACK_LOCK_DIR=os.environ["SPEEDTRACK_LOCK_DIR"],
    )
    run = Run.objects.get()
    assert run.status == Status.SUCCEEDED, ran.stderr

    page = client.get(f"/runs/{run.pk}/").content.decode()
    shown = re.search(r'<pre class="log" tabindex="0">(#!.*?)</pre>', page, re.S)
    assert shown
    script = html.unescape(shown[1])
    text = client.get(f"/runs/{run.pk}/reproduce.sh?benchmark=get-p16&side=head")
    assert text.content.decode() == script and text["Content-Type"].startswith("text/plain")
    assert client.get(f"/runs/{run.pk}/reproduce.sh?benchmark=set-p1").status_code == 404
    assert str(tmp_path / "runner") not in script

    place = tmp_path / "by hand"
    place.mkdir()
    (place / "reproduce.sh").write_text(script)
    done = program(place, "bash", "reproduce.sh", SPEEDBENCH=str(DRIVER), TMPDIR=str(place))
    assert done.returncode == 0, done.stderr
    document, trial = json.loads(done.stdout), next(Result.objects.get().unpacked())
    for what in ("workload_digest", "seed", "digest"):
        assert document["driver"][what] == trial["driver"]["driver"][what]
    assert document["tests"][-1]["requests"] > 0 and document["tests"][-1]["server_cpu"]["ns"] > 0
    assert [file.name for file in place.iterdir()] == ["reproduce.sh"], "nothing is left behind"


@pytest.mark.parametrize(
    ("text", "shell"),
    [
        ("{port}", '"$port"'),
        ("--port={port}", "'--port='\"$port\""),
        ("make -j{cores} CFLAGS='-O2 -g'", "'make -j'\"$(nproc)\"' CFLAGS='\"'\"'-O2 -g'\"'\"''"),
        ("{data}/x y", "\"$room/data\"'/x y'"),
        ("${HOME}{unknown}", "'${HOME}{unknown}'"),
    ],
)
def test_words_are_quoted_and_places_become_variables(text: str, shell: str) -> None:
    made = reproduce.quote_word(text, reproduce.PLACES)
    said = program(Path("/"), "bash", "-c", f"port=1 room=/r; printf %s {made}; printf '|%s' {shell}")
    assert len(set(said.stdout.split("|"))) == 1, made


def test_a_build_in_a_container_is_a_container_by_hand() -> None:
    by_image = BuildSection(command="make", artifacts=["kvd"], kind="docker", image="debian@sha256:0")
    assert "image=debian@sha256:0\ndocker run --rm --network none" in reproduce.build_lines(by_image)
    by_text = BuildSection(command="make", artifacts=["kvd"], kind="docker", dockerfile="FROM debian\n")
    assert "docker build --quiet - <<'END_OF_DOCKERFILE'\nFROM debian\n" in reproduce.build_lines(by_text)


def test_the_build_of_a_layout_puts_it_in_the_place_of_the_program(tmp_path: Path) -> None:
    section = BuildSection(command="make -j{cores}", artifacts=["bin/hello"], layouts=LayoutsSection(linker="any"))
    asked = section.model_dump_json(exclude={"trust"})
    told = program(tmp_path, sys.executable, "-c", BY_HAND, asked, PYTHONPATH=str(BASE_DIR))
    room, source = tmp_path / "room", tmp_path / "room" / "source"
    (source / "bin").mkdir(parents=True)
    (source / "hello.c").write_text(
        '#include <stdio.h>\nint f(void) { return 7; }\nint main(void) { printf("%d", f()); }'
    )
    (source / "Makefile").write_text("all:\n\tcc -O2 -c hello.c\n\tcc -o bin/hello hello.o\n")
    script = 'set -eu\nmkdir "$room/home"\ncd "$room/source"\n' + reproduce.build_lines(
        section, json.loads(told.stdout)
    )
    done = program(tmp_path, "bash", "-c", script, room=str(room))
    assert done.returncode == 0 and "linked by" in done.stderr, done.stderr
    assert program(tmp_path, str(source / "bin" / "hello")).stdout == "7"
    assert sorted(path.name for path in room.iterdir()) == ["home", "source"]
