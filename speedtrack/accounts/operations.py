"""The catalogue of operations: each change has one name in the audit log, whether a page, the API or a command does it.

A name is a noun and a verb, such as ``mute.create``. With it stands the lowest role in the project that may do it, or
OPERATOR (of this installation), or SELF (the person whom it concerns); and, by its noun, the scope that a token needs.
``speedtrack.operations`` has the verbs.
"""

from typing import Any

from speedtrack.accounts import access
from speedtrack.accounts.access import Caller
from speedtrack.accounts.models import Role, Scope
from speedtrack.projects.models import Project

OPERATOR, SELF = "operator", "self"
TRIAGER, MAINTAINER, OWNER = Role.TRIAGER.value, Role.MAINTAINER.value, Role.OWNER.value
#: who may do it -> noun -> verbs
ALLOWED: dict[str, dict[str, str]] = {
    SELF: {
        "account": (
            "add connect disconnect email password password-reset recovery-codes remove second-step-on second-step-off"
        ),
        "invitation": "accept",
        "notification": "person remove subscription trial",
        "session": "end",
        "token": "add revoke",
    },
    TRIAGER: {
        "alert": "decide merge move split",
        "annotation": "change create delete",
        "comparison": "try",
        "mute": "create end",
    },
    MAINTAINER: {
        "bisection": "begin stop",
        "channel": "add change delete forget pause resume test",
        "comparison": "approve create",
        "credential": "remove store",
        "delivery": "purge replay",
        "hook": "end rotate",
        "metric": "change delete rename",
        "policy": "remove save",
        "project": "add-branch change drop-branch follow-branch keep-address",
        "pull": "approve",
        "results": "import",
        "run": "cancel profile queue raise retry",
    },
    OWNER: {
        "invitation": "make revoke",
        "member": "add change remove",
        "project": "track-again untrack visibility",
    },
    OPERATOR: {
        "account": "activate address deactivate operator owner-link",
        "alerts": "detect",
        "machine": ("add canary enroll-code freeze lift pause plan pool resume retire return revoke rotate token"),
        "outbox": "again",
        "project": "track",
        "retention": "prune",
        "secrets": "reseal",
        "suite": "return-to-file save",
    },
}
#: scope of a token -> nouns; all others need SETTINGS
SCOPES = {Scope.TRIAGE: "alert annotation mute", Scope.RUNS: "bisection comparison pull run", Scope.RESULTS: "results"}
#: name of an operation -> who may do it
OPERATIONS = {
    f"{noun}.{verb}": role for role, nouns in ALLOWED.items() for noun, verbs in nouns.items() for verb in verbs.split()
}
SCOPE_OF = {noun: scope for scope, nouns in SCOPES.items() for noun in nouns.split()}
#: Former names: two doors had different ones for the same operation. A migration has renamed the entries.
FORMER = {
    "annotation.add": "annotation.create",
    "machine.drain": "machine.pause",
    "machine.shares": "machine.plan",
    "machine.windows": "machine.plan",
    "mute.make": "mute.create",
    "project.end-former-secret": "hook.end",
    "runs.queue": "run.queue",
}


def require(caller: Caller, name: str, project: Project | None) -> list[Any]:
    """Return the right that the operation needs: project, role and scope; nothing of these for an operator's right.

    ``project``: None if it concerns all projects, or none, so that only an operator may do it; what is SELF's, whoever
    is logged in may do with what is theirs. Raises Refused.
    """
    needed, scope = OPERATIONS[name], SCOPE_OF.get(name.partition(".")[0], Scope.SETTINGS)
    if needed == SELF:
        access.require_login(caller)
        return []
    if needed == OPERATOR or project is None:
        access.require_operator(caller, scope)
        return []
    access.require(caller, Role(needed), project, scope)
    return [project.pk, needed, scope]
