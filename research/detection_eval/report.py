"""The evaluation's figures as Markdown, with their targets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from research.detection_eval.cells import STEPS, cell, number, percent, table
from research.detection_eval.detectors.beside import PeerScore
from research.detection_eval.detectors.cost import DetectionCost
from research.detection_eval.detectors.settling import RANGE, NarrowingResult, Rounds
from research.detection_eval.findings import EvaluationFindings
from research.detection_eval.goals import targets
from research.detection_eval.lines import datasets
from research.detection_eval.scores import Record, Score, quantile, score, sum_at_first

STAGES = (
    "never suspected",
    "beside the bracket",
    "refuted, though in the bracket",
    "unsettled",
    "withdrawn",
    "confirmed elsewhere",
    "still open at the end",
)


def whole_way(scores: Mapping[str, Score]) -> str:
    """From a measurement to a confirmed change, by data set."""
    head = (
        "data",
        "lines, commits, changes",
        "suspicions /1000",
        "from commit 240 on",
        "P",
        "R",
        "F1",
        "false /1000",
        "pairs /1000",
        "delay, median / 90%",
        "drifts told, false",
    )
    rows = [
        (
            name,
            f"{s.lines}, {s.commits}, {s.changes}",
            number(s.suspicions, 1),
            number(s.suspicions_mature, 1),
            number(s.precision),
            number(s.recall),
            number(s.f1),
            number(s.false_rate),
            number(s.pairs, 0),
            f"{number(quantile(s.delays, 0.5), 0)} / {number(quantile(s.delays, 0.9), 0)}",
            f"{s.drifts}, {s.false_drifts}",
        )
        for name, s in scores.items()
        if name != datasets.DRIFT
    ]
    return table(head, rows)


def commits_named(scores: Mapping[str, Score]) -> str:
    """Of the true changes, how many reach their commit."""
    head = (
        "data",
        "changes",
        "suspected",
        "confirmed",
        "named alone",
        "of those suspected",
        "in a wider range",
        "at a wrong commit",
        "widest range",
    )
    rows = [
        (
            name,
            s.changes,
            s.suspected,
            s.hits,
            s.exact,
            percent(s.exact / s.suspected if s.suspected else math.nan),
            s.containing - s.exact,
            s.wrong,
            max(s.widths, default="–"),
        )
        for name, s in scores.items()
        if s.changes and name != datasets.DRIFT
    ]
    return table(head, rows)


def losses(scores: Mapping[str, Score]) -> str:
    """Where the true changes that were not confirmed were lost."""
    with_changes = {name: s for name, s in scores.items() if s.changes and name != datasets.DRIFT}
    rows = [(name, s.changes - s.hits, *(s.losses[stage] for stage in STAGES)) for name, s in with_changes.items()]
    return table(("data", "lost", *STAGES), rows)


def drift(records: Sequence[Record]) -> str:
    """How far each line had drifted when a change of it was first suspected and first confirmed."""
    rows = []
    for stage, moment in (
        ("suspected", lambda change: change.first_seen),
        ("confirmed", lambda change: change.confirmed_at),
    ):
        sums = [reached for record in records if (reached := sum_at_first(record, moment)) is not None]
        figures = (percent(float(np.median(sums)), 1), percent(max(sums), 1)) if sums else ("–", "–")
        rows.append((stage, f"{len(sums)} of {len(records)}", *figures))
    return table(("", "lines", "at, in the median", "at the latest"), rows)


def rounds(rows: Sequence[Rounds]) -> str:
    head = ("change", "spread of a side", "confirmed", "same", "unknown", "pairs on average", "suspicions")
    return table(
        head,
        [
            (
                percent(r.case.change) if r.case.change else "none (A/A)",
                f"{percent(r.case.spread, 1)}{', heavy tails' if r.case.heavy else ''}",
                percent(r.different, 2 if not r.case.change else 1),
                percent(r.same, 1),
                percent(r.unknown, 1),
                number(r.pairs, 1),
                r.runs,
            )
            for r in rows
        ],
    )


def power(rows: Sequence[Rounds]) -> str:
    """The share that is confirmed and the pairs on average, by change and spread, of normal noise."""
    cells = {(r.case.change, r.case.spread): r for r in rows if not r.case.heavy}
    changes, spreads = (sorted(set(values)) for values in zip(*cells, strict=True))
    body = [
        (
            percent(change) if change else "none (A/A)",
            *(confirmed_cell(cells.get((change, spread))) for spread in spreads),
        )
        for change in changes
    ]
    return table(("change, by spread of a side", *(percent(spread, 1) for spread in spreads)), body)


def confirmed_cell(row: Rounds | None) -> str:
    if row is None:
        return ""
    return f"{percent(row.different, 0 if row.case.change else 2)}, {number(row.pairs, 0)}"


def narrowed(rows: Sequence[NarrowingResult]) -> str:
    head = ("change", "spread of a side", "right commit", "pairs on average", "ranges")
    return table(
        head,
        [
            (percent(r.case.change), percent(r.case.spread, 1), percent(r.right), number(r.pairs, 0), r.runs)
            for r in rows
        ],
    )


def costs(rows: Sequence[DetectionCost]) -> str:
    """CPU of worker and PostgreSQL together."""
    head = ("points", "branches", "series in a pass", "CPU ms")
    return table(
        head,
        [(c.case.points, c.case.branches, c.case.series, number(c.worker_ms + c.database_ms, 1)) for c in rows],
    )


def beside_peers(ours: Mapping[str, Score], peers: Sequence[PeerScore]) -> str:
    """F1 (false per 1000 change-free commits) of everything ever reported, ours after settling."""
    steps = [
        name
        for name in (*STEPS, datasets.SAP, datasets.TALOS)
        if any(peer_score.dataset == name for peer_score in peers)
    ]
    rows = [("**SpeedTrack, after settling**", *(cell(ours, name) for name in steps), "", "0")]
    for peer in dict.fromkeys(peer_score.peer for peer_score in peers):
        mine = {peer_score.dataset: peer_score for peer_score in peers if peer_score.peer == peer}
        scores = {name: peer_score.score for name, peer_score in mine.items()}
        ms = float(np.mean([peer_score.ms for peer_score in mine.values()]))
        gone = float(np.mean([peer_score.vanished for peer_score in mine.values()]))
        rows.append((peer, *(cell(scores, name) for name in steps), number(ms, 1), percent(gone)))
    return table(("detector", *steps, "ms per point", "reports that vanish"), rows)


def young_lines(rates: Mapping[float, float]) -> str:
    head = ("runs differ by", "false suspicions /1000 commits")
    return table(head, [(percent(between, 1), number(rate, 0)) for between, rate in rates.items()])


def tables(evaluation: EvaluationFindings) -> list[str]:
    """All tables that there is something for, in the order in which they are read."""
    scores = {name: score(records) for name, records in evaluation.records.items()}
    drifts = evaluation.records.get(datasets.DRIFT)
    return [
        *sections(
            {
                "From a measurement to a confirmed change": whole_way(scores) if scores else "",
                "To the right commit": commits_named(scores) if scores else "",
                "Where true changes are lost": losses(scores) if scores else "",
                "A drift of 0.3% per commit": drift(drifts) if drifts else "",
                "All answers of settling": rounds(evaluation.settlings) if evaluation.settlings else "",
                f"Narrowing a range of {RANGE}": narrowed(evaluation.narrowed) if evaluation.narrowed else "",
                "Cost of detection per new point": costs(evaluation.costs) if evaluation.costs else "",
                "Lines of 12 commits, five trials of 0.5%": young_lines(evaluation.young) if evaluation.young else "",
            }
        ),
        *summary(evaluation),
    ]


def summary(evaluation: EvaluationFindings) -> list[str]:
    """The tables of docs/detection.md."""
    scores = {name: score(records) for name, records in evaluation.records.items()}
    failed = [record.line.id for records in evaluation.records.values() for record in records if record.error]
    other_detectors = [*evaluation.history, *evaluation.peers]
    text = sections(
        {
            "Against the targets": targets(evaluation, scores),
            "Settling": power(evaluation.settlings) if evaluation.settlings else "",
            "Other detectors": beside_peers(scores, other_detectors) if other_detectors else "",
        }
    )
    return [*text, *([f"Detection failed on: {', '.join(failed)}."] if failed else [])]


def sections(bodies: Mapping[str, str]) -> list[str]:
    return [f"### {title}\n\n{body}" for title, body in bodies.items() if body]
