"""What `pip install ./runners` declares: every library that is imported, in the versions the server is locked to."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = Path(__file__).parents[1]
NOT_INSTALLED = {"driver", "sample", "tests"}  # of this directory: needed in a checkout only


def requirements(lines: list[str]) -> dict[str, Requirement]:
    """By name. Lines that only carry hashes or comments, or name a file, are no requirements."""
    stripped = (line.split("#")[0].strip().rstrip("\\").strip() for line in lines)
    found = [Requirement(line) for line in stripped if line and not line.startswith("-")]
    return {canonicalize_name(one.name): one for one in found}


def locked() -> dict[str, str]:
    files = (PACKAGE.parent / name for name in ("requirements.txt", "requirements-traces.txt"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    pinned = requirements([line for line in lines if "==" in line and not line.startswith((" ", "#"))])
    return {name: next(iter(one.specifier)).version for name, one in pinned.items()}


PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
DECLARED = requirements([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["traces"]])


def imported_libraries() -> Iterator[tuple[str, Path]]:
    """The libraries that modules of the package import anywhere, and where."""
    for file in PACKAGE.rglob("*.py"):
        if file.relative_to(PACKAGE).parts[0] in NOT_INSTALLED:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            for name in (full.partition(".")[0] for full in names):
                if name not in sys.stdlib_module_names and name != "runners":
                    yield name, file.relative_to(PACKAGE)


def test_every_imported_library_is_declared() -> None:
    distributions = packages_distributions()
    missing = {
        f"{file} imports {name}"
        for name, file in imported_libraries()
        if not DECLARED.keys() & {canonicalize_name(one) for one in distributions.get(name, [name])}
    }
    assert not missing, f"add to runners/pyproject.toml: {sorted(missing)}"


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_range_is_that_of_the_server_and_holds_the_locked_version(name: str) -> None:
    files = (PACKAGE.parent / one for one in ("requirements.in", "requirements-traces.in"))
    asked = requirements([line for file in files for line in file.read_text().splitlines()])
    assert DECLARED[name] == asked[name]
    assert DECLARED[name].specifier.contains(locked()[name])


def test_the_required_python_is_that_of_the_checkout() -> None:
    required = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["requires-python"]
    checkout = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["tool"]["mypy"]["python_version"]
    assert required == f">={checkout}"
