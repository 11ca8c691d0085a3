"""Which planning policy applies to a branch, and how it judges a commit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from django.db.models import Q
from pathspec import GitIgnoreSpec

from speedtrack.ground.texts.text import listed
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.fleet import pools
from speedtrack.runs.models import Deferral, Machine, PlanningPolicy

Why = Deferral.Why
#: No sensible pattern of paths that cannot matter matches them all.
ANY_PATHS = ("w", "q7/zq/w.xyz", "Makefile", "src/a.c", "k9/b.h", "lib/z/y.rs")
NAMED_PATHS = 2  # in the reason of a deferral


class BadPolicy(ValueError):
    """A planning policy that a person entered is not possible; the message says why, and what is possible."""


@dataclass(frozen=True)
class SeenCommit:
    """The facts by which a policy judges a commit. ``paths``: those that it changes; None: not needed, or unknown."""

    number: int
    is_tagged: bool = False
    paths: Sequence[str] | None = None


def policy_of(branch: Branch) -> PlanningPolicy:
    """The policy of a branch: the one with the longest matching pattern, otherwise the project's own."""
    return best_of(list(branch.project.policies.all()), branch)


def best_of(policies: Iterable[PlanningPolicy], branch: Branch) -> PlanningPolicy:
    fitting = [policy for policy in policies if not policy.branches or fnmatchcase(branch.name, policy.branches)]
    return max(
        fitting,
        key=lambda policy: (len(policy.branches), policy.branches),
        default=PlanningPolicy(project=branch.project),
    )


def policy_of_range(project: Project, expression: str, newest: str) -> PlanningPolicy:
    """The policy for a range of commits that a person names; ``newest`` is the id of its newest commit.

    That is the policy of the branch named in the range, otherwise of a tracked branch that contains the newest commit
    (the default branch first), otherwise the project's own.
    """
    ref = expression.rpartition("..")[2]
    tracked = project.branches.filter(tracked=True, deleted_at=None).select_related("project")
    candidates = tracked.filter(Q(name=ref) | Q(positions__commit__sha=newest)).distinct()
    best = min(
        candidates,
        key=lambda branch: (branch.name != ref, branch.name != project.default_branch, branch.pk),
        default=None,
    )
    if best:
        return policy_of(best)
    return own_policy(project)


def own_policy(project: Project) -> PlanningPolicy:
    """The project's own policy: for branches that no pattern matches, and for commits on no branch."""
    return project.policies.filter(branches="").first() or PlanningPolicy(project=project)


def branches_of(policy: PlanningPolicy) -> list[Branch]:
    """The tracked branches that a stored policy applies to."""
    branches = policy.project.branches.filter(tracked=True, deleted_at=None).select_related("project").order_by("pk")
    among = list(policy.project.policies.all())
    return [branch for branch in branches if best_of(among, branch) == policy]


def machines_of(policy: PlanningPolicy) -> list[Machine]:
    """The machines that measure by a policy: those that it names, otherwise those of the project."""
    project: Project = policy.project
    if policy.pk and policy.machines.exists():
        return list(project.machines.filter(pk__in=policy.machines.values("pk")).order_by("pk"))
    return pools.machines_for(project)


def suite_of(policy: PlanningPolicy) -> str:
    """The name of the suite that a policy measures with."""
    return policy.suite or policy.project.suite


def judge(policy: PlanningPolicy, commits: Mapping[int, SeenCommit]) -> dict[int, tuple[Why, str]]:
    """The commits that the policy does not measure now: commit id -> (kind of reason, details).

    Tagged commits are always measured.
    """
    spec = GitIgnoreSpec.from_lines(policy.patterns) if policy.patterns else None
    reasons: dict[int, tuple[Why, str]] = {}
    for pk, commit in commits.items():
        if commit.is_tagged:
            continue
        if spec and commit.paths and all(map(spec.match_file, commit.paths)):
            reasons[pk] = (Why.PATHS, paths_reason(commit.paths))
        elif commit.number % policy.every:
            reasons[pk] = step_reason(policy)
    return reasons


def paths_reason(paths: Sequence[str]) -> str:
    return f"it changes only paths that cannot matter: {listed(paths, NAMED_PATHS)}"[:300]


def step_reason(policy: PlanningPolicy) -> tuple[Why, str]:
    rule = f"one commit in {policy.every} of {policy.branches or 'its branch'} is measured"
    if policy.fills_gaps:
        return Why.GAP, f"{rule}; the others wait for an idle machine"
    return Why.STEP, rule


def check_patterns(lines: Iterable[str]) -> None:
    """Raise BadPolicy for a pattern that git does not know, or patterns that skip every commit."""
    patterns = [line for line in map(str.strip, lines) if line]
    if any("\0" in line or len(line) > 300 for line in patterns) or len(patterns) > 100:
        raise BadPolicy("give at most 100 patterns of at most 300 characters, such as docs/** or *.md")
    try:
        spec = GitIgnoreSpec.from_lines(patterns)
    except ValueError as e:
        raise BadPolicy(f"these are no patterns as in .gitignore: {str(e)[:200]}") from e
    if patterns and all(map(spec.match_file, ANY_PATHS)):
        raise BadPolicy("these patterns match every path, so no commit would be measured: name folders such as docs/**")
