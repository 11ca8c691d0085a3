"""The demonstration, and what measures histories for pictures, end when nothing is left to do, and not before."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from speedtrack.alerts.detection import detection
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.tests.conftest import World, make_slowed
from speedtrack.notices import sending
from speedtrack.processes import demo
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.planning import pushes
from speedtrack.tests import builders


@pytest.mark.django_db(transaction=True)
def test_a_decision_that_becomes_a_run_while_one_looks_is_work_all_the_same(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    world = World(builders.Repository(tmp_path / "repository"), builders.machine())
    world.shas = world.repository.commits(12)
    world.factors = {world.shas[7]: 1.3}
    project = builders.track(world.repository).project
    builders.work(world.machine, world.speed)
    assert not Run.objects.unfinished().exists()

    def decide() -> None:
        detection.detect()
        confirm.step()
        connection.close()

    def decisions_wanted() -> bool:
        other = threading.Thread(target=decide)
        other.start()
        other.join()
        return asked()

    asked = demo.decisions_wanted
    monkeypatch.setattr(demo, "decisions_wanted", decisions_wanted)
    assert demo.work_is_left(project)
    Run.objects.unfinished().update(reason=Reason.HUNKS)
    monkeypatch.undo()
    assert demo.work_is_left(project)
    assert not demo.work_is_left(project, demo.EXPLAINING)
    assert Run.objects.unfinished().exists()


@pytest.mark.django_db(transaction=True)
def test_what_was_planted_is_told_before_the_commits_between_are_measured(tmp_path: Path, settings: Any) -> None:
    world, alert = make_slowed(settings, tmp_path, at=7, emails=["ada@example.org"])
    project, named = alert.project, demo.PlantedCommit(8, alert.commit.sha[:12], "slower", "")
    assert demo.goes_on(project, [named], to_the_end=False)  # nobody has been mailed
    sending.send_due()
    assert not demo.goes_on(project, [named], to_the_end=True)
    world.shas += world.repository.commits(1)
    pushes.sync_and_plan(project)
    assert not demo.goes_on(project, [named], to_the_end=False)
    assert demo.goes_on(project, [named], to_the_end=True)
    other = demo.PlantedCommit(9, world.shas[8][:12], "slower", "")
    assert demo.goes_on(project, [other], to_the_end=False)
    assert "planted was" in demo.mistakes_found(project, [other])[0]
