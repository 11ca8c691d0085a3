"""Secrets from files, as a process of the server reads them when it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from speedtrack.processes.devstack import BASE_DIR

SHOW = """
from django.conf import settings as s
print(s.SECRET_KEY, s.DATABASES["default"]["PASSWORD"], s.DATABASES["replica"]["PASSWORD"], s.BROKER_URL,
      s.METRICS_TOKEN, s.EMAIL_HOST_PASSWORD or "-", s.SPEEDTRACK_ENCRYPTION_KEYS, s.URL, s.LIVE_URL)
"""
TOKEN = "t" * 32


def read(tmp_path: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {"PATH": "/usr/bin:/bin", "DJANGO_SETTINGS_MODULE": "speedtrack.settings", "SPEEDTRACK_HOME": str(tmp_path)}
    command = [sys.executable, "-c", SHOW]
    return subprocess.run(command, cwd=BASE_DIR, env=known | environment, capture_output=True, text=True)


def files(tmp_path: Path, **secrets: str) -> dict[str, str]:
    for name, text in secrets.items():
        (tmp_path / name).write_text(text)
    return {f"{name}_FILE": str(tmp_path / name) for name in secrets}


def test_each_secret_may_be_in_a_file(tmp_path: Path) -> None:
    secrets = files(
        tmp_path,
        SECRET_KEY="key\n",
        DATABASE_PASSWORD="p@ss/w:rd#1\n",
        DATABASE_REPLICA_URL="postgresql://u:own@replica/x",
        BROKER_URL="redis://:b@broker:6379/0",
        METRICS_TOKEN=TOKEN,
        EMAIL_HOST_PASSWORD="",
        SPEEDTRACK_ENCRYPTION_KEYS=f"{TOKEN}\n{TOKEN},{TOKEN}\n",
    )
    done = read(tmp_path, **secrets, SPEEDTRACK_DOMAIN="speed.example.org", SPEEDTRACK_LIVE_URL="same")
    assert (
        done.stdout.split()
        == (
            f"key p@ss/w:rd#1 own redis://:b@broker:6379/0 {TOKEN} - ['{TOKEN}', '{TOKEN}', '{TOKEN}']"
            " https://speed.example.org https://speed.example.org"
        ).split()
    ), done.stderr


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"SECRET_KEY": "a", "SECRET_KEY_FILE": "FILE"}, "SECRET_KEY and SECRET_KEY_FILE: set one of them"),
        ({"SECRET_KEY_FILE": "EMPTY"}, "SECRET_KEY_FILE: the file is empty"),
        ({"METRICS_TOKEN_FILE": "/nowhere"}, "METRICS_TOKEN_FILE=/nowhere: cannot be read"),
        ({"METRICS_TOKEN_FILE": "FILE"}, "METRICS_TOKEN has 32 characters at least"),
    ],
)
def test_a_wrong_file_stops_the_start_without_showing_it(
    tmp_path: Path, environment: dict[str, str], sentence: str
) -> None:
    places = files(tmp_path, FILE="planted-secret", EMPTY="\n")
    done = read(tmp_path, **{name: places.get(f"{value}_FILE", value) for name, value in environment.items()})
    assert done.returncode != 0 and sentence in done.stderr
    assert "planted-secret" not in done.stderr
