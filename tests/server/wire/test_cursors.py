"""Named cursors of the PostgreSQL port, by hand and as drivers use them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from psycopg import errors

from blowfishdb.errors import InvalidInput, QueryError, TooLarge
from blowfishdb.server.wire.statements import (
    MOST_CURSORS,
    Cursor,
    Cursors,
    StatementResult,
    declared_cursor,
    read_declaration,
)
from tests.server.wire.places import WirePlace
from tests.server.wire.test_clients import psql

WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward OPTIONS (epsilon = 0.25)"


@pytest.mark.parametrize(
    ("place", "direction", "numbers", "after"),
    [
        (0, "", [1], 1),
        (0, "NEXT", [1], 1),
        (1, "PRIOR", [], 0),
        (3, "PRIOR", [2], 2),
        (0, "2", [1, 2], 2),
        (2, "FORWARD 2", [3, 4], 4),
        (2, "forward  all", [3, 4, 5], 6),
        (4, "ALL", [5], 6),
        (4, "FORWARD 1", [5], 5),
        (5, "FORWARD 1", [], 6),
        (6, "BACKWARD 2", [5, 4], 4),
        (6, "BACKWARD ALL", [5, 4, 3, 2, 1], 0),
        (4, "-2", [3, 2], 2),
        (1, "BACKWARD 7", [], 0),
        (3, "0", [3], 3),
        (0, "FORWARD 0", [], 0),
        (3, "FIRST", [1], 1),
        (3, "LAST", [5], 5),
        (3, "ABSOLUTE 4", [4], 4),
        (3, "ABSOLUTE -2", [4], 4),
        (3, "ABSOLUTE 0", [], 0),
        (3, "ABSOLUTE 9", [], 6),
        (3, "RELATIVE 2", [5], 5),
        (3, "RELATIVE -3", [], 0),
        (3, "RELATIVE 0", [3], 3),
    ],
)
def test_a_cursor_goes_where_postgresql_would(place: int, direction: str, numbers: list[int], after: int) -> None:
    cursor = Cursor((), [(number,) for number in range(1, 6)], is_held=False, place=place)
    assert [row[0] for row in cursor.read(direction)] == numbers
    assert cursor.place == after


@pytest.mark.parametrize("direction", ["SIDEWAYS", "ABSOLUTE ALL", "FORWARD x", "RELATIVE", "9999999999"])
def test_other_directions_are_refused(direction: str) -> None:
    with pytest.raises(QueryError, match="FETCH FORWARD 10"):
        Cursor((), [], is_held=False).read(direction)


def test_declarations_are_read_with_their_comments() -> None:
    plain = read_declaration('DECLARE "My ""c""" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 1;')
    assert plain is not None
    assert (plain.name, plain.is_held, plain.question) == ('My "c"', False, "SELECT 1")
    held = declared_cursor("/* blowfish: within = 5 */ declare C insensitive scroll cursor with hold for SELECT 2")
    assert held is not None
    assert (held.name, held.is_held, held.question) == ("c", True, "/* blowfish: within = 5 */ SELECT 2")
    assert declared_cursor("SELECT 'DECLARE c CURSOR FOR x'") is None
    assert declared_cursor("-- nothing") is None
    with pytest.raises(QueryError, match="BINARY"):
        read_declaration("DECLARE c BINARY CURSOR FOR SELECT 1")


def test_long_statements_about_cursors_are_refused_in_few_steps() -> None:
    """A pattern that tries very many ways would not end."""
    for text in (f"FETCH {' ' * 90_000}!", f"FETCH {'1 FROM ' * 10_000}c;!", f"CLOSE {'c' * 90_000}!"):
        with pytest.raises(InvalidInput, match="no cursor"):
            (Cursors().close if text.startswith("CLOSE") else Cursors().fetch)(text)
    for text in (f"DECLARE {'a ' * 40_000}", f"DECLARE c {'NO SCROLL ' * 9_000}", f"{'/* */' * 9_000} DECLARE c"):
        assert declared_cursor(text) is None


def test_cursors_end_with_their_transaction_and_are_few() -> None:
    cursors = Cursors()
    for number in range(MOST_CURSORS):
        declared = read_declaration(f"DECLARE c{number} CURSOR {'WITH HOLD' if number else ''} FOR SELECT 1")
        assert declared is not None
        cursors.check(declared, in_transaction=True)
        cursors.open(declared, StatementResult("SELECT 0", ()))
    one_more = read_declaration("DECLARE d CURSOR WITH HOLD FOR SELECT 1")
    assert one_more is not None
    with pytest.raises(TooLarge):
        cursors.check(one_more, in_transaction=False)
    cursors.end_transaction()
    assert cursors.columns("c0") is None
    assert cursors.close("CLOSE c1;") == "CLOSE CURSOR"
    assert cursors.close("close all") == "CLOSE CURSOR ALL"
    for text in ("CLOSE c2", "CLOSE", "CLOSE c2 c3"):
        with pytest.raises(InvalidInput, match="no cursor"):
            cursors.close(text)


def test_psycopg_reads_an_answer_by_a_named_cursor_and_pays_once(port: WirePlace) -> None:
    notices: list[str | None] = []
    with port.connect("bob", spend="0.25") as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.autocommit = False
        with connection.cursor("wards", scrollable=True) as cursor:
            cursor.itersize = 2
            cursor.execute(WARDS)
            assert [column.name for column in cursor.description or ()] == ["ward", "count"]
            rows = list(cursor)
            assert [row[0] for row in rows] == ["A1", "A2", "A3"]
            cursor.scroll(0, mode="absolute")
            assert cursor.fetchone() == rows[0]
            assert cursor.fetchmany(5) == rows[1:]
        with connection.cursor("binary", binary=True) as cursor:
            assert cursor.execute(WARDS).fetchall() == rows
        connection.commit()
        with pytest.raises(errors.InvalidParameterValue, match="no cursor"):
            connection.execute("FETCH 1 FROM wards")
        connection.rollback()
        with connection.cursor("held", withhold=True) as cursor:
            cursor.execute(WARDS)
            connection.commit()
            assert cursor.fetchall() == rows
    assert [str(notice).partition(";")[0] for notice in notices] == ["charged epsilon 0.25", *["nothing charged"] * 2]
    assert port.app_state.session("bob").budget("visits").spent == Fraction(1, 4)


def test_a_cursor_that_cannot_be_declared_costs_nothing(port: WirePlace) -> None:
    with port.connect(spend="1") as connection:
        before = port.app_state.session("ana").budget("visits").spent
        dear = WARDS.replace("0.25", "0.5")
        with pytest.raises(errors.InvalidParameterValue, match="BEGIN one"):
            connection.execute(f"DECLARE c CURSOR FOR {dear}".encode())
        connection.execute("DECLARE c CURSOR WITH HOLD FOR SELECT relname FROM pg_class")
        with pytest.raises(errors.InvalidParameterValue, match="already"):
            connection.execute(f"DECLARE c CURSOR WITH HOLD FOR {dear}".encode())
        assert connection.execute("MOVE ALL IN c").statusmessage == "MOVE 1"
        assert connection.execute("FETCH PRIOR FROM c").fetchall() == [("visits",)]
        assert port.app_state.session("ana").budget("visits").spent == before


@pytest.mark.postgres
def test_psql_fetches_in_pieces(port: WirePlace) -> None:
    told = psql(port, "SET blowfish.spend = '0.25'", r"\set FETCH_COUNT 2", WARDS)
    assert [line.split("|")[0].strip() for line in told.splitlines() if line.strip().startswith("A")] == [
        *("A1", "A2", "A3")
    ]
    assert "ERROR" not in told
