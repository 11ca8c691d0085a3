from pathlib import Path
from typing import Any

import pytest

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects.models import Branch, Project
from speedtrack.tests.builders import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def project(db: None, repository: Repository, tmp_path: Path, settings: Any) -> Project:
    """A project that tracks ``main`` of the repository, not yet looked at."""
    settings.MIRRORS = tmp_path / "mirrors"
    project = Project.objects.create(
        slug="kvd",
        name="kvd",
        url=str(repository.path),
        default_branch="main",
        suite="tiny",
        hook_secret=Secret.of("s3cret"),
    )
    Branch.objects.create(project=project, name="main")
    return project
