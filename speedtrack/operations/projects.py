"""What owners and maintainers change of a project: tracking, branches, its webhook and the calls of it, policies."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User

from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.operations.performing import Actor, BadInput, Done, Ended, operation
from speedtrack.projects import deliveries, hooks
from speedtrack.projects.mirrors.credentials import remove_credential, store_credential
from speedtrack.projects.models import Credential, Project
from speedtrack.runs.requests import changing, firstlook, rules, tracking
from speedtrack.runs.requests.rules import Saved, WantedPolicy
from speedtrack.runs.requests.tracking import Tracked, TrackingRequest

FIRST_COMMITS = 10  # that are queued of a branch that is tracked anew


@operation("project.track", is_atomic=False)
def track(actor: Actor, request: TrackingRequest, fetches: bool = False) -> Done:
    """Track a repository, whose history is fetched later. Whoever asks becomes its owner; of a command, nobody does.

    ``fetches``: its history is fetched now, which may take minutes; the row is a Tracked then. Of a dry run the newest
    commits are looked at. Raises RepositoryError, DefinitionError and Taken.
    """
    if actor.dry_run:
        return Done(firstlook.begin_as_fetched(request), request.url)
    row = tracking.track(request) if fetches else changing.begin_tracking(request, actor.user)
    project = row.project if isinstance(row, Tracked) else row
    return Done(f"{project} is tracked", project, {"repository": (None, project.url)}, row)


@operation("project.untrack")
def untrack(actor: Actor, project: Project) -> Done:
    """Look at a repository no more. Raises Ended."""
    if project.untracked_at:
        raise Ended(f"{project} is not tracked already")
    cancelled = changing.untrack(project)
    undone = "“Track again” in its settings undoes it"
    return Done(f"{project} is no longer tracked; {cancelled} waiting runs cancelled. {undone}", project)


@operation("project.track-again")
def track_again(actor: Actor, project: Project) -> Done:
    """Undo ``untrack``."""
    changing.track_again(project)
    return Done(f"{project.name} is tracked again. Its webhook has a new address and needs a new secret", project)


@operation("project.add-branch", is_atomic=False)
def add_branch(actor: Actor, project: Project, name: str) -> Done:
    """Track a branch. Raises RepositoryError and BadInput."""
    if not name:
        raise BadInput("name a branch", "branch")
    branch = changing.add_branch(project, name, FIRST_COMMITS)
    sentence = f"branch {branch} is tracked: it is fetched within seconds. “Stop” in its row undoes it"
    return Done(sentence, branch)


@operation("project.drop-branch")
def drop_branch(actor: Actor, project: Project, name: str) -> Done:
    """Measure new commits of a branch no more. Raises RepositoryError and BadInput."""
    branch = project.branches.filter(name=name).first()
    if branch is None:
        raise BadInput(f"{project} has no branch {name!r}", "branch")
    changing.drop_branch(branch)
    sentence = f"new commits of {branch} are no longer measured; its history stays. “Track” in its row undoes it"
    return Done(sentence, branch)


@operation("project.change", is_atomic=False)
def change(actor: Actor, project: Project, values: Mapping[str, Any], unrelated: bool = False) -> Done:
    """Change settings. ``unrelated``: a new address may have another history. Raises RepositoryError."""
    changes = changing.change(project, values, unrelated)
    former_values = ", ".join(
        f"{name.replace('_', ' ')} was {before or 'empty'}" for name, (before, _) in changes.items()
    )
    sentence = f"saved: {former_values}" if changes else "nothing was changed"
    return Done(sentence, project, changes, is_change=bool(changes))


@operation("project.keep-address")
def keep_address(actor: Actor, project: Project) -> Done:
    """Ignore that the forge has another name for the repository."""
    Project.objects.filter(pk=project.pk).update(renamed_to="")
    return Done(f"{project.name} keeps its address {project.url}", project)


@operation("project.follow-branch", is_atomic=False)
def follow_branch(actor: Actor, project: Project) -> Done:
    """Make the branch that goes on from a default branch that is gone the default one. Raises as ``add_branch``."""
    former, name = project.default_branch, project.successor
    if not name:
        raise Ended(f"no branch is known that goes on from {former}: choose another default branch in the settings")
    if not project.branches.filter(name=name, tracked=True).exists():
        changing.add_branch(project, name, FIRST_COMMITS)
    changing.change(project, {"default_branch": name})
    sentence = f"branch {name} is followed now, as {former} was: it is fetched within seconds"
    return Done(sentence, project, {"default_branch": (former, name)})


@operation("project.visibility")
def show_to(actor: Actor, project: Project, everybody: bool) -> Done:
    """Make a project public or private."""
    is_change, state = members.show_to(project, everybody), "public" if everybody else "private"
    readers = "" if everybody else f": its {project.memberships.count()} members and the operators see it"
    sentence = f"{project} is {state} now{readers}" if is_change else f"{project} is {state} already"
    return Done(sentence, project, {"is_public": (not everybody, everybody)}, is_change=is_change)


@operation("member.change")
def change_member(actor: Actor, project: Project, user: User, role: Role) -> Done:
    """Give a member another role. Raises members.MembershipRefused."""
    before, after = members.give_role(project, user, role)
    return Done(f"{user} is {after} of {project} now", user, {"role": (before, after)})


@operation("member.add")
def add_member(actor: Actor, project: Project, user: User, role: Role) -> Done:
    """Make somebody a member. Raises members.MembershipRefused."""
    before, after = members.give_role(project, user, role)
    return Done(f"{user} is {after} of {project}", user, {"role": (before, after)})


@operation("member.remove")
def remove_member(actor: Actor, project: Project, user: User) -> Done:
    """End a membership. Raises members.MembershipRefused."""
    before = members.remove(project, user)
    return Done(f"{user} is no member of {project} any more", user, {"role": (before, None)})


@operation("credential.store")
def keep_credential(actor: Actor, project: Project, credential: Credential) -> Done:
    """Store the credential by which a repository is read."""
    store_credential(project, credential)
    sentence = f"kept: {credential}. It is sent to that server only, and shown to nobody"
    return Done(sentence, project, {"kind": (None, credential.kind)})


@operation("credential.remove")
def forget_credential(actor: Actor, project: Project) -> Done:
    """Delete the credential by which a repository is read."""
    remove_credential(project)
    return Done("the credential is forgotten: the repository is read as a public one", project)


@operation("hook.rotate")
def rotate_secret(actor: Actor, project: Project, days: int = hooks.FORMER_DAYS, given: str = "") -> Done:
    """Give a webhook a new secret. ``days``: the former one stays valid. ``given``: the forge has made it.

    Raises UnfitSecret and KeyLost.
    """
    secret = hooks.rotate(project, days, given)
    former = f"valid for {days} day{'s' * (days != 1)}" if days else "refused"
    sentence = f"{project} has a new secret; the former one is {former}"
    return Done(sentence, project, {"days": (None, days)}, secret="" if given else secret)


@operation("hook.end")
def end_former_secret(actor: Actor, project: Project) -> Done:
    """Refuse the former secret of a webhook."""
    if hooks.end_former(project):
        return Done(f"calls that are signed with the former secret of {project} are refused", project)
    return Done(f"{project} has no former secret", project, is_change=False)


@operation("delivery.replay")
def replay(actor: Actor, project: Project, numbers: Sequence[int]) -> Done:
    """Take calls of a webhook as if they had just arrived. Raises deliveries.DeliveryConflict."""
    if not numbers:
        raise BadInput("name one delivery or more", "deliveries")
    count = deliveries.replay(project, deliveries.calls_numbered(project, numbers))
    sentence = (
        f"{count} deliver{'y is' if count == 1 else 'ies are'} replayed: the repository is looked at within seconds"
    )
    return Done(sentence, ", ".join(map(str, numbers)))


@operation("delivery.purge")
def purge(actor: Actor, project: Project, older_than_days: int, status: str = "") -> Done:
    """Delete old calls of a webhook. ``status``: only these. Raises deliveries.DeliveryConflict."""
    deleted = deliveries.purge(project, older_than_days, status)
    return Done(f"{deleted} are deleted", f"older than {older_than_days} days", {"deleted": (None, deleted)})


@operation("policy.save")
def save_policy(actor: Actor, project: Project, policy: WantedPolicy) -> Done:
    """Make or replace the planning policy of a pattern of branches. Raises BadPolicy and DefinitionError."""
    return done_of(rules.save_policy(project, policy), policy.branches)


@operation("policy.remove")
def remove_policy(actor: Actor, project: Project, branches: str) -> Done:
    """Remove the planning policy of a pattern of branches. Raises BadPolicy."""
    return done_of(rules.remove_policy(project, branches), branches)


def done_of(saved: Saved, branches: str) -> Done:
    return Done(str(saved), f"policy of {branches or 'all other branches'}", {"rules": (None, ", ".join(saved.words))})
