"""Which pages the document of large databases shows."""

from research.scale import bench
from research.scale.costs.meter import Cost
from research.scale.costs.pages import PageCost, PageKind
from research.scale.growth import DOCUMENT, FIGURES, rows_of
from research.scale.marks import read_part


def page_cost(cpu_ms: float) -> PageCost:
    cost = Cost(clock_ms=[cpu_ms], web_cpu_ms=cpu_ms, database_cpu_ms=0.0, queries=1)
    return PageCost(PageKind(f"page-{cpu_ms:.0f}", "", ["/dearest"]), cost, wire=1000)


def test_the_pages_that_take_most_cpu_are_shown_and_all_count_for_the_mean() -> None:
    costs = [page_cost(ms) for ms in range(1, 20)]
    assert [page.cost.cpu for page in bench.heaviest(costs)] == list(range(19, 11, -1))
    assert "One core answers 100 pages a second, in the mean of 19" in bench.throughput(costs)


def test_the_document_shows_the_heaviest_pages_alone() -> None:
    _, pages, *_ = read_part(DOCUMENT, FIGURES).split("\n\n")
    cpu_ms = [float(row[2].replace(",", "")) for row in rows_of(pages)]
    assert len(cpu_ms) == bench.HEAVIEST
    assert cpu_ms == sorted(cpu_ms, reverse=True)
