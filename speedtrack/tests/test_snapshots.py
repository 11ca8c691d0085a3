"""What is put back is what was made: rows, files, objects, and times that are as long ago."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from speedtrack.runs.models import Machine, Measurement, Run
from speedtrack.tests import snapshots
from speedtrack.web.tests.world import measured_world


def test_a_world_is_put_back_in_the_folder_of_the_next_test(
    db: None, settings: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(snapshots, "kept", {})
    monkeypatch.setattr(snapshots, "overridden_settings", lambda: "")  # the suites of "first", in one test
    with transaction.atomic():
        first = measured_world(settings, tmp_path / "first", commits=2)
        measurements = list(Measurement.objects.order_by("pk").values_list("pk", "n"))
        transaction.set_rollback(True)
    assert not Machine.objects.exists()
    [(key, snapshot)] = snapshots.kept.items()
    hours_ago = snapshots.Snapshot(
        snapshot.taken - timedelta(hours=2), snapshot.folder, snapshot.files, snapshot.rows, snapshot.objects
    )
    snapshots.kept[key] = hours_ago
    second = measured_world(settings, tmp_path / "second", commits=2)
    assert second.shas == first.shas and second.project.url == str(tmp_path / "second" / "kvd")
    assert list(Measurement.objects.order_by("pk").values_list("pk", "n")) == measurements
    assert min(Run.objects.values_list("ended_at", flat=True)) > timezone.now() + timedelta(hours=1)
    second.push(1)
    second.measure()
    assert Run.objects.filter(status="succeeded").count() == 3


def test_where_rows_are_all_is_made_anew(db: None, settings: Any, tmp_path: Path) -> None:
    Machine.objects.create(name="m9")
    made = measured_world(settings, tmp_path, commits=2)
    assert Machine.objects.count() == 2 and made.project.url == str(tmp_path / "kvd")
