"""Axes of pictures are those of the pages' charts: both are tested against one file."""

import json
from pathlib import Path

import pytest
from django.conf import settings

from speedtrack.web.drawing.charts.axes import time_ticks, value_axis

GOLDEN = json.loads((Path(settings.BASE_DIR) / "frontend/src/axis.golden.json").read_text(encoding="utf-8"))


def test_values() -> None:
    for one in GOLDEN["axes"]:
        axis = value_axis(one["values"], one["scale"], one["unit"])
        assert (axis.low, axis.high) == pytest.approx((one["low"], one["high"])), one
        assert axis.logarithmic == one["logarithmic"]
        assert [label for _, label in axis.ticks] == [label for _, label in one["ticks"]]
        assert [value for value, _ in axis.ticks] == pytest.approx([value for value, _ in one["ticks"]])


def test_times() -> None:
    for one in GOLDEN["times"]:
        assert [list(tick) for tick in time_ticks(one["first"], one["last"], one["most"])] == one["ticks"]
