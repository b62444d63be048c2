"""What a curator may look up while declaring a dataset: the tables at an address, and what a column holds.

The first comes from the engine's own catalogue. The second reads rows, and says so: a domain that follows the data
tells something about the data to everybody who sees it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace

from blowfishdb.errors import SourceError
from blowfishdb.model.numbers import suggest
from blowfishdb.sources.base import Kind
from blowfishdb.sources.engine import Engine
from blowfishdb.sources.failures import shielded
from blowfishdb.sources.location import TableName, parse_location
from blowfishdb.sources.pushdown.statement import IBIS_TYPES
from blowfishdb.sources.registry import SCHEMES

MOST_TABLES = 500
MOST_VALUES = 200
DEADLINE = 20.0
LISTED_SCHEMES = ("duckdb", "sqlite", "postgresql", "postgres", "mysql", "mariadb")
SQLITE_TABLES = (
    "SELECT '', name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
)
TABLES = """SELECT table_schema, table_name FROM information_schema.tables
    WHERE lower(table_schema) NOT IN ('information_schema', 'pg_catalog', 'performance_schema', 'mysql', 'sys')
    ORDER BY table_schema, table_name"""
BOUNDED = (Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP)


@dataclass(frozen=True)
class Seen:
    """What a column holds: its lowest and highest value, or the values that occur; None where there are too many."""

    low: str | None = None
    high: str | None = None
    values: tuple[str, ...] | None = None


def tables_at(address: str) -> list[str]:
    """The tables at an address that names none, from the engine's catalogue; empty for files and other engines."""
    location = parse_location(address)
    if location.scheme not in LISTED_SCHEMES:
        return []
    engine, _ = _opened(address, TableName("unknown"))
    query = SQLITE_TABLES if location.scheme == "sqlite" else TABLES
    rows = shielded(location.scheme, lambda: engine.fetch(query, DEADLINE))[:MOST_TABLES]
    usual = engine.qualified(TableName("unknown")).schema or ""
    return [_named(str(schema or ""), str(name), usual) for schema, name in rows]


def _named(schema: str, name: str, usual: str) -> str:
    """The table as an address writes it; quoted where it holds dots or quotes."""
    parts = [name] if schema in ("", usual) else [schema, name]
    return ".".join('"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part for part in parts)


def look_at_column(address: str, column: str) -> Seen:
    """Reads what a column holds, for a curator who asked for it; SourceError for a column that is not there."""
    import ibis

    engine, asked = _opened(address, None)
    table = engine.qualified(asked)
    columns = shielded(type(engine).__name__, lambda: engine.columns(table))
    if column not in columns:
        raise SourceError(f"the data has no column {column!r}; {suggest(column, columns)}")
    kind = columns[column].kind
    if kind not in IBIS_TYPES:
        raise SourceError(f"a column of {columns[column].native} cannot be looked at")
    rows = ibis.table({column: IBIS_TYPES[kind]}, name=table.name, database=table.schema)
    if kind in BOUNDED:
        ends = engine.write(rows.aggregate(low=rows[column].min(), high=rows[column].max()))
        low, high = shielded(type(engine).__name__, lambda: engine.fetch(ends, DEADLINE))[0]
        return Seen(None if low is None else str(low), None if high is None else str(high))
    # Grouped rather than selected: Ibis writes SELECT * for a table of which it knows this one column.
    filled = rows.filter(rows[column].notnull())
    groups = filled.group_by(value=filled[column]).aggregate(number=filled.count())
    known = groups.order_by("value").limit(MOST_VALUES + 1)
    listed = engine.write(known)
    found = [str(row[0]) for row in shielded(type(engine).__name__, lambda: engine.fetch(listed, DEADLINE))]
    return Seen(values=tuple(found) if len(found) <= MOST_VALUES else None)


def _opened(address: str, table: TableName | None) -> tuple[Engine, TableName]:
    location = parse_location(address)
    if location.scheme not in SCHEMES:
        raise SourceError(f"there is no scheme {location.scheme!r}; {suggest(location.scheme, SCHEMES)}")
    module, function = SCHEMES[location.scheme]
    open_engine = getattr(importlib.import_module(f"blowfishdb.sources.{module}"), function)
    engine, named = open_engine(location if table is None else replace(location, table=table))
    return engine, named
