"""Builds a commit in a fresh container: without network, rights or mounts of the host, and with limits.

The source is a tar on the container's standard input, the artifacts are a tar on its standard output, and the output of
the build is its standard error. So the daemon may be on another host, no privileged program unpacks the output of a
build, and the tree is in a tmpfs that ends with the container. A container has a label of the runner's home, and a name
that is chosen before it is created: so the runner finds containers that a lost answer or a killed runner left behind.
"""

import io
import logging
import os
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import docker
import requests
from docker.errors import DockerException, ImageNotFound, NotFound
from docker.types import LogConfig, Ulimit

import runners
from runners import removal
from runners.build import BuildFailed, BuiltPrograms, CommitSource, WriteLog
from runners.build.builders import Toolchain
from runners.build.linkage import check_runs_here
from runners.build.output import (
    COMPILERS,
    STATISTICS,
    BuildDeadline,
    CappedLog,
    check_success,
    compiler_cache,
    find_artifacts,
    run_logged,
)
from runners.build.streams import ARTIFACTS_LIMIT_BYTES, attach, feeding, receive
from runners.documents import BuildRecipe, digest_of
from runners.errors import Permanent, Transient, one_line
from runners.machine.environment import BUILD_PATH
from runners.processes.children import ChildCommand, Processes, exit_text
from runners.processes.control import Control
from runners.removal import empty_directory
from runners.sandbox.policy import SandboxView

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 600  # of the daemon: the cause is at its end
CALL_TIMEOUT_S = 30.0  # of one call to the daemon; longer operations are polled
PROBE_TIMEOUT_S = 60.0
PROBE_LIMIT_BYTES = 1 << 16
POLL_S = 0.1
USER = "65532:65532"
PIDS = 4096
FILES = 4096
OWNER, ATTEMPT = "speedtrack.runner", "speedtrack.attempt"
CONNECTION = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")

# $0: the build's command, $@: the artifacts. Only files inside the tree are packed.
BUILD_SCRIPT = f"""
mkdir /build/source /build/home /build/compilers && cd /build/source && tar -xf - || exit 125
: > /build/{STATISTICS}
if ccache=$(command -v ccache); then
    for name in {" ".join(COMPILERS)}; do
        if command -v "$name" >/dev/null; then ln -s "$ccache" "/build/compilers/$name"; fi
    done
    PATH=/build/compilers:$PATH
fi
/bin/sh -c "$0" </dev/null >&2 || exit
for name; do
    shift
    case $(readlink -f -- "$name") in
        /build/source/*) if [ -f "$name" ]; then set -- "$@" "source/$name"; fi ;;
    esac
done
exec tar -chf - -C /build {STATISTICS} "$@"
"""
# $0: the tar, $@: its members. A tar may ask for any amount of memory, as for a name of 900 MB.
UNPACK = 'ulimit -c 0; ulimit -v 262144; exec tar -x --no-same-owner --no-same-permissions -f "$0" -- "$@"'
MEMBERS_MISSING = 2  # tar's exit status, also if an artifact is missing: `find_artifacts` reports that
PROBE_SCRIPT = """
set -- $CC
if [ "$1" = ccache ]; then shift; fi
first() { output=$("$@" 2>/dev/null) && printf '%s\\n' "$output" | head -n 1 || echo none; }
first "${@:-cc}" --version
first getconf GNU_LIBC_VERSION
uname -m
"""


@dataclass(frozen=True)
class ContainerLimits:
    """The limits of one build. The tree and /tmp are in memory, and count as memory."""

    memory_bytes: int
    disk_bytes: int

    @classmethod
    def of_this_machine(cls) -> "ContainerLimits":
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        return cls(half, half // 2)


@dataclass(frozen=True)
class ContainerSpec:
    """A container: its image and command, its input, and the attempt that it is for."""

    image: str
    argv: list[str]
    environment: dict[str, str]
    attempt: str
    source: Path | None = None
    ccache: str | None = None


@dataclass(frozen=True)
class DockerBuilder:
    """Builds with the Docker daemon that DOCKER_HOST names."""

    home: Path
    processes: Processes
    cpus: frozenset[int]
    bounds: ContainerLimits = field(default_factory=ContainerLimits.of_this_machine)
    toolchains: dict[str, Toolchain] = field(default_factory=dict)

    def toolchain(self, recipe: BuildRecipe, write: WriteLog, control: Control) -> Toolchain:
        with daemon() as api:
            image = self._image(api, recipe, write, control)
            variables = {name: value for name, value in recipe.environment.items() if name in ("CC", "PATH")}
            key = digest_of([image, variables])
            if key not in self.toolchains:
                self.toolchains[key] = self._probe(api, image, variables, control)
            return self.toolchains[key]

    def make(
        self, source: CommitSource, recipe: BuildRecipe, toolchain: Toolchain, write: WriteLog, control: Control
    ) -> BuiltPrograms:
        room = empty_directory(self.home / "build")
        tar, packed = room / "source.tar", room / "artifacts.tar"
        source.fetch(tar)
        command = recipe.command.replace("{cores}", str(len(self.cpus)))
        with daemon() as api:
            image = toolchain.image
            write(f"$ {command}    (in {recipe.image or 'the image of the Dockerfile'}, {image[:19]})\n")
            argv = ["/bin/sh", "-c", BUILD_SCRIPT, command, *recipe.artifacts]
            spec = ContainerSpec(image, argv, environment(recipe), source.attempt, tar, self._ccache(recipe.trust))
            with packed.open("wb") as out:
                status = self._run(api, spec, out, write, BuildDeadline(recipe.timeout_s, control))
        check_success(command, status)
        tree = self._unpack(packed, recipe.artifacts, BuildDeadline(recipe.timeout_s, control))
        programs = find_artifacts(tree / "source", recipe.artifacts)
        for name, file in programs.items():
            check_runs_here(name, file)
        return BuiltPrograms(programs, compiler_cache(tree / STATISTICS))

    def clean(self) -> str:
        return removal.remove(self.home / "build")

    def _unpack(self, packed: Path, artifacts: tuple[str, ...], deadline: BuildDeadline) -> Path:
        """Unpacks the artifacts of a build's tar, in a sandbox because the build made the tar. Raises BuildFailed."""
        tree, messages = empty_directory(packed.parent / "made"), list[str]()
        members = [STATISTICS, *(f"source/{name}" for name in artifacts)]
        argv = ["/bin/sh", "-c", UNPACK, str(packed), *members]
        view = SandboxView(packed.parent / "tmp", (tree,), (packed,))
        command = ChildCommand(argv, {"PATH": BUILD_PATH, "LANG": "C.UTF-8"}, tree, self.cpus, view=view)
        status = run_logged(self.processes, command, deadline, messages.append)
        if status not in (0, MEMBERS_MISSING):
            reason = one_line(Exception("".join(messages)))[-LONGEST_MESSAGE:]
            raise BuildFailed(f"the artifacts of the build cannot be unpacked: {reason or exit_text(status)}")
        return tree

    def end_strays(self) -> int:
        """Removes the containers that a killed runner of this home left; returns how many. Without a daemon: 0."""
        try:
            with daemon() as api:
                strays = api.containers(all=True, quiet=True, filters={"label": f"{OWNER}={self.processes.mark}"})
                for stray in strays:
                    remove(api, stray["Id"])
        except Transient:
            return 0
        return len(strays)

    def _ccache(self, trust: str) -> str:
        return f"speedtrack-ccache-{self.processes.mark[:12]}-{trust}"

    def _image(self, api: docker.APIClient, recipe: BuildRecipe, write: WriteLog, control: Control) -> str:
        """The id of the image to build in: `sha256:` and the digest of its content."""
        if not recipe.dockerfile:
            return image_id(api, recipe.image, f"`docker pull {recipe.image}` there, or correct build.image")
        digest = digest_of(recipe.dockerfile).removeprefix("sha256:")
        name = f"speedtrack-build:{digest[:24]}"
        with suppress(Permanent):
            return image_id(api, name, "")
        self._build_image(name, recipe, write, control)
        return image_id(api, name, "it was removed while it was in use: try again")

    def _build_image(self, name: str, recipe: BuildRecipe, write: WriteLog, control: Control) -> None:
        """Builds the Dockerfile in a child process: when it is killed, its connection closes and the daemon stops."""
        file = empty_directory(self.home / "image") / "Dockerfile"
        file.write_text(recipe.dockerfile)
        argv = [sys.executable, "-m", "runners.build.image", name, "network" if recipe.dockerfile_network else "none"]
        variables = {name: os.environ[name] for name in CONNECTION if name in os.environ}
        code = {"PATH": BUILD_PATH, "PYTHONPATH": str(Path(runners.__file__).parents[1])}
        command = ChildCommand(argv, code | variables, file.parent)
        status = run_logged(self.processes, command, BuildDeadline(recipe.timeout_s, control), write)
        if status != 0:
            raise Permanent("the image of build.dockerfile cannot be built: see the log of the build")

    def _probe(self, api: docker.APIClient, image: str, variables: dict[str, str], control: Control) -> Toolchain:
        spec = ContainerSpec(image, ["/bin/sh", "-c", PROBE_SCRIPT], variables, "0/0")
        out, messages = io.BytesIO(), list[str]()
        deadline = BuildDeadline(PROBE_TIMEOUT_S, control)
        status = self._run(api, spec, out, messages.append, deadline, PROBE_LIMIT_BYTES)
        lines = out.getvalue().decode(errors="replace").splitlines()
        if status != 0 or len(lines) != 3:
            raise Permanent(f"nothing can be built in image {image[:19]}: it needs sh, tar, head, readlink: {messages}")
        compiler, libc, architecture = lines
        return Toolchain(compiler, libc, architecture, image)

    def _run(
        self,
        api: docker.APIClient,
        spec: ContainerSpec,
        out: IO[bytes],
        write: WriteLog,
        deadline: BuildDeadline,
        most_bytes: int = ARTIFACTS_LIMIT_BYTES,
    ) -> int:
        """Runs a container to its end and removes it, also if something is raised; returns its exit status."""
        name = f"speedtrack-{self.processes.mark[:12]}-{spec.attempt.replace('/', '-')}"
        output = CappedLog(write)
        try:
            remove(api, name)  # of an earlier attempt, if it could not be removed
            container = self._create(api, name, spec)
            with attach(api, container) as connection:
                api.start(container)
                with feeding(connection, spec.source, deadline):
                    receive(connection, out, output, deadline, most_bytes)
            return self._await_end(api, container, deadline)
        finally:
            output.close()
            remove(api, name)

    def _create(self, api: docker.APIClient, name: str, spec: ContainerSpec) -> str:
        binds = {spec.ccache: {"bind": "/ccache", "mode": "rw"}} if spec.ccache else {}
        if spec.ccache:
            api.create_volume(spec.ccache, labels={OWNER: self.processes.mark})
        answer = api.create_container(
            spec.image,
            entrypoint=spec.argv,
            command=[],
            name=name,
            user=USER,
            stdin_open=True,
            working_dir="/build",
            environment=spec.environment,
            labels={OWNER: self.processes.mark, ATTEMPT: spec.attempt},
            host_config=api.create_host_config(binds=binds, **self._confinement()),
        )
        container = str(answer["Id"])
        if spec.ccache:
            api.put_archive(container, "/ccache", user_directory_tar("store"))
        return container

    def _confinement(self) -> dict[str, Any]:
        """The container's restrictions, in addition to Docker's default seccomp profile.

        CPU is limited by the cpuset: whole cores, not shares.
        """
        memory, disk = self.bounds.memory_bytes, self.bounds.disk_bytes
        tmpfs = f"rw,exec,nosuid,nodev,mode=0700,uid=65532,gid=65532,size={disk}"
        return {
            "network_mode": "none",
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "ipc_mode": "private",
            "init": True,
            "pids_limit": PIDS,
            "mem_limit": memory,
            "memswap_limit": memory,
            "cpuset_cpus": ",".join(map(str, sorted(self.cpus))),
            "ulimits": [
                Ulimit(name="nofile", soft=FILES, hard=FILES),
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="fsize", soft=disk, hard=disk),
            ],
            "tmpfs": {"/build": tmpfs, "/tmp": tmpfs},  # noqa: S108 (the container's own)
            "log_config": LogConfig(type="none"),
        }

    def _await_end(self, api: docker.APIClient, container: str, deadline: BuildDeadline) -> int:
        while (state := api.inspect_container(container)["State"])["Running"]:
            deadline.wait([], POLL_S)
        if state["OOMKilled"] and state["ExitCode"]:
            raise BuildFailed(f"the build needed more than its limit of {self.bounds.memory_bytes >> 20} MB of memory")
        return int(state["ExitCode"])


@contextmanager
def daemon() -> Iterator[docker.APIClient]:
    """A connection to the daemon. Its failures in the block are Transient, because daemons are restarted."""
    try:
        settings = docker.utils.kwargs_from_env()
        # The source of a build ends when half of its connection is closed, which Python's ssl cannot do.
        if settings.get("base_url", "").startswith("https:"):
            raise Transient(
                "builds cannot go through a Docker daemon over TLS: set DOCKER_HOST to its socket, or to ssh://USER@HOST"
            )
        api = docker.APIClient(timeout=CALL_TIMEOUT_S, **settings)
        try:
            yield api
        finally:
            api.close()
    except (DockerException, requests.RequestException, ConnectionError) as error:
        where = os.environ.get("DOCKER_HOST") or "its usual socket"
        message = one_line(error)[-LONGEST_MESSAGE:]
        raise Transient(
            f"the Docker daemon at {where} fails ({message}): start it, or set DOCKER_HOST for the runner, "
            'or build on the host (build.kind = "host")'
        ) from error


def image_id(api: docker.APIClient, name: str, remedy: str) -> str:
    try:
        return str(api.inspect_image(name)["Id"])
    except ImageNotFound as error:
        raise Permanent(f"the Docker daemon of this machine has no image {name}: {remedy}") from error


def remove(api: docker.APIClient, container: str) -> None:
    """Kills and removes a container, if it exists. If the daemon fails, the next start of the runner removes it."""
    try:
        api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except (DockerException, requests.RequestException) as error:
        log.warning("container %s could not be removed: %s", container, error)


def user_directory_tar(name: str) -> bytes:
    """A tar of one directory that belongs to the build's user.

    The root directory of a new volume belongs to root, so the build cannot write there.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, 0o700
        member.uid, member.gid = map(int, USER.split(":"))
        tar.addfile(member)
    return buffer.getvalue()


def environment(recipe: BuildRecipe) -> dict[str, str]:
    """The variables of the build, in addition to those of the image."""
    return {
        "HOME": "/build/home",
        "LANG": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "0",
        "CCACHE_DIR": "/ccache/store",
        "CCACHE_MAXSIZE": "2G",
        "CCACHE_BASEDIR": "/build/source",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_STATSLOG": f"/build/{STATISTICS}",
    } | recipe.environment
