"""Why a commit raised no alert: the test of one point of a line, with what it needed and what it saw."""

import math
from collections.abc import Mapping, Sequence

from pydantic import Field

from speedtrack.alerts.lines.trials import TrialPoint
from speedtrack.alerts.triage import reasons
from speedtrack.alerts.triage.reasons import PlaceEvidence
from speedtrack.benchmarks import numbers
from speedtrack.projects.models import Branch, Commit
from speedtrack.reports.common import Document, Text
from speedtrack.runs.models import Series
from speedtrack.stats.changes.explain import WindowEvidence


class StretchDocument(Document):
    """Measured commits that make one level."""

    first: str = Field(description="a commit id")
    last: str
    commits: int = Field(description="how many of them were measured")
    level: float = Field(description="in the metric's unit")


class WhyDocument(Document):
    """The test of a possible change at a commit of a series, by the rule of detection."""

    SCHEMA = "speedtrack.why/1"

    project: str
    benchmark: Text
    metric: str
    machine: str
    branch: Text
    sha: str = Field(description="the commit that is judged: the one that was asked for, or the next measured one")
    is_suspicious: bool
    summary: Text = Field(description="what the change had to exceed, and what it is, in one sentence")
    judgement: Text = Field(description="the same with all numbers, as a sentence")
    steps: list[Text] = Field(description="what followed a suspicion, in order")
    before: StretchDocument | None = Field(description="the old level; null: there is nothing to compare with")
    after: StretchDocument | None
    low: float | None = Field(description="a new level from here to `high` raises no suspicion; null: no level does")
    high: float | None
    base: str | None = Field(description="pairs of this commit and of `sha` decide; null: nothing was measured before")


def why_document(series: Sequence[Series], branch: Branch, number: int) -> WhyDocument | None:
    """The document of a position on a branch, by the newest of these series that measured it. None if none did."""
    candidates = reasons.places_at(series, branch, number)
    if not candidates:
        return None
    nearest = next((nearest for nearest in reversed(candidates) if nearest.position == number), candidates[-1])
    evidence = reasons.evidence_at(nearest, branch)
    ends = [*evidence.before[:1], *evidence.before[-1:], *evidence.after[-1:], evidence.points[evidence.index]]
    shas = dict(Commit.objects.filter(pk__in={point.commit_id for point in ends}).values_list("pk", "sha"))
    return document_of(evidence, branch, shas)


def document_of(evidence: PlaceEvidence, branch: Branch, shas: Mapping[int, str]) -> WhyDocument:
    series, reason, why = evidence.series, evidence.reason, reasons.why_of(evidence)
    return WhyDocument(
        project=branch.project.slug,
        benchmark=series.benchmark.name,
        metric=series.metric,
        machine=series.machine.name,
        branch=branch.name,
        sha=shas[evidence.points[evidence.index].commit_id],
        is_suspicious=why.suspicious,
        summary=summary_of(reason, why.suspicious) if reason else f"{why.judgement[:1].upper()}{why.judgement[1:]}",
        judgement=why.judgement,
        steps=why.steps,
        before=stretch(evidence.before, reason.old, shas) if reason else None,
        after=stretch(evidence.after, reason.new, shas) if reason else None,
        low=finite(reason.low) if reason else None,
        high=finite(reason.high) if reason else None,
        base=shas[evidence.before[-1].commit_id] if evidence.before else None,
    )


def stretch(points: Sequence[TrialPoint], level: float, shas: Mapping[int, str]) -> StretchDocument:
    first, last = shas[points[0].commit_id], shas[points[-1].commit_id]
    return StretchDocument(first=first, last=last, commits=len(points), level=level)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def summary_of(reason: WindowEvidence, is_suspicious: bool) -> str:
    """Such as ``Not suspected: needs 15%, saw +9.0%``."""
    needs = f"needs {numbers.change_seen(reason.limit)}" if math.isfinite(reason.limit) else "needs more history"
    sentence = f"{'Suspected' if is_suspicious else 'Not suspected'}: {needs}, saw {numbers.change(reason.ratio)}"
    if is_suspicious or reason.score <= 1:
        return sentence
    return f"{sentence}, but {reason.agreement:.0%} of the pairs of points agree and {reason.wanted:.0%} must"
