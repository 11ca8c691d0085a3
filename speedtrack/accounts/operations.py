"""The catalogue of operations: each change has one name in the audit log, whichever of the three doors it came through.

A name is a noun and a verb, such as ``mute.create``. With it stands the lowest role in the project that may do it, or
OPERATOR (of this installation), or SELF (the person whom it concerns). Pages, API and commands note nothing else.
"""

from speedtrack.accounts.models import Role

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
        "mute": "create end",
    },
    MAINTAINER: {
        "bisection": "begin stop",
        "channel": "add change delete forget pause resume test",
        "comparison": "create",
        "credential": "remove store",
        "delivery": "purge replay",
        "hook": "end rotate",
        "metric": "change",
        "policy": "remove save",
        "project": "add-branch change drop-branch keep-address",
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
#: name of an operation -> who may do it
OPERATIONS = {
    f"{noun}.{verb}": role for role, nouns in ALLOWED.items() for noun, verbs in nouns.items() for verb in verbs.split()
}
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


def named(noun: str, verb: str) -> str:
    """The name of the operation to which this verb of a page, an API or a command belongs."""
    name = f"{noun}.{verb}"
    return FORMER.get(name, name)
