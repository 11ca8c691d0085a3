"""`.ci/changed-tests` on a small repository: which tests a change concerns, and in which order."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

SCRIPT: Path = settings.BASE_DIR / ".ci" / "changed-tests"
SETTINGS = """
[tool.importlinter]
root_packages = ["shop"]
[tool.pytest.ini_options]
pythonpath = ["client"]
"""
FILES = {
    "pyproject.toml": SETTINGS,
    "shop/__init__.py": "",
    "shop/prices/__init__.py": "",
    "shop/prices/taxes.py": "RATE = 0.2\n",
    "shop/prices/totals.py": "from shop.prices import taxes\n",
    "shop/prices/tests/__init__.py": "",
    "shop/prices/tests/test_taxes.py": "from shop.prices import totals\n",
    "shop/prices/tests/test_names.py": "",
    "shop/pages/__init__.py": "",
    "shop/pages/views.py": 'from shop.prices import totals\nTEMPLATE = "pages/bill.html"\n',
    "shop/pages/templates/pages/bill.html": '{% include "pages/line.html" %}\n',
    "shop/pages/templates/pages/line.html": "",
    "shop/pages/tests/__init__.py": "",
    "shop/pages/tests/conftest.py": "from shop.pages import views\n",
    "shop/pages/tests/test_bill.py": "",
    "shop/other/__init__.py": "",
    "shop/other/tests/__init__.py": "",
    "shop/other/tests/test_other.py": "",
    "client/buyer.py": "",
    "client/tests/test_buyer.py": "",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet", "--initial-branch=main"], ["add", "."], ["commit", "--quiet", "--message=Begin"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture
def tests_of(repository: Path) -> Callable[..., list[str]]:
    def changed(*names: str) -> list[str]:
        for name in names:
            with (repository / name).open("a") as file:
                file.write("\n")
        done = subprocess.run([sys.executable, SCRIPT], cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    return changed


def test_the_test_named_after_a_module_is_first_and_those_of_users_follow(tests_of: Callable[..., list[str]]) -> None:
    assert tests_of("shop/prices/taxes.py") == [
        "shop/prices/tests/test_taxes.py",
        "shop/prices/tests/test_names.py",
        "shop/pages/tests/test_bill.py",  # by its conftest, the view and the totals
    ]


def test_a_template_concerns_the_tests_of_what_names_it(tests_of: Callable[..., list[str]]) -> None:
    assert tests_of("shop/pages/templates/pages/line.html") == ["shop/pages/tests/test_bill.py"]


def test_a_conftest_concerns_the_tests_below_it(tests_of: Callable[..., list[str]]) -> None:
    assert tests_of("shop/pages/tests/conftest.py") == ["shop/pages/tests/test_bill.py"]


def test_a_new_test_and_one_outside_of_packages_are_found(tests_of: Callable[..., list[str]]) -> None:
    expected = ["client/tests/test_buyer.py", "shop/other/tests/test_new.py"]
    assert tests_of("client/buyer.py", "shop/other/tests/test_new.py")[:2] == expected


def test_without_a_change_there_is_no_test(tests_of: Callable[..., list[str]]) -> None:
    assert tests_of() == []


def test_a_commit_that_does_not_exist_is_an_error(repository: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--since", "absent"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "absent" in done.stderr
