from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import git
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.requests import byhand
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


def test_measuring_by_hand_measures_again_each_time(tracked: Tracked, machine: Machine) -> None:
    for round in range(3):
        assert byhand.queue_by_hand(byhand.choose("repository", "main", [], None)) == 1
        assert Run.objects.filter(reason=Reason.MANUAL, round=round).count() == 1
    assert builders.claim(machine).reason == Reason.MANUAL


def test_a_range_by_hand_is_without_its_begin_and_with_its_end(tracked: Tracked, machine: Machine) -> None:
    assert byhand.queue_by_hand(byhand.choose("repository", "main~2..main", ["set-p1"], "m1")) == 2
    runs = Run.objects.filter(reason=Reason.MANUAL).order_by("rank")
    assert [r.commit.subject for r in runs] == ["Change number 2", "Change number 3"]
    assert runs[0].benchmark_set.names == ["set-p1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("other", "main", [], None), "there is no project 'other': there are repository"),
        (("repository", "main", ["hget"], None), "has no benchmark hget: it has get-p1, set-p1"),
        (("repository", "main", [], "m9"), "there is no machine 'm9': there are m1"),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(tracked: Tracked, arguments: Any, words: str) -> None:
    with pytest.raises(NoSuchThing, match=words):
        byhand.queue_by_hand(byhand.choose(*arguments))


@pytest.mark.parametrize(
    "expression",
    [
        "nonsense",
        "--output=x",
        "main..nonsense",
        "..main",
        "a..b..c",
        "^main",
        "^main..main",
        "main..^main",
        "main^@",
        "main^!",
        "--all",
        "@{-1}",
        ":file.txt",
        "main:file.txt",
        "refs/heads/*",
        "",
        "a\0b",
        "0" * 40,
        "^" + "0" * 40,
    ],
)
def test_a_range_that_is_none_queues_nothing(tracked: Tracked, expression: str) -> None:
    with pytest.raises(RepositoryError):
        byhand.queue_by_hand(byhand.choose("repository", expression, [], None))
    assert not Run.objects.filter(reason=Reason.MANUAL).exists()


def test_what_no_tracked_branch_has_can_be_measured_by_name(machine: Machine, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "release")
    shas = repository.commits(3)
    repository.git("tag", "-a", "-m", "release", "v1.2", shas[0])
    builders.track(repository, branch="main", last=0)
    manual = Run.objects.filter(reason=Reason.MANUAL)
    for expression, sha in [("v1.2", shas[0]), ("release~1", shas[1]), (shas[2], shas[2]), ("refs/tags/v1.2", shas[0])]:
        assert byhand.queue_by_hand(byhand.choose("repository", expression, [], None)) == 1
        assert manual.order_by("pk").last().commit.sha == sha
    assert byhand.queue_by_hand(byhand.choose("repository", "v1.2..release", [], None)) == 2
    new = repository.commit()
    byhand.queue_by_hand(byhand.choose("repository", "release", [], None))
    assert manual.order_by("pk").last().commit.sha == new
    assert list(git.local_refs("repository")) == ["refs/heads/main", "refs/tags/v1.2"]


def test_a_range_by_hand_goes_newest_first_whatever_was_stored_first(tracked: Tracked, machine: Machine) -> None:
    repository = Repository(Path(tracked.project.url).parent / f"side-of-{tracked.project.pk}")
    shas = repository.commits(4)
    builders.track(repository, name="side", last=0)
    repository.git("checkout", "--quiet", "-b", "topic")
    topic = repository.commits(3)
    byhand.queue_by_hand(byhand.choose("side", topic[-1], [], None))
    byhand.queue_by_hand(byhand.choose("side", f"{shas[-1]}..topic", [], None))
    runs = Run.objects.filter(project__slug="side", round=1).order_by("rank")
    assert [run.commit.sha for run in runs] == topic
