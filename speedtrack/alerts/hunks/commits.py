"""The commits that lack some hunks of another one: made in the mirror, kept while they are of use."""

from collections.abc import Sequence
from datetime import timedelta

from django.db.models.functions import Now

from speedtrack.alerts.models import HunkStep, HunkTrial
from speedtrack.projects.mirrors import hunks
from speedtrack.projects.mirrors.hunks import Hunk
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.sync import store_commits

KEPT_FOR = timedelta(days=90)  # after the end of their trial; what was measured of them stays


def commit_without(trial: HunkTrial, pieces: Sequence[Hunk]) -> Commit:
    """The commit of a trial without these pieces. Raises RepositoryError.

    It is kept at once: if the caller's transaction is rolled back, ``forget_commits`` finds that no step needs it.
    """
    slug = trial.project.slug
    sha = hunks.commit_without(slug, trial.commit.sha, pieces)
    hunks.keep(slug, sha)
    return store_commits(trial.project, [sha])[sha]


def forget_commits(project: Project) -> None:
    """Let git delete the commits of trials that ended before KEPT_FOR."""
    if shas := hunks.kept(project.slug):
        steps = HunkStep.objects.filter(trial__project=project, commit__sha__in=shas)
        needed = steps.exclude(trial__ended_at__lt=Now() - KEPT_FOR)
        hunks.forget(project.slug, shas - set(needed.values_list("commit__sha", flat=True)))
