"""``manage.py doctor``: the server's checks, and those that it leaves to the runner."""

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

import speedtrack
from speedtrack import doctor
from speedtrack.devstack import BASE_DIR
from speedtrack.monitoring.heartbeats import DISPATCHER, Beating


def documents(*only: str) -> tuple[int, list[dict[str, Any]]]:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", "--only", *only, stdout=out)
    return int(ended.value.code or 0), json.loads(out.getvalue())


def test_the_dispatcher_is_named_when_it_is_silent(db: None, settings: Any) -> None:
    code, (found,) = documents("dispatcher")
    assert (code, found["state"]) == (0, "note")
    assert "start `manage.py dispatch`" in found["words"]
    Beating(DISPATCHER, every_s=5).beat()
    assert documents("dispatcher")[1][0]["state"] == "good"
    settings.LEAST_FREE_MB = 10**9
    code, (found,) = documents("disk")
    assert (code, found["state"]) == (1, "bad")


@pytest.mark.parametrize("name", doctor.OF_RUNNER)
def test_the_machine_is_checked_as_its_runner_does(name: str) -> None:
    (found,) = doctor.examine([name])
    assert found.state in ("good", "note", "bad")
    assert found.words
    assert "Traceback" not in found.words


def test_server_and_runner_are_of_one_release() -> None:
    assert f'__version__ = "{speedtrack.__version__}"' in (BASE_DIR / "runners" / "__init__.py").read_text()
