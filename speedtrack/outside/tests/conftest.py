"""A tracked repository, and results for it."""

from pathlib import Path
from typing import Any

import pytest

from speedtrack.outside import document, taking
from speedtrack.outside.taking import Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import
from speedtrack.tests import builders

SENDER = Sender(Import.Door.COMMAND, name="ada")


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> builders.Repository:
    builders.use_suite(settings, tmp_path / "suites")
    return builders.Repository(tmp_path / "kvd")


@pytest.fixture
def shas(repository: builders.Repository) -> list[str]:
    return repository.commits(4)


@pytest.fixture
def project(db: None, repository: builders.Repository, shas: list[str]) -> Project:
    return builders.track(repository, last=0).project


def row(sha: str | None = None, /, **changes: Any) -> dict[str, Any]:
    """A right result, with changes; None leaves a field out."""
    found = {"commit": sha, "benchmark": "sort", "metric": "time", "unit": "s", "better": "lower", "value": 1.5}
    return {name: value for name, value in (found | changes).items() if value is not None}


def document_of(*rows: dict[str, Any], **shared: Any) -> dict[str, Any]:
    return {"schema": document.SCHEMA, "machine": "ci", **shared, "results": list(rows)}


def send(project: Project, *rows: dict[str, Any], all_or_nothing: bool = False, **shared: Any) -> Report:
    batch = document.batch_of(document_of(*rows, **shared))
    return taking.take(project, batch, SENDER, all_or_nothing)
