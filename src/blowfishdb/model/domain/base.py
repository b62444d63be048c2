"""What every attribute offers: value indices, cut points, special slots for NULL and for values outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np

from blowfishdb.errors import DomainError
from blowfishdb.model.arrays import Bools, Ints

Value: TypeAlias = object
Encoded: TypeAlias = tuple[Ints, Bools, Bools]
"""Value indices already clamped into the domain, which entries are NULL, which lie outside."""

CELL = "cell"
CLAMP = "clamp"
SIZE_LIMIT = 2**62


@dataclass(frozen=True)
class Slot:
    """A cell beside the declared values: NULL, or everything outside the domain."""

    name: str
    code: int
    public: bool


@dataclass(frozen=True, kw_only=True)
class Attribute(ABC):
    """One declared column. Values are indices 0 .. size-1; code `size` is NULL, `size + 1` is outside.

    `null`: "cell" gives NULL a cell of its own; any value of the domain counts NULL there.
    `outside`: "clamp" counts what lies beyond the ends at the ends; "cell" gives it a cell of its own; for
    categorical attributes a listed value counts it there.
    Cells of their own are hidden among all values of the attribute, unless they are declared public: then they are
    joined to nothing and their counts may be released exactly.
    """

    null: Value = CELL
    outside: Value = CLAMP
    null_public: bool = False
    outside_public: bool = False

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values are declared."""

    @property
    def ordered(self) -> bool:
        """Whether <, between and thresholds make sense."""
        return True

    @abstractmethod
    def index_of(self, value: Value) -> int:
        """The index of one declared value; DomainError when the domain does not tell it apart from others."""

    def locate(self, value: Value) -> int:
        """The index of the declared value or bin that holds the given value."""
        return self.index_of(value)

    def below(self, value: Value) -> int:
        """How many declared values lie below the given one; DomainError when it cuts a bin in two."""
        return self.index_of(value)

    def up_to(self, value: Value) -> int:
        """How many declared values lie at or below the given one; DomainError when it cuts a bin in two."""
        return self.index_of(value) + 1

    @abstractmethod
    def read(self, values: object) -> Encoded:
        """Indices, NULLs and outsiders of raw values; never raises, whatever the data hold."""

    @abstractmethod
    def run_label(self, first: int, last: int) -> str:
        """How the values first .. last are named in an answer."""

    def run_labels(self, firsts: Ints, lasts: Ints) -> Iterable[str]:
        """The names of many runs."""
        return map(self.run_label, firsts.tolist(), lasts.tolist())

    def value_at(self, index: int) -> Value:
        """A value that `locate` finds at this index."""
        return self.run_label(index, index)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The special cells this attribute has, NULL first; they are all public or all hidden."""
        found = []
        if self.null == CELL:
            found.append(Slot("NULL", self.size, self.null_public))
        if self.outside == CELL:
            found.append(Slot("outside", self.size + 1, self.outside_public))
        return tuple(found)

    def with_public_cells(self) -> Self:
        """The same attribute with all its special cells public."""
        return replace(self, null_public=self.null == CELL, outside_public=self.outside == CELL)

    @property
    def total_size(self) -> int:
        """Declared values and special cells together."""
        return self.size + len(self.slots)

    def encode(self, values: object) -> Ints:
        """The code of each raw value: an index, or the code of a special cell."""
        return self.place(self.read(values))

    def place(self, encoded: Encoded) -> Ints:
        """The code of each value that was read: its index, or the code of a special cell."""
        index, is_null, is_outside = encoded
        if self.outside != CLAMP:
            outside_code = self.size + 1 if self.outside == CELL else self.locate(self.outside)
            index = np.where(is_outside, outside_code, index)
        null_code = self.size if self.null == CELL else self.locate(self.null)
        return np.where(is_null, null_code, index).astype(np.int64)

    def check(self) -> None:
        """Refuses a declaration that contradicts itself; constructors call it last."""
        if self.size < 1:
            raise DomainError("an attribute needs at least one value")
        if self.size >= SIZE_LIMIT:
            raise DomainError(f"an attribute has fewer than {SIZE_LIMIT:,} values; use wider bins")
        self.check_outside()
        if self.null != CELL:
            self.locate(self.null)
        if self.null_public and self.null != CELL:
            raise DomainError("null_public needs null='cell': only a cell of its own can be public")
        if self.outside_public and self.outside != CELL:
            raise DomainError("outside_public needs outside='cell': only a cell of its own can be public")
        if len({slot.public for slot in self.slots}) > 1:
            raise DomainError("NULL and outside are both public or both hidden: a hidden cell hides among all others")

    def check_outside(self) -> None:
        """Refuses a treatment of values outside that the kind of attribute does not have."""
        if self.outside not in (CELL, CLAMP):
            raise DomainError(f"outside is 'clamp' or 'cell', not {self.outside!r}")


def one_by_one(values: object, read: Callable[[object], int | None], low: int, high: int) -> Encoded:
    """Reads a column of Python objects; `read` gives a position (indices are low .. high), or None for NULL."""
    column = np.asarray(values, dtype=object).reshape(-1)
    index = np.zeros(column.size, dtype=np.int64)
    is_null = np.zeros(column.size, dtype=np.bool_)
    is_outside = np.zeros(column.size, dtype=np.bool_)
    for row, value in enumerate(column):
        position = read(value)
        if position is None:
            is_null[row] = True
        else:
            is_outside[row] = not low <= position <= high
            index[row] = min(max(position, low), high) - low
    return index, is_null, is_outside


def is_storable(text: str) -> bool:
    """Whether every engine can hold the text: no NUL, and no half of a surrogate pair."""
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text)
