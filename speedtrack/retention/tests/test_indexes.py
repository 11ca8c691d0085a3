"""The index of points is rebuilt when it is sparse, and serves as before."""

from typing import Any

import pytest
from django.db import IntegrityError, connection

from speedtrack.retention import indexes, nightly
from speedtrack.tests.histories import History

pytestmark = pytest.mark.django_db(transaction=True)
STATE = "SELECT relfilenode, indisvalid FROM pg_class JOIN pg_index ON indexrelid = oid WHERE relname LIKE %s"


def states() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(STATE, [f"{indexes.INDEX}%"])
        return list(cursor.fetchall())


def test_a_sparse_index_is_rebuilt_at_night(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PRUNE_HOUR = 0
    history = History()
    commits, series = history.commits(3), history.series()
    history.measure([series], {commit.pk: [[1.0, 2.0, 3.0]] for commit in commits})
    ((before, _),) = states()
    history.project.__class__.objects.update(created="2020-01-01T00:00:00Z")
    nightly.prune_due()
    assert states() == [(before, True)], "it is small"
    monkeypatch.setattr(indexes, "LEAST_BYTES", 0)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs_measurement")
    nightly.Pruning.objects.all().delete()
    nightly.prune_due()
    ((after, is_valid),) = states()
    assert after != before and is_valid


@pytest.mark.parametrize("rest", ["_ccnew", "_ccold", "_ccold1"])
def test_the_rest_of_an_interrupted_rebuilding_is_removed(rest: str) -> None:
    history = History()
    commits, series = history.commits(2), history.series()
    history.measure([series], {commit.pk: [[1.0, 2.0, 3.0]] for commit in commits})
    with connection.cursor() as cursor, pytest.raises(IntegrityError):
        cursor.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {indexes.INDEX}{rest} ON runs_measurement (series_id)")
    assert sorted(is_valid for _, is_valid in states()) == [False, True]
    assert not indexes.rebuild_sparse()
    ((_, is_valid),) = states()
    assert is_valid
