"""Wrong settings of logins stop the start with a sentence that says what to do; secrets may be in files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OIDC = {"OIDC_ISSUER": "https://id.example.org", "OIDC_CLIENT_ID": "us", "OIDC_CLIENT_SECRET": "s"}
SHOWN = "import speedtrack.settings as s; print(s.SOCIALACCOUNT_PROVIDERS, s.ACCOUNT_SIGNUP_FIELDS)"


def started(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SHOWN],
        env={**os.environ, "SPEEDTRACK_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SIGNUP": "yes"}, "SIGNUP='yes': say closed, invited or open"),
        ({"REQUIRE_MFA": "true"}, "say operators, everybody or nobody"),
        ({"GITHUB_CLIENT_ID": "x"}, "GITHUB_CLIENT_SECRET: not set; of GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET set all"),
        ({"GITHUB_ORGANISATION": "x"}, "set GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET, too"),
        ({"OIDC_ISSUER": "https://id.example.org"}, "OIDC_CLIENT_ID, OIDC_CLIENT_SECRET: not set"),
        (OIDC | {"OIDC_ISSUER": "http://id.example.org"}, "give an https:// address"),
        (OIDC | {"OIDC_ISSUER": "https://u:p@id.example.org"}, "it names a user or has a password"),
        (OIDC | {"OIDC_ISSUER": "https://id.example.org/?x"}, "has a ? or a #"),
        ({"GITHUB_URL": "github.example.org"}, "does not begin with https://"),
        (OIDC | {"OIDC_EMAIL_DOMAINS": "a@example.org"}, "is no domain"),
        (OIDC | {"OIDC_CLIENT_SECRET_FILE": "/nowhere"}, "set one of them"),
        (OIDC | {"OIDC_CLIENT_SECRET": "", "OIDC_CLIENT_SECRET_FILE": "/nowhere"}, "cannot be read"),
        ({"OIDC_EMAIL_DOMAINS": "example.org"}, "set OIDC_ISSUER, OIDC_CLIENT_ID"),
    ],
)
def test_a_wrong_setting_stops_the_start(tmp_path: Path, environment: dict[str, str], words: str) -> None:
    done = started(tmp_path, **environment)
    assert done.returncode != 0 and words in done.stderr.splitlines()[-1]


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-the-file\n")
    done = started(
        tmp_path, SIGNUP="open", **OIDC | {"OIDC_CLIENT_SECRET": "", "OIDC_CLIENT_SECRET_FILE": f"{tmp_path}/secret"}
    )
    assert "'secret': 'from-the-file'" in done.stdout and "email*" in done.stdout
