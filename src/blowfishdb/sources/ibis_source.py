"""One table of any engine by its address, asked through Ibis and run by the engine's own driver."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from blowfishdb.errors import SourceError, SourceFailed
from blowfishdb.incidents import redact_errors
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.cells import Cells, Points
from blowfishdb.model.domain import Attribute, Domain
from blowfishdb.model.numbers import Ints, suggest
from blowfishdb.model.policy import ROW, Person, Row
from blowfishdb.sources.base import ColumnKind, ColumnType, Counting, Engine, Expr, Join, People, PointCounting, ibis
from blowfishdb.sources.calls import Calls
from blowfishdb.sources.location import Location, TableName, parse_location
from blowfishdb.sources.statement import (
    IBIS_TYPES,
    CountStatement,
    Places,
    Tables,
    TableSchema,
    caps_expression,
    make_statement,
    people_statement,
    repeated_keys,
    whole_numbers,
)

Result = TypeVar("Result")
MOST_RECENT, MOST_CUTS = 16, 10_000
"""Statements that a table keeps, and the cuts of the largest of them."""


def check_order(joins: Sequence[Join]) -> None:
    """Refuses attributes that two joins give, and a foreign key that a later join gives."""
    names = [name for join in joins for name in join.attributes]
    if len(set(names)) != len(names):
        raise SourceError("two joins give an attribute of the same name")
    for place, join in enumerate(joins):
        later = [other.name for other in joins[place + 1 :] if other.gives(join)]
        if later:
            raise SourceError(
                f"{join.name} is found by {join.foreign_key}, which {later[0]} gives: name {later[0]} first. Where "
                "each needs the other, the joins go round in a circle and lead to no row"
            )


class IbisSource:
    """A table and the tables that are joined to it, in one engine."""

    def __init__(
        self,
        engine: Engine,
        table: TableName,
        joins: Sequence[Join] = (),
        people: People | None = None,
        calls: Calls | None = None,
    ) -> None:
        check_order(joins)
        self._engine = engine
        self._table = engine.qualified(table)
        self._joins = tuple(joins)
        self._people = people
        self._calls = calls or Calls()
        self._recent: tuple[tuple[tuple[object, ...], list[Attribute], CountStatement[Any], str], ...] = ()
        """The newest statements: what each was written for, the statement, and its SQL."""

    def __repr__(self) -> str:
        return f"IbisSource({self.identity()!r})"

    def of_people(self, people: People) -> IbisSource:
        """The people behind the rows, to be counted in their place."""
        return IbisSource(self._engine, self._table, self._joins, people, self._calls)

    def close(self) -> None:
        """Ends what is asked of the engine, and asks no more of it."""
        self._calls.close()

    def _ask(self, work: Callable[[], Result]) -> Result:
        """What an engine answers about its tables; SourceFailed, which tells nothing of it, when it fails."""
        return _asked(self._engine, self._calls, work)

    @cached_property
    def _identity(self) -> str:
        return self._identity_of(self._table)

    def _identity_of(self, table: TableName) -> str:
        return self._ask(lambda: self._engine.identity(table))

    def places(self) -> list[tuple[Join | None, str]]:
        """All that rows are read from, by canonical names: of the main table, with None, and of each join."""
        tables = [(None, self._table), *((join, self._engine.table(join.table)) for join in self._joins)]
        return self._ask(lambda: [(join, place) for join, table in tables for place in self._engine.places(table)])

    def joined_identities(self) -> list[tuple[Join, str]]:
        """The joins, each with the identity of its table."""
        tables = ((join, self._engine.table(join.table)) for join in self._joins)
        return [(join, self._identity_of(table)) for join, table in tables]

    def repeats_keys(self, join: Join) -> bool:
        """Whether a key of a joined table occurs more than once; reads that table, so it must be public."""
        table = self._describe(self._engine.table(join.table))
        return bool(_fetch(self._engine, self._calls, repeated_keys(table, join, self._engine)))

    def look_at_caps(self, unit: Person, caps: Sequence[int]) -> CapsSeen:
        """Reads how many rows each cap would count, for a curator who asked for it."""
        expression = caps_expression(self._describe(self._table), unit, caps, self._engine)
        (row,) = _fetch(self._engine, self._calls, expression)
        rows, people, nobodys, *numbers = whole_numbers(row).tolist()
        effects = zip(caps, numbers[::2], numbers[1::2], strict=True)
        return CapsSeen(rows, nobodys, people, tuple(CapSeen(*effect) for effect in effects))

    def _tables(self) -> Tables:
        """The tables as they are now; asked anew each time, because columns change while a session lasts."""
        main = self._describe(self._table)
        joined = tuple((join, self._describe(self._engine.table(join.table))) for join in self._joins)
        tables = Tables(main, joined)
        for join, table in joined:
            if table.name == main.name:
                raise SourceError(f"{join.name} is the table itself: its rows are protected, so it cannot be looked up")
            for column in (join.key, *join.attributes.values()):
                if column not in table.columns:
                    raise SourceError(f"{join.name} has no column {column!r}; {suggest(column, table.columns)}")
            hidden = [name for name in join.attributes if name in main.columns]
            if hidden:
                raise SourceError(f"{hidden[0]} is a column of the main table; give the joined attribute another name")
            tables.check_key(join, table, self._engine)
        return tables

    def _describe(self, table: TableName) -> TableSchema:
        columns = self._ask(lambda: self._engine.columns(table))
        if not columns:
            raise SourceError(f"there is no table {table.name!r} that this source may read")
        return TableSchema(table, columns)

    def identity(self) -> str:
        """The same text for the same table, however its address is spelled; without credentials."""
        return self._identity

    def columns(self) -> Mapping[str, ColumnType]:
        """The columns of the table and the attributes of its joins; reads no rows."""
        tables = self._tables()
        columns = dict(tables.main.columns)
        for join, table in tables.joined:
            columns |= {name: table.columns[column] for name, column in join.attributes.items()}
        return columns

    def check(self, domain: Domain, unit: Row | Person) -> None:
        """Refuses what the columns, as they are now, cannot serve; reads no rows."""
        self._tables().check_columns(domain, unit)

    def views(self) -> list[str]:
        """The names of those of its tables that are views; reads no rows."""
        tables = [self._table, *(self._engine.table(join.table) for join in self._joins)]
        return [table.name for table in tables if self._ask(partial(self._engine.is_view, table))]

    def is_changing(self) -> bool:
        """Whether files that hold the rows are being written; always false of an engine that hides this."""
        return self._ask(self._engine.is_changing)

    def last_write(self) -> str | None:
        """A mark of the last write to the files that hold the rows, or of a table's version; None for a server."""
        return self._ask(self._engine.last_write)

    def content(self) -> str | None:
        """A digest of the files that hold the rows; None for a server, and while a database has changes in its log."""
        return self._ask(self._engine.content)

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        """The statement that counts the rows of each cell, written for the columns as they are now; reads no rows."""
        return IbisCount(self._engine, self._calls, self._identity, *self._statement(cells, unit), _cell_counts)

    def prepare_people(self, cells: Cells, unit: Person) -> Counting:
        """The statement that counts the persons with a row in each cell; reads no rows."""
        statement = people_statement(self._tables(), cells, unit, self._engine)
        sql = self._engine.write(statement.expression)
        return IbisCount(self._engine, self._calls, self._identity, statement, sql, _cell_counts)

    def prepare_points(self, points: Points, unit: Row | Person = ROW) -> PointCounting:
        """The statement that counts the rows at each point that occurs; reads no rows."""
        return IbisCount(self._engine, self._calls, self._identity, *self._statement(points, unit), _point_counts)

    def _statement(self, places: Places, unit: Row | Person) -> tuple[CountStatement[Places], str]:
        """The statement that counts rows by these cells or at these points, and its SQL.

        One that was written before serves again where tables, filter and the cuts of the same attributes are equal.
        """
        tables, cuts = self._tables(), [places.cuts[name] for name in places.attributes]
        # Values that are equal and of other types are written in other ways; what is shown of them tells them apart.
        looked_at = (
            tables,
            unit,
            places.attributes,
            places.axes,
            repr(places.where),
            [cut.starts.tobytes() for cut in cuts],
        )
        for known, attributes, statement, sql in self._recent:
            if known == looked_at and all(
                _is_same(cut.attribute, one) for cut, one in zip(cuts, attributes, strict=True)
            ):
                left = statement.places
                return replace(statement, places=replace(places, where=left.where, attributes=left.attributes)), sql
        made = make_statement(tables, places, self._people or unit, self._engine)
        sql = self._engine.write(made.expression)
        if sum(cut.starts.size for cut in cuts) <= MOST_CUTS:
            newest = (looked_at, [cut.attribute for cut in cuts], made, sql)
            self._recent = (newest, *self._recent[: MOST_RECENT - 1])
        return made, sql


def _is_same(one: Attribute, other: Attribute) -> bool:
    """Whether statements are written alike for two attributes; a plan that another process made has copies of them."""
    return one is other or (one == other and repr(one) == repr(other))


def _asked(engine: Engine, calls: Calls, work: Callable[[], Result]) -> Result:
    """What an engine's catalogue answers; SourceFailed when it fails, which tells its words to a curator alone."""
    ask = work if engine.is_embedded else partial(calls.run, work, engine.patience)
    return redact_errors(ask, SourceFailed, type(engine).__name__, reads_rows=not engine.has_catalogue)


def _fetch(engine: Engine, calls: Calls, expression: Expr) -> list[tuple[object, ...]]:
    sql = engine.write(expression)
    fetch = partial(engine.fetch, sql, engine.patience)
    return redact_errors(lambda: calls.run(fetch, engine.patience), SourceFailed, type(engine).__name__)


@dataclass(frozen=True, eq=False)
class IbisCount(Generic[Places, Result]):
    """One statement, and what its groups become."""

    engine: Engine = field(repr=False)
    calls: Calls = field(repr=False)
    source: str
    statement: CountStatement[Places] = field(repr=False)
    sql: str
    read: Callable[[Places, Mapping[str, Ints], Ints], Result] = field(repr=False)

    def run(self, deadline: float | None = None) -> Result:
        """What was counted; SourceFailed when the engine fails or is too slow."""

        def count() -> Result:
            fetch = partial(self.statement.fetch, self.engine, self.sql, deadline)
            codes, numbers = self.statement.codes(self.calls.run(fetch, deadline))
            return self.read(self.statement.places, codes, numbers)

        return redact_errors(count, SourceFailed, self.source)


def _cell_counts(cells: Cells, codes: Mapping[str, Ints], numbers: Ints) -> Ints:
    """How many rows fall into each cell, row-major."""
    place = cells.cell_of(codes) if codes else np.zeros(numbers.size, dtype=np.int64)
    counts = np.zeros(math.prod(cells.graph.shape), dtype=np.int64)
    np.add.at(counts, place[place >= 0], numbers[place >= 0])
    return counts


def _point_counts(points: Points, codes: Mapping[str, Ints], numbers: Ints) -> tuple[Ints, Ints]:
    """The points that occur and how many rows each has."""
    values, counts = points.place(codes)
    return values[counts], numbers[counts]


OpenEngine = Callable[[Location], tuple[Engine, TableName]]

SCHEMES = {
    "file": ("duckdb", "open_files"),
    "delta": ("duckdb", "open_files"),
    "duckdb": ("duckdb", "open_database"),
    "sqlite": ("sqlite", "open_database"),
    "postgresql": ("postgres", "open_server"),
    "postgres": ("postgres", "open_server"),
    "mysql": ("mysql", "open_server"),
    "mariadb": ("mysql", "open_server"),
    "clickhouse": ("clickhouse", "open_server"),
    "spark": ("spark", "open_session"),
    "sc": ("spark", "open_server"),
}
"""The module below `blowfishdb.sources` and the function that serve each scheme."""


def open_source(url: str, joins: Sequence[Join] = ()) -> IbisSource:
    """The table at an address such as `duckdb:///shop.duckdb#sales`, `postgresql://host/db#t` or `data/*.parquet`."""
    engine, table = _open_engine(replace(parse_location(url), joined=tuple(join.table for join in joins)))
    return IbisSource(engine, table, joins)


def _open_engine(location: Location) -> tuple[Engine, TableName]:
    if location.scheme not in SCHEMES:
        known = suggest(location.scheme, [name for name in SCHEMES if name != "file"])
        raise SourceError(f"there is no scheme {location.scheme!r}; {known}")
    module, function = SCHEMES[location.scheme]
    open_engine: OpenEngine = getattr(importlib.import_module(f"blowfishdb.sources.{module}"), function)
    return open_engine(location)


MOST_TABLES = 500
MOST_VALUES = 200
LISTED_SCHEMES = ("duckdb", "sqlite", "postgresql", "postgres", "mysql", "mariadb")
SQLITE_TABLES = (
    "SELECT '', name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
)
TABLES = """SELECT table_schema, table_name FROM information_schema.tables
    WHERE lower(table_schema) NOT IN ('information_schema', 'pg_catalog', 'performance_schema', 'mysql', 'sys')
    ORDER BY table_schema, table_name"""
BOUNDED = (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.DECIMAL, ColumnKind.DATE, ColumnKind.TIMESTAMP)


@dataclass(frozen=True)
class CapSeen:
    """What one cap does: the rows that count under it, and the people who have more."""

    at_most: int
    counted: int
    people_over: int


@checked()
@dataclass(frozen=True)
class CapsSeen:
    """The rows of a table, those of nobody, its people, and what several caps would do."""

    rows: int
    nobodys: int
    people: int
    caps: tuple[CapSeen, ...]

    def dropped(self, cap: CapSeen) -> int:
        """The rows of people that do not count under a cap."""
        return self.rows - self.nobodys - cap.counted


@dataclass(frozen=True)
class ColumnSeen:
    """What a column holds: its lowest and highest value, or the values that occur; None where there are too many."""

    low: str | None = None
    high: str | None = None
    values: tuple[str, ...] | None = None


def tables_at(address: str) -> list[str]:
    """The tables at an address that names none, from the engine's catalogue; empty for files and other engines."""
    location = parse_location(address)
    if location.scheme not in LISTED_SCHEMES:
        return []
    engine, _ = _open_engine(replace(location, table=TableName("unknown")))
    query = SQLITE_TABLES if location.scheme == "sqlite" else TABLES
    rows = _asked(engine, Calls(), lambda: engine.fetch(query, engine.patience))[:MOST_TABLES]
    usual = engine.qualified(TableName("unknown")).schema or ""
    return [_named(str(schema or ""), str(name), usual) for schema, name in rows]


def _named(schema: str, name: str, usual: str) -> str:
    """The table as an address writes it; quoted where it holds dots or quotes."""
    parts = [name] if schema in ("", usual) else [schema, name]
    return ".".join('"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part for part in parts)


def look_at_column(address: str, column: str) -> ColumnSeen:
    """Reads what a column holds, for a curator who asked for it; SourceError for a column that is not there."""
    (engine, named), calls = _open_engine(parse_location(address)), Calls()
    table = engine.qualified(named)
    columns = _asked(engine, calls, lambda: engine.columns(table))
    if column not in columns:
        raise SourceError(f"the data has no column {column!r}; {suggest(column, columns)}")
    kind = columns[column].kind
    if kind not in IBIS_TYPES:
        raise SourceError(f"a column of type {columns[column].native} cannot be looked at")
    rows = ibis().table({column: IBIS_TYPES[kind]}, name=table.name, database=table.schema)
    if kind in BOUNDED:
        low, high = _fetch(engine, calls, rows.aggregate(low=rows[column].min(), high=rows[column].max()))[0]
        return ColumnSeen(None if low is None else str(low), None if high is None else str(high))
    # Grouped rather than selected: Ibis writes SELECT * for a table of which it knows this one column.
    filled = rows.filter(rows[column].notnull())
    groups = filled.group_by(value=filled[column]).aggregate(number=filled.count())
    values = [str(row[0]) for row in _fetch(engine, calls, groups.order_by("value").limit(MOST_VALUES + 1))]
    return ColumnSeen(values=tuple(values) if len(values) <= MOST_VALUES else None)
