"""How large each part of a generated database is, by the number of its measurements."""

from dataclasses import dataclass

TRIALS = 5
LARGE = 200_000  # from here on what the budgets name is there in full


@dataclass(frozen=True)
class HistorySizes:
    """``wide``: many series with the same commits. ``long``: a few series with many commits. ``small``: the rest.

    ``waiting_runs`` wait in the queue, for commits of the wide project that are older than its measured ones.
    ``documented``: of the newest measured commits of a project, trials are stored with their documents.
    """

    rows: int
    seed: int
    machines: int
    wide_benchmarks: int
    wide_machines: int
    wide_commits: int
    long_commits: int
    small_projects: int
    small_commits: int
    branches: int
    documented: int
    waiting_runs: int
    deliveries: int


def sizes_of(rows: int, seed: int) -> HistorySizes:
    large = rows >= LARGE
    benchmarks, machines = (50, 5) if large else (8, 2)
    long_commits = max(60, min(10_000, rows // 100))
    return HistorySizes(
        rows=rows,
        seed=seed,
        machines=8,
        wide_benchmarks=benchmarks,
        wide_machines=machines,
        wide_commits=max(60, rows * 85 // 100 // (benchmarks * machines * 8)),
        long_commits=long_commits,
        small_projects=3,
        small_commits=max(15, rows // 20_000),
        branches=12 if large else 3,
        documented=10 if large else 3,
        waiting_runs=min(100_000, rows // 10),
        deliveries=min(20_000, rows // 50),
    )
