"""PostgreSQL servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from blowfishdb.model.numbers import Floats
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, driver, function, ibis
from blowfishdb.sources.calls import CONNECTING, STOPPING, severed, stopped_by
from blowfishdb.sources.irregular import FURTHEST, ROUND, UNTOLD, ByteCells, byte_cells
from blowfishdb.sources.location import Location, TableName
from blowfishdb.sources.steps import exact_double

if TYPE_CHECKING:
    from psycopg import Connection

KINDS = {
    **dict.fromkeys(("smallint", "integer", "bigint"), ColumnKind.INTEGER),
    **dict.fromkeys(("real", "double precision"), ColumnKind.REAL),
    **dict.fromkeys(("text", "character varying", "character", "uuid", "citext", "name"), ColumnKind.TEXT),
    "numeric": ColumnKind.DECIMAL,
    "boolean": ColumnKind.BOOLEAN,
    "date": ColumnKind.DATE,
    "timestamp without time zone": ColumnKind.TIMESTAMP,
    "timestamp with time zone": ColumnKind.INSTANT,
}
COLUMNS = """
    SELECT a.attname, t.typtype = 'e',
        format_type(COALESCE(NULLIF(t.typbasetype, 0), t.oid), NULL),
        CASE WHEN t.typname = 'numeric' AND a.atttypmod > 0 THEN ((a.atttypmod - 4) >> 16) & 65535 END,
        t.typname = 'numeric' AND a.atttypmod > 0 AND ((a.atttypmod - 4) & 65535) = 0
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
        AND a.attnum > 0 AND NOT a.attisdropped
        AND has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT')
    ORDER BY a.attnum"""
"""Only what this account may select: a column that it may not would fail a release after it was charged."""
LISTED_FROM = 16
"""Edges from which on a list of bytes pays off."""
MOST_COMPILED = 32
"""Conditions of a statement that may be compiled: that pays off over millions of rows, but takes long for hundreds."""


class Postgres(Engine):
    """One database of a PostgreSQL server."""

    compiler = "postgres"
    errors_on_underflow = True
    byte_text = 'CAST(x AS TEXT) COLLATE "C"'

    def __init__(self, location: Location) -> None:
        self._location = location
        self._driver = driver("psycopg", "postgresql", "postgres")

    @contextmanager
    def _connected(self) -> Iterator[Connection[Any]]:
        """A connection, which ends at once when its call is ended, whether or not the server answers."""
        address = self._location.address.replace("postgres://", "postgresql://", 1)
        usual = {} if "connect_timeout" in address else {"connect_timeout": CONNECTING}
        with self._driver.connect(address, **usual) as connection, severed(connection.fileno()) as sever:
            connection.read_only = True

            def stop() -> None:
                with suppress(Exception):
                    connection.cancel_safe(timeout=STOPPING)
                sever()

            with stopped_by(stop):
                yield connection

    def identity(self, table: TableName) -> str:
        query = "SELECT system_identifier, current_database() FROM pg_control_system()"
        with self._connected() as connection:
            row = connection.execute(query).fetchone() or ("", "")
        return f"postgresql:{row[0]}/{row[1]}#{table.schema}.{table.name}"

    def qualified(self, table: TableName) -> TableName:
        return TableName(table.name, table.schema or "public")

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        with self._connected() as connection:
            rows = connection.execute(COLUMNS, (table.schema, table.name)).fetchall()
        columns = {}
        for name, is_list, native, digits, is_whole in rows:
            kind = ColumnKind.TEXT if is_list else KINDS.get(native, ColumnKind.OTHER)
            columns[name] = ColumnType(kind, native, digits, is_whole)
        return columns

    def is_view(self, table: TableName) -> bool:
        """Whether it is a view or a foreign table, whose server may fail in the same way."""
        query = """SELECT c.relkind IN ('v', 'f') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND c.relname = %s"""
        with self._connected() as connection:
            return bool(connection.execute(query, (table.schema, table.name)).fetchall() == [(True,)])

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        limit = max(1, int(deadline * 1000)) if deadline is not None else 0
        with self._connected() as connection:
            connection.execute(f"SET LOCAL timezone = 'UTC'; SET LOCAL statement_timeout = {limit}")
            if sql.count(" WHEN ") > MOST_COMPILED:
                connection.execute("SET LOCAL jit = off")
            return connection.execute(sql.encode()).fetchall()

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        del kind
        whole = function("date_trunc", "timestamp", 2)("second", column)
        return function("date_part", "float64", 2)("epoch", whole)

    def day_entry(self, numbers: bytes, first: Expr, date: Expr) -> Expr | None:
        """A byte of a constant: grouped by them, days take half the time that truncated dates do."""
        return function("get_byte", "int32", 2)(_bytes(numbers), function("date_mi", "int32", 2)(date, first))

    def bucket(self, number: Expr, edges: Floats) -> Expr | None:
        """Its own search, which only compares; most numbers are spared it where bytes of a constant tell their bin.

        Simple arithmetic is faster than either, where no quotient can underflow.
        """
        if not edges.size:
            return ibis().literal(0, "int64")
        search = _searched(number, edges)
        cells = byte_cells(edges[~np.isnan(edges)]) if edges.size >= LISTED_FROM else None
        return search if cells is None else ibis().coalesce(_listed(number, cells), search)


def _searched(number: Expr, edges: Floats) -> Expr:
    listed = ibis().array([ibis().literal(edge, "float64") for edge in edges.tolist()])
    return function("width_bucket", "int32", 2)(number, listed)


def _listed(number: Expr, cells: ByteCells) -> Expr:
    """What bytes tell of a number; NULL where they do not. To ask for the cell of NaN, above all numbers, would fail.

    What is added is worked out without a choice: no processor can foresee in which round of edges a number lies.
    """
    low, high = (exact_double(Fraction(end)) for end in (cells.low, cells.high))
    cell = function("width_bucket", "int32", 4)(number, low, high, cells.count)
    below = function("get_byte", "int32", 2)(_bytes(cells.numbers), cell).nullif(UNTOLD)
    for edge in cells.rounds.tolist():
        below += (number >= exact_double(Fraction(edge))).cast("int32") * ROUND
    return (number < exact_double(Fraction(FURTHEST))).ifelse(below, ibis().null("int32"))


def _bytes(numbers: bytes) -> Expr:
    return function("decode", "binary", 2)(numbers.hex(), "hex")


def open_server(location: Location) -> tuple[Postgres, TableName]:
    """The engine and table of `postgresql://user@host/database#schema.table`."""
    table = location.required_table()
    return Postgres(location), table
