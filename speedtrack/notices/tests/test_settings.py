"""Wrong settings of mail stop the start with a sentence that says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAIN = {"EMAIL_HOST": "smtp.example.org"}


SHOWN = "import speedtrack.settings as s; print(s.EMAIL_PORT, s.EMAIL_USE_TLS, s.EMAIL_USE_SSL)"


def started(home: Path, command: str = SHOWN, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("EMAIL_")}
    return subprocess.run(
        [sys.executable, "-c", command],
        env={**known, "SPEEDTRACK_HOME": str(home), **PLAIN, **environment},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"EMAIL_TLS": "true"}, "say starttls, implicit or none"),
        ({"EMAIL_CA_FILE": "/nowhere.pem"}, "there is no such file"),
        ({"EMAIL_HOST_USER": "me", "EMAIL_TLS": "starttls"}, "set both, or neither"),
        ({"EMAIL_HOST_USER": "me", "EMAIL_HOST_PASSWORD": "x"}, "set EMAIL_TLS=starttls"),
        ({"EMAIL_TIMEOUT": "0"}, "give 1 to 120 seconds"),
        ({"EMAIL_PORT": "smtp"}, "give a whole number"),
        ({"EMAIL_FROM": "nobody"}, "give an address"),
        ({"EMAIL_FROM": "SpeedTrack <speedtrack@example.org"}, "give an address"),
        ({"EMAIL_FROM": "SpeedTrack <a@example.org>\nBcc: x@example.org"}, "give an address"),
        ({"EMAIL_FROM": f"a@{'x' * 64}.example.org"}, "give an address"),
        ({"EMAIL_FROM": "größe@example.org"}, "before the @"),
    ],
)
def test_a_wrong_setting_stops_the_start(tmp_path: Path, environment: dict[str, str], words: str) -> None:
    done = started(tmp_path, **environment)
    assert done.returncode != 0 and words in done.stderr.splitlines()[-1]


def test_the_sender_may_have_any_name(tmp_path: Path) -> None:
    command = "from speedtrack.settings import DEFAULT_FROM_EMAIL as sender; print(sender)"
    shown = started(tmp_path, command, EMAIL_FROM="Größe <a@größe.example>", PYTHONUTF8="1").stdout
    assert shown.strip() == "Größe <a@xn--gre-6ka8i.example>"


@pytest.mark.parametrize(
    ("tls", "shown"), [("none", "25 False False"), ("starttls", "587 True False"), ("implicit", "465 False True")]
)
def test_the_kind_of_encryption_says_the_port(tmp_path: Path, tls: str, shown: str) -> None:
    assert started(tmp_path, EMAIL_TLS=tls).stdout.strip() == shown
