"""The name of a schema is that of one document."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import ValidationError

from speedtrack.processes.devstack import BASE_DIR
from speedtrack.reports import alerts, commits, comparing, evidence, machines, runs, why
from speedtrack.reports.common import Document, Filled, From

ROOMS = (alerts, commits, comparing, evidence, machines, runs, why)  # which have the documents with names

NAME = re.compile(r"speedtrack\.[a-z-]+/\d+")


def test_each_name_is_written_in_one_module() -> None:
    """By modules of the server: as the value of a key `schema`, or of a constant."""
    written = defaultdict(set)
    for file in (BASE_DIR / "speedtrack").rglob("*.py"):
        if "tests" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            values = []
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                values = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "schema"]
            elif isinstance(node, ast.Assign):
                values = [node.value]
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and NAME.fullmatch(value.value):
                    written[value.value].add(str(file.relative_to(BASE_DIR)))
    assert len(written) > 15
    assert {name: files for name, files in written.items() if len(files) > 1} == {}


def documents(base: type[Document] = Document) -> Iterator[type[Document]]:
    for document in base.__subclasses__():
        yield document
        yield from documents(document)


def test_each_name_is_that_of_one_model() -> None:
    """A subclass has more keys, so it does not inherit the name."""
    by_name = defaultdict(set)
    for document in documents():
        if document.SCHEMA:
            assert NAME.fullmatch(document.SCHEMA) and "SCHEMA" in vars(document), document
            by_name[document.SCHEMA].add(document)
    assert {name for name, models in by_name.items() if len(models) == 1} == {
        "speedtrack.alert/2",
        "speedtrack.alerts/2",
        "speedtrack.commit/2",
        "speedtrack.compare/2",
        "speedtrack.event/1",
        "speedtrack.machine/2",
        "speedtrack.run/2",
        "speedtrack.sensitivity/2",
        "speedtrack.takes/1",
        "speedtrack.why/1",
    }
    assert all(len(models) == 1 for models in by_name.values())


@dataclass
class Side:
    sha: str


@dataclass
class Row:
    pk: int
    title: str
    base: Side | None


class Shown(Document):
    """A document with each way of reading a field."""

    title: str
    base: Annotated[str | None, From("base.sha")]
    width: Annotated[int, From(lambda row: len(row.title))]
    url: Annotated[str, Filled("/rows/{0.pk}")]
    note: str = "none"


def test_a_field_is_read_as_it_says_unless_it_is_given() -> None:
    first, second = Shown.of(Row(1, "one", Side("a1"))), Shown.of(Row(2, "three", None), title="given", note="new")
    assert first == Shown(title="one", base="a1", width=3, url="/rows/1", note="none")
    assert second == Shown(title="given", base=None, width=5, url="/rows/2", note="new")
    with pytest.raises(ValidationError, match="title"):
        Shown.of(Row(3, "", None), title=None)
    with pytest.raises(AttributeError, match="title"):
        Shown.of(Side("a1"))
