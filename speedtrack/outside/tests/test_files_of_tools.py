"""Files of all tools end in one project: their metrics contradict neither each other nor the project."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from speedtrack.outside import document, taking
from speedtrack.outside.readers import Options
from speedtrack.outside.readers.registry import reader_named
from speedtrack.outside.readers.tests.samples import FILES, FORMATS, content_of
from speedtrack.outside.taking import Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import, Series
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db(transaction=True)
NAMED = ("1" * 40, "2" * 40, "df2bfc3ce141c3049a4c0a90fef99f08f319a1b5", "3407269dc5f7208c203d9ddd42f44e710dd9db39")


def sent(project: Project, name: str, shas: list[str]) -> Report:
    """What becomes of a file whose commits are replaced by those of the project's repository."""
    content = content_of(name)
    for old, new in zip(NAMED, shas, strict=True):
        content = content.replace(old.encode(), new.encode())
    commit = "" if FORMATS[name] in ("asv", "github-action-history", "pytest-benchmark") else shas[0]
    results = reader_named(FORMATS[name]).read(
        content, Options(commit=commit, given={"better": "lower,Percent=higher"})
    )
    batch = document.batch_of(document.document_of(results, tool=FORMATS[name], commit=commit, machine="ci"))
    return taking.take(project, batch, Sender(Import.Door.COMMAND, source=name))


def test_files_of_all_tools_are_taken_once(tmp_path: Path, settings: Any) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    shas = repository.commits(len(NAMED))
    project = builders.track(repository, last=0).project
    for name in FORMATS:
        first = sent(project, name, shas)
        assert (first.refused, first.unchanged) == ([], 0), name
        assert first.taken > 0, name
        again = sent(project, name, shas)
        assert (again.taken, again.unchanged, again.refused) == (0, first.taken, []), name
    tests = Series.objects.filter(benchmark__name__startswith="test_words")
    assert set(tests.values_list("machine__name", "environment__facts__series__cpu_brand")) == {("box", "AMD EPYC")}


def test_the_command_imports_files_and_folders(tmp_path: Path, settings: Any, capsys: Any) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    sha = repository.commits(1)[0]
    project = builders.track(repository, last=0).project
    files = [str(FILES / name) for name in FORMATS if FORMATS[name] not in ("asv", "github-action-history")]
    said = ["--commit", sha, "--machine", "ci", "--option", "better=lower,Percent=higher"]
    call_command("import", project.slug, *files, *said)
    first = capsys.readouterr().out
    assert "criterion: 3 taken, 0 unchanged, 0 refused" in first
    call_command("import", project.slug, *files, *said)
    assert " 0 taken, 3 unchanged" in capsys.readouterr().out
    with pytest.raises(CommandError, match="asv: commit: asv's files name the commit of each result: leave"):
        call_command("import", project.slug, str(FILES / "asv"), *said)
