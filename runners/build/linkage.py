"""Decides from its file whether a program that was built in an image can run on this host. Nothing of it is loaded."""

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from runners.build import BuildFailed
from runners.build.elf import Damaged, Linkage, linkage
from runners.machine.environment import BUILD_PATH

LIST_TIMEOUT_S = 30.0
DIRECTORIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
SELF = Path("/proc/self/exe")


def check_runs_here(name: str, program: Path) -> None:
    """Raises BuildFailed if this host lacks a library that the program was linked with in its image."""
    try:
        built = linkage(program)
    except Damaged as error:
        raise BuildFailed(f"{name} is no program that can run: {error}") from error
    if built and (lack := next(lacks(built), "")):
        raise BuildFailed(
            f"{name} does not run on this host ({lack}): build it in an image of the same or an older system, or link "
            "it statically"
        )


def lacks(built: Linkage) -> Iterator[str]:
    """The libraries and versions that a program needs and this host lacks, the most important first."""
    own = linkage(SELF.resolve())
    if own is None:
        return
    if built.machine != own.machine:
        yield f"it is built for processors of another kind: e_machine is {built.machine}, here {own.machine}"
    if built.interpreter and not Path(built.interpreter).is_file():
        yield f"its loader {built.interpreter} => not found"
    # Another loader, such as musl's, has its own paths.
    if built.interpreter and own.interpreter and Path(built.interpreter).resolve() == Path(own.interpreter).resolve():
        libraries = {library: find_library(library, built) for library in built.needed}
        yield from (f"{library} => not found" for library, path in libraries.items() if path is None)
        for library, version in built.versions:
            path = libraries.get(library)
            defined = defined_versions(path) if path else frozenset()
            if defined and version not in defined:  # the loader accepts a library without any versions
                yield f"version `{version}' not found in {path}"


def find_library(library: str, built: Linkage) -> Path | None:
    """The library on this host that the loader takes: from a path of the program, from its cache, or a usual place."""
    if "/" in library:
        return Path(library) if Path(library).is_file() else None
    paths = [Path(path, library) for path in built.paths if path.startswith("/") and "$" not in path]
    paths += system_libraries().get(library, ())
    paths += [Path(directory, library) for directory in DIRECTORIES]
    return next((path for path in paths if machine_of(path) == built.machine), None)


def machine_of(path: Path) -> int | None:
    try:
        details = linkage(path.resolve(strict=True))
    except (Damaged, OSError, RuntimeError):
        return None
    return details.machine if details else None


def defined_versions(path: Path) -> frozenset[str]:
    details = linkage(path.resolve())
    return details.defined if details else frozenset()


@cache
def system_libraries() -> dict[str, tuple[Path, ...]]:
    """The libraries of the loader's cache by name (`man 8 ldconfig`); none where there is no such cache."""
    try:
        process = subprocess.run(
            ["ldconfig", "-p"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIST_TIMEOUT_S,
            env={"PATH": BUILD_PATH, "LANG": "C.UTF-8"},
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    libraries: dict[str, tuple[Path, ...]] = {}
    for line in process.stdout.splitlines():
        label, _, path = line.strip().partition(" => ")
        if path and label:
            library = label.split(" (")[0]
            libraries[library] = (*libraries.get(library, ()), Path(path))
    return libraries
