"""Repositories on the network: which are reached at all, what is said of them, and that none can hold up the others."""

import io
import os
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from runners.tests.ports import free_port
from speedtrack.projects.errors import RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import fetching, git, gitprocess, remotes
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.models import Branch, Project
from speedtrack.projects.sync import sync
from speedtrack.projects.tests.forge import Forge, allow, serving
from speedtrack.runs.planning import pushes
from speedtrack.tests.builders import Repository

INNER = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "240.0.0.1",
    "localhost",
    "[::1]",
    "[fd00::1]",
    "[fec0::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[0:0:0:0:0:ffff:10.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:c0a8:101::]",
    "[2001:0:7f00:1::]",
    "[2001:db8::1]",
    "[100::1]",
]
NEVER = [
    "169.254.169.254",
    "[::ffff:169.254.169.254]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
    "[::]",
    "224.0.0.1",
    "[ff02::1]",
    "255.255.255.255",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
]
NO_HOSTS = [
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.01",
    "0",
    "example.0x7f",
    "localhost.",
    "127.0.0.1.",
    "\u2460\u2461\u2466.0.0.1",
    "ex\u0430mple.org",
    "127\u30020\u30020\u30021",
    "%31%32%37.0.0.1",
    "example.org\\@127.0.0.1",
    "user@127.0.0.1",
    "example.org@127.0.0.1",
    "example.org:443@127.0.0.1",
    "example.org#@127.0.0.1",
    "[fe80::1%25eth0]",
    "[::1",
    "-x.org",
    "example..org",
    "example.org:99999",
    "example.org:x",
]


@pytest.fixture
def forge(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    with serving(Forge(tmp_path / "forge"), settings, monkeypatch) as one:
        yield one


@pytest.fixture
def served(forge: Forge, project: Project) -> Repository:
    """The project's repository of two commits, at the forge."""
    repository = Repository(forge.root / "kvd")
    repository.commits(2)
    Project.objects.filter(pk=project.pk).update(url=forge.url("kvd"))
    return repository


@pytest.mark.parametrize("leaves_out", ["true", "false"])
def test_the_newest_commits_are_read_without_what_is_before_them(
    served: Repository, project: Project, forge: Forge, leaves_out: str
) -> None:
    """Along first parents; from a forge that can leave out files, and from one that cannot."""
    served.git("config", "uploadpack.allowFilter", leaves_out)
    served.git("checkout", "--quiet", "-b", "beside")
    served.commits(3)
    served.git("checkout", "--quiet", "main")
    served.commit()
    served.git("merge", "--quiet", "--no-ff", "-m", "merge", "-X", "theirs", "beside")
    remote = Remote(forge.url("kvd"))
    shas = served.git("rev-list", "--first-parent", "--reverse", "main").split()
    for count in (1, 2, 4, 100):
        newest = fetching.newest_commits(remote, "main", count, 20)
        assert [one.sha for one in newest] == shas[-count:]
    assert newest[-1].subject == "merge" and len(newest[-1].parents) == 2
    with pytest.raises(RepositoryUnreachable, match="cannot read"):
        fetching.newest_commits(Remote(forge.url("none")), "main", 2, 20)
    assert list(mirror_of("kvd").parent.iterdir()) == []


def refused(url: str) -> str:
    """Why git does not connect; looked at by the verb that lists references."""
    with pytest.raises(RepositoryError) as caught:
        git.remote_refs(Remote(url))
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["https://", "ssh://git@"])
@pytest.mark.parametrize("host", [*INNER, *NEVER])
def test_private_addresses_are_refused_in_every_spelling_without_telling_more(
    host: str, scheme: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.GIT_HOSTS = ["*"]
    place = remotes.endpoint_of(f"{scheme}{host}/a/b")
    with pytest.raises(RepositoryError) as caught:
        remotes.checked_addresses(place)
    nobody = str(caught.value).replace(place.host, "nobody.invalid")
    assert nobody == refused("https://nobody.invalid/a/b")
    assert "GIT_NETWORKS may allow its network" in caplog.text or "never" in caplog.text


@pytest.mark.parametrize("host", NEVER)
def test_addresses_of_cloud_metadata_are_refused_whatever_the_settings_allow(host: str, settings: Any) -> None:
    settings.GIT_HOSTS = ["*"]
    settings.GIT_NETWORKS = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert "no address that may be called" in refused(f"https://{host}/a/b")


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_two_programs_may_read_differently_is_no_host(host: str, settings: Any) -> None:
    settings.GIT_HOSTS = ["*"]
    settings.GIT_NETWORKS = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    for scheme in ("https://", "ssh://git@"):
        with pytest.raises(RepositoryError):
            remotes.valid_url(f"{scheme}{host}/a/b")


@pytest.mark.parametrize(
    "path", ["/a b", "/a?b=c", "/a#b", "/a\\b", "/\u00fc", '/"', "/" + "a" * 600, "/`id`", "/a\r\nHost: x"]
)
def test_an_address_has_a_plain_path(path: str, settings: Any) -> None:
    settings.GIT_HOSTS = ["*"]
    with pytest.raises(RepositoryError):
        remotes.valid_url(f"https://example.org{path}")


@pytest.mark.parametrize(
    ("url", "is_listed"),
    [
        ("https://github.com/a/b", True),
        ("https://GitHub.com/a/b", True),
        ("ssh://git@github.com/a/b", True),
        ("https://git.example.org:8443/a/b", True),
        ("https://git.example.org/a/b", False),
        ("https://github.com:8443/a/b", False),
        ("https://evil.org/github.com", False),
        ("https://github.com.evil.org/a", False),
        ("https://xgithub.com/a", False),
        ("https://sub.github.com/a", False),
    ],
)
def test_only_listed_hosts_on_their_ports_may_be_tracked(url: str, is_listed: bool, settings: Any) -> None:
    settings.GIT_HOSTS = ["github.com", "git.example.org:8443"]
    if is_listed:
        assert remotes.valid_url(url) == url
        return
    with pytest.raises(RepositoryError, match="GIT_HOSTS"):
        remotes.valid_url(url)
    assert "GIT_HOSTS" in refused(url)  # also of a project that was tracked before


def test_a_name_with_one_inner_address_among_public_ones_is_refused(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GIT_HOSTS = ["*"]
    both = [ip_address("93.184.216.34"), ip_address("10.0.0.1")]
    monkeypatch.setattr(remotes, "look_up", lambda *asked: both)
    assert "no address that may be called" in refused("https://example.org/a")


def test_git_connects_to_the_checked_address_whatever_the_name_says_by_then(
    served: Repository, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host of the URL does not resolve: only an address that was handed to git can be connected to."""
    monkeypatch.setattr(remotes, "look_up", lambda *asked: [ip_address("127.0.0.1")])
    forge.host = "pinned.invalid"
    assert "refs/heads/main" in git.remote_refs(Remote(forge.url("kvd")))


def test_a_repository_is_fetched_over_https(served: Repository, project: Project) -> None:
    project.refresh_from_db()
    fetched = fetching.fetch(project.slug, remotes.remote_of(project), ["main"])
    assert not fetched.faults
    assert git.resolve_revision(project.slug, "main") == served.git("rev-parse", "main")


def not_found(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(404)
    handler.send_header("Content-Type", "text/plain")
    handler.end_headers()
    handler.wfile.write(b"inner secret page\n")


def denied(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(403)
    handler.end_headers()


def garbage(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
    handler.end_headers()
    handler.wfile.write(b"inner secret page\0\xff" * 100)


def page(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.end_headers()
    handler.wfile.write(b"<h1>inner secret page</h1>\n")


def test_what_answers_instead_of_a_repository_cannot_be_told_apart(
    forge: Forge, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = forge.url("a")
    said = set()
    for manners in (not_found, denied, garbage, page):
        forge.manners = manners
        said.add(refused(url))
    monkeypatch.delenv("SSL_CERT_FILE")
    said.add(refused(url))  # a certificate of nobody
    port = free_port()
    allow(settings, f"localhost:{port}")
    said.add(refused(f"https://localhost:{port}/a").replace(str(port), str(forge.port)))  # nothing listens there now
    [words] = said
    assert "does not answer as a git repository does" in words
    assert "secret" not in words
    assert "not found" in caplog.text and "certificate" in caplog.text  # the operator can tell them apart


def test_a_page_in_place_of_the_repository_deletes_no_branch(
    forge: Forge, served: Repository, project: Project
) -> None:
    project.refresh_from_db()
    sync(project)

    def empty(handler: BaseHTTPRequestHandler) -> None:
        """Git takes a page without a line break for a repository without references."""
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"<h1>Log in to this network</h1>")

    forge.manners = empty
    assert git.remote_refs(remotes.remote_of(project)) == {}
    with pytest.raises(RepositoryUnreachable, match="lists no branch at all"):
        sync(project)
    assert project.branches.get().deleted_at is None
    assert git.local_refs(project.slug)


def test_a_redirect_is_not_followed_and_said(forge: Forge, served: Repository) -> None:
    def away(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", handler.path.replace("/moved", "/kvd"))
        handler.end_headers()

    forge.manners = away
    assert "redirect, which is not followed: enter the address" in refused(forge.url("moved"))
    assert [path for path, _ in forge.requests if path.startswith("/kvd")] == []


def dripping(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
    handler.end_headers()
    while True:
        handler.wfile.write(b"0")
        time.sleep(1)


def endless(start: bytes, block: bytes, kind: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def manners(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.end_headers()
        handler.wfile.write(start)
        while True:
            handler.wfile.write(block)

    return manners


def packet(content: bytes) -> bytes:
    return b"%04x" % (len(content) + 4) + content


def test_a_remote_that_drips_is_ended_and_the_next_project_has_its_turn(
    forge: Forge, project: Project, repository: Repository, settings: Any
) -> None:
    settings.GIT_TIMEOUT_S = 4
    forge.manners = dripping
    Project.objects.filter(pk=project.pk).update(url=forge.url("slow"))
    repository.commits(1)
    other = Project.objects.create(
        slug="other", name="other", url=str(repository.path), default_branch="main", suite="tiny"
    )
    Branch.objects.create(project=other, name="main")
    pushes.look_at_each(Project.objects.tracked, lambda one: fetching.fetch(one.slug, remotes.remote_of(one), ["main"]))
    project.refresh_from_db()
    assert "took longer than 4 s" in project.error
    assert git.resolve_revision("other", "main")


def test_an_endless_list_of_references_is_cut_off_by_its_memory(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitprocess, "LISTING_MB", 160)
    service = packet(b"# service=git-upload-pack\n") + b"0000"
    line = packet(b"1" * 40 + b" refs/heads/" + b"a" * 60_000 + b"\n")
    forge.manners = endless(service, line * 100, "application/x-git-upload-pack-advertisement")
    assert "more than fits into the memory" in refused(forge.url("a"))


def test_an_endless_pack_is_cut_off_and_nothing_of_it_stays(forge: Forge, served: Repository, settings: Any) -> None:
    settings.GIT_MOST_MB = 8
    blob = zlib.compress(os.urandom(60_000))
    header = bytes([0xB0 | (60_000 & 15), 0x80 | (60_000 >> 4 & 127), 60_000 >> 11])  # a blob of 60,000 bytes
    start = packet(b"packfile\n") + packet(b"\1PACK" + (2).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big"))
    flood = endless(start, packet(b"\1" + header + blob), "application/x-git-upload-pack-result")

    def manners(handler: Any) -> None:
        """Lists the references, and floods whoever asks for objects."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        if b"command=fetch" in body:
            flood(handler)
        else:
            handler.rfile = io.BytesIO(body)
            handler.run_git({name.lower(): value for name, value in handler.headers.items()})

    forge.manners = manners
    with pytest.raises(RepositoryUnreachable, match="more than GIT_MOST_MB=8 allows"):
        fetching.fetch("kvd", Remote(forge.url("kvd")), ["main"])
    assert sum(file.stat().st_size for file in mirror_of("kvd").rglob("*") if file.is_file()) < 1 << 20
