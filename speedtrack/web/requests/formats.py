"""The values of a page for programs: the page's address with ``.json`` or ``.csv``."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from pydantic_core import to_json

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.ground.texts.text import UNSEEN_IN_JSON, csv_cell, plain_parts
from speedtrack.reports.common import Document

LINES_AT_ONCE = 500
NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?")


def format_or_404(form: str, subject: str, formats: Sequence[str] = ("json", "csv")) -> str:
    """The format that an address names. Raises Http404 with the known ones. ``subject``: of what, with its article."""
    if form not in formats:
        raise Http404(
            f"There is no format {form!r} of {subject}: there are {', '.join(formats[:-1])} and {formats[-1]}."
        )
    return form


def rows_of(columns: Sequence[str], documents: Iterable[Document]) -> Iterator[list[Any]]:
    """The titles of the columns, then these fields of each document as a row; words of a list are joined by spaces."""
    yield list(columns)
    for document in documents:
        values = (getattr(document, name) for name in columns)
        yield [" ".join(value) if isinstance(value, list) else value for value in values]


def csv_response(name: str, rows: Iterator[list[Any]]) -> StreamingHttpResponse:
    """Rows as a CSV file of this name, without its ending."""
    return csv_file(name, (csv_text(map(cell, row)) for row in rows))


def csv_file(name: str, lines: Iterator[str]) -> StreamingHttpResponse:
    """Lines of CSV without their ends as a file of this name, without its ending."""
    response = StreamingHttpResponse(csv_pieces(lines), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def values_response(
    form: str, name: str, document: Callable[[], dict[str, Any]], rows: Callable[[], Iterator[list[Any]]]
) -> HttpResponseBase:
    """The values of a page as JSON, or as a CSV file of this name."""
    return plain_response(document()) if form == "json" else csv_response(name, rows())


def plain_response(document: dict[str, Any]) -> HttpResponse:
    """A document as JSON with ``plain`` texts. Most have nothing to remove, and are written once.

    By pydantic's serializer, as the API: Python's takes ten times as long.
    """
    text = to_json(document, inf_nan_mode="null").decode()
    if UNSEEN_IN_JSON.search(text):
        text = to_json(plain_parts(document), inf_nan_mode="null").decode()
    return HttpResponse(text, content_type="application/json")


def csv_pieces(lines: Iterator[str]) -> Iterator[str]:
    """The lines in pieces of many: each piece is compressed and sent by itself."""
    while batch := list(islice(lines, LINES_AT_ONCE)):
        yield "\r\n".join([*batch, ""])


class CsvLines(list[str]):
    """A file that has an element for each line that a writer of CSV writes to it."""

    write = list[str].append


def csv_text(values: Iterable[Any]) -> str:
    """Values as a part of a line of CSV."""
    (text,) = csv_texts([values])
    return text


def csv_texts(rows: Iterable[Iterable[Any]]) -> list[str]:
    """Each row as a part of a line of CSV: a writer for each would take longer than the rows."""
    lines = CsvLines()
    csv.writer(lines).writerows(("", *values) for values in rows)  # a cell that is empty and alone would be quoted
    return [line[1:-2] for line in lines]


def number_texts(column: Array) -> list[str]:
    """Numbers with all their digits, as ``repr`` writes them."""
    sizes = np.abs(column)
    if ((sizes >= 1e-4) & (sizes < 1e16)).all():  # whose texts in JSON are the same, in a fifth of the time
        return to_json(column.tolist())[1:-1].decode().split(",")
    return list(map(repr, column.tolist()))


def cell(value: Any) -> Any:
    """The value of a cell, in which no text is a formula, whatever a row's author forgot.

    A number that was written as text stays one.
    """
    return csv_cell(value) if isinstance(value, str) and not NUMBER.fullmatch(value) else value
