"""Whether a change of time can come from where code lies in memory alone: what pairs in random layouts say."""

from collections import Counter
from collections.abc import Mapping, Sequence

from django.db.models import Sum

from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs.sizes import settling_verdicts
from speedtrack.judging.instructions import Work, takes_time
from speedtrack.runs.models import MEASURED, Result, Side

MOST_BY_LAYOUT = 0.10  # twice what another order of functions alone did to Redis: larger changes are not of layout


def layout_sentences(
    works: Sequence[Work], settled: Mapping[int, Verdict] | None = None, are_measured: bool = True
) -> list[str]:
    """For the changes of time among these: which hold over random layouts, and which may be an effect of layout.

    Of the others, which are large or come with other instructions, nothing is said. ``settled``: their
    ``settling_verdicts``, if they were read. ``are_measured``: whether runs of them measured layouts.
    """
    timed = [work for work in works if takes_time(work.change)]
    changes = [work.change for work in timed]
    verdicts = settling_verdicts(changes) if settled is None else settled
    layouts = layouts_measured(changes, verdicts) if are_measured else Counter[int]()
    holding = {work.change.benchmark_name: layouts[work.change.pk] for work in timed if layouts[work.change.pk]}
    doubtful = {
        work.change.benchmark_name
        for work in timed
        if not layouts[work.change.pk] and not work.is_changed and abs(work.change.ratio - 1) < MOST_BY_LAYOUT
    }
    sentences = []
    if holding:
        sentences.append(f"Holds over {min(holding.values())} layouts of the program: {', '.join(sorted(holding))}")
    if doubtful:
        sentences.append(f"May be layout, as only one of each program was measured: {', '.join(sorted(doubtful))}")
    return sentences


def layouts_measured(changes: Sequence[ChangePoint], settled: Mapping[int, Verdict]) -> Counter[int]:
    """By id of each change: how many layouts of the commit its settling pairs measured; 0 without settling pairs."""
    verdicts = {cp.pk: settled[cp.pk] for cp in changes if cp.pk in settled}
    results = Result.objects.filter(
        attempt__run__change_points__in=verdicts, attempt__outcome__in=MEASURED, side=Side.HEAD, layouts__gt=0
    )
    run = "attempt__run__"
    columns = (f"{run}change_points", f"{run}base", f"{run}commit", "benchmark")
    benchmarks = {cp.pk: cp.series.benchmark_id for cp in changes}
    layouts = Counter[int]()
    for change, *where, measured in results.values_list(*columns).annotate(Sum("layouts")).order_by():
        verdict = verdicts.get(change)
        if verdict and where == [verdict.base_id, verdict.commit_id, benchmarks[change]]:
            layouts[change] += measured
    return layouts
