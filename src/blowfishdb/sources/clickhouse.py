"""ClickHouse servers, over their HTTP interface; no driver is needed."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from blowfishdb.errors import SourceError
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, function
from blowfishdb.sources.calls import CONNECTING, severed, stopped_by
from blowfishdb.sources.location import Location, TableName

WRAPPED = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")
KINDS = {
    **dict.fromkeys(("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32"), ColumnKind.INTEGER),
    **dict.fromkeys(("UInt64", "Int128", "UInt128", "Int256", "UInt256"), ColumnKind.DECIMAL),
    **dict.fromkeys(("Float32", "Float64"), ColumnKind.REAL),
    **dict.fromkeys(("String", "UUID", "Enum8", "Enum16"), ColumnKind.TEXT),
    **dict.fromkeys(("Date", "Date32"), ColumnKind.DATE),
    **dict.fromkeys(("DateTime", "DateTime64"), ColumnKind.INSTANT),
    "Bool": ColumnKind.BOOLEAN,
}
READ: Mapping[str, Callable[[Any], object]] = {
    "Float": float,
    "Decimal": Decimal,
    "Int": int,
    "UInt": int,
    "Date": date.fromisoformat,
    "DateTime": datetime.fromisoformat,
}
"""What JSON holds as text or not at all, by the letters that its type begins with."""
SETTINGS = {
    # Two may read alone, and choose their settings; one could not.
    "readonly": "2",
    # A row without a partner has NULL there, as everywhere else, in place of 0 or the empty text.
    "join_use_nulls": "1",
    "session_timezone": "UTC",
    # A failure is told by the status of the answer, not behind its first rows.
    "wait_end_of_query": "1",
    "cancel_http_readonly_queries_on_client_close": "1",
    "default_format": "JSONCompactEachRowWithNamesAndTypes",
    "output_format_json_quote_64bit_integers": "1",
    "output_format_json_quote_denormals": "1",
    "output_format_json_quote_decimals": "1",
}
MICROS = 1_000_000


def column_type(native: str) -> ColumnType:
    """What ClickHouse's name of a type means; whole numbers beyond 2^63 count as decimals."""
    plain = native
    while wrapped := WRAPPED.fullmatch(plain):
        plain = wrapped[1]
    name, _, arguments = plain.partition("(")
    if name == "Decimal":
        digits, _, places = arguments.strip(") ").partition(",")
        return ColumnType(ColumnKind.DECIMAL, native, int(digits), is_whole=int(places or 0) == 0)
    kind = KINDS.get(name, ColumnKind.OTHER)
    bits = int(name.removeprefix("U").removeprefix("Int")) if kind == ColumnKind.DECIMAL else 0
    shown = name if name.startswith("Enum") else native
    return ColumnType(kind, shown, len(str(2**bits)) if bits else None, is_whole=bits > 0)


WIDE = {"toDate": "toDate32", "parseDateTimeBestEffort": "parseDateTime64BestEffort"}
"""Functions that Ibis writes, whose results begin in 1970, and those whose results begin in 1900."""
FIRST_YEAR, LAST_YEAR = 1900, 2299


def with_wide_times(part: Expr) -> Expr:
    """A part of a statement with dates and times of all years that columns hold; SourceError for other years."""
    from sqlglot import exp

    if isinstance(part, exp.DataType) and part.this == exp.DType.DATETIME:
        return exp.DataType.build("Nullable(DateTime64(6))", dialect="clickhouse")
    if not isinstance(part, exp.Anonymous) or part.name not in (*WIDE, *WIDE.values()):
        return part
    moment = part.expressions[0]
    if isinstance(moment, exp.Literal) and not FIRST_YEAR <= int(moment.name.partition("-")[0]) <= LAST_YEAR:
        raise SourceError(f"ClickHouse has dates from {FIRST_YEAR} to {LAST_YEAR} only; declare none beyond them")
    return exp.Anonymous(this=WIDE.get(part.name, part.name), expressions=part.expressions)


class ClickHouse(Engine):
    """One database of a ClickHouse server, or of the cluster behind it."""

    compiler = "clickhouse"
    rewrite = staticmethod(with_wide_times)
    errors_on_overflow = False
    decimal_digits = 15

    def __init__(self, location: Location) -> None:
        self._location = location
        self._secure = dict(location.options).get("secure", "") not in ("", "0", "false")

    def _ask(self, sql: str, deadline: float | None, parameters: Mapping[str, str] | None = None) -> list[list[Any]]:
        """The lines of the answer: names, types, rows. Any other status than 200 raises what the server says."""
        where = self._location
        connect = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        limit = {} if deadline is None else {"max_execution_time": f"{max(deadline, 0.001):.3f}"}
        connection = connect(
            where.host or "localhost",
            where.port or (8443 if self._secure else 8123),
            timeout=CONNECTING,
        )
        try:
            connection.connect()
            # From here on whoever waits says how long: the server ends a statement whose client is gone.
            connection.sock.settimeout(None)
            with severed(connection.sock.fileno()) as sever, stopped_by(sever):
                return self._answered(connection, sql, {**SETTINGS, **limit, **(parameters or {})})
        finally:
            connection.close()

    def _answered(
        self, connection: http.client.HTTPConnection, sql: str, parameters: Mapping[str, str]
    ) -> list[list[Any]]:
        where = self._location
        password = where.password or os.environ.get("CLICKHOUSE_PASSWORD", "")
        connection.request(
            "POST",
            "/?" + urlencode(parameters),
            sql.encode(),
            {"X-ClickHouse-User": where.user or "default", "X-ClickHouse-Key": password},
        )
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        if answer.status != http.client.OK:
            raise OSError(f"status {answer.status}: {text}")
        return [json.loads(line) for line in text.split("\n") if line]

    def identity(self, table: TableName) -> str:
        ((server, host),) = self._ask("SELECT toString(serverUUID()), hostName()", None)[2:]
        place = f"{host}:{self._location.port or 8123}" if not server.strip("0-") else server
        return f"clickhouse:{place}/{table.schema}#{table.name}"

    def qualified(self, table: TableName) -> TableName:
        return TableName(table.name, table.schema or self._location.database or "default")

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        query = """SELECT name, type FROM system.columns
            WHERE database = {schema:String} AND table = {name:String} ORDER BY position"""
        names = {"param_schema": table.schema or "", "param_name": table.name}
        return {name: column_type(native) for name, native in self._ask(query, None, names)[2:]}

    def is_view(self, table: TableName) -> bool:
        query = "SELECT engine FROM system.tables WHERE database = {schema:String} AND name = {name:String}"
        names = {"param_schema": table.schema or "", "param_name": table.name}
        return self._ask(query, None, names)[2:] == [["View"]]

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        _, types, *rows = self._ask(sql, deadline)
        readers = [_reader(native) for native in types]
        return [tuple(read(value) for read, value in zip(readers, row, strict=True)) for row in rows]

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        del kind
        micros = function("toUnixTimestamp64Micro", "int64")(function("toDateTime64", "timestamp", 2)(column, 6))
        # Whole before it is divided: moments before 1970 would be rounded up.
        return function("intDiv", "int64", 2)(micros - function("positiveModulo", "int64", 2)(micros, MICROS), MICROS)


def _reader(native: str) -> Callable[[Any], object]:
    """What makes a value of the type out of its JSON."""
    while wrapped := WRAPPED.fullmatch(native):
        native = wrapped[1]
    letters = re.match("[A-Za-z]*", native)
    read = READ.get("" if letters is None else letters[0])
    return (lambda value: value) if read is None else lambda value: None if value is None else read(value)


def open_server(location: Location) -> tuple[ClickHouse, TableName]:
    """The engine and table of `clickhouse://user@host:8123/database#table`; `?secure=true` for TLS."""
    return ClickHouse(location), location.required_table()
