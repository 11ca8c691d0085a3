"""The settings file of the runner, and the command that writes it."""

import stat
from pathlib import Path

import pytest

from runners.errors import RunnerError, SettingsError
from runners.tests.api import Api
from runners.work.enrolment import enroll, load_settings, settings_file


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def test_enrolment_writes_private_files_that_the_next_start_reads(
    api: Api, environ: dict[str, str], tmp_path: Path
) -> None:
    api.open = True
    text = enroll(api.url, "AAAAA-BBBBB", environ)
    assert "this is machine m1 of" in text and "warning" not in text
    file = settings_file(environ)
    token = file.with_name("token")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (file, token)] == [0o600, 0o600]
    body = api.bodies("enroll")[0]
    assert (body["code"], body["token"]) == ("AAAAA-BBBBB", token.read_text().strip())
    load_settings(environ)
    assert (environ["SPEEDTRACK_URL"], environ["SPEEDTRACK_TOKEN_FILE"]) == (api.url, str(token))


def test_a_lost_answer_is_repeated_with_the_same_token(api: Api, environ: dict[str, str]) -> None:
    api.open = True
    api.rules = [lambda call: (503, {"error": "away"})]
    for _ in range(2):
        with pytest.raises(RunnerError, match="answers 503"):
            enroll(api.url, "CODE", environ)
    assert len({body["token"] for body in api.bodies("enroll")}) == 1
    assert not settings_file(environ).exists()


def test_a_refusal_is_the_servers_sentence(api: Api, environ: dict[str, str]) -> None:
    api.open = True
    api.rules = [lambda call: (403, {"error": "this enrolment code has expired: make another"})]
    with pytest.raises(RunnerError) as refused:
        enroll(api.url, "CODE", environ)
    assert str(refused.value) == "this enrolment code has expired: make another"
    with pytest.raises(RunnerError):
        enroll(api.url, "OTHER", environ)
    first, second = (body["token"] for body in api.bodies("enroll"))
    assert first != second, "the server may have refused the token"


@pytest.mark.parametrize("url", ["speed.example.org", "ftp://x", "", "http://"])
def test_an_odd_address_is_refused(environ: dict[str, str], url: str) -> None:
    with pytest.raises(SettingsError, match="does not begin with https:// or http://"):
        enroll(url, "CODE", environ)


def test_the_environment_wins_over_the_file(environ: dict[str, str], tmp_path: Path) -> None:
    environ["SPEEDTRACK_RUNNER_SETTINGS"] = str(tmp_path / "own.env")
    (tmp_path / "own.env").write_text("# mine\n\nSPEEDTRACK_URL=https://file\nSPEEDTRACK_TUNE=1\n")
    environ["SPEEDTRACK_URL"] = "https://environment"
    load_settings(environ)
    assert (environ["SPEEDTRACK_URL"], environ["SPEEDTRACK_TUNE"]) == ("https://environment", "1")


@pytest.mark.parametrize("line", ["no equals", "=x", "a b=c", "\udcff"])
def test_a_wrong_line_is_named(environ: dict[str, str], tmp_path: Path, line: str) -> None:
    file = settings_file(environ)
    file.parent.mkdir(parents=True)
    file.write_bytes(f"SPEEDTRACK_URL=x\n{line}\n".encode(errors="surrogateescape"))
    with pytest.raises(SettingsError, match=r"line 2: write NAME=value|cannot be read"):
        load_settings(environ)


def test_a_place_that_cannot_be_written_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    environ["SPEEDTRACK_RUNNER_SETTINGS"] = "/proc/nowhere/runner.env"
    with pytest.raises(SettingsError, match=r"/proc/nowhere/runner\.env cannot be written"):
        enroll("https://speed.example.org", "CODE", environ)
