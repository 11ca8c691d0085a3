import re

import pytest

import speedtrack
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.runs.scheduling import versions


@pytest.mark.parametrize(
    ("version", "protocol", "words"),
    [
        ("1.4.2", 2, ""),
        ("1.3.9", 2, ""),
        ("1.5.0rc1", 2, ""),
        ("1.2.0", 2, "Update the runner"),
        ("2.4.0", 2, "Update the runner"),
        ("1.3.0", 1, ""),
        ("1.3.0", None, ""),  # it says none: 1
        ("1.2.0", None, "version 1.2.0 (protocol 1), and this server is version 1.4.0 (protocol 1 or 2)"),
        ("1.4.0", 0, "Update the runner"),
        ("1.4.0", 3, "Update the server"),
        ("", None, "version unknown"),
        ("1.4", 2, "Update the runner"),
        ("1.4.0\n", 2, "Update the runner"),
        ("9" * 39, 2, "Update the runner"),
    ],
)
def test_neighbouring_minor_versions_talk(
    monkeypatch: pytest.MonkeyPatch, version: str, protocol: int | None, words: str
) -> None:
    monkeypatch.setattr(versions, "__version__", "1.4.0")
    refusal = versions.refusal_of(version, protocol)
    assert words in refusal and bool(words) == bool(refusal)


def test_runner_and_server_of_one_checkout_talk() -> None:
    text = (BASE_DIR / "runners" / "__init__.py").read_text()
    said = dict(re.findall(r'^(\w+) = "?([\d.]+)', text, re.M))
    assert said == {"__version__": speedtrack.__version__, "PROTOCOL": str(versions.PROTOCOL)}
    client = (BASE_DIR / "client" / "speedtrack_client" / "__init__.py").read_text()
    assert f'__version__ = "{speedtrack.__version__}"' in client
