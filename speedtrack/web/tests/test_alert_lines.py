"""The lines that did it: the hunks of an alert's commit beside what the functions that they touch cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.mail import EmailMultiAlternatives
from django.test import Client

from speedtrack.alerts.hunks.findings import HunkFinding, HunkState, TriedHunk
from speedtrack.alerts.hunks.trials import facts_of
from speedtrack.alerts.models import Alert
from speedtrack.alerts.pairs.counts import FunctionCost, FunctionTable
from speedtrack.alerts.tests.conftest import World
from speedtrack.alerts.tests.test_counts import SUITE, Counting
from speedtrack.notices import mail
from speedtrack.notices.channels.document import message_of
from speedtrack.notices.models import Outbox
from speedtrack.projects.mirrors.directories import remove_mirror
from speedtrack.projects.mirrors.hunks import Hunk, hunks_between
from speedtrack.projects.models import Commit, Project
from speedtrack.reports.readings import lines
from speedtrack.reports.readings.lines import costs_by_name, lines_of_alert, plain_name
from speedtrack.tests import builders, worlds
from speedtrack.web.tests.world import html_of

HOSTILE = '<img src=x onerror="x">'
SOURCE = """\
int hash(const char *key)
{
    int sum = 0;
    return sum + key[0];
}

#define SEED 1





static int other(void)
{
    return SEED;
}
"""


def changed(source: str) -> str:
    return source.replace("int sum = 0;", f"int sum = 1; /* {HOSTILE} */").replace("return SEED;", "return SEED + 1;")


def counting_world(settings: Any, directory: Path) -> Counting:
    """A world with eight commits, to which ``raised`` adds the one that makes ``hash`` dearer."""
    builders.use_suite(settings, directory / "suites", SUITE)
    lines.hunks_of_commit.cache_clear()
    world = World(builders.Repository(directory / "repository"), builders.machine())
    world.shas = world.repository.commits(8)
    return Counting(world)


@pytest.fixture
def counting(db: None, settings: Any, tmp_path: Path) -> Counting:
    return counting_world(settings, tmp_path)


def raised(counting: Counting, before: dict[str, str], after: dict[str, str]) -> Alert:
    """The alert of a commit that makes the first of these texts the second, by path."""
    world = counting.world
    for texts in (before, after):
        for path, text in texts.items():
            (world.repository.path / path).write_text(text)
        world.shas.append(world.repository.commit())
    counting.factors = {world.shas[-1]: 1.03}
    world.shas += world.repository.commits(6)
    builders.track(world.repository, emails=["dev@example.org"])
    counting.until_quiet()
    return Alert.objects.get()


@worlds.shared
def hash_alert(settings: Any, directory: Path) -> Alert:
    """The alert of a commit that changes four hunks, of which one is in a function whose count changed."""
    path = f"src {HOSTILE.replace('/', '')}.c"
    before, after = ({path: text, "README": word} for text, word in ((SOURCE, "a\n"), (changed(SOURCE), "b\n")))
    return raised(counting_world(settings, directory), before, after)


@pytest.fixture
def alert(hash_alert: Alert) -> Alert:
    lines.hunks_of_commit.cache_clear()
    return hash_alert


def test_the_page_shows_the_hunks_that_touch_changed_functions_beside_their_costs(alert: Alert, client: Client) -> None:
    Project.objects.update(url="https://github.com/owner/name.git")
    page = html_of(client.get(f"/alerts/{alert.pk}/")).replace("&#x27;", "'")
    section = page[page.index('id="lines"') : page.index("Instructions per request by function")]
    assert "1 of the commit's 4 hunks touches functions whose count changed." in section
    assert "<ins>+ int sum = 1; /* &lt;img src=x onerror=&quot;x&quot;&gt; */" in section
    assert "<del>- int sum = 0;" in section
    assert HOSTILE not in page
    href = "src%20%3Cimg%20src%3Dx%20onerror%3D%22x%22%3E.c"
    assert f'href="https://github.com/owner/name/blob/{alert.commit.sha}/{href}#L1-L6"' in section
    assert '<code>hash</code> <span class="soft">get-p1</span>' in section
    assert "3 further hunks touch no function whose count changed" in section
    assert "README:1" in section


def test_page_document_message_and_mail_say_the_same(alert: Alert, client: Client) -> None:
    document = client.get(f"/api/v1/alerts/{alert.pk}").json()["lines"]
    assert document == client.get(f"/alerts/{alert.pk}.json").json()["lines"]
    assert document == message_of(alert.events.latest("pk"), "1").named()["alert"]["lines"]
    sentence = "1 of the commit's 4 hunks touches functions whose count changed."
    assert (document["sentence"], document["why_not"], document["further"]) == (sentence, "", 3)
    (hunk,) = document["hunks"]
    (function,) = hunk["functions"]
    assert (hunk["kind"], hunk["line"], hunk["lines"], hunk["is_named"]) == ("hunk", 1, 6, False)
    assert (function["name"], function["benchmark"]) == ("hash", "get-p1")
    assert function["after"] - function["before"] == pytest.approx(120, abs=5)
    letter = mail.message_of(Outbox.objects.get())
    assert isinstance(letter, EmailMultiAlternatives)
    for body in (str(letter.body), str(letter.alternatives[0][0])):
        assert " ".join(body.split()).replace("&#x27;", "'").count(sentence) == 1


def test_the_forge_is_linked_only_where_it_is_known(alert: Alert, client: Client) -> None:
    page = html_of(client.get(f"/alerts/{alert.pk}/"))
    assert "README:1" in page and "/blob/" not in page


def test_the_hunks_of_a_private_project_are_shown_to_its_members_only(alert: Alert, client: Client) -> None:
    Project.objects.update(is_public=False)
    for address in (f"/alerts/{alert.pk}/", f"/alerts/{alert.pk}.json", f"/api/v1/alerts/{alert.pk}"):
        answer = client.get(address)
        assert answer.status_code in (302, 401, 403, 404) and b"int sum" not in answer.content
    client.force_login(User.objects.create_superuser("ada"))
    assert "int sum = 1;" in html_of(client.get(f"/alerts/{alert.pk}/"))


def test_the_hunks_are_read_from_git_once(alert: Alert, client: Client) -> None:
    address = f"/alerts/{alert.pk}/"
    first = html_of(client.get(address))
    remove_mirror(alert.project.slug)
    assert "int sum = 1;" in first and "int sum = 1;" in html_of(client.get(address))


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("no mirror", "Its hunks cannot be shown: the repository of repository is not on this server"),
        ("no commit", "Its hunks cannot be shown: the mirror has no longer this commit and the one before it."),
        ("placed", "A person named this commit, and functions were counted at others"),
        ("too large", "a change of more than 2 is not split"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(
    fault: str, sentence: str, alert: Alert, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines.hunks_of_commit.cache_clear()
    if fault == "no mirror":
        remove_mirror(alert.project.slug)
    if fault == "no commit":
        Commit.objects.filter(pk=alert.commit_id).update(sha="e" * 40)
    if fault == "placed":
        Alert.objects.update(placed=True)
    if fault == "too large":
        monkeypatch.setattr("speedtrack.projects.mirrors.hunks.MOST_LINES", 2)
    for text in (
        html_of(client.get(f"/alerts/{alert.pk}/")),
        client.get(f"/api/v1/alerts/{alert.pk}").content.decode(),
    ):
        assert sentence in text and "int sum" not in text


def test_a_range_of_commits_has_no_hunks_until_one_is_named(alert: Alert) -> None:
    alert.width = 3
    assert lines_of_alert(alert, [], []).why_not.startswith("One of 3 commits is the cause")
    alert.drift = "1.0"
    assert lines_of_alert(alert, [], []).why_not.startswith("The level moved little by little")


def test_an_alert_without_counts_says_so(slow: tuple[object, Alert], client: Client) -> None:
    page = html_of(client.get(f"/alerts/{slow[1].pk}/"))
    assert "No function is known to execute more or fewer instructions" in page


def test_a_commit_of_thousands_of_hunks_shows_some_and_counts_the_others(counting: Counting, client: Client) -> None:
    body = "int hash{0}(void)\n{{\n    return {1};\n}}\n\n\n\n\n\n\n"
    before, after = ("".join(body.format(number, text) for number in range(4000)) for text in ("0", "1"))
    inside = "int hash(void)\n{\n" + "    x;\n\n\n\n\n\n\n\n" * 20 + "}\n"
    alert = raised(
        counting,
        {"many.c": before, "own.c": inside},
        {"many.c": after, "own.c": inside.replace("x;", "y" * 1000 + ";")},
    )
    page = html_of(client.get(f"/alerts/{alert.pk}/")).replace("&#x27;", "'")
    assert "20 of the commit's 4021 hunks touch functions whose count changed." in page
    assert page.count('class="patch"') == lines.MOST_SHOWN
    assert f"{20 - lines.MOST_SHOWN} more such hunks are not shown." in page
    assert "4001 further hunks touch no function whose count changed" in page
    assert f"and {4001 - lines.MOST_FURTHER} more" in page
    assert len(page) < 200_000


def test_a_hunk_that_one_benchmark_names_is_marked_whatever_the_next_one_names(alert: Alert) -> None:
    pieces = hunks_between(alert.project.slug, alert.before.sha, alert.commit.sha)[:2]
    findings = [found(f"get-{at}", pieces, named=at) for at in (0, 1)]
    tables = [FunctionTable("get-0", "serve", 1.0, 2.0, [FunctionCost("hash", 1.0, 2.0)])]
    shown = lines_of_alert(alert, tables, findings).hunks
    assert [(one.hunk.path, one.hunk.number) for one in shown if one.is_named] == [(p.path, p.number) for p in pieces]
    assert {(each.benchmark, each.hunk.instructions) for each in shown[0].tried} == {("get-0", 9.0), ("get-1", 0.0)}


def found(benchmark: str, pieces: Sequence[Hunk], named: int) -> HunkFinding:
    """That one of these hunks explains all of a benchmark's change, each taken back alone."""
    tried = [
        TriedHunk(**facts_of(piece), text="", is_named=at == named, instructions=9.0 * (at == named), refusal="")
        for at, piece in enumerate(pieces)
    ]
    others = tuple(hunk for hunk in tried if not hunk.is_named)
    return HunkFinding(benchmark, HunkState.FOUND, "", 9.0, 9.0, (tried[named],), others, len(pieces), 3, 24)


def test_copies_of_a_function_are_one_and_names_are_those_of_the_source() -> None:
    functions = [FunctionCost("hash", 50.0, 0.0), FunctionCost("hash.constprop.0", 0.0, 60.0)]
    steady = [FunctionCost("parse.isra.1", 10.0, 0.0), FunctionCost("parse", 0.0, 10.0)]
    costs = costs_by_name([FunctionTable("get", "serve", 60.0, 70.0, functions + steady)])
    assert costs == {"hash": [("get", FunctionCost("hash", 50.0, 60.0))]}


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("dictFind.part.0.cold", "dictFind"),
        ("_ZN3kvd5Table3getERKSs", "get"),
        ("_Z4hashPKc", "hash"),
        ("_ZN3kvd5table3get17h0123456789abcdefE", "get"),
        ("_RNvNtCs1_3kvd5table3get", "_RNvNtCs1_3kvd5table3get"),
        ("_Z9", "_Z9"),
        ("_Z999", "_Z999"),
        ("(other functions)", "(other functions)"),
    ],
)
def test_the_name_of_a_symbol(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name
