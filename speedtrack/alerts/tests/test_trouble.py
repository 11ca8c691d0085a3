"""What fails in one series holds up no other."""

import math

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.runs.models import Samples, Series
from speedtrack.tests import builders

from .conftest import World

Status = ChangePoint.Status


def test_a_series_that_fails_holds_up_no_other(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    broken = Series.objects.get(metric="throughput_rps", benchmark__name="set-p1")
    Series.objects.filter(pk=broken.pk).update(metric="of_an_older_version")
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[7]
    broken.refresh_from_db()
    assert "of_an_older_version" in broken.error
    assert (broken.failures, broken.undetected_since is None) == (1, False)
    assert broken not in Series.objects.undetected()  # not before a pause
    Series.objects.filter(metric="throughput_rps", benchmark=broken.benchmark).update(metric="of_the_whole_suite")
    Series.objects.filter(pk=broken.pk).update(metric="throughput_rps", retry_at="2026-01-01T00:00Z")
    detection.detect()
    broken.refresh_from_db()
    assert (broken.error, broken.failures, broken.retry_at, broken.undetected_since) == ("", 0, None, None)


def test_a_change_point_that_cannot_be_judged_holds_up_no_other(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    world.queue_confirmation()
    builders.work(world.machine, world.speed)
    broken = ChangePoint.objects.get(series__metric="throughput_rps")
    Samples.objects.filter(measurement__series=broken.series, measurement__paired=True).update(values=[math.nan] * 20)
    world.until_quiet()
    assert [cp.series.metric for cp in Alert.objects.get().change_points.all()] == ["server_cpu_ns_per_request"]
    broken.refresh_from_db()
    assert broken.status == Status.SETTLING
    assert "finite" in broken.series.error
