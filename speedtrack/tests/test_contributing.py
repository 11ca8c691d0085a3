"""What contributors and their forge are given calls what exists: targets, tools, folders; and one version of Rust."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

ROOT: Path = settings.BASE_DIR
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.M))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]


def test_hooks_call_what_make_calls() -> None:
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        words = hook["entry"].removeprefix("env PYTHONPATH=client ").split()
        if words[0] == "make":
            assert set(words[1:]) <= TARGETS
        else:
            assert Path(words[0]).name in re.findall(r"\$\(VENV\)/bin/(\S+)", MAKEFILE)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_only_read_and_call_targets_and_scripts_that_exist(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    for step in steps(workflow):
        assert re.search(r"@v\d+$", step.get("uses", "@v1"))
        for line in step.get("run", "").splitlines():
            if line.startswith("make "):
                assert {word for word in line.split()[1:] if "=" not in word} <= TARGETS
            if line.startswith((".ci/", "deploy/")):
                assert (ROOT / line.split()[0]).exists()


def test_all_tests_are_run_by_the_forge() -> None:
    assert any(step.get("run") == ".ci/run" for workflow in WORKFLOWS for step in steps(workflow))


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_forms_of_issues_have_a_name_and_fields_with_labels(form: Path) -> None:
    text = yaml.safe_load(form.read_text())
    assert text["name"] and text["description"]
    fields = [field for field in text["body"] if field["type"] != "markdown"]
    assert fields and all(field["id"] and field["attributes"]["label"] for field in fields)


def test_dependency_updates_cover_each_kind_of_dependency() -> None:
    manifests = {
        "pip": "requirements.in",
        "npm": "package-lock.json",
        "cargo": "Cargo.lock",
        "github-actions": ".github/workflows",
        "docker": "Dockerfile",
        "docker-compose": "docker-compose.yml",
    }
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    assert {update["package-ecosystem"] for update in updates} == set(manifests)
    for update in updates:
        assert (ROOT / update["directory"].strip("/") / manifests[update["package-ecosystem"]]).exists()


def test_one_version_of_rust_everywhere() -> None:
    driver = ROOT / "runners" / "driver"
    oldest = tomllib.loads((driver / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    for name in ("Dockerfile", "docker-compose.yml"):
        assert {found.rpartition(".")[0] for found in re.findall(r"rust:([\d.]+)-", (ROOT / name).read_text())} == {
            oldest
        }
    assert f"Rust {oldest} or newer" in (ROOT / "README.md").read_text()
