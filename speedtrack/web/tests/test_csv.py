"""CSV of any page: no cell is a formula, whatever the author of its rows forgot."""

import csv
from io import StringIO

from speedtrack.web.requests.formats import cell, csv_pieces, csv_text


def test_no_cell_of_any_csv_is_a_formula() -> None:
    hostile = ["=1+1", "+cmd", "-x", "@a", "\t=1", "\u202e=1", "\x1b[1m=1", "=\u202e1"]
    rows = [[*hostile, "-2.5", "+1e5", -3, None, "plain = text", 'a"b,c\nd'] for _ in range(501)]  # more than a piece
    read = list(csv.reader(StringIO("".join(csv_pieces(csv_text(map(cell, row)) for row in rows)), newline="")))
    assert len(read) == 501
    for row in read:
        assert all(cell.startswith("'") for cell in row[: len(hostile)])
        assert row[len(hostile) :] == ["-2.5", "+1e5", "-3", "", "plain = text", 'a"b,c\nd']
