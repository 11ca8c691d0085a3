import pytest

from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import machines, registering
from speedtrack.runs.models import Machine, MachineToken, UnknownMachineToken
from speedtrack.runs.requests.tracking import Tracked


def test_a_machine_is_known_by_its_token_of_which_only_the_digest_is_kept(db: None) -> None:
    token = registering.add_machine("m1")
    machine = MachineToken.of(token).machine
    assert machine.name == "m1"
    secret = token.split("_", 2)[2]
    assert secret not in str(MachineToken.objects.values().get())


def test_a_new_token_ends_the_old_one(db: None) -> None:
    old = registering.add_machine("m1")
    new = machines.renew_token("m1")
    assert MachineToken.of(new).machine.name == "m1"
    with pytest.raises(UnknownMachineToken, match=r"was revoked: give it a new one"):
        MachineToken.of(old)


def test_a_wrong_token_is_refused(db: None) -> None:
    token, other = registering.add_machine("m1"), registering.add_machine("m2")
    mixed = "_".join([*token.split("_", 2)[:2], other.split("_", 2)[2]])
    for wrong in ("", "strn", "strn_", "strn__", token[:-1], token + "x", token.upper(), mixed, "é", "_" * 50):
        with pytest.raises(UnknownMachineToken):
            MachineToken.of(wrong)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "m1"])
def test_a_machine_needs_a_new_name_fit_for_addresses(machine: Machine, name: str) -> None:
    with pytest.raises(NoSuchThing):
        registering.add_machine(name)
    assert Machine.objects.count() == 1


def test_a_new_machine_measures_all_projects(tracked: Tracked) -> None:
    registering.add_machine("m2")
    assert list(tracked.project.machines.order_by("name").values_list("name", flat=True)) == ["m1", "m2"]
