"""A shell script that repeats a trial by hand: check out, build, start the server, load it."""

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from speedtrack.benchmarks.definitions import BuildSection, Definition
from speedtrack.benchmarks.storing import definition_of
from speedtrack.runs.models import Result, Run, Side

# The variables of the script that replace the placeholders of command lines.
PLACES = {
    "{port}": "$port",
    "{socket}": "$socket",
    "{data}": "$room/data",
    "{pid}": "$server",
    "{room}": "$room",
    "{speedbench}": "$speedbench",
    "{driver_cpus}": "$driver_cpus",
    "{recordings}": "$recordings",
    "{cores}": "$(nproc)",
}
PLACE = re.compile(r"\{(?:[a-z_]+|artifact:[^{}]+)\}")

SCRIPT = """\
#!/usr/bin/env bash
# {title}
# Prints what the load generator prints. Adapt the variables to another machine.
set -euo pipefail
repository=${{REPOSITORY:-{repository}}}
speedbench=${{SPEEDBENCH:-speedbench}}   # the load driver: runners/driver of SpeedTrack, built with cargo
server_cpus=${{SERVER_CPUS:-{server_cpus}}} driver_cpus=${{DRIVER_CPUS:-{driver_cpus}}}
memory_nodes=${{MEMORY_NODES-{memory_nodes}}}   # empty: memory of any node
on() {{ exec ${{memory_nodes:+numactl --membind="$memory_nodes"}} taskset --cpu-list "$@"; }}
{recordings}port=${{PORT:-7379}}
room=$(mktemp -d)
socket=$room/s
mkdir "$room/data" "$room/home"

# The source
git clone --quiet --no-checkout "$repository" "$room/source" >&2
git -C "$room/source" checkout --quiet {sha} >&2

# The build
cd "$room/source"
{build}

# The server; the size of its environment moves its stack
cd "$room/data"
on "$server_cpus" env -i PATH=/bin:/usr/bin LANG=C.UTF-8 HOME="$room/data" \\
    SPEEDTRACK_PADDING="$(head -c {padding_bytes} /dev/zero | tr '\\0' x)" \\
    {server} >"$room/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null; rm -rf "$room"' EXIT
until {ready}; do
    kill -0 "$server" || {{ cat "$room/server.log" >&2; exit 1; }}
    sleep 0.1
done

# The load
cd "$room"
{loads}
"""
HOST = """\
env -i PATH="${{BUILD_PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}}" HOME="$room/home" \\
    LANG=C.UTF-8 SOURCE_DATE_EPOCH=0 {environment}sh -c {command} >&2"""
CONTAINER = """\
{image}docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$room:/build" --workdir /build/source \\
    --env HOME=/build/home --env LANG=C.UTF-8 --env SOURCE_DATE_EPOCH=0 {environment}"$image" sh -c {command} >&2"""
RECORDINGS = 'recordings=$(realpath "${RECORDINGS:-.}")   # the folder of recorded traffic\n'
READY = {"unix": '[ -S "$socket" ]', "tcp": '(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null'}


def scripts_of(run: Run, results: Iterable[Result]) -> list[str]:
    """The scripts that repeat the first trials of some results of a run."""
    return [script_of(run, result, definition_of(run.suite_id)) for result in results]


def script_of(run: Run, result: Result, definition: Definition) -> str:
    recipe = next(result.unpacked(histograms=None))["reproduce"]
    commit = run.base if result.side == Side.BASE and run.base else run.commit
    section = next(benchmark for benchmark in definition.benchmark if benchmark.name == result.benchmark.name)
    built = {PurePosixPath(path).name: f"$room/source/{path}" for path in definition.build.artifacts}
    variables = PLACES | {f"{{artifact:{name}}}": path for name, path in built.items()}
    title = f"{result.benchmark.name} of {run.project.slug} at {commit.short}: trial 1 of {run}"
    return SCRIPT.format(
        title=title,
        repository=shlex.quote(run.project.url),
        sha=commit.sha,
        server_cpus=recipe["server_cpus"],
        driver_cpus=recipe["driver_cpus"],
        recordings=RECORDINGS if section.workload and section.workload.replay else "",
        build=build_lines(definition.build, recipe.get("relink")),
        memory_nodes=recipe["memory_nodes"],
        padding_bytes=recipe["padding_bytes"],
        server=quote_words(recipe["server"], variables),
        ready=READY[section.transport],
        loads="\n".join(load_line(load, variables, last=load is recipe["loads"][-1]) for load in recipe["loads"]),
    )


def build_lines(section: BuildSection, relink: dict[str, Any] | None = None) -> str:
    """The shell lines of the build; with ``relink`` they put a random layout in the place of its programs."""
    if relink is None:
        return one_build(section)
    keep, link = (section.model_copy(update=relink[step]) for step in ("keep", "link"))
    seed = link.environment["layouts"]
    moves = [
        f'mv {shlex.quote(f"{PurePosixPath(path).name}.{seed}")} "$room/built"/{shlex.quote(path)}'
        for path in section.artifacts
    ]
    steps = [
        one_build(keep),
        f"\n# Its programs, linked again with their functions in the order that belongs to the number {seed}",
        'mv "$room/source" "$room/built" && mkdir "$room/source" && cd "$room/source"',
        'tar -xf "$room/built/.layouts/kept.tar"',
        one_build(link),
        *moves,
        'cd "$room" && rm -r "$room/source" && mv "$room/built" "$room/source"',
    ]
    return "\n".join(steps)


def one_build(section: BuildSection) -> str:
    command = quote_word(section.command, PLACES)
    if section.kind == "host":
        pairs = "".join(f"{shlex.quote(f'{name}={value}')} " for name, value in section.environment.items())
        return HOST.format(environment=pairs, command=command)
    pairs = "".join(f"--env {shlex.quote(f'{name}={value}')} " for name, value in section.environment.items())
    image = f"image={shlex.quote(section.image)}\n"
    if section.dockerfile:
        image = f"image=$(docker build --quiet - <<'END_OF_DOCKERFILE'\n{section.dockerfile}\nEND_OF_DOCKERFILE\n)\n"
    return CONTAINER.format(image=image, environment=pairs, command=command)


def load_line(load: dict[str, object], variables: dict[str, str], last: bool) -> str:
    """The shell lines that run one load. Only the last load prints its output; the others prepare the server."""
    argv, workload = load["argv"], load["workload"]
    assert isinstance(argv, list)
    line = quote_words(argv, variables) + ("" if last else " >/dev/null")
    line = f'(on "$driver_cpus" {line})'
    if workload is None:
        return line
    return f"cat >workload.json <<'END'\n{json.dumps(workload, ensure_ascii=False)}\nEND\n{line}"


def quote_words(argv: list[str], variables: dict[str, str]) -> str:
    return " ".join(quote_word(argument, variables) for argument in argv)


def quote_word(text: str, variables: dict[str, str]) -> str:
    """A word of a command line, quoted; placeholders become the script's variables."""
    quoted = shlex.quote(text)
    filled = PLACE.sub(lambda match: f"'\"{variables[match[0]]}\"'" if match[0] in variables else match[0], quoted)
    return filled if filled == quoted else filled.replace("''", "")
