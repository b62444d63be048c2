"""What a data source offers: an identity, its columns, and counts over the cells of a query; rows never leave it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from blowfishdb.errors import SourceError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cells import Cells
from blowfishdb.model.points import Points
from blowfishdb.model.policy import ROW, Person, Row


class Kind(StrEnum):
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

    A timestamp shows a wall clock; an instant is a moment that every zone's clock shows differently.
    """

    kind: Kind
    native: str
    digits: int | None = None


@dataclass(frozen=True)
class Join:
    """A dimension table, joined by a foreign key of the main table to its own key; many rows to one.

    `attributes` maps names of the domain to columns of the dimension table. A key that is missing there, or that
    occurs there more than once, gives NULL, so that a join never adds or drops a row of the main table.
    """

    table: str
    foreign_key: str
    key: str
    attributes: Mapping[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        if not self.table or not self.foreign_key or not self.key:
            raise SourceError("a join names the dimension table, the foreign key and the key it points to")
        if not self.attributes:
            raise SourceError(f"the join with {self.table} gives no attribute; name at least one")


class Counting(Protocol):
    """A count that is written down and checked; only running it reads rows."""

    def run(self, deadline: float | None = None) -> Ints:
        """How many rows fall into each cell, row-major.

        SourceFailed when the engine fails or does not answer within `deadline` seconds.
        """


class Tally(Protocol):
    """A count of points that is written down and checked; only running it reads rows."""

    def run(self, deadline: float | None = None) -> tuple[Ints, Ints]:
        """The different points that occur (values by column) and how many rows each has, in no order.

        SourceFailed when the engine fails or does not answer within `deadline` seconds.
        """


class Source(Protocol):
    """One table of one engine."""

    def identity(self) -> str:
        """The same text for the same table, however its address is spelled; without credentials."""

    def columns(self) -> Mapping[str, ColumnType]:
        """The columns of the table and the attributes of its joins; reads no rows."""

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        """The count of the rows in each cell, ready to run; of each person only the rows that the unit lets count.

        Looks at the columns as they are now and reads no rows. SourceError when they cannot hold what is declared.
        """

    def prepare_points(self, points: Points, unit: Row | Person = ROW) -> Tally:
        """The count of the rows at each point that occurs, ready to run, under the same terms."""
