"""The page about security names a test for each attack and limit, and each of these tests exists."""

import re
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

ROOT: Path = settings.BASE_DIR
PAGE = ROOT / "docs" / "security.md"
#: The parts of the list of attacks, one of each kind that is known from other systems.
PARTS = (
    "Webhooks",
    "git and addresses of repositories",
    "Addresses of inner services (SSRF)",
    "Code that is built and measured",
    "Machines and tokens",
    "Accounts",
    "Secrets, logs, mail and pages",
    "Browsers",
    "What failed elsewhere",
)
ATTACK = re.compile(r"^- (.+?)(?:: (`.+))?$", re.M)
LIMIT = re.compile(r"^\| (?!what \||-)(.+) \| (.*) \|$", re.M)


@cache
def every_test() -> frozenset[str]:
    files = [*(ROOT / "speedtrack").rglob("test_*.py"), *(ROOT / "runners").rglob("test_*.py")]
    return frozenset(
        name for file in files for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.M)
    )


def part(title: str, level: str = "###") -> str:
    found = re.search(rf"^{level} {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S)
    assert found, title
    return found[1]


@pytest.mark.parametrize("title", PARTS)
def test_each_attack_has_its_tests(title: str) -> None:
    rows = ATTACK.findall(part(title))
    assert len(rows) >= 4 if title != "What failed elsewhere" else rows
    for attack, named in rows:
        names = re.findall(r"`(test_\w+)`", named)
        assert (attack, bool(names), [name for name in names if name not in every_test()]) == (attack, True, [])


def test_each_limit_has_its_test() -> None:
    rows = LIMIT.findall(part("Limits", "##"))
    assert len(rows) >= 8
    for limit, named in rows:
        names = re.findall(r"`(test_\w+)`", named)
        assert (limit, bool(names), [name for name in names if name not in every_test()]) == (limit, True, [])
