"""Find the commit that a name means.

A branch stands for its head, a tag for its commit, hexadecimal digits for an id.
"""

import re

from django.http import Http404

from speedtrack.api.v1.serving.refusals import Invalid
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag

HASH = re.compile(r"[0-9a-f]{6,64}")
WHOLE = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
LONGEST = 250


def commit_named(project: Project, name: str) -> Commit:
    """The commit that a name means. Raises Http404.

    A whole commit id means that commit, also where a branch or a tag is called so.
    """
    if WHOLE.fullmatch(name.lower()):
        return commit_beginning(project, name.lower())
    if len(name) <= LONGEST:
        branch = Branch.objects.filter(project=project, name=name).select_related("head").first()
        if branch and branch.head:
            return branch.head
        tagged = Tag.objects.filter(project=project, name=name).values("sha")
        if commit := Commit.objects.filter(project=project, sha__in=tagged).first():
            return commit
        if HASH.fullmatch(name.lower()):
            return commit_beginning(project, name.lower())
    raise Http404(f"{project.slug} has no branch, tag or commit {name[:100]!r}.")


def commit_beginning(project: Project, digits: str) -> Commit:
    commits = list(Commit.objects.filter(project=project, sha__gte=digits, sha__lt=f"{digits}g").order_by("sha")[:2])
    if len(commits) == 1 or (commits and commits[0].sha == digits):
        return commits[0]
    if commits:
        raise Http404(f"Several commits of {project.slug} begin with {digits}: give more digits.")
    raise Http404(f"{project.slug} has no commit {digits}.")


def commit_given(project: Project, name: str, *, field: str = "", parameter: str = "") -> Commit:
    """The commit that a field or parameter names. Raises Invalid."""
    try:
        return commit_named(project, name)
    except Http404 as e:
        raise Invalid(str(e).rstrip("."), field=field, parameter=parameter) from None


def branch_given(project: Project, name: str | None) -> Branch:
    """The branch of this name, or the default one. Raises Invalid."""
    branch: Branch | None = Branch.objects.filter(project=project, name=name or project.default_branch).first()
    if branch is None:
        raise Invalid(f"{project.slug} has no branch {(name or project.default_branch)[:100]!r}", parameter="branch")
    return branch


def position_given(branch: Branch, project: Project, name: str, parameter: str) -> int:
    """The position on a branch of the commit that a parameter names. Raises Invalid."""
    commit = commit_given(project, name, parameter=parameter)
    number = Position.objects.filter(branch=branch, commit=commit).values_list("number", flat=True).first()
    if number is None:
        raise Invalid(f"{commit.short} is not on {branch.name}", parameter=parameter)
    return int(number)
