"""Rows in PostgreSQL's binary form."""

from speedtrack.ground.postgres.pgvalues import rows_of_arrays


def test_arrays_and_bytes_in_binary_form(db: None) -> None:
    statement = "SELECT ARRAY[1, NULL, 3], ARRAY['a', ''], '\\x00ff'::bytea, 0.1::float8, %(word)s::text"
    assert rows_of_arrays(statement, {"word": "%"}) == [([1, None, 3], ["a", ""], b"\x00\xff", 0.1, "%")]
