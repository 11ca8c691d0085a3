"""What a number of measuring machines needs, computed from the figures of docs/scale.md.

python -m research.scale.growth [--write]
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from research.scale.marks import read_part, write_part
from speedtrack.http import webserver

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
FIGURES, GROWTH = "figures", "growth"
MACHINES = (1, 10, 100, 1000)
DAY_S = 86_400
YEARS = 5
GB = 1e9

# A machine that measures all day: a benchmark of five trials every 17 s.
COMMITS, BENCHMARKS, METRICS, TRIALS = 100, 50, 8, 5
RENEW_S = 15  # a quarter of a lease
PUSH = 2048  # commits
# How often work that is not spread over the day exceeds its mean.
PEAK = 3
# Days until retention deletes a row; other rows are kept for ever.
KEPT_DAYS = {"trial": 90, "sample": 730}

DISK_BYTES = 1e12
WORKERS = 2  # processes that detect, as installed
WEB_CONNECTIONS = sum(webserver.THREADS.values())  # of a web process
OTHER_CONNECTIONS = 15  # of the dispatcher, the workers, superusers
CONNECTIONS = 100  # max_connections, as PostgreSQL is installed
PLANNING_S = 60


@dataclass(frozen=True)
class Figures:
    """Bytes of a row with its indexes, and CPU milliseconds of a call, by their names."""

    size: dict[str, float]
    cpu_ms: dict[str, float]

    def work(self, prefix: str) -> float:
        """CPU milliseconds of the work whose name begins with these words."""
        return next(ms for name, ms in self.cpu_ms.items() if name.startswith(prefix))


def read_figures(text: str) -> Figures:
    """Read the tables that bench.py writes. Raises ValueError if one is missing."""
    tables = [list(rows_of(table)) for table in text.strip().split("\n\n")[1:]]
    if len(tables) != 3:
        raise ValueError("the figures lack pages, work or sizes: write all with `make bench SCALE=1 WRITE=1`")
    _, work, sizes = tables
    return Figures(
        size={re.sub(r"^(runs|projects)_", "", row[0]): number(row[3]) for row in sizes},
        cpu_ms={row[0]: number(row[2]) for row in work},
    )


def rows_of(table: str) -> Iterator[list[str]]:
    for line in table.splitlines()[2:]:
        yield [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def number(text: str) -> float:
    return float(text.replace(",", ""))


@dataclass(frozen=True)
class Growth:
    """Of one machine that measures all day."""

    figures: Figures

    @property
    def rows_a_day(self) -> dict[str, float]:
        documents = COMMITS * BENCHMARKS
        return {
            "run": COMMITS,
            "measurement": documents * METRICS,
            "comparison": documents * METRICS,
            "trial": documents * TRIALS,
            "sample": documents * METRICS * TRIALS,
        }

    def stored(self, kind: str, days: float) -> float:
        """Bytes of it after so many days, with retention."""
        return self.rows_a_day[kind] * min(days, KEPT_DAYS.get(kind, days)) * self.figures.size[kind]

    def stored_in_all(self, years: float) -> float:
        return sum(self.stored(kind, years * 365) for kind in self.rows_a_day)

    @property
    def api_cores(self) -> float:
        """What claims, renewals and results take, in the mean of a day."""
        work = self.figures.work
        documents, renewals = COMMITS * BENCHMARKS, DAY_S / RENEW_S
        spent = COMMITS * work("claim") + renewals * work("renewal") + documents * work(f"result document of {TRIALS} ")
        return spent / 1000 / DAY_S

    @property
    def detection_cores(self) -> float:
        name = next(name for name in self.figures.cpu_ms if name.startswith("detection pass"))
        (series,) = re.findall(r"(\d+) series", name)
        return COMMITS * BENCHMARKS * METRICS * self.figures.cpu_ms[name] / int(series) / 1000 / DAY_S

    @property
    def planning_s(self) -> float:
        """To plan a push of PUSH commits on one machine."""
        name = next(name for name in self.figures.cpu_ms if name.startswith("planning"))
        commits, machines = map(int, re.findall(r"\d+", name))
        return PUSH * self.figures.cpu_ms[name] / (commits * machines) / 1000


def digits(value: float) -> str:
    """Two digits that mean something."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def needs(growth: Growth) -> str:
    for_ever = sum(growth.stored(kind, 365) for kind in growth.rows_a_day if kind not in KEPT_DAYS)
    rows: list[tuple[str, float]] = [
        ("measurements per day", growth.rows_a_day["measurement"]),
        ("claims per second", COMMITS / DAY_S),
        ("result documents per second", COMMITS * BENCHMARKS / DAY_S),
        ("renewals per second", 1 / RENEW_S),
        ("cores for claims, renewals and results", growth.api_cores),
        ("cores for detection", growth.detection_cores),
        ("GB per year kept for ever: runs, measurements, comparisons", for_ever / GB),
        *((f"GB of {kind}s, kept {days} days", growth.stored(kind, days) / GB) for kind, days in KEPT_DAYS.items()),
        (f"GB after {YEARS} years", growth.stored_in_all(YEARS) / GB),
        (f"runs queued by a push of {PUSH:,} commits", PUSH),
        ("CPU seconds to plan them", growth.planning_s),
    ]
    top = f"| machines | {' | '.join(f'{n:,}' for n in MACHINES)} |\n|---|{'--:|' * len(MACHINES)}"
    return "\n".join(
        [top, *(f"| {title} | {' | '.join(digits(each * n) for n in MACHINES)} |" for title, each in rows)]
    )


def limits(growth: Growth) -> str:
    """Which resource is exhausted at which number of machines, the smallest number first."""
    web = 1 / (PEAK * growth.api_cores)
    processes = (CONNECTIONS - OTHER_CONNECTIONS) // WEB_CONNECTIONS
    bottlenecks = [
        (
            DISK_BYTES / growth.stored_in_all(YEARS),
            f"a disk of 1 TB, after {YEARS} years",
            "keep samples and trials for less long; a larger disk",
        ),
        (web, f"one web process, in hours {PEAK} times as busy as the mean", "more web processes behind the proxy"),
        (
            WORKERS / (PEAK * growth.detection_cores),
            f"{WORKERS} processes that detect, in such hours",
            "a `--concurrency` of more, on as many cores",
        ),
        (
            web * processes,
            f"PostgreSQL's {CONNECTIONS} connections, by {processes} web processes",
            "pgbouncer",
        ),
        (
            PLANNING_S / growth.planning_s,
            f"the minute in which a push of {PUSH:,} commits is to be planned",
            "fewer machines for that project",
        ),
    ]
    rows = [f"| {digits(machines)} | {bottleneck} | {then} |" for machines, bottleneck, then in sorted(bottlenecks)]
    return "\n".join(["| machines | what is full | then |\n|--:|---|---|", *rows])


def computed(figures: Figures) -> str:
    growth = Growth(figures)
    return f"{needs(growth)}\n\n{limits(growth)}"


def write(document: Path) -> str:
    """Compute the part of the document anew from its figures. Returns it."""
    text = computed(read_figures(read_part(document, FIGURES)))
    write_part(document, GROWTH, text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scale.md")
    print(write(DOCUMENT) if parser.parse_args().write else computed(read_figures(read_part(DOCUMENT, FIGURES))))


if __name__ == "__main__":
    main()
