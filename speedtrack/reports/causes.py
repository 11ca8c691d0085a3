"""The evidence about the changes of an alert: pairs, functions, lines and hunks, and the effect on the whole suite."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field

from speedtrack.alerts.hunks.findings import HunkState
from speedtrack.alerts.models import Verdict
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.instructions import Work
from speedtrack.projects.mirrors.hunks import Kind
from speedtrack.reports.changes import ChangePointDocument
from speedtrack.reports.common import Document, From, Text


class FunctionCostDocument(Document):
    """A function of the server: its own instructions per request, without those of what it calls."""

    name: Text
    before: float
    after: float


class FunctionTableDocument(Document):
    """Which functions cost more or less under a benchmark, the largest difference first."""

    benchmark: Text
    inside: Text = Field(description="the function inside of which instructions were counted")
    before: float = Field(description="instructions per request in all")
    after: float
    functions: Annotated[
        list[FunctionCostDocument], From(lambda table: list(map(FunctionCostDocument.of, table.functions)))
    ]


class SettledChangeDocument(ChangePointDocument):
    """A change of an alert, with the pairs that settled it."""

    pairs: int | None = Field(description="of both ends of the range; null: none have shown the change")
    p: float | None = Field(description="the reciprocal of the evidence of these pairs")
    instructions: Text = Field(description="what the instructions of its benchmark did, in words")

    @property
    def change_in_words(self) -> str:
        return numbers.change_from(METRICS[self.metric], self.ratio or 1.0, self.from_zero)

    @property
    def interval_in_words(self) -> str:
        return numbers.interval_from(self.ratio or 1.0, self.low or 1.0, self.high or 1.0, self.from_zero)


class WholeEffectDocument(Document):
    """What a commit did to every benchmark of its suite, by pairs with the commit before it, without history."""

    run: Annotated[int, From("run.pk")]
    status: Annotated[str, From("run.status")]
    metric: Annotated[str, From("metric.name")]
    ratio: Annotated[float | None, From("total.mean.ratio")] = Field(
        description="the geometric mean of after / before; null until it is measured"
    )
    low: Annotated[float | None, From("total.mean.low")] = Field(description="lower end of its 95% interval")
    high: Annotated[float | None, From("total.mean.high")]
    benchmarks: Annotated[int | None, From("total.benchmarks")] = Field(description="how many the mean rests on")
    words: Text


class FunctionCostUnder(FunctionCostDocument):
    """The same under one benchmark."""

    name: Annotated[Text, From("function.name")]
    before: Annotated[float, From("function.before")]
    after: Annotated[float, From("function.after")]
    benchmark: Text


class ShownHunkDocument(Document):
    """A hunk of the commit that touches functions whose count changed, or that a trial named."""

    path: Annotated[Text, From("hunk.path")]
    kind: Annotated[str, From("hunk.kind")] = Field(description=f"`{'`, `'.join(Kind)}`")
    number: Annotated[int, From("hunk.number")] = Field(description="which piece of its file it is, from 1")
    line: Annotated[int, From("hunk.line")] = Field(description="where it begins in the commit's file; 0: no hunk")
    lines: Annotated[int, From("hunk.lines")]
    before_line: Annotated[int, From("hunk.before_line")] = Field(description="the same in the file before")
    before_lines: Annotated[int, From("hunk.before_lines")]
    functions: Annotated[list[FunctionCostUnder], From(lambda shown: list(map(FunctionCostUnder.of, shown.costs)))]
    is_named: bool = Field(description="taking hunks back showed that it is part of the cause")


class LinesDocument(Document):
    """The lines that did it, as far as the evidence goes."""

    why_not: Text = Field(description="why no hunks are listed; else empty")
    sentence: Text = Field(description="how many of its hunks touch functions whose count changed; empty: not known")
    hunks: Annotated[list[ShownHunkDocument], From(lambda lines: list(map(ShownHunkDocument.of, lines.hunks)))] = Field(
        description="the named ones first, then by the largest change of a function"
    )
    left_out: Annotated[int, From("commit.left_out")] = Field(description="how many more there are")
    further: Annotated[int, From("commit.further_count")] = Field(description="how many touch no changed function")


class TriedHunkDocument(Document):
    """A hunk of the named commit, or another change that it makes to a file as a whole."""

    path: Text
    kind: str = Field(description=f"`{'`, `'.join(Kind)}`")
    number: int = Field(description="which piece of its file it is, from 1")
    count: int = Field(description="of how many")
    line: int = Field(description="where it begins in the commit's file; 0: it is no hunk")
    before_line: int = Field(description="where it begins in the file before")
    header: Text = Field(description="the line of code that git names beside it, usually the function's")
    name: Text = Field(description="in words, such as `the second hunk of zmalloc.c`")
    text: Text = Field(description="of a named hunk: the beginning of its lines")
    instructions: float | None = Field(description="per request, that it adds by itself; null: not counted")
    refusal: Text = Field(description="why the commit could not be counted without it")


class HunkFindingDocument(Document):
    """Which hunks of the named commit changed the instructions of a benchmark, by taking them back and counting."""

    benchmark: Text
    state: str = Field(description=f"`{'`, `'.join(HunkState)}`")
    sentence: Text
    growth: float | None = Field(description="instructions per request that the whole commit adds")
    explained: float | None = Field(description="those that the named hunks add together")
    pieces: int = Field(description="how many hunks the commit has")
    builds: int
    budget: int = Field(description="builds, at most")
    hunks: list[TriedHunkDocument] = Field(description="the named ones, in the order of the diff")
    others: list[TriedHunkDocument] = Field(description="those that were also counted by themselves, or refused")

    @classmethod
    def of(cls, row: Any, **given: Any) -> Self:
        lists = {name: list(map(TriedHunkDocument.of, getattr(row, name))) for name in ("hunks", "others")}
        return super().of(row, **lists, **given)


def settled_changes(works: Sequence[Work], verdicts: Mapping[int, Verdict]) -> list[SettledChangeDocument]:
    evidence = {pk: {"pairs": verdict.pairs, "p": verdict.p} for pk, verdict in verdicts.items()}
    unsettled = {"pairs": None, "p": None}
    return [
        SettledChangeDocument.of(work.change, instructions=work.words, **evidence.get(work.change.pk, unsettled))
        for work in works
    ]
