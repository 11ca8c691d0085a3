"""Figures with their intervals, as the cells of tables show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from scipy.stats import binomtest

from research.detection_eval.lines import datasets
from research.detection_eval.scores import Score

STEPS = {datasets.SYNTHETIC: datasets.SYNTHETIC_NONE, datasets.REAL: datasets.REAL_NONE}  # and the same without steps


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


def cell(scores: Mapping[str, Score], name: str) -> str:
    if name not in scores:
        return "–"
    calm = scores.get(STEPS.get(name, ""))
    return f1(scores[name]) + (f" ({number(calm.false_rate)})" if calm else "")
