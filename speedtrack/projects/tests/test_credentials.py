"""Credentials of private repositories: what they open, and that nobody else sees them."""

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import git, remotes, transports
from speedtrack.projects.mirrors.credentials import (
    CredentialEntry,
    UnfitCredential,
    credential_for,
    remove_credential,
    store_credential,
)
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.models import Credential, Project
from speedtrack.projects.sync import sync
from speedtrack.projects.tests import forge as forges
from speedtrack.projects.tests import sshd
from speedtrack.projects.tests.forge import Forge, allow
from speedtrack.projects.tests.sshd import SshServer
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository

TOKEN = "planted-token-5d1f"


@pytest.fixture
def forge(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    with forges.serving(Forge(tmp_path / "forge", token=TOKEN), settings, monkeypatch) as one:
        yield one


@pytest.fixture
def private(forge: Forge, project: Project) -> Repository:
    """The project's repository of two commits, at a forge that wants a token."""
    repository = Repository(forge.root / "kvd")
    repository.commits(2)
    project.url = forge.url("kvd")
    project.save()
    return repository


@pytest.fixture
def server(tmp_path: Path, settings: Any) -> Iterator[SshServer]:
    with sshd.serving(tmp_path / "sshd") as one:
        allow(settings, f"localhost:{one.port}")
        yield one


def give_token(project: Project, token: str = TOKEN) -> None:
    store_credential(project, credential_for(project.url, CredentialEntry(token=token)))


def database_dump() -> str:
    """All that the tables of projects hold, as text."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT c::text FROM projects_credential c UNION ALL SELECT p::text FROM projects_project p")
        return "\n".join(row for (row,) in cursor.fetchall())


def test_a_token_opens_a_private_repository(private: Repository, project: Project) -> None:
    with pytest.raises(RepositoryError, match="and the credential if it is private"):
        sync(project)
    give_token(project, "wrong")
    with pytest.raises(RepositoryError, match="and the credential if it is private"):
        sync(project)
    give_token(project)
    sync(project)
    assert git.resolve_revision(project.slug, "main") == private.git("rev-parse", "main")
    remove_credential(project)
    with pytest.raises(RepositoryError):
        sync(project)


def test_a_token_is_nowhere_to_be_seen(
    private: Repository, project: Project, forge: Forge, caplog: pytest.LogCaptureFixture, client: Client
) -> None:
    """Neither in the database, nor in logs, errors, pages, sources, the mirror, command lines or variables."""
    caplog.set_level(logging.DEBUG)
    give_token(project)
    seen = []

    def watch(handler: Any) -> None:
        """While git waits for the answer: what other processes can read of it."""
        seen.extend(builders.processes_with("git-remote-https") + builders.processes_with("ls-remote"))
        for file in Path("/proc").glob("[0-9]*/environ"):
            try:
                content = file.read_bytes().decode(errors="replace")
            except OSError:
                continue
            seen.extend([content] if "GIT_TERMINAL_PROMPT" in content else [])
        handler.send_response(500)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        handler.wfile.write(forge.wanted.encode() + TOKEN.encode())  # a server that repeats what it got

    forge.manners = watch
    with pytest.raises(RepositoryError) as caught:
        sync(project)
    forge.manners = None
    sync(project)
    assert seen and forge.requests[-1][1]["authorization"] == forge.wanted
    client.force_login(User.objects.create_superuser("ada", password="x"))
    pages = [client.get(reverse(name, args=[project.slug])).content for name in ("project-settings", "project")]
    pages.append(client.get(reverse("installation")).content)
    head = git.resolve_revision(project.slug, "main")
    mirror = b"".join(f.read_bytes() for f in mirror_of(project.slug).rglob("*") if f.is_file())
    told = [str(caught.value), repr(caught.value.__cause__), caplog.text, database_dump(), *seen]
    told += [page.decode() for page in pages]
    told += [mirror.decode("latin-1"), b"".join(git.archive(project.slug, head)).decode("latin-1")]
    told += [repr(remotes.remote_of(project)), repr(Credential.objects.get().__dict__)]
    basic = forge.wanted.removeprefix("Basic ")
    assert [text for text in told if TOKEN in text or basic in text] == []


def test_a_token_goes_to_the_server_that_it_was_entered_for_only(
    private: Repository, project: Project, forge: Forge, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_token(project)
    with forges.serving(Forge(tmp_path / "other", token="another"), settings, monkeypatch) as other:
        project.url = other.url("kvd")
        assert remotes.remote_of(project).credential is None
        with pytest.raises(RepositoryError):
            git.remote_refs(remotes.remote_of(project))
        assert all("authorization" not in headers for _, headers in other.requests)
    assert other.requests
    project.url = forge.url("another-repository")
    assert remotes.remote_of(project).credential is not None


def test_a_secret_in_memory_ends_with_its_call() -> None:
    with transports.memory_file("secret") as path:
        assert Path(path).read_text() == "secret"
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists() or Path(path).read_bytes() != b"secret"


@pytest.mark.sshd
def test_a_deploy_key_opens_a_repository_whose_host_is_known(
    server: SshServer, repository: Repository, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    shas = repository.commits(2)
    project.url = server.url(repository.path)
    project.save()
    with pytest.raises(RepositoryError, match="needs a deploy key"):
        sync(project)
    entry = CredentialEntry(key=server.key, known_hosts=server.known_hosts)
    store_credential(project, credential_for(project.url, entry))
    sync(project)
    assert git.resolve_revision(project.slug, "main") == shas[-1]
    assert Credential.objects.get().public_key.startswith("ssh-ed25519 ")
    line = server.key.splitlines()[1]
    assert line not in database_dump() + caplog.text + repr(Credential.objects.get().__dict__)


@pytest.mark.sshd
def test_a_host_that_proves_itself_by_another_key_is_refused(
    server: SshServer, repository: Repository, project: Project, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository.commits(1)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    other = (tmp_path / "other.pub").read_text()
    url = server.url(repository.path)
    entry = CredentialEntry(key=server.key, known_hosts=f"[localhost]:{server.port} {other}")
    with pytest.raises(RepositoryError, match="does not answer as a git repository does"):
        git.remote_refs(Remote(url, credential_for(url, entry)))
    assert "Host key verification failed" in caplog.text
    stranger = CredentialEntry(key=(tmp_path / "other").read_text(), known_hosts=server.known_hosts)
    with pytest.raises(RepositoryError, match="does not answer as a git repository does"):
        git.remote_refs(Remote(url, credential_for(url, stranger)))
    assert "Permission denied" in caplog.text


def key() -> str:
    """A new private key."""
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


HOST = "example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHd5"


@pytest.mark.parametrize(
    ("url", "entry", "field"),
    [
        ("https://example.org/a", CredentialEntry(token="a b"), "token"),
        ("https://example.org/a", CredentialEntry(token="a\nextraHeader = x"), "token"),
        ("https://example.org/a", CredentialEntry(token="a", user="x:y"), "token"),
        ("https://example.org/a", CredentialEntry(key="x", known_hosts=HOST), "key"),
        ("ssh://git@example.org/a", CredentialEntry(token="x"), "token"),
        ("ssh://git@example.org/a", CredentialEntry(key="x", known_hosts=HOST), "key"),
        ("ssh://git@example.org/a", CredentialEntry(key=key()), "known_hosts"),
        ("ssh://git@example.org:2222/a", CredentialEntry(key=key(), known_hosts=HOST), "known_hosts"),
        ("ssh://git@example.com/a", CredentialEntry(key=key(), known_hosts=HOST), "known_hosts"),
        ("ssh://git@example.org/a", CredentialEntry(key=key(), known_hosts=f"{HOST}\nProxy x"), "known_hosts"),
        ("/srv/repository", CredentialEntry(token="x"), "token"),
    ],
)
def test_what_opens_nothing_is_refused_with_its_field(url: str, entry: CredentialEntry, field: str) -> None:
    with pytest.raises(UnfitCredential) as caught:
        credential_for(url, entry)
    assert caught.value.field == field


@pytest.mark.sshd
def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "passphrase", "-f", tmp_path / "key"], check=True)
    with pytest.raises(UnfitCredential, match="has a passphrase"):
        credential_for("ssh://git@example.org/a", CredentialEntry(key=(tmp_path / "key").read_text(), known_hosts=HOST))


def test_hashed_lines_of_known_hosts_are_read(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{HOST}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=False, capture_output=True)
    entry = CredentialEntry(key=key(), known_hosts=f"# a comment\n{file.read_text()}")
    assert credential_for("ssh://git@example.org/a", entry)


def test_the_settings_keep_only_what_the_repository_accepts(
    private: Repository, project: Project, client: Client
) -> None:
    client.force_login(User.objects.create_superuser("ada", password="x"))
    address = reverse("project-access", args=[project.slug])
    refused = client.post(address, {"token": "planted-wrong"}).content.decode()
    assert "Not kept" in refused and "planted-wrong" not in refused
    assert "enter a token" in client.post(address, {}).content.decode()
    unfit = client.post(address, {"deploy_key": "planted-key"}).content.decode()
    assert "begins with ssh://" in unfit and "planted-key" not in unfit
    assert not Credential.objects.exists()
    assert client.post(address, {"token": TOKEN}).status_code == 302
    page = client.get(reverse("project-settings", args=[project.slug])).content.decode()
    assert "Access token (https) for https://localhost" in page
    assert client.post(address, {"remove": "yes"}).status_code == 302
    assert not Credential.objects.exists()


def test_a_private_repository_is_tracked_from_the_browser(
    private: Repository, project: Project, client: Client, settings: Any, tmp_path: Path
) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    client.force_login(User.objects.create_superuser("ada", password="x"))
    entered = {"url": project.url, "suite": "tiny", "last": "1", "name": "mine"}
    assert "It answers" in client.post(reverse("track-check"), entered | {"token": TOKEN}).content.decode()
    assert "It answers" not in client.post(reverse("track-check"), entered).content.decode()
    assert "mine is tracked" not in client.post(reverse("track"), entered).content.decode()
    assert "mine is tracked" in client.post(reverse("track"), entered | {"token": TOKEN}).content.decode()
    mine = Project.objects.get(slug="mine")
    sync(mine)
    assert mine.branches.get().head


def test_a_private_repository_is_tracked_from_the_command_line(
    private: Repository, project: Project, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builders.use_suite(settings, tmp_path / "suites")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    call_command("track", project.url, suite="tiny", name="mine", token_file=file)
    call_command("track", project.url, suite="tiny", name="mine")  # with the credential that is kept
    assert TOKEN not in "".join(capsys.readouterr())
    with pytest.raises(CommandError, match="nowhere"):
        call_command("track", project.url, suite="tiny", name="other", token_file=tmp_path / "nowhere")
