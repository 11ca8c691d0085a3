"""The HTTP calls against a real server that refuses, fails and disappears; the spool on disk."""

import tarfile
import threading
from pathlib import Path

import pytest

from runners.errors import LeaseLost, Permanent, Unauthorized
from runners.reporting.client import Client
from runners.reporting.connection import VERSION, Unreachable
from runners.reporting.spool import Spool
from runners.tests.api import TOKEN, Answer, Api, RecordedCall

DOCUMENT = {"schema": "speedtrack.result/1", "token": 3}


def refuse(status: int, times: int = 1000, path: str = "") -> "Refusal":
    return Refusal(status, times, path)


class Refusal:
    """Answers the first calls whose path ends so with a status."""

    def __init__(self, status: int, times: int, path: str) -> None:
        self.status, self.left, self.path = status, times, path

    def __call__(self, call: RecordedCall) -> Answer | None:
        if not call.path.endswith(self.path) or self.left == 0:
            return None
        self.left -= 1
        return self.status, {"error": f"refused with {self.status}"}


def test_hello_returns_the_machine_and_its_queue(client: Client, api: Api) -> None:
    hello = client.hello("boot", {"series": {}})
    assert (hello.machine, hello.queue) == ("m1", "machine.m1")
    assert api.bodies("hello") == [{**VERSION, "boot_id": "boot", "facts": {"series": {}}}]


def test_a_call_is_repeated_after_a_server_error(client: Client, api: Api) -> None:
    api.rules = [refuse(503, times=2)]
    assert client.retried(client.claim) is None
    assert len(api.of("claim")) == 3


def test_a_claim_is_not_repeated_while_the_cores_are_held(client: Client, api: Api) -> None:
    api.rules = [refuse(503)]
    with pytest.raises(Unreachable):
        client.claim()
    assert len(api.of("claim")) == 1


def test_retries_are_bounded(client: Client, api: Api) -> None:
    api.rules = [refuse(500)]
    with pytest.raises(Unreachable, match="answers 500 \\(refused with 500\\)"):
        client.retried(client.claim)
    assert len(api.of("claim")) == 3


def test_an_unreachable_server_is_reported_with_its_address(home: Path) -> None:
    client = Client("http://127.0.0.1:1", TOKEN, Spool(home / "spool"), threading.Event(), pauses_s=())
    with pytest.raises(Unreachable, match=r"http://127.0.0.1:1 cannot be reached"):
        client.retried(client.claim)


def test_a_shutdown_ends_the_retries(client: Client, api: Api, stopping: threading.Event) -> None:
    api.rules = [refuse(503)]
    stopping.set()
    with pytest.raises(Unreachable):
        client.retried(client.claim)
    assert len(api.of("claim")) == 2


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Unauthorized), (409, LeaseLost), (404, LeaseLost), (422, Permanent), (413, Permanent)]
)
def test_refusals_raise_their_errors_and_are_not_repeated(
    client: Client, api: Api, status: int, kind: type[Exception]
) -> None:
    api.rules = [refuse(status)]
    with pytest.raises(kind, match=f"refused with {status}"):
        client.build(17, 3, {}, {})
    assert len(api.calls) == 1


def test_an_answer_of_another_program_is_reported(client: Client, api: Api) -> None:
    api.rules = [lambda call: (200, {"welcome": "to nginx"})]
    with pytest.raises(Permanent, match="is SPEEDTRACK_URL a SpeedTrack server"):
        client.hello("b", {})


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 409, 422])
def test_a_page_of_a_proxy_neither_takes_nor_refuses_a_result(
    client: Client, api: Api, home: Path, status: int
) -> None:
    api.rules = [lambda call: (status, "<h1>Maintenance</h1>")]
    client.measurement(17, DOCUMENT)
    assert len(list((home / "spool").glob("*.json"))) == 1
    with pytest.raises(Unreachable, match=rf"another program answers {status} "):
        client.claim()
    api.rules.clear()
    client.complete(17, 3)
    assert [call.path for call in api.calls][-2:] == ["runs/17/measurement", "runs/17/complete"]
    assert list((home / "spool").iterdir()) == []


def test_an_empty_page_takes_no_result(client: Client, api: Api, home: Path) -> None:
    api.rules = [lambda call: (200, "")]
    client.measurement(17, DOCUMENT)
    assert len(list((home / "spool").glob("*.json"))) == 1


def test_a_body_that_a_proxy_finds_too_large_is_set_aside(client: Client, api: Api, home: Path) -> None:
    api.rules = [lambda call: (413, "<h1>Request Entity Too Large</h1>")]
    with pytest.raises(Permanent, match="413: Request Entity Too Large"):
        client.measurement(17, DOCUMENT)
    assert [file.suffix for file in (home / "spool").iterdir()] == [".rejected"]


def test_a_page_of_a_proxy_is_no_source(client: Client, api: Api, home: Path) -> None:
    api.sources = {"abc": {"file": "content"}}
    pages = iter([(200, "<h1>Maintenance</h1>"), (302, "<h1>Moved</h1>")])
    api.rules = [lambda call: next(pages, None)]
    client.source(17, "abc", 3, home / "source.tar")
    with tarfile.open(home / "source.tar") as tar:
        assert tar.getnames() == ["file"]
    assert len(api.calls) == 3


def test_a_result_waits_on_disk_until_the_server_is_back(client: Client, api: Api, home: Path) -> None:
    api.rules = [refuse(503, times=3, path="/measurement")]
    client.measurement(17, DOCUMENT)
    assert len(list((home / "spool").glob("*.json"))) == 1
    client.complete(17, 3)
    assert [call.path for call in api.calls][-2:] == ["runs/17/measurement", "runs/17/complete"]
    assert list((home / "spool").iterdir()) == []


def test_the_next_start_sends_what_was_left_in_order(client: Client, api: Api, home: Path) -> None:
    spool = Spool(home / "spool")
    for token in (1, 2, 3):
        spool.put("runs/17/measurement", {"token": token})
    client.flush()
    assert [body["token"] for body in api.bodies("/measurement")] == [1, 2, 3]
    assert list((home / "spool").iterdir()) == []


@pytest.mark.parametrize("status", [409, 404])
def test_a_result_of_a_lost_lease_is_dropped(client: Client, api: Api, home: Path, status: int) -> None:
    api.rules = [refuse(status)]
    with pytest.raises(LeaseLost):
        client.measurement(17, DOCUMENT)
    assert list((home / "spool").iterdir()) == []


def test_a_wrong_result_is_set_aside_and_blocks_nothing(client: Client, api: Api, home: Path) -> None:
    api.rules = [refuse(422, times=1)]
    Spool(home / "spool").put("runs/17/measurement", DOCUMENT)
    client.complete(18, 1)
    assert [file.suffix for file in (home / "spool").iterdir()] == [".rejected"]
    assert api.of("runs/18/complete")


def test_an_incomplete_file_is_removed_at_the_next_start(home: Path) -> None:
    (home / "spool").mkdir()
    (home / "spool" / "00000000000000000001.tmp").write_text('{"path": "runs/1/com')
    Spool(home / "spool")
    assert list((home / "spool").iterdir()) == []


def test_an_unreadable_file_in_the_spool_is_set_aside(client: Client, api: Api, home: Path) -> None:
    (home / "spool" / "00000000000000000001.json").write_text('{"path": "runs/1/com')
    client.flush()
    assert api.calls == [] and [file.suffix for file in (home / "spool").iterdir()] == [".rejected"]
