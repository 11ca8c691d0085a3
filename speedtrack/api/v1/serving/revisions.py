"""Find the commit that a name means.

A tag stands for its commit, a branch for its head, hexadecimal digits for an id.
"""

from django.http import Http404

from speedtrack.api.v1.serving.refusals import Invalid
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag, sha_begins
from speedtrack.reports.readings.sides import HASH, LONGEST_NAME, WHOLE


def commit_named(project: Project, name: str) -> Commit:
    """The commit that a name means. Raises Http404.

    A whole commit id means that commit, also where a branch or a tag is called so; a tag comes before a branch.
    """
    digits = name.lower() if HASH.fullmatch(name.lower()) else ""
    if len(digits) >= WHOLE:
        return commit_beginning(project, digits)
    if len(name) <= LONGEST_NAME:
        tagged = Tag.objects.filter(project=project, name=name).values("sha")
        if commit := Commit.objects.filter(project=project, sha__in=tagged).first():
            return commit
        branch = Branch.objects.filter(project=project, name=name).select_related("head").first()
        if branch and branch.head:
            return branch.head
        if digits:
            return commit_beginning(project, digits)
    raise Http404(f"{project.slug} has no branch, tag or commit {name[:100]!r}.")


def commit_beginning(project: Project, digits: str) -> Commit:
    commits = list(Commit.objects.filter(sha_begins(digits), project=project).order_by("sha")[:2])
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
