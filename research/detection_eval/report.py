"""The evaluation's figures as Markdown, beside their targets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from research.detection_eval import datasets
from research.detection_eval.beside import PeerScore
from research.detection_eval.cost import Cost
from research.detection_eval.scores import Record, Score, quantile
from research.detection_eval.settling import Narrowed, Rounds

STAGES = (
    "never suspected", "beside the bracket", "refuted, though in the bracket", "unsettled", "withdrawn",
    "confirmed elsewhere", "still open at the end",
)  # fmt: skip
DRIFT_STEP = 0.003


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in lines)


def number(value: float, digits: int = 2) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}%"


def whole_way(scores: Mapping[str, Score]) -> str:
    """From a measurement to a confirmed change, by data set."""
    head = (
        "data", "lines, commits, changes", "suspicions /1000", "from commit 240 on", "P", "R", "F1", "false /1000",
        "pairs /1000", "delay, median / 90%",
    )  # fmt: skip
    rows = [
        (
            name, f"{s.lines}, {s.commits}, {s.changes}", number(s.suspicions, 1), number(s.suspicions_mature, 1),
            number(s.precision), number(s.recall), number(s.f1), number(s.false_rate), number(s.pairs, 0),
            f"{number(quantile(s.delays, 0.5), 0)} / {number(quantile(s.delays, 0.9), 0)}",
        )
        for name, s in scores.items() if name != datasets.DRIFT
    ]  # fmt: skip
    return table(head, rows)


def commits_named(scores: Mapping[str, Score]) -> str:
    """Of the true changes, how many reach their commit."""
    head = ("data", "changes", "suspected", "confirmed", "named alone", "of those suspected", "in a wider range",
            "at a wrong commit", "widest range")  # fmt: skip
    rows = [
        (
            name, s.changes, s.suspected, s.hits, s.named, percent(s.named / s.suspected if s.suspected else math.nan),
            s.held - s.named, s.wrong, max(s.widths, default="–"),
        )
        for name, s in scores.items() if s.changes and name != datasets.DRIFT
    ]  # fmt: skip
    return table(head, rows)


def losses(scores: Mapping[str, Score]) -> str:
    """Where the true changes that were not confirmed were lost."""
    with_changes = {name: s for name, s in scores.items() if s.changes and name != datasets.DRIFT}
    rows = [(name, s.changes - s.hits, *(s.losses[stage] for stage in STAGES)) for name, s in with_changes.items()]
    return table(("data", "lost", *STAGES), rows)


def drift(records: Sequence[Record]) -> str:
    """How far a line had drifted when the first change of it was confirmed."""
    sums = []
    for record in records:
        begun = record.line.truth[0][0]
        late = [one.confirmed_at for one in record.confirmed if one.confirmed_at is not None and one.direction > 0]
        after = [now for now in late if now >= begun]
        if after:
            sums.append((1 + DRIFT_STEP) ** (min(after) - begun + 1) - 1)
    told = f"at {percent(float(np.median(sums)))} in the median, {percent(max(sums))} at the latest" if sums else ""
    return f"A drift of 0.3% per commit: confirmed on {len(sums)} of {len(records)} lines{', ' if told else ''}{told}."


def rounds(rows: Sequence[Rounds]) -> str:
    head = ("change", "spread of a side", "confirmed", "same", "unknown", "pairs on average", "suspicions")
    return table(
        head,
        [
            (
                percent(r.case.change) if r.case.change else "none (A/A)",
                f"{percent(r.case.spread, 1)}{', heavy tails' if r.case.heavy else ''}",
                percent(r.different, 2 if not r.case.change else 1), percent(r.same, 1), percent(r.unknown, 1),
                number(r.pairs, 1), r.runs,
            )
            for r in rows
        ],
    )  # fmt: skip


def narrowed(rows: Sequence[Narrowed]) -> str:
    head = ("change", "spread of a side", "right commit", "wrong commit", "a range", "pairs on average", "ranges")
    return table(
        head,
        [
            (
                percent(r.case.change), percent(r.case.spread, 1), percent(r.right, 1), percent(r.wrong, 1),
                percent(r.wide, 1), number(r.pairs, 0), r.runs,
            )
            for r in rows
        ],
    )  # fmt: skip


def costs(rows: Sequence[Cost]) -> str:
    head = ("points", "branches", "worker, CPU ms", "PostgreSQL, CPU ms", "together", "elapsed ms")
    return table(
        head,
        [
            (c.points, c.branches, number(c.worker_ms, 1), number(c.database_ms, 1),
             number(c.worker_ms + c.database_ms, 1), number(c.elapsed_ms, 1))
            for c in rows
        ],
    )  # fmt: skip


def beside_peers(ours: Mapping[str, Score], peers: Sequence[PeerScore]) -> str:
    """F1 (false per 1000 change-free commits) of everything ever reported, ours after settling."""
    steps = [name for name, s in ours.items() if s.changes and name != datasets.DRIFT]
    none = {datasets.SYNTHETIC: datasets.SYNTHETIC_NONE, datasets.REAL: datasets.REAL_NONE}
    rows = [("**SpeedTrack, after settling**", *(cell(ours, name, none) for name in steps), "", "0")]
    for peer in dict.fromkeys(one.peer for one in peers):
        mine = {one.dataset: one for one in peers if one.peer == peer}
        scores = {name: one.score for name, one in mine.items()}
        ms = float(np.mean([one.ms for one in mine.values()]))
        gone = float(np.mean([one.vanished for one in mine.values()]))
        rows.append((peer, *(cell(scores, name, none) for name in steps), number(ms, 1), percent(gone)))
    return table(("detector", *steps, "ms per point", "reports that vanish"), rows)


def cell(scores: Mapping[str, Score], name: str, none: Mapping[str, str]) -> str:
    if name not in scores:
        return "–"
    calm = scores.get(none.get(name, ""))
    return number(scores[name].f1) + (f" ({number(calm.false_rate)})" if calm else "")


def young_lines(rates: Mapping[float, float]) -> str:
    head = ("runs differ by", "false suspicions /1000 commits")
    return table(head, [(percent(between, 1), number(rate, 0)) for between, rate in rates.items()])


def stages(records: Sequence[Record]) -> Counter[str]:
    return Counter(one.status for record in records for one in record.found)


def targets(
    scores: Mapping[str, Score], settled: Sequence[Rounds], ranges: Sequence[Narrowed], points: Sequence[Cost]
) -> str:
    """What was wanted beside what was measured; a job that was not run is left out."""
    rows: list[tuple[str, str, str]] = []

    def judge(job: str, target: str, name: str, figure: Callable[[Score], str]) -> None:
        if name in scores:
            rows.append((job, target, figure(scores[name])))

    suspicions = "suspicions per 1000 change-free commits of a long line"
    judge(f"{suspicions}, mixed noise", "≤ 6", datasets.SYNTHETIC_NONE, lambda s: number(s.suspicions_mature, 1))
    judge(f"{suspicions}, Gaussian", "≤ 1", datasets.GAUSSIAN, lambda s: number(s.suspicions_mature, 1))
    for kind, steps, none, target in (
        ("synthetic", datasets.SYNTHETIC, datasets.SYNTHETIC_NONE, "0.82"),
        ("public real noise", datasets.REAL, datasets.REAL_NONE, "0.42"),
    ):
        judge(f"F1 after settling, {kind}", f"≥ {target}", steps, lambda s: number(s.f1))
        judge(f"false confirmations per 1000, {kind}", "≤ 0.1", none, lambda s: number(s.false_rate))
        judge(f"pairs per 1000 commits, {kind}", "≤ 400", steps, lambda s: number(s.pairs, 0))
        named = f"changes suspected within five commits that reach the right commit, {kind}"
        judge(named, "≥ 90%", steps, lambda s: percent(s.named / s.suspected if s.suspected else math.nan))
    nulls = [one for one in settled if not one.case.change]
    if nulls:
        wrong = sum(one.different * one.runs for one in nulls) / sum(one.runs for one in nulls)
        rows.append(("suspicions without a change that are confirmed", "≤ 1%", percent(wrong, 2)))
    for one in settled:
        if (one.case.change, one.case.spread) == (0.02, 0.017):
            rows.append(("2% at a spread of 1.7%", "≥ 99% in ≤ 30 pairs", told_of(one)))
        if (one.case.change, one.case.spread) == (0.01, 0.01):
            rows.append(("1% at a spread of 1%", "≥ 90%", told_of(one)))
    if ranges:
        right, wrong = min(one.right for one in ranges), max(one.wrong for one in ranges)
        figure = f"{percent(right, 1)}; {percent(wrong, 1)}"
        rows.append(("narrowing a range of 8, 2% and more: right; wrong", "≥ 98%; ≤ 1%", figure))
    if points:
        longest = max(points, key=lambda one: one.points)
        cost = number(longest.worker_ms + longest.database_ms, 1)
        rows.append((f"CPU of detection per new point, at {longest.points} points", "≤ 10 ms", f"{cost} ms"))
    return table(("job", "target", "now"), rows)


def told_of(one: Rounds) -> str:
    return f"{percent(one.different, 1)} in {number(one.pairs, 0)} pairs"
