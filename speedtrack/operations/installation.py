"""What operators do with the installation: delete what is old, encrypt anew, send again."""

from collections.abc import Sequence

from speedtrack.accounts.logins import second_step
from speedtrack.ground.secrets.sealed import reseal
from speedtrack.notices import sending
from speedtrack.operations.performing import Actor, Done, operation
from speedtrack.retention import pruning
from speedtrack.retention.policies import Policy


@operation("retention.prune", is_atomic=False)
def prune(actor: Actor, policy: Policy, again: bool = False) -> Done:
    """Delete what is older than its policy keeps it; the caller holds the lock. Raises PruningFailed."""
    deleted, _ = pruning.prune(policy, again)
    sentence = f"{policy.name}: {deleted:,} rows older than {policy.days} days deleted"
    return Done(sentence, policy.name, {"deleted": (None, deleted)}, is_change=deleted > 0)


@operation("secrets.reseal")
def encrypt_anew(actor: Actor, subject: None = None) -> Done:
    """Encrypt all stored secrets with the newest key. Raises KeyLost."""
    count = reseal() + second_step.reseal()
    return Done(f"{count} secrets are encrypted with the newest key", f"{count} secrets")


@operation("outbox.again")
def send_again(actor: Actor, numbers: Sequence[int]) -> Done:
    """Queue rows that were given up again; without numbers all of them. Raises NoSuchThing."""
    count = sending.send_again(numbers)
    sentence = f"{count} row{'' if count == 1 else 's'} will be sent again"
    return Done(sentence, ", ".join(map(str, numbers)) or "all rows")
