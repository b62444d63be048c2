"""What a data source offers: an identity, its columns, counts over cells; failures that tell nothing."""

from __future__ import annotations

import functools
import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from types import MappingProxyType, ModuleType
from typing import Any, Protocol, TypeAlias, TypeVar

from blowfishdb.errors import DriverMissing, SourceError
from blowfishdb.model.arguments import checked
from blowfishdb.model.cells import Cells, Points
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import ROW, Person, Row
from blowfishdb.sources.location import TableName, parse_table


class ColumnKind(StrEnum):
    """What the values of a column are, whatever its engine calls them."""

    INTEGER = "integer"
    REAL = "real"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INSTANT = "instant"
    OTHER = "other"


@dataclass(frozen=True)
class ColumnType:
    """The kind of a column, the engine's own name for it, and the digits of a decimal where they are limited.

    Decimals `is_whole` have no places after the point; where a column is `untyped`, its values may be of another kind.
    A timestamp shows a wall clock; an instant is a moment that every zone's clock shows differently.
    """

    kind: ColumnKind
    native: str
    digits: int | None = None
    is_whole: bool = False
    untyped: bool = False

    @property
    def holds_whole_numbers(self) -> bool:
        """Whether every number is a whole one."""
        return (self.kind is ColumnKind.INTEGER or self.is_whole) and not self.untyped


FetchedColumn: TypeAlias = Sequence[object] | Ints | Floats
"""A column as a driver gives it: a list in which NULL is None, or an array of numbers without NULL."""
Fetched: TypeAlias = Sequence[FetchedColumn]
Counts = TypeVar("Counts", covariant=True)


@checked(SourceError)
@dataclass(frozen=True, init=False)
class Join:
    """A further table whose `key` a foreign key points to: many rows to one, so that a join never adds or drops a row.

    The foreign key is a column of the main table, or an attribute that an earlier join gives. `attributes` maps names
    of the domain to columns of the table; a list names both alike. A key that the table does not have, or has more than
    once, gives NULL. A table joined by the id of a person is protected with that person's rows; any other is public.
    """

    table: str
    foreign_key: str
    key: str
    attributes: Mapping[str, str]

    def __init__(
        self, table: str, foreign_key: str, key: str, attributes: Mapping[str, str] | Sequence[str] = ()
    ) -> None:
        columns = attributes if isinstance(attributes, Mapping) else {name: name for name in attributes}
        values = {"table": table, "foreign_key": foreign_key, "key": key, "attributes": MappingProxyType(dict(columns))}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        words = (table, foreign_key, key, *columns, *columns.values())
        if isinstance(attributes, str) or not all(isinstance(word, str) and word for word in words):
            raise SourceError("a join names a table, the foreign key, the key it points to, and the columns it gives")
        if not columns:
            raise SourceError(f"the join with {table} gives no attribute; name at least one")
        if foreign_key in columns:
            raise SourceError(f"the join with {table} would find its rows by {foreign_key}, which it gives itself")

    @property
    def name(self) -> str:
        """The table in messages: a file without its folder."""
        return self.table.rpartition("/")[2]

    def gives(self, other: Join) -> bool:
        """Whether the other join finds its rows by an attribute of this one."""
        return other.foreign_key in self.attributes


@dataclass(frozen=True)
class People:
    """One record for each person in place of its rows: the id that tells people apart, and a name for their number."""

    id: str
    rows: str


class Count(Protocol[Counts]):
    """A count that is ready and checked; only running it reads rows."""

    def run(self, deadline: float | None = None) -> Counts:
        """What was counted; SourceFailed when the engine fails or does not answer within `deadline` seconds.

        WorkCancelled when nobody waits any more (`sources/calls.py:is_cancelled`), SourceBusy where too many wait.
        """


Counting: TypeAlias = Count[Ints]
"""How many rows fall into each cell, row-major."""
PointCounting: TypeAlias = Count[tuple[Ints, Ints]]
"""The different points that occur (values by column) and how many rows each has, in no order."""


class Source(Protocol):
    """One table of one engine."""

    def identity(self) -> str:
        """The same text for the same table, however its address is spelled; without credentials."""

    def columns(self) -> Mapping[str, ColumnType]:
        """The columns of the table and the attributes of its joins; reads no rows."""

    def last_write(self) -> str | None:
        """A mark of the last write to the data, whatever was written; None where this source cannot tell.

        It is public: when a file was written, or which version of a table is the newest.
        """

    def content(self) -> str | None:
        """A digest that is the same as long as every row is; None where this source cannot tell.

        It depends on the rows, so nothing that is free, and no price, may depend on it.
        """

    def is_changing(self) -> bool:
        """Whether files that hold the rows are being written; always false of an engine that hides this."""

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        """The count of the rows in each cell, ready to run; of each person only the rows that the unit lets count.

        Looks at the columns as they are now and reads no rows. SourceError when they cannot hold what is declared.
        """

    def prepare_people(self, cells: Cells, unit: Person) -> Counting:
        """The count of the persons with a row in each cell, ready to run, under the same terms."""

    def prepare_points(self, points: Points, unit: Row | Person = ROW) -> PointCounting:
        """The count of the rows at each point that occurs, ready to run, under the same terms."""


def driver(module: str, scheme: str, extra: str) -> ModuleType:
    """The driver's module, or DriverMissing with the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise DriverMissing(scheme, extra) from None


Expr: TypeAlias = Any
"""An Ibis expression; Ibis ships no types."""


@functools.cache
def ibis() -> Any:
    """Ibis, loaded when the first statement is made; its expressions may then be compared in several threads."""
    import ibis as loaded
    from ibis.common.bases import Comparable

    # It remembers by addresses in memory which expressions are equal, until one of them is gone. Two threads at once
    # could leave an address behind, and the next expression there would be taken for another one.
    with _loading:
        if not hasattr(Comparable.__eq__, "__wrapped__"):
            turn = threading.RLock()
            for name in ("__eq__", "__del__"):
                setattr(Comparable, name, _one_at_a_time(turn, getattr(Comparable, name)))
    return loaded


_loading = threading.Lock()
"""Several threads may make the first statement; with a lock by each of them, they would wait for each other."""


def _one_at_a_time(turn: AbstractContextManager[object], work: Callable[..., Any]) -> Callable[..., Any]:
    """The work in its turn; it may come about within itself, when memory is cleared."""

    @functools.wraps(work)
    def alone(*values: object) -> Any:
        with turn:
            return work(*values)

    return alone


TEXT_MARK = "blowfish_text"
"""A function that exists in no engine: `Engine.write` replaces it by what makes text compare byte by byte."""


SHAPES: Mapping[int, Callable[..., object]] = {
    1: lambda one: one,
    2: lambda one, two: (one, two),
    4: lambda one, two, three, four: (one, two, three, four),
}
"""From which Ibis reads how many arguments a function has."""


@functools.cache
def function(name: str, result: str, arguments: int = 1) -> Callable[..., Expr]:
    """An engine's own function of one, two or four arguments, called by name; it gets no casts around it."""
    call: Callable[..., Expr] = ibis().udf.scalar.builtin(
        SHAPES[arguments], name=name, signature=((None,) * arguments, result)
    )
    return call


class Engine(ABC):
    """One engine that holds tables; by default every statement opens and closes a connection.

    Whatever may take long says by `stopped_by` how it is stopped (`sources/calls.py`).
    """

    compiler: str
    """The module of Ibis' SQL compilers that writes for this engine."""
    has_nan = True
    """Whether a column of doubles can hold NaN."""
    errors_on_overflow = True
    """Whether arithmetic on doubles, or rounding them down, may fail or mislead on NaN, infinities or overflow."""
    errors_on_underflow = False
    """Whether a product or quotient fails that is too small for a double."""
    floors_to_whole = False
    """Whether rounding a double down gives the nearest whole number of a type, any number for NaN, and never fails."""
    typed = True
    """Whether all values of a column have the column's type."""
    decimal_digits = 65
    """Decimals of up to this many digits become the nearest double when cast."""
    byte_text = ""
    """SQL that makes the text x compare byte by byte; empty where text does so by itself."""
    shuffles = False
    """Whether groups move between machines, so that a second GROUP BY takes longer than two comparisons a row."""
    is_embedded = False
    """Whether it runs in this process, so that looking at columns and files waits for nobody."""
    patience = 20.0
    """Seconds that a look at columns may take, and what a curator wants to see."""
    streams = False
    """Whether rows reach this process so fast that it places numbers among irregular edges sooner than the engine."""
    has_catalogue = True
    """Whether the columns of tables are known without reading the beginning of their rows."""
    rewrite: Callable[[Expr], Expr] | None = None
    """What stands in place of each part of a statement that Ibis writes too narrowly for this engine."""

    @abstractmethod
    def identity(self, table: TableName) -> str:
        """The canonical name of a table of this engine."""

    @abstractmethod
    def qualified(self, table: TableName) -> TableName:
        """The table with its default schema filled in, where the engine has schemas."""

    def table(self, text: str) -> TableName:
        """The table that a join names."""
        return self.qualified(parse_table(text))

    def places(self, table: TableName) -> list[str]:
        """The canonical names of all that a table is read from, files one by one."""
        return [self.identity(table)]

    @abstractmethod
    def columns(self, table: TableName) -> Mapping[str, ColumnType]:
        """The columns of a table, empty when there is none; reads no rows."""

    def is_view(self, table: TableName) -> bool:
        """Whether a table is worked out whenever it is read, by expressions that may fail on a value."""
        del table
        return False

    def last_write(self) -> str | None:
        """A public mark of the last write to all that rows are read from; None where the engine cannot tell."""
        return None

    def content(self) -> str | None:
        """A digest of all that rows are read from; None where the engine cannot tell whether a row changed."""
        return None

    def is_changing(self) -> bool:
        """Whether the rows are being written in a way that readers notice; engines keep that from their readers."""
        return False

    @abstractmethod
    def fetch(self, sql: str, deadline: float | None) -> list[tuple[object, ...]]:
        """The rows of one statement."""

    def fetch_columns(self, sql: str, deadline: float | None) -> Fetched:
        """The columns of one statement; none where it has no row."""
        rows = self.fetch(sql, deadline)
        return [list(map(itemgetter(place), rows)) for place in range(len(rows[0]))] if rows else []

    def stream(self, sql: str, deadline: float | None) -> Iterator[Floats]:
        """The only column of a statement, doubles in which NULL is NaN, piece by piece; asked of `streams` alone."""
        del sql, deadline
        raise SourceError(f"{type(self).__name__} does not stream rows")

    def comparable(self, column: Expr, kind: ColumnKind) -> Expr:
        """The column so that texts compare and group byte by byte."""
        return function(TEXT_MARK, "string")(column) if self.byte_text and kind == ColumnKind.TEXT else column

    @staticmethod
    def are_joined(foreign: ColumnType, key: ColumnType) -> bool:
        """Whether columns of these types are joined by the same comparison as equal keys are found by.

        Large whole numbers and decimals of different types may be compared as doubles, or fail where one does not fit.
        """
        return foreign.kind == key.kind and (key.kind != ColumnKind.DECIMAL or foreign.native == key.native)

    def seconds(self, column: Expr, kind: ColumnKind) -> Expr:
        """Whole seconds since 1970 (in UTC for an instant), rounded down; only asked about declared moments."""
        del column
        raise SourceError(f"time stamps ({kind}) cannot be counted on this engine yet; declare a column of dates")

    def month(self, date: Expr) -> Expr | None:
        """The months of a date since the year 0, only asked about declared days; None where days are told faster."""
        del date
        return None

    def day_entry(self, numbers: bytes, first: Expr, date: Expr) -> Expr | None:
        """The number that a list has for a date, given the first day; only asked about days that the list has.

        None where days are told faster.
        """
        del numbers, first, date
        return None

    def bucket(self, number: Expr, edges: Floats) -> Expr | None:
        """How many of the edges lie at or below the number, where the engine has a search of its own."""
        del number, edges
        return None

    def place(self, text: Expr, listed: Sequence[str]) -> Expr | None:
        """The place of a text in a list, from 1 on, NULL where it is not in it; None where texts group as fast."""
        del text, listed
        return None

    def entry(self, numbers: Floats | Ints, place: Expr) -> Expr | None:
        """The number at a place of a list, from 1 on, NULL beyond it; None where this is slower than comparisons."""
        del numbers, place
        return None

    def whole_type(self, low: int, high: int) -> str:
        """The type by which whole numbers from low to high are grouped fastest."""
        del low, high
        return "float64"

    def as_whole(self, number: Expr, whole: str) -> Expr:
        """A double as a number of a whole type; what does not fit is NULL or any other number, and never fails."""
        # An engine may work it out for rows that are not declared, too.
        return number if whole == "float64" else number.try_cast(whole)

    def write(self, expression: Expr) -> str:
        """The SQL of an Ibis expression."""
        return _sql(self.compiler, self.byte_text, type(self).rewrite, expression.op())


@functools.lru_cache(maxsize=256)
def _sql(compiler_name: str, byte_text: str, rewrite: Callable[[Expr], Expr] | None, node: Expr) -> str:
    """The SQL of an Ibis node, which equals another where all its parts do: to write it takes longer than to count."""
    from sqlglot import exp, parse_one

    compiler = importlib.import_module(f"ibis.backends.sql.compilers.{compiler_name}").compiler

    def with_text(part: Expr) -> Expr:
        if isinstance(part, exp.Anonymous) and part.name.lower() == TEXT_MARK:
            argument = part.expressions[0]
            return parse_one(byte_text, dialect=compiler_name).transform(
                lambda inner: argument.copy() if isinstance(inner, exp.Column) and inner.name == "x" else inner
            )
        return part if rewrite is None else rewrite(part)

    return str(compiler.to_sqlglot(node.to_expr()).transform(with_text).sql(dialect=compiler.dialect))
