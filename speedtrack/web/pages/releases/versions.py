"""The releases of a project in the order of their versions, and which of them tables show."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db import connection
from django.http import Http404

from speedtrack.alerts.lines.lines import sql
from speedtrack.ground.postgres.pgvalues import array_text
from speedtrack.ground.postgres.plainrows import plain_rows
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.releases import Version, version_of
from speedtrack.runs.models import Machine

MOST_RELEASES = 200
MOST_COMPARED = 1200  # comparisons of a page: with many benchmarks it has fewer releases
MOST_COUNTED = MOST_COMPARED // 2  # benchmarks: totals of more are made if asked for, as one release exceeds the above

# Of each commit: was it measured, and if not, which run of it failed last? "+ 0": by the index of the commit, in which
# one of the first rows answers; by series, those that have ended would all be looked into.
OUTCOMES = sql("""
    SELECT c.id,
           EXISTS (SELECT FROM runs_measurement m
                    WHERE m.commit_id = c.id AND m.series_id + 0 = ANY (%(series)s::int[]) AND IS_POINT OFFSET 0),
           failed.id, failed.error
      FROM unnest(%(commits)s::int[]) AS c (id)
 LEFT JOIN LATERAL (
        SELECT r.id, r.error FROM runs_run r
         WHERE r.commit_id = c.id AND r.machine_id = %(machine)s AND r.status = 'failed'
      ORDER BY r.id DESC LIMIT 1) failed ON true
""")


@dataclass(frozen=True)
class Release:
    """A release that was measured or failed. ``failure``: why it has no numbers; ``run_id``: the run that failed."""

    tag: str
    version: Version
    commit: Commit
    failure: str = ""
    run_id: int | None = None


@dataclass(frozen=True)
class Stretch:
    """The releases that tables show, of all ``releases``: those from place ``begin`` up to ``end``."""

    releases: Sequence[Release]
    begin: int
    end: int

    @property
    def shown(self) -> Sequence[Release]:
        return self.releases[self.begin : self.end]

    @cached_property
    def commits(self) -> list[int]:
        """The ids of the commits of all releases."""
        return [release.commit.pk for release in self.releases]

    @property
    def is_whole(self) -> bool:
        return len(self.shown) == len(self.releases)

    @property
    def older(self) -> str:
        """The release before which the next older ones end; empty without older ones."""
        return self.releases[self.begin].tag if self.begin else ""

    @property
    def has_newer(self) -> bool:
        return self.end < len(self.releases)


def whole_of(releases: Sequence[Release]) -> Stretch:
    return Stretch(releases, 0, len(releases))


def stretch_of(releases: Sequence[Release], before: str, benchmarks: int) -> Stretch:
    """The newest releases, or those before one, as many as a page may compare. Raises Http404 if there are none."""
    tags = [release.tag for release in releases]
    if before and before not in tags[1:]:
        raise Http404(f"There is no release before {before!r} here.")
    end = tags.index(before) if before else len(tags)
    return Stretch(releases, max(0, end - max(1, MOST_COMPARED // 2 // max(1, benchmarks))), end)


def tagged_commits(project: Project) -> list[tuple[Version, str, Commit]]:
    """The newest releases, lowest version first, one per commit, of which only hash and time are read."""
    shas = {sha: name for name, sha in project.tags.values_list("name", "sha") if version_of(name)}
    commits = plain_rows(Commit.objects.filter(project=project, sha__in=shas), ("sha", "committed_at"))
    releases = [(version_of(shas[commit.sha]) or (), shas[commit.sha], commit) for commit in commits]
    return sorted(releases, key=lambda row: row[:2])[-MOST_RELEASES:]


def with_outcomes(
    tags: list[tuple[Version, str, Commit]], machine: Machine | None, series: Sequence[int]
) -> list[Release]:
    """The releases that these series measured, and those whose last run failed.

    Releases without runs are left out.
    """
    commits = [commit.pk for *_, commit in tags]
    parameters = {
        "series": array_text(series),
        "commits": array_text(commits),
        "machine": machine.pk if machine else None,
    }
    with connection.cursor() as cursor:
        cursor.execute(OUTCOMES, parameters)
        outcomes = {pk: outcome for pk, *outcome in cursor}
    releases = []
    for version, tag, commit in tags:
        is_measured, run_id, error = outcomes[commit.pk]
        if is_measured:
            releases.append(Release(tag, version, commit))
        elif run_id:
            releases.append(Release(tag, version, commit, error.partition("\n")[0] or "failed", run_id))
    return releases
