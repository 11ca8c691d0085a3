"""Secrets and state: whole or not there, the same for all who look, and open to nobody else."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage

from speedtrack.ground.observing.variables import env_secret
from speedtrack.ground.secrets import privatefiles
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.processes.serving import machine_token

PROCESSES, SECRETS = 4, 200
# Each process asks for all secrets, one after another, as soon as the file `go` is there.
ASKING = """
import sys
from pathlib import Path
from speedtrack.ground.observing.variables import env_secret
home = Path(sys.argv[1])
(home / f"ready-{sys.argv[2]}").touch()
while not (home / "go").exists():
    pass
print("\\n".join(env_secret("UNSET", home / "secrets" / str(number)) for number in range(%d)))
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_processes_that_start_at_once_agree_on_their_secrets(tmp_path: Path) -> None:
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ASKING % SECRETS, str(tmp_path), str(number)],
            cwd=BASE_DIR,
            env={**os.environ, "SPEEDTRACK_HOME": str(tmp_path / "home"), "SECRET_KEY": "given"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    while len(list(tmp_path.glob("ready-*"))) < PROCESSES:
        assert all(process.poll() is None for process in asking)
        time.sleep(0.02)
    (tmp_path / "go").touch()
    answers = {process.communicate(timeout=300)[0] for process in asking}
    (lines,) = [answer.split("\n")[:-1] for answer in answers]
    assert len(set(lines)) == SECRETS
    assert min(map(len, lines)) >= 48
    assert {mode(file) for file in (tmp_path / "secrets").iterdir()} == {0o600}
    assert len(list((tmp_path / "secrets").iterdir())) == SECRETS


def test_a_secret_that_is_empty_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    with pytest.raises(ImproperlyConfigured, match="is empty: delete it"):
        env_secret("UNSET", tmp_path / "key")


def test_a_new_home_is_open_to_its_owner_only(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "import speedtrack.settings"],
        cwd=BASE_DIR,
        env={**os.environ, "SPEEDTRACK_HOME": str(tmp_path / "home"), "SECRET_KEY": "given"},
        check=True,
    )
    assert mode(tmp_path / "home") == 0o700


def test_a_machine_token_is_replaced_as_a_whole(db: None, tmp_path: Path) -> None:
    file = tmp_path / "machine-token"
    file.write_text("strn_old_and_unknown")
    file.chmod(0o644)
    with file.open() as reader:
        machine_token(file)
        assert reader.read() == "strn_old_and_unknown"
    assert file.read_text().startswith("strn_")
    assert mode(file) == 0o600


def test_mail_files_are_open_to_their_owner_only(settings: Any, tmp_path: Path) -> None:
    settings.EMAIL_BACKEND = "speedtrack.notices.mailfiles.MailFileBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path / "mail")
    EmailMessage("subject", "body", "a@example.org", ["b@example.org"], headers={"Message-ID": "<1@x>"}).send()
    (file,) = (tmp_path / "mail").iterdir()
    assert file.name == "1@x.eml"
    assert (mode(file.parent), mode(file)) == (0o700, 0o600)


def test_a_file_that_cannot_be_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "occupied").mkdir()
    with pytest.raises(OSError, match="occupied"):
        privatefiles.replace(tmp_path / "occupied", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["occupied"]
