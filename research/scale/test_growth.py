"""The arithmetic of growth, and that the document shows it as its figures have it."""

import pytest

from research.scale import growth
from research.scale.growth import DOCUMENT, FIGURES, GROWTH, Figures, Growth
from research.scale.marks import read_part

FOUND = Figures(
    size={"run": 500, "measurement": 250, "comparison": 40, "trial": 800, "sample": 40},
    cpu_ms={
        "claim over HTTP": 10,
        "renewal of a lease": 5,
        "result document of 5 trials": 20,
        "result document of 250 trials": 1000,
        "detection pass, 2000 series with a new point each": 4000,
        "planning of 2048 commits on 8 machines": 8192,
    },
)


def test_the_document_shows_what_its_figures_give() -> None:
    shown = growth.computed(growth.read_figures(read_part(DOCUMENT, FIGURES)))
    assert read_part(DOCUMENT, GROWTH) == shown, "run `python -m research.scale.growth --write`"


def test_a_machine_needs_what_its_rows_and_calls_take() -> None:
    one = Growth(FOUND)
    assert one.stored("measurement", 365) == 40_000 * 365 * 250
    assert one.stored("trial", 365) == 25_000 * 90 * 800, "retention has deleted the older ones"
    each_day = 100 * 500 + 40_000 * (250 + 40) + 200_000 * 40
    assert one.stored_in_all(1) == pytest.approx(365 * each_day + 25_000 * 90 * 800)
    assert one.api_cores == pytest.approx((100 * 0.010 + 5760 * 0.005 + 5000 * 0.020) / 86_400)
    assert one.detection_cores == pytest.approx(40_000 * 0.002 / 86_400)
    assert one.planning_s == pytest.approx(1.024)


def test_the_first_limit_stands_first() -> None:
    limits = [float(row.split("|")[1].replace(",", "")) for row in growth.limits(Growth(FOUND)).splitlines()[2:]]
    assert limits == sorted(limits) and len(limits) == 5


def test_figures_without_a_table_are_named() -> None:
    with pytest.raises(ValueError, match="make bench SCALE=1"):
        growth.read_figures("1 measurement\n\n| page | p50 ms |\n|---|--:|\n| `home` | 1 |")
