"""The targets of detection, and what the tracker reaches of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from research.detection_eval.cells import cell, number, per_thousand, percent, share, table
from research.detection_eval.detectors.beside import PeerScore
from research.detection_eval.detectors.cost import MANY, CostCase, DetectionCost
from research.detection_eval.detectors.settling import RANGE
from research.detection_eval.findings import EvaluationFindings
from research.detection_eval.lines import datasets
from research.detection_eval.scores import Score, sum_at_first


class Goal(NamedTuple):
    """A job, what is wanted, and what the tracker reaches."""

    job: str
    target: str
    now: str


def targets(evaluation: EvaluationFindings, scores: Mapping[str, Score]) -> str:
    """The results with their targets; a job that was not run is left out."""
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
