"""One table of any engine, asked through Ibis: the statement is written by Ibis, run by the engine's own driver."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cells import Cells
from blowfishdb.model.numbers import suggest
from blowfishdb.model.points import Points
from blowfishdb.model.policy import ROW, Person, Row
from blowfishdb.sources.base import ColumnType, Counting, Join, Tally
from blowfishdb.sources.engine import Engine
from blowfishdb.sources.failures import shielded
from blowfishdb.sources.location import TableName, parse_table
from blowfishdb.sources.pushdown.statement import Statement, Table, Tables, make_statement


class IbisSource:
    """A table and its dimension tables in one engine."""

    def __init__(self, engine: Engine, table: TableName, joins: Sequence[Join] = ()) -> None:
        names = [name for join in joins for name in join.attributes]
        if len(set(names)) != len(names):
            raise SourceError("two joins give an attribute of the same name")
        self._engine = engine
        self._table = engine.qualified(table)
        self._joins = tuple(joins)

    def __repr__(self) -> str:
        return f"IbisSource({self.identity()!r})"

    @cached_property
    def _identity(self) -> str:
        return shielded(type(self._engine).__name__, lambda: self._engine.identity(self._table))

    def _tables(self) -> Tables:
        """The tables as they are now; asked anew each time, because columns change while a session lasts."""
        main = self._describe(self._table)
        joined = tuple((join, self._describe(self._engine.qualified(parse_table(join.table)))) for join in self._joins)
        for join, table in joined:
            for column in (join.key, *join.attributes.values()):
                if column not in table.columns:
                    raise SourceError(f"{join.table} has no column {column!r}; {suggest(column, table.columns)}")
            if join.foreign_key not in main.columns:
                known = suggest(join.foreign_key, main.columns)
                raise SourceError(f"{self._table.name} has no column {join.foreign_key!r}; {known}")
            hidden = [name for name in join.attributes if name in main.columns]
            if hidden:
                raise SourceError(f"{hidden[0]} is a column of the main table; give the joined attribute another name")
        return Tables(main, joined)

    def _describe(self, table: TableName) -> Table:
        columns = shielded(type(self._engine).__name__, lambda: self._engine.columns(table))
        if not columns:
            raise SourceError(f"there is no table {table.name!r} that this source may read")
        return Table(table, columns)

    def identity(self) -> str:
        """The same text for the same table, however its address is spelled; without credentials."""
        return self._identity

    def columns(self) -> Mapping[str, ColumnType]:
        """The columns of the table and the attributes of its joins; reads no rows."""
        tables = self._tables()
        found = dict(tables.main.columns)
        for join, table in tables.joined:
            found |= {name: table.columns[column] for name, column in join.attributes.items()}
        return found

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        """The statement that counts the rows of each cell, written for the columns as they are now; reads no rows."""
        statement = make_statement(self._tables(), cells, unit, self._engine)
        return IbisCount(self._engine, self._identity, statement, self._engine.write(statement.expression))

    def prepare_points(self, points: Points, unit: Row | Person = ROW) -> Tally:
        """The statement that counts the rows at each point that occurs; reads no rows."""
        statement = make_statement(self._tables(), points, unit, self._engine)
        return IbisTally(self._engine, self._identity, statement, self._engine.write(statement.expression))


@dataclass(frozen=True, eq=False)
class IbisCount:
    """One statement, and how its rows become the counts of cells."""

    engine: Engine = field(repr=False)
    source: str
    statement: Statement[Cells] = field(repr=False)
    sql: str

    def run(self, deadline: float | None = None) -> Ints:
        """How many rows fall into each cell, row-major; SourceFailed when the engine fails or is too slow."""
        return shielded(self.source, lambda: self._counts(deadline))

    def _counts(self, deadline: float | None) -> Ints:
        codes, numbers = self.statement.codes(self.engine.fetch(self.sql, deadline))
        cells = self.statement.asked
        place = cells.cell_of(codes) if codes else np.zeros(numbers.size, dtype=np.int64)
        counts = np.zeros(math.prod(cells.graph.shape), dtype=np.int64)
        np.add.at(counts, place[place >= 0], numbers[place >= 0])
        return counts


@dataclass(frozen=True, eq=False)
class IbisTally:
    """One statement, and how its rows become points; only those that occur come back."""

    engine: Engine = field(repr=False)
    source: str
    statement: Statement[Points] = field(repr=False)
    sql: str

    def run(self, deadline: float | None = None) -> tuple[Ints, Ints]:
        """The points that occur and how many rows each has; SourceFailed when the engine fails or is too slow."""
        return shielded(self.source, lambda: self._tally(deadline))

    def _tally(self, deadline: float | None) -> tuple[Ints, Ints]:
        codes, numbers = self.statement.codes(self.engine.fetch(self.sql, deadline))
        values, counts = self.statement.asked.place(codes)
        return values[counts], numbers[counts]
