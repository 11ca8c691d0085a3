"""What operations refuse, in words that name no page and no command, so that each face can show them."""

from speedtrack.accounts import members, people
from speedtrack.accounts.logins.firstowner import NoLonger
from speedtrack.alerts.triage.measuring import NotMeasurable
from speedtrack.alerts.triage.triage import Stale
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.suiteedits import NotSaved
from speedtrack.ground.secrets.sealed import KeyLost
from speedtrack.notices.errors import PermanentFailure, TemporaryFailure, UnfitChannel
from speedtrack.operations.performing import BadInput, Ended
from speedtrack.projects import deliveries, hooks
from speedtrack.projects.errors import RepositoryError
from speedtrack.retention.pruning import PruningFailed, PruningUnderWay
from speedtrack.runs.errors import NoBase, NoSuchThing
from speedtrack.runs.fleet import machines
from speedtrack.runs.fleet.tokens import WrongToken
from speedtrack.runs.planning.approvals import NotApprovable
from speedtrack.runs.planning.policies import BadPolicy
from speedtrack.runs.planning.questions import NotComparable
from speedtrack.runs.scheduling.order import BadShares
from speedtrack.runs.scheduling.quarantine import NotQuarantined
from speedtrack.runs.scheduling.windows import BadWindow

#: An input cannot be.
INVALID = (
    BadInput,
    BadPolicy,
    BadShares,
    BadWindow,
    DefinitionError,
    NotMeasurable,
    RepositoryError,
    UnfitChannel,
    hooks.UnfitSecret,
)
#: The state is another one than the request assumes.
CONFLICTS = (
    Ended,
    NotApprovable,
    NotComparable,
    NotQuarantined,
    NotSaved,
    Stale,
    deliveries.DeliveryConflict,
    machines.MachineConflict,
    members.MembershipRefused,
    people.AccountUnchanged,
)
REFUSED = (
    *(*INVALID, *CONFLICTS, KeyLost, NoSuchThing, WrongToken),
    *(PermanentFailure, TemporaryFailure, PruningFailed, PruningUnderWay, NoBase, NoLonger),
)
