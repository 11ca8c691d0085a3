"""Measure everything, print all tables, and write those of docs/scale.md: of pages the heaviest only."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean

from django.db import connection

from research.scale import growth
from research.scale.costs import pages, work
from research.scale.costs.pages import PageCost
from research.scale.costs.work import WorkCost
from research.scale.marks import write_part
from speedtrack.runs.models import Run, Series

MOST_QUERIES = 12
HEAVIEST = 8  # pages that the document shows
BYTES = {"measurement": 250, "comparison": 40, "trial": 800, "sample": 40}


@dataclass(frozen=True)
class RequestBudget:
    """Milliseconds by the clock (p95) and of CPU, and kB on the wire, of one request."""

    p95: float = 200
    cpu: float = 80
    wire: float = 1000


# By name and the beginning of the title, the more special ones first.
BUDGETS = {
    ("timeline-values", "JSON"): RequestBudget(p95=50, cpu=20, wire=150),
    ("api:read_points", ""): RequestBudget(p95=50, cpu=50, wire=1000),
    ("home", ""): RequestBudget(cpu=40, wire=60),
    ("project", ""): RequestBudget(cpu=40, wire=60),
    ("commit", ""): RequestBudget(cpu=60, wire=100),
    ("compare", ""): RequestBudget(cpu=60, wire=100),
    ("latency", ""): RequestBudget(cpu=60, wire=100),
    ("releases", ""): RequestBudget(cpu=60, wire=100),
    ("run", ""): RequestBudget(cpu=40),
    ("run-script", ""): RequestBudget(cpu=40),
    ("alert", ""): RequestBudget(cpu=40),
    ("alerts", ""): RequestBudget(cpu=40),
    ("queue", ""): RequestBudget(p95=100),
    ("machine", ""): RequestBudget(p95=100),
}


def budget_of(page: pages.PageKind) -> RequestBudget:
    budgets = (b for (name, title), b in BUDGETS.items() if name == page.name and page.title.startswith(title))
    return next(budgets, RequestBudget())


def run(only: str | None, write: Path | None) -> None:
    requests = [print_row(page) for page in pages.measure()] if only in (None, "pages") else []
    sections = [head(requests)]
    if requests:
        sections.append(page_table(heaviest(requests)))
    if only in (None, "work"):
        sections.append(work_table(list(work.measure(dearest(requests)))))
        sections.append(size_table())
    text = "\n\n".join(sections)
    print(text)
    if write:
        write_part(write, growth.FIGURES, text)
        if only is None:
            growth.write(write)


def print_row(page: PageCost) -> PageCost:
    """Print a page's costs as soon as they are measured."""
    print(f"{page_row(page)}", flush=True)
    return page


def heaviest(rows: list[PageCost], count: int = HEAVIEST) -> list[PageCost]:
    """Those that take most CPU, the heaviest first."""
    return sorted(rows, key=lambda row: row.cost.cpu, reverse=True)[:count]


def dearest(rows: list[PageCost]) -> str:
    """The address of the page that takes a visitor most; that of a project's releases if none was measured."""
    of_visitors = [row for row in rows if row.page.name not in pages.PERSONAL]
    return heaviest(of_visitors, 1)[0].page.addresses[0] if of_visitors else pages.to("releases", "wide")


def throughput(rows: list[PageCost]) -> str:
    each_ms = mean(row.cost.cpu for row in rows)
    return f"One core answers {1000 / each_ms:.0f} pages a second, in the mean of {len(rows)}; below are the heaviest."


def head(rows: list[PageCost]) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE relname = 'runs_measurement'")
        measurements = cursor.fetchone()[0]
        cursor.execute("SELECT pg_database_size(current_database()), current_setting('server_version')")
        size, version = cursor.fetchone()
    sentences = (
        f"{measurements:,} measurements in {Series.objects.count():,} series of {Run.objects.count():,} runs; "
        f"{size / 1e9:.2f} GB; PostgreSQL {version}, embedded, as installed; {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}; {datetime.now(UTC):%Y-%m-%d}.",
        *([throughput(rows)] if rows else []),
        "Bold: a budget is missed.",
    )
    return " ".join(sentences)


def marked(value: float, most: float, digits: int = 0) -> str:
    text = f"{value:,.{digits}f}"
    return f"**{text}**" if value > most else text


def page_row(page_cost: PageCost) -> str:
    budget, cost = budget_of(page_cost.page), page_cost.cost
    cells = (
        f"`{page_cost.page.name}` {page_cost.page.title}".strip(),
        marked(cost.p95, budget.p95),
        marked(cost.cpu, budget.cpu),
        marked(cost.queries_each, MOST_QUERIES),
        marked(page_cost.wire / 1000, budget.wire),
    )
    return f"| {' | '.join(cells)} |"


def page_table(rows: list[PageCost]) -> str:
    top = "| page | p95 ms | CPU ms | queries | kB on the wire |\n|---|--:|--:|--:|--:|"
    return "\n".join([top, *map(page_row, rows)])


def work_table(rows: list[WorkCost]) -> str:
    top = "| work | p95 ms | CPU ms | queries | result | wanted |\n|---|--:|--:|--:|---|---|"
    lines = []
    for row in rows:
        cost = row.cost
        result = f"**{row.result}**" if row.missed else row.result
        figures = f"{cost.p95:,.1f} | {cost.cpu:,.1f} | {cost.queries_each:,.0f}"
        lines.append(f"| {row.title} | {figures} | {result} | {row.budget} |")
    return "\n".join([top, *lines])


def size_table() -> str:
    top = "| a | how many | bytes each | with indexes | wanted |\n|---|--:|--:|--:|--:|"
    lines = [
        f"| {kind} | {count:,} | {own / count:,.0f} | {marked(with_indexes / count, BYTES.get(kind, 10**9))} | "
        f"{f'< {BYTES[kind]}' if kind in BYTES else ''} |"
        for kind, count, own, with_indexes in work.sizes()
        if count
    ]
    return "\n".join([top, *lines])
