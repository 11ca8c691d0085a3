"""The evaluation's figures as Markdown, beside their targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from research.detection_eval.detectors.beside import PeerScore
from research.detection_eval.detectors.cost import MANY, CostCase, DetectionCost
from research.detection_eval.detectors.settling import RANGE, Narrowed, Rounds
from research.detection_eval.lines import datasets
from research.detection_eval.scores import Record, Score, TrackedChange, quantile, score

STAGES = (
    "never suspected",
    "beside the bracket",
    "refuted, though in the bracket",
    "unsettled",
    "withdrawn",
    "confirmed elsewhere",
    "still open at the end",
)
DRIFT_STEP = 0.003
STEPS = {datasets.SYNTHETIC: datasets.SYNTHETIC_NONE, datasets.REAL: datasets.REAL_NONE}  # and the same without steps


@dataclass(frozen=True)
class EvaluationFindings:
    """What a run found, or several that went on with each other's work; empty where a part was not run yet."""

    records: Mapping[str, Sequence[Record]]  # by data set
    settlings: Sequence[Rounds]
    narrowed: Sequence[Narrowed]
    young: Mapping[float, float]  # false suspicions per 1000 commits, by how much runs differ
    costs: Sequence[DetectionCost]
    history: Sequence[PeerScore]
    peers: Sequence[PeerScore]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    top, *body = ("| " + " | ".join(map(str, row)) + " |" for row in (head, *rows))
    return "\n".join([top, "|" + "---|" * len(head), *body])


def number(value: float, digits: int = 2) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}%"


def interval(hits: float, trials: float, phrase: Callable[[float], str]) -> str:
    """The exact 95% interval of a share (Clopper and Pearson 1934), its ends in words; empty without trials."""
    if not trials:
        return ""
    low, high = binomtest(round(hits), round(trials)).proportion_ci(method="exact")
    return f" [{phrase(low)}, {phrase(high)}]"


def share(hits: float, trials: float, digits: int = 0) -> str:
    """A share in percent with its interval."""
    ends = interval(hits, trials, lambda end: percent(end, digits))
    return percent(hits / trials if trials else math.nan, digits) + ends


def per_thousand(rate: float, commits: int) -> str:
    """A rate per 1000 commits with its interval."""
    ends = interval(rate * commits / 1000, commits, lambda end: number(1000 * end, 1)) if commits else ""
    return number(rate, 1) + ends


def f1(score: Score) -> str:
    """F1 and its interval, which follows from that of the hits among hits, false reports and misses."""
    ends = interval(score.hits, score.changes + score.false, lambda end: number(2 * end / (1 + end)))
    return number(score.f1) + ends


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


def sum_at_first(record: Record, moment: Callable[[TrackedChange], int | None]) -> float | None:
    """What the drift had come to at the first of these moments after it began; None where there is none."""
    drift_begin = record.line.truth[0][0]
    times = [
        now
        for change in record.changes
        if change.direction > 0 and (now := moment(change)) is not None and now >= drift_begin
    ]
    return (1 + DRIFT_STEP) ** (min(times) - drift_begin + 1) - 1 if times else None


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


def narrowed(rows: Sequence[Narrowed]) -> str:
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


def cell(scores: Mapping[str, Score], name: str) -> str:
    if name not in scores:
        return "–"
    calm = scores.get(STEPS.get(name, ""))
    return f1(scores[name]) + (f" ({number(calm.false_rate)})" if calm else "")


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


class Goal(NamedTuple):
    """A job, what is wanted, and what the tracker reaches."""

    job: str
    target: str
    now: str


def targets(evaluation: EvaluationFindings, scores: Mapping[str, Score]) -> str:
    """What was wanted beside what was measured; a job that was not run is left out."""
    rows = [*of_lines(scores), *of_history(evaluation.history), *of_settling(evaluation), *of_costs(evaluation.costs)]
    if drifts := evaluation.records.get(datasets.DRIFT):
        sums = [sum_at_first(record, lambda change: change.confirmed_at) for record in drifts]
        late = "never on some" if None in sums else percent(max(total for total in sums if total is not None), 1)
        rows.append(Goal("a drift of 0.3% per commit is confirmed before it sums to", "10%", late))
    if evaluation.young:
        rates = " and ".join(number(rate, 0) for rate in evaluation.young.values())
        rows.append(Goal("suspicions per 1000 first commits, runs apart by 1 and 1.7%", "–", rates))
    return table(("job", "target", "result"), rows)


def of_lines(scores: Mapping[str, Score]) -> list[Goal]:
    rows = []
    suspicions = "suspicions per 1000 commits without a change"
    for name, kind, most in (
        (datasets.SYNTHETIC_NONE, "mixed noise", "6"),
        (datasets.GAUSSIAN, "Gaussian", "1"),
    ):
        if name in scores:
            now = per_thousand(scores[name].suspicions_mature, scores[name].commits_mature)
            rows.append(Goal(f"{suspicions}, {kind}", f"≤ {most}", now))
    for kind, steps, least in (
        ("synthetic", datasets.SYNTHETIC, "0.82"),
        ("real noise", datasets.REAL, "0.42"),
    ):
        if steps in scores:
            s = scores[steps]
            rows += [
                Goal(f"F1 after settling (false per 1000), {kind}", f"≥ {least} (≤ 0.1)", cell(scores, steps)),
                Goal(f"of {s.hits + s.false} confirmed changes, true, {kind}", "–", share(s.hits, s.hits + s.false)),
                Goal(f"of {s.changes} changes, confirmed, {kind}", "–", share(s.hits, s.changes)),
                Goal(f"pairs per 1000 commits, {kind}", "≤ 500", number(s.pairs, 0)),
                Goal(f"suspected changes that reach the right commit, {kind}", "≥ 90%", share(s.exact, s.suspected)),
            ]
    return rows


def of_history(peer_scores: Sequence[PeerScore]) -> list[Goal]:
    scores = {peer_score.dataset: peer_score.score for peer_score in peer_scores}
    targets_by_set = {
        datasets.SYNTHETIC: "≥ 0.80 (≤ 0.3)",
        datasets.REAL: "–",
        datasets.SAP: "1.00",
        datasets.TALOS: "≥ 0.84",
    }
    rows = [
        Goal(f"F1 of the history alone (false per 1000), {name}", targets_by_set[name], cell(scores, name))
        for name in targets_by_set
        if name in scores
    ]
    if peer_scores:
        gone = float(np.mean([peer_score.vanished for peer_score in peer_scores]))
        rows.append(Goal("its reports that vanish", "0", percent(gone)))
    return rows


def of_settling(evaluation: EvaluationFindings) -> list[Goal]:
    rows = []
    nulls = [case_rounds for case_rounds in evaluation.settlings if not case_rounds.case.change]
    if nulls:
        count = sum(case_rounds.runs for case_rounds in nulls)
        confirmed = share(sum(case_rounds.different * case_rounds.runs for case_rounds in nulls), count, 2)
        rows.append(Goal(f"of {count} suspicions without a change, confirmed", "≤ 1%", confirmed))
    targets_by_case = {
        (0.02, 0.017): ("2% at a spread of 1.7%", "≥ 99% in ≤ 30 pairs"),
        (0.01, 0.01): ("1% at a spread of 1%", "≥ 90%"),
    }
    for outcome in evaluation.settlings:
        if (key := (outcome.case.change, outcome.case.spread)) in targets_by_case:
            confirmed = share(outcome.different * outcome.runs, outcome.runs, 1)
            rows.append(Goal(*targets_by_case[key], f"{confirmed} in {number(outcome.pairs, 0)} pairs"))
    if evaluation.narrowed:
        worst = min(evaluation.narrowed, key=lambda narrowing: narrowing.right)
        wrong = sum(narrowing.wrong * narrowing.runs for narrowing in evaluation.narrowed)
        runs = sum(narrowing.runs for narrowing in evaluation.narrowed)
        shares = f"{share(worst.right * worst.runs, worst.runs)}; {share(wrong, runs, 1)}"
        job = f"narrowing a range of {RANGE}, 2% and more: right; wrong"
        rows.append(Goal(job, "≥ 98%; ≤ 1%", shares))
    return rows


def of_costs(point_costs: Sequence[DetectionCost]) -> list[Goal]:
    together = {cost.case: cost.worker_ms + cost.database_ms for cost in point_costs}
    rows = []
    for case, condition in (
        (CostCase(10_000), "at 10,000 points, one series in a pass"),
        (CostCase(1000, series=MANY), f"at 1,000 points, {MANY} series in a pass"),
    ):
        if (now := together.get(case)) is not None:
            rows.append(Goal(f"CPU of detection per new point, {condition}", "≤ 10 ms", f"{number(now, 1)} ms"))
    single, many = together.get(CostCase(10_000)), together.get(CostCase(10_000, branches=20))
    if single and many:
        job = "of 20 branches that share their history, in those of one branch"
        rows.append(Goal(job, "≤ 2", number(many / single, 1)))
    return rows
