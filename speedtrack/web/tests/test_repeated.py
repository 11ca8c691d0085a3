"""Judgements that pages ask for again are made once, until anything changes that they rest on."""

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.test import Client

from speedtrack.alerts.models import Alert, ChangePoint, ComparisonBatch, NoiseFloor
from speedtrack.judging.repeated import NewestValues
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Build, Measurement, Run, Series
from speedtrack.web.tests.world import CPU, World

PAGES = ("/", "/home.json", "/p/kvd/", "/p/kvd.json", "/p/kvd/releases/", "/p/kvd/releases.atom")
JUDGING = "WITH asked AS MATERIALIZED"  # begins the statement that reads samples


def judges(client: Client, address: str) -> int:
    """How many statements of a page read what judgements rest on."""
    statements: list[str] = []

    def note(execute: Callable[..., Any], statement: str, *arguments: Any) -> Any:
        statements.append(str(statement))  # Django's log lacks the text of those whose plan is kept
        return execute(statement, *arguments)

    with connection.execute_wrapper(note):
        client.get(address)
    return sum(JUDGING in statement for statement in statements)


def test_pages_judge_once_until_evidence_changes(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    for name, place in (("v1.0", 1), ("v1.1", 6)):
        Tag.objects.create(project=made.project, name=name, sha=made.shas[place])
    old, new, head = (made.commit(place).pk for place in (1, 6, 7))
    measured = Measurement.objects.filter(series__metric=CPU, commit=new, paired=False)
    built = Build.objects.filter(commit=new).latest("pk")
    paired = Run.objects.filter(reason="confirm", status="succeeded").latest("pk")

    def build_again() -> None:
        built.pk, built.attempt = None, Run.objects.filter(commit=head, base=None).latest("pk").attempts.latest("pk")
        Build.objects.filter(attempt=built.attempt).delete()
        built.save()

    def floor() -> None:
        NoiseFloor.objects.create(series=Series.objects.filter(metric=CPU)[0], run=paired, pairs=9, smallest=0.5)

    changes: dict[str, Callable[[], object]] = {
        "a flag": lambda: measured.filter(series__benchmark__name="get-p1").update(flags=["steal"]),
        "pairs": lambda: Run.objects.filter(pk=paired.pk).update(base=old, commit=new),
        "a build": build_again,
        "a noise floor": floor,
        "a stored answer": lambda: ComparisonBatch.objects.filter(commit=head).delete(),
        "a verdict": lambda: ChangePoint.objects.filter(status="confirmed").update(commit=new),
        "what a person called invalid": lambda: Alert.objects.update(status="invalid"),
    }
    answers = [client.get(page).content for page in PAGES]
    assert [judges(client, page) for page in PAGES] == [0, 0, 0, 0, 1, 0], "the tables of releases alone"
    assert [client.get(page).content for page in PAGES][1::2] == answers[1::2]
    for what, change in changes.items():
        change()
        assert judges(client, "/home.json") == 1, what
        assert judges(client, "/home.json") == 0, what
    (card,) = client.get("/home.json").json()["projects"]
    assert card["last_release"]["series"] == 1, "the flagged value does not count"


def test_the_values_that_were_used_last_are_kept_up_to_a_weight() -> None:
    values: NewestValues[str] = NewestValues(6, len)
    for key in (b"a", b"b", b"c"):
        values.put(key, key.decode() * 2)
    assert values.get(b"a") == "aa"
    values.put(b"d", "dd")
    assert [values.get(key) for key in (b"a", b"b", b"c", b"d")] == ["aa", None, "cc", "dd"]
    values.put(b"e", "e" * 7)
    assert values.get(b"e") is None and values.weight == 0
