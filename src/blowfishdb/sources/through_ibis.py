"""Trino, ClickHouse, BigQuery and Snowflake through Ibis' own connections. Untested: the conformance suite has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blowfishdb.errors import DriverMissing, SourceError
from blowfishdb.sources.base import ColumnType, Kind
from blowfishdb.sources.engine import Engine, Expr
from blowfishdb.sources.location import Location, TableName


def column_type(native: Any) -> ColumnType:
    """What Ibis' type means."""
    name = str(native)
    if native.is_unsigned_integer() and native.nbytes == 8:
        return ColumnType(Kind.DECIMAL, name, 20)
    if native.is_timestamp():
        return ColumnType(Kind.INSTANT if native.timezone else Kind.TIMESTAMP, name)
    if native.is_decimal():
        return ColumnType(Kind.DECIMAL, name, native.precision)
    simple = {
        Kind.INTEGER: native.is_integer(),
        Kind.REAL: native.is_floating(),
        Kind.BOOLEAN: native.is_boolean(),
        Kind.TEXT: native.is_string() or native.is_uuid(),
        Kind.DATE: native.is_date(),
    }
    return ColumnType(next((kind for kind, fits in simple.items() if fits), Kind.OTHER), name)


class ThroughIbis(Engine):
    """An engine that is reached, described and asked by Ibis alone."""

    decimal_digits = 15

    def __init__(self, location: Location) -> None:
        self.compiler = location.scheme
        self._location = location

    def _connect(self) -> Any:
        import ibis

        try:
            return ibis.connect(self._location.address)
        except ModuleNotFoundError:
            raise DriverMissing(self._location.scheme, self._location.scheme) from None

    def identity(self, table: TableName) -> str:
        where = self._location
        port = f":{where.port}" if where.port else ""
        return f"{where.scheme}:{where.host}{port}/{where.database}#{table.schema or ''}.{table.name}"

    def qualified(self, table: TableName) -> TableName:
        return table

    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        schema = self._connect().table(table.name, database=table.schema).schema()
        return {name: column_type(native) for name, native in schema.items()}

    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        if deadline is not None:
            raise SourceError(f"{self._location.scheme} sources do not take a deadline")
        fetched = self._connect().sql(sql).to_pyarrow()
        return list(zip(*(column.to_pylist() for column in fetched.columns), strict=True))

    def seconds(self, column: Expr, kind: Kind) -> Expr:
        del kind
        return column.epoch_seconds()


def open_connection(location: Location) -> tuple[ThroughIbis, TableName]:
    """The engine and table of an address that Ibis understands, with #schema.table at its end."""
    return ThroughIbis(location), location.required_table()
