"""Results that were measured elsewhere."""

from collections.abc import Sequence

from speedtrack.operations.performing import Actor, Done, operation
from speedtrack.outside import taking
from speedtrack.outside.taking import Prepared
from speedtrack.projects.models import Project


@operation("results.import")
def take(actor: Actor, project: Project, batches: Sequence[Prepared], all_or_nothing: bool = False) -> Done:
    """Store the valid results of batches; the row has a report of each. ``all_or_nothing``: of each batch."""
    reports = [taking.store(batch, all_or_nothing) for batch in batches]
    count = sum(report.taken for report in reports)
    sources = ", ".join(dict.fromkeys(batch.sender.source for batch in batches if batch.sender.source))
    target = f"{count} results{' of ' * bool(sources)}{sources}"
    return Done(f"{target} are stored", target, row=reports, is_change=count > 0)
