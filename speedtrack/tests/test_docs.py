"""What the documents name exists: files, links, commands, make targets, settings and pages."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import BaseCommand, get_commands, load_command_class
from django.urls import Resolver404, resolve

from speedtrack.web.pages.settings import installation

ROOT: Path = settings.BASE_DIR


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return tuple(name for name in listed.split("\0") if name)


@cache
def sources() -> str:
    """Everything that may give a setting its meaning, as one text."""
    kinds = (".py", ".yml", ".toml", ".example", "Makefile", "Dockerfile", ".rs", ".sh")
    return "\n".join((ROOT / name).read_text() for name in tracked() if name.endswith(kinds))


DOCUMENTS = [name for name in tracked() if name.endswith(".md")]


def code(text: str) -> Iterator[str]:
    """What stands between backticks, and the lines of fenced blocks."""
    for i, part in enumerate(re.split(r"^```.*$", text, flags=re.M)):
        yield from part.splitlines() if i % 2 else re.findall(r"`([^`\n]+)`", part)


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ +(.+)$", path.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def load_command(name: str) -> BaseCommand:
    app = get_commands()[name]
    return app if isinstance(app, BaseCommand) else load_command_class(app, name)


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> Path:
    return ROOT / str(request.param)


def test_links_lead_somewhere(document: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        path, _, anchor = target.partition("#")
        place = document.parent / path if path else document
        if "://" not in target and (not place.exists() or (anchor and anchor not in anchors(place))):
            dead.append(target)
    assert dead == []


def test_files_exist(document: Path) -> None:
    kinds = r"py|md|toml|yml|ts|rs|css|html|mjs|in|txt|json"
    named = {word for part in code(document.read_text()) for word in re.findall(rf"^(?!/)[\w./-]+\.(?:{kinds})$", part)}
    absent = [word for word in named if not any(f"/{name}".endswith(f"/{word}") for name in tracked())]
    assert sorted(absent) == []


def test_commands_and_targets_exist(document: Path) -> None:
    text = "\n".join(code(document.read_text()))
    commands = set(re.findall(r"manage\.py ([a-z_]+(?:-[a-z]+)*)", text)) - set(get_commands())
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert (sorted(commands), sorted(set(re.findall(r"^make ([a-z-]+)", text, flags=re.M)) - targets)) == ([], [])


def test_options_exist(document: Path) -> None:
    """Of each command, as ``manage.py COMMAND ... --option``, up to the next command of the line."""
    absent = set()
    for line in code(document.read_text()):
        for name, arguments in re.findall(
            r"manage\.py ([a-z_]+(?:-[a-z]+)*)((?:(?!manage\.py).)*)", line.partition(" #")[0]
        ):
            known = load_command(name).create_parser("manage.py", name)._option_string_actions
            absent |= {f"{name} {option}" for option in re.findall(r"--[a-z][a-z-]*", arguments) if option not in known}
    assert sorted(absent) == []


def test_names_of_the_code_exist() -> None:
    """Of the form ``module.name`` or ``room/module.name``, and classes, in the page about the code."""
    modules = {name: (ROOT / name).read_text() for name in tracked() if name.endswith(".py")}
    absent = []
    for part in code((ROOT / "ARCHITECTURE.md").read_text()):
        for path, name in re.findall(r"(?<![\w./-])((?:\w+/)*[a-z]\w*)\.(?!py\b)(\w+)(?![\w./-])", part):
            texts = [text for module, text in modules.items() if f"/{module}".endswith(f"/{path}.py")]
            if texts and not any(re.search(rf"^(?:def|class) {name}\b|^{name}\b *[:=]", text, re.M) for text in texts):
                absent.append(f"{path}.{name}")
        for name in re.findall(r"^([A-Z][a-z]+(?:[A-Z][a-z]+)*)(?:\.[a-z_]+)?$", part):
            if not any(re.search(rf"^ *class {name}\b", text, re.M) for text in modules.values()):
                absent.append(name)
    assert sorted(absent) == []


def test_settings_exist(document: Path) -> None:
    named = {
        word
        for part in code(document.read_text())
        for word in re.findall(r"\b(?!TLS_)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", part)
    }
    assert sorted(word for word in named if not re.search(rf"\b{word}\b", sources())) == []


def examples(pattern: str) -> set[str]:
    """The settings of example files of an environment."""
    found = [re.findall(r"^#?([A-Z][A-Z0-9_]*)=", file.read_text(), flags=re.M) for file in ROOT.glob(pattern)]
    return {name for names in found for name in names}


def test_every_setting_is_in_an_example_or_documented() -> None:
    read = {name for rows in installation.TOPICS.values() for name in rows}  # a test of that page holds this complete
    pages = "\n".join((ROOT / name).read_text() for name in DOCUMENTS if name.startswith("docs/"))
    documented = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", "\n".join(code(pages))))
    assert sorted(read - examples("deploy/env/*.example") - documented) == []


def test_the_example_of_compose_has_what_compose_asks_for_and_nothing_of_the_processes() -> None:
    files = (ROOT / "docker-compose.yml").read_text()
    asked = set(re.findall(r"\$\{([A-Z_]+)", files)) | {"COMPOSE_FILE"}
    assert examples(".env.example") == asked
    assert not asked & examples("deploy/env/*.example")


def test_pages_exist(document: Path) -> None:
    named = {
        word
        for part in code(document.read_text())
        for word in re.findall(r"^(/(?:p|api|alerts|runs|machines|hooks|settings)/\S*)$", part)
    }
    absent = []
    for word in named:
        try:
            path = re.sub(r"[A-Z]+|<\w+>|…|\.\.\.", "1", word.partition("?")[0])
            resolve(f"{path}/" if path == "/api/v1" else path)  # what all its addresses begin with
        except Resolver404:
            absent.append(word)
    assert sorted(absent) == []
