"""A private project is shown to its members only: every address of ``urls.py`` is asked by people with and without.

Everything that others may name in it has the word PLANTED in it. A new address fails here until PARTS knows its parts.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponseBase
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone

from speedtrack.accounts import members, tokens
from speedtrack.accounts.models import Role, Scope
from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.models import Alert, Bisection
from speedtrack.alerts.triage import muting
from speedtrack.benchmarks.models import Benchmark
from speedtrack.monitoring import collector
from speedtrack.notices.matching import interests_in
from speedtrack.notices.models import Channel, Notice, Subscriber, Subscription
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.channels import channel
from speedtrack.outside.tests.conftest import row, send
from speedtrack.processes.live.subjects import look
from speedtrack.projects.models import Annotation, Commit, Delivery, Project, Tag
from speedtrack.runs import tickets
from speedtrack.runs.models import Alarm, Machine, MachineEvent, PairedComparison, Profile, Run, Status
from speedtrack.tests import builders, worlds
from speedtrack.web.requests.permissions import RULES, Need, Rule
from speedtrack.web.tests.world import CPU, World, slowed, world

PLANTED, SLUG = "quokka", "wombat"  # the slug stands in addresses, and what is said of those repeats it
PHRASES = [
    f"The {PLANTED}",
    *(f"{PLANTED} {word}" for word in ["subject", "author", "note", "failed", "mute", "stalls", "lags"]),
]
PHRASES += [f"{PLANTED}-get", f"{PLANTED}-1.0", f"example.org/{PLANTED}"]
CSRF = re.compile(r'value="\w{64}"')


@dataclass
class Den:
    """A private project that is full of planted words, and a public one beside it."""

    made: World
    alert: Alert
    other: World
    parts: dict[str, Any]

    def client(self, name: str, role: Role | None = None, **more: Any) -> Client:
        user = User.objects.create_user(name, f"{name}@example.org", **more)
        if role:
            members.give_role(self.made.project, user, role)
        client = Client()
        client.force_login(user)
        return client

    def addresses(self) -> Iterator[tuple[str, str, bool]]:
        """Of each address its name, one with right parts, and whether it is one of the private project."""
        resolver = get_resolver()
        for name in sorted(RULES):
            for possible in resolver.reverse_dict.getlist(name):
                parts = possible[0][0][1]
                missing = [one for one in parts if f"{name} {one}" not in self.parts and one not in self.parts]
                assert not missing, f"say in `parts` what {missing} of the address {name!r} is"
                named = {one: self.parts.get(f"{name} {one}", self.parts.get(one)) for one in parts}
                yield name, reverse(name, kwargs=named), "slug" in parts or RULES[name].of is not None


@worlds.shared
def den(settings: Any, directory: Path) -> Den:
    made, alert = slowed(settings, directory)
    made.push(2)
    failed = made.fail(f"{PLANTED} failed")
    bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    other = world(settings, directory / "other", commits=2, name="open")
    for machine in other.machines:
        builders.work(machine, other.speed)
    assert Run.objects.filter(project=made.project, status=Status.QUEUED).exists()
    plant(made, alert)
    alert.refresh_from_db()
    measured = Run.objects.filter(project=made.project, status="succeeded", base=None).latest("pk")
    profile = profile_of(measured)
    parts = {
        "slug": SLUG,
        "sha": made.shas[5],
        "benchmark": f"{PLANTED}-get",
        "metric": CPU,
        "form": "json",
        "badge form": "svg",
        "export form": "csv",
        "kind": "webhook",
        "action": "retry",
        "name": made.machines[0].name,
        "help name": "methodology",
        "suite name": made.project.suite,
        "token": "no-token",
        "code": "no-code",
        "hook_id": made.project.hook_id,
        "number": 1,
        "try number": PairedComparison.objects.get().pk,
        "alert-picture pk": alert.pk,
        **{f"{name} pk": alert.pk for name in RULES if name.startswith("alert")},
        **{f"{name} pk": failed.pk for name in RULES if name.startswith("run")},
        "run-script pk": measured.pk,
        "profile-folded pk": profile.pk,
        "bisection pk": Bisection.objects.latest("pk").pk,
        "bisection-stop pk": Bisection.objects.latest("pk").pk,
        "annotation pk": Annotation.objects.latest("pk").pk,
        "annotation-delete pk": Annotation.objects.latest("pk").pk,
        "channel pk": Channel.objects.latest("pk").pk,
        "channel-act pk": Channel.objects.latest("pk").pk,
        "delivery pk": Delivery.objects.latest("pk").pk,
        "mute-end pk": made.project.mutes.latest("pk").pk,
    }
    return Den(made, alert, other, parts)


def plant(made: World, alert: Alert) -> None:
    """Make it private, with the word in everything that people, forges and commits name."""
    project, ada = made.project, User.objects.create_superuser("ada")
    Commit.objects.filter(project=project).update(subject=f"{PLANTED} subject", author_name=f"{PLANTED} author")
    for benchmark in Benchmark.objects.filter(project=project, name="get-p1"):
        Benchmark.objects.filter(pk=benchmark.pk).update(name=f"{PLANTED}-get")
    Annotation.objects.create(project=project, commit=alert.commit, text=f"{PLANTED} note", author=ada)
    Tag.objects.create(project=project, name=f"{PLANTED}-1.0", sha=made.shas[3])
    muting.mute(project, muting.MuteRequest("", "", made.machines[0], f"{PLANTED} mute", 3), ada)
    channel(project, "webhook", f"https://example.org/{PLANTED}")
    builders.call_hook(project, {"text": PLANTED}, PLANTED, "3")
    PairedComparison.objects.create(
        project=project, head_name=f"{PLANTED} subject", base_name="main", error=f"{PLANTED} failed"
    )
    machine = made.machines[0]
    Alarm.objects.create(kind="stalled", machine=machine, why=f"{PLANTED} stalls")
    Alarm.objects.create(kind="lag", branch=project.branches.get(), why=f"{PLANTED} lags")
    MachineEvent.objects.create(machine=machine, kind="quarantined", why=f"{PLANTED} moved")
    Machine.objects.filter(pk=machine.pk).update(quarantined_at=timezone.now(), quarantined_why=f"{PLANTED} moved")
    Project.objects.filter(pk=project.pk).update(
        slug=SLUG, name=f"The {PLANTED}", url=f"https://example.org/{PLANTED}", is_public=False
    )
    project.refresh_from_db()


def profile_of(run: Run) -> Profile:
    benchmark = Benchmark.objects.filter(project=run.project).earliest("pk")
    return Profile.objects.create(
        attempt=run.attempts.get(),
        benchmark=benchmark,
        side="head",
        kind="samples",
        event="cycles",
        frequency_hz=99,
        samples=1,
        folded=zlib.compress(f"{PLANTED} 1".encode()),
    )


def text_of(answer: HttpResponseBase) -> str:
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
    return CSRF.sub("", body.decode(errors="replace"))


def faults_of(den: Den, client: Client, *, logged_in: bool) -> list[str]:
    """What somebody who is no member sees of the private project."""
    found = []
    for name, address, is_private in den.addresses():
        answer = client.get(address)
        status, text = answer.status_code, text_of(answer).replace(address, "")
        if f"{PLANTED}-get" in address:
            text = text.replace(f"{PLANTED}-get", "")  # what the address itself says
        own = RULES[name].read is not Need.SIGHT
        if is_private and status not in ((302,) if own and not logged_in else (404, 405) if own else (404,)):
            found.append(f"{name}: {status}")
        if PLANTED in text or (not is_private and SLUG in text):
            found.append(f"{name}: {text[max(0, text.find(PLANTED) - 80) :][:200]}")
    return found


def test_nobody_else_sees_a_word_of_a_private_project_at_any_address(den: Den, settings: Any) -> None:
    faults = faults_of(den, Client(), logged_in=False) + faults_of(den, den.client("eve"), logged_in=True)
    assert not faults, "\n".join(faults)
    sha, pk = den.made.shas[5], den.alert.pk
    asked = {
        f"/p/open/compare/?base_project={SLUG}&base={sha}": 404,
        f"/p/open/lines.json?q={PLANTED}": 200,
        f"/p/open/lines.json?q=main+{SLUG}": 200,
        f"/p/open/timeline/get-p1/{CPU}?line={SLUG}/{PLANTED}-get&base={sha}": 200,
        f"/p/open/timeline/get-p1/{CPU}.json?line={SLUG}/{PLANTED}-get&base={sha}": 200,
        f"/alerts/?project={SLUG}&status=all": 200,
        "/alerts.json?status=all": 200,
        "/alerts.atom?status=all": 200,
        "/queue/?part=live": 200,
        f"/ladders/?project={SLUG}": 200,
        f"/ladders/?line={SLUG}": 404,
        "/machines/open-m1/": 200,
        f"/p/{SLUG}/badge.json": 404,
        f"/p/{SLUG}/releases.csv": 404,
        **{f"/search/?q={word}": 200 for word in (PLANTED, sha, pk, SLUG)},
    }
    for address, status in asked.items():
        answer = Client().get(address)
        text = text_of(answer)
        assert answer.status_code == status, address
        assert [phrase for phrase in PHRASES if phrase in text and phrase not in address] == [], address
    for word in (PLANTED, sha, SLUG, f"alert {pk}"):
        assert Client().get(f"/search.json?q={word}").json()["results"] == []
    assert PLANTED not in collector.exposition().decode() and SLUG not in collector.exposition().decode()


def test_what_is_said_of_a_private_project_is_said_of_one_that_is_none(den: Den) -> None:
    eve = den.client("eve")
    private = {
        name: (address, text_of(eve.get(address))) for name, address, is_private in den.addresses() if is_private
    }
    Project.objects.filter(pk=den.made.project.pk).update(slug="renamed", is_public=True)
    for name, (address, text) in private.items():
        if RULES[name].of is None:
            assert text_of(eve.get(address)) == text, name
    absent = str(10**15)
    for name, (address, text) in private.items():
        if of := RULES[name].of:
            pk = den.parts[f"{name} pk"]
            assert of.absent(pk).split(".")[0] in text.replace("&#x27;", "'"), name
            other = text_of(eve.get(address.replace(str(pk), absent)))
            assert other.replace(absent, str(pk)) == text, name


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
FORMS = ("json", "svg", "csv", "atom", "png", "txt", "x")
ABSENT_PK = str(10**15)
VARYING = ("Content-Length", "X-Request-ID", "Date")  # the length is that of the name, which the body shows


def answer_to(client: Client, method: str, address: str, hidden: str, header: dict[str, str]) -> tuple[Any, ...]:
    """Status, headers and body of an answer, without the part of the address that tells which project it is."""
    answer = client.generic(method, address, headers=header)
    headers = {name: value for name, value in answer.items() if name not in VARYING}
    return answer.status_code, str(headers).replace(hidden, "HIDDEN"), text_of(answer).replace(hidden, "HIDDEN")


@dataclass
class Question:
    """An address of the private project, and the part of it that is another where the project is none."""

    rule: Rule
    address: str
    part: str
    other: str
    pk: str

    def differences(self, client: Client, methods: Iterable[str], header: dict[str, str], form: str = "") -> list[str]:
        """How the answers differ for the private project from those for one that is none."""
        hidden, found = self.address.rpartition(".")[0] + f".{form}" if form else self.address, []
        for method in methods:
            private = answer_to(client, method, hidden, self.part, header)
            none = answer_to(client, method, hidden.replace(self.part, self.other, 1), self.other, header)
            private, none = (plain_of(answer, self.pk, ABSENT_PK) for answer in (private, none))
            if private != none:
                found.append(f"{method} {hidden} {header}: {private[:2]} is not {none[:2]}")
        return found


def questions(den: Den) -> Iterator[tuple[Question, Sequence[str]]]:
    """Those of all addresses of the private project, and the other forms that the address has."""
    for name, address, is_private in den.addresses():
        if not is_private:
            continue
        pk, part, other = str(den.parts.get(f"{name} pk", "")), SLUG, "absent"
        if RULES[name].of:
            part = address[: address.index(f"/{pk}") + len(pk) + 1]
            other = part.replace(f"/{pk}", f"/{ABSENT_PK}")
        yield Question(RULES[name], address, part, other, pk), FORMS if "form" in address_parts(name) else ()


def plain_of(answer: tuple[Any, ...], pk: str, absent: str) -> tuple[Any, ...]:
    """The answer without the number that its sentence names."""
    numbers = re.compile(rf"\b({absent}|{pk})\b") if pk else None
    return (*answer[:2], numbers.sub("N", answer[2]) if numbers else answer[2])


def address_parts(name: str) -> list[str]:
    return [part for possible in get_resolver().reverse_dict.getlist(name) for part in possible[0][0][1]]


def test_no_method_format_or_token_tells_a_private_project_from_none(den: Den) -> None:
    """What comes before the check of sight tells: the method, the format, a token, or the header itself.

    Each address sees each method, form and header, and where tokens count each header by each method.
    """
    visitor, careful, eve = Client(), Client(enforce_csrf_checks=True), den.client("eve")
    den.client("rita", Role.READER)
    _, strange = tokens.issue(User.objects.get(username="eve"), "ci", tuple(Scope), days=None)
    _, unscoped = tokens.issue(User.objects.get(username="rita"), "ci", [Scope.RESULTS], days=None)
    headers = ("Basic eDp5", "Bearer wrong", "Nonsense", "", f"Bearer {strange}", f"Bearer {unscoped}")
    faults, kinds = [], ("GET", "POST", "OPTIONS")
    for place, (question, forms) in enumerate(questions(den)):
        faults += question.differences(eve, METHODS, {})
        faults += question.differences(visitor, (*kinds, "BREW"), {})
        faults += question.differences(careful, ("POST",), {})
        for form in forms:
            faults += question.differences(eve, ("GET",), {}, form) + question.differences(visitor, ("GET",), {}, form)
        for number, header in enumerate(headers):
            methods = kinds if question.rule.takes_tokens else kinds[(place + number) % 3 :][:1]
            faults += question.differences(visitor, methods, {"Authorization": header})
    assert not faults, "\n".join(faults)


#: What the private project does not have, as one who may see it reads.
ABSENT = {"run-script": "has no script", "takes-values": "not known"}


def test_members_see_it_and_what_they_see_is_kept_by_no_shared_cache(den: Den) -> None:
    reader, operator = den.client("rita", Role.READER), den.client("olga", is_superuser=True)
    for name, address, is_private in den.addresses():
        if RULES[name].read is Need.SIGHT and name != "invitation":
            for client in (reader, operator):
                answer = client.get(address)
                is_shown = ABSENT[name] in text_of(answer) if name in ABSENT else answer.status_code == 200
                assert is_shown, (name, answer.status_code)
                if answer.status_code != 200:
                    continue
                assert "private" in answer["Cache-Control"] and "public" not in answer["Cache-Control"], name
                assert "Cookie" in answer["Vary"], name
        elif is_private:
            assert reader.get(address).status_code in (403, 405), name
    assert f"The {PLANTED}" in text_of(reader.get("/"))
    assert f"{PLANTED} subject" in text_of(reader.get("/queue/"))
    page = text_of(reader.get(f"/machines/{den.made.machines[0].name}/"))
    assert f"The {PLANTED}" in page and "a private project" not in page
    assert "a private project" in text_of(Client().get(f"/machines/{den.made.machines[0].name}/"))
    members.remove(den.made.project, User.objects.get(username="rita"))
    assert reader.get(f"/p/{SLUG}/").status_code == 404


def test_what_results_from_outside_say_of_a_machine_is_for_members(den: Den) -> None:
    for project, facts in ((den.made.project, {"customer": PLANTED}), (den.other.project, {"customer": "none"})):
        sha = project.branches.get().head.sha
        send(project, row(sha), machine="bench-box", environment=facts)
    addresses = ["/machines/bench-box/", "/machines/bench-box.json", "/api/v1/machines/bench-box"]
    for address in [*addresses, "/api/v1/machines/bench-box/environments"]:
        for reader, sees in ((Client(), False), (den.client(f"r{len(address)}", Role.READER), True)):
            text = text_of(reader.get(address))
            assert (PLANTED in text, "none" in text) == (sees, True), address


def test_streams_of_a_private_project_are_for_its_members(den: Den) -> None:
    den.client("rita", Role.READER), den.client("eve")
    rita, eve = (User.objects.get(username=name).pk for name in ("rita", "eve"))
    Machine.objects.update(quarantined_at=None, quarantined_why="")
    # The machine measures the public project, too, and what that has waiting by now may come first.
    Run.objects.unfinished().exclude(project=den.made.project).update(status=Status.CANCELLED)
    run = builders.claim(den.made.machines[0])
    answer, _ = look({run.pk: None}, True)
    state = answer.runs[run.pk]
    assert [state.may_be_seen_by(viewer) for viewer in (rita, eve, None)] == [True, False, False]
    assert answer.queue and answer.queue.progress == {}
    ticket = tickets.ticket_for(rita, run.pk)
    assert tickets.viewer_of(ticket, run.pk) == rita
    assert tickets.viewer_of(ticket, run.pk + 1) is tickets.viewer_of(ticket[:-1], run.pk) is None


def test_who_may_no_longer_see_a_project_gets_no_mail_of_it(den: Den) -> None:
    den.client("rita", Role.READER), den.client("eve")
    for name in ("rita", "eve"):
        Subscription.objects.create(
            subscriber=Subscriber.objects.create(email=f"{name}@example.org", user=User.objects.get(username=name)),
            project=den.made.project if name == "rita" else None,
        )
    Subscription.objects.create(subscriber=Subscriber.objects.create(email="list@example.org"))
    Subscriber.objects.create(email=den.alert.commit.author_email, own_commits=True)
    assert [str(one.subscriber) for one in interests_in(den.alert)] == ["rita@example.org"]
    den.alert.events.update(untold=True)
    members.remove(den.made.project, User.objects.get(username="rita"))
    tell_subscribers()
    assert not Notice.objects.exists()
