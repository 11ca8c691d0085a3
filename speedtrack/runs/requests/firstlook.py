"""Say what tracking a repository would do, for dry runs. Only its newest commits are fetched, not the whole history."""

from speedtrack.projects import chains
from speedtrack.projects.mirrors import fetching
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.projects.sync import project_lock
from speedtrack.runs.planning import choosing, ladders
from speedtrack.runs.requests import changing, tracking
from speedtrack.runs.requests.outlook import Outlook, outlook
from speedtrack.runs.requests.tracking import TrackingRequest


def begin_as_fetched(request: TrackingRequest) -> str:
    """Begin to track a repository, and queue what the first look at it will queue. Return it in words.

    Only for dry runs, which are rolled back: of the history only the newest commits are stored. Raises as
    ``changing.begin_tracking``, and RepositoryError if the commits do not come within ANSWER_S.
    """
    count = changing.first_commits(request)
    branch = branch_as_fetched(request, count, changing.ANSWER_S)
    return words_of(branch, choosing.plan_newest(branch, count) + ladders.plan_ladders(branch.project))


def would_track(request: TrackingRequest) -> Outlook:
    """What ``tracking.track`` would do. Raises as it does.

    Of a repository that is tracked already, what is fetched stays in the mirror.
    """
    project = Project.objects.filter(slug=tracking.slug_of(request)).first()
    if project is None:
        return outlook(lambda: track_as_fetched(request))
    # Before a row is locked: a look of another process holds this lock while it waits for the row.
    with project_lock(project, wait=True):
        return outlook(lambda: track_again(request))


def track_as_fetched(request: TrackingRequest) -> str:
    """Track a repository, of whose history only the newest commits are stored. Return it in words."""
    branch = branch_as_fetched(request, request.last)
    return words_of(branch, choosing.plan_newest(branch, request.last))


def track_again(request: TrackingRequest) -> str:
    tracked = tracking.track(request)
    return words_of(tracked.branch, tracked.queued)


def branch_as_fetched(request: TrackingRequest, count: int, within_s: float | None = None) -> Branch:
    """The only branch of a new project, with so many of its newest commits."""
    remote, name = changing.checked(request)
    newest = fetching.newest_commits(remote, name, count, within_s)
    project = changing.make_project(request, remote, name)
    commits = Commit.objects.bulk_create([Commit(project=project, **vars(fetched_commit)) for fetched_commit in newest])
    branch = project.branches.get()
    chains.append_commits(branch, commits)
    return branch


def words_of(branch: Branch, run_count: int) -> str:
    project = branch.project
    lack = "" if project.machines.exists() else ": there is no machine yet"
    runs = f"{run_count} run{'s' * (run_count != 1)} queued{lack}"
    return f"{project.slug}: {branch} of {project.url} is tracked with suite {project.suite}; {runs}"
