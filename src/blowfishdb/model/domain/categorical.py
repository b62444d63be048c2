"""Columns whose values are a list of names, numbers or truth values."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blowfishdb.errors import DomainError
from blowfishdb.model.domain.base import CELL, CLAMP, Attribute, Encoded, Value, is_storable, one_by_one
from blowfishdb.model.numbers import suggest

Category = str | int | bool


@dataclass(frozen=True, kw_only=True)
class Categorical(Attribute):
    """The listed values, in the listed order; `ordered` says whether the order means something."""

    values: tuple[Category, ...]
    is_ordered: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise DomainError("a categorical attribute needs at least one value")
        kinds = {type(value) for value in self.values}
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise DomainError("categorical values are all text, all whole numbers or all truth values")
        if len(self._positions) != len(self.values):
            twice = next(v for i, v in enumerate(self.values) if self._positions[v] != i)
            raise DomainError(f"the value {twice!r} is listed twice")
        for value in self.values:
            if isinstance(value, str) and not is_storable(value):
                raise DomainError(f"the value {value!r} holds a character that no engine takes in a statement")
        self.check()

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {value: position for position, value in enumerate(self.values)}

    def check_outside(self) -> None:
        if self.outside == CLAMP:
            raise DomainError(
                "a list has no ends to clamp at; declare outside='cell' or the value that others count as"
            )
        if self.outside != CELL:
            self.index_of(self.outside)

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def ordered(self) -> bool:
        return self.is_ordered

    def _position(self, value: object) -> int | None:
        plain = value.item() if isinstance(value, np.generic) else value
        if not isinstance(plain, Hashable) or isinstance(plain, str) != isinstance(self.values[0], str):
            return None
        return self._positions.get(plain)

    def index_of(self, value: Value) -> int:
        position = self._position(value)
        if position is None:
            raise DomainError(f"there is no value {value!r}; {suggest(value, self.values)}")
        return position

    def read(self, values: object) -> Encoded:
        column = np.asarray(values)
        if column.dtype.kind in "USiub":
            distinct, inverse = np.unique(column.reshape(-1), return_inverse=True)
            parts = one_by_one(distinct, self._read_one, 0, self.size - 1)
            return parts[0][inverse], parts[1][inverse], parts[2][inverse]
        return one_by_one(values, self._read_one, 0, self.size - 1)

    def _read_one(self, value: object) -> int | None:
        plain = value.item() if isinstance(value, np.generic) else value
        if plain is None or (isinstance(plain, float) and plain != plain):
            return None
        position = self._position(plain)
        return self.size if position is None else position

    def value_at(self, index: int) -> Value:
        return self.values[index]

    def run_label(self, first: int, last: int) -> str:
        names = [str(value) for value in self.values[first : last + 1]]
        if len(names) <= 3:
            return ", ".join(names)
        return f"{names[0]} .. {names[-1]}" if self.is_ordered else f"{names[0]}, {names[1]} and {len(names) - 2} more"


def categorical(
    values: Sequence[Category],
    ordered: bool = False,
    *,
    null: Value = CELL,
    outside: Value = CELL,
    null_public: bool = False,
    outside_public: bool = False,
) -> Categorical:
    """A column with the listed values; anything else counts as outside: a cell of its own, or one of the values."""
    if isinstance(values, str):
        raise DomainError("give the values as a list, not as one text")
    return Categorical(
        values=tuple(values),
        is_ordered=ordered,
        null=null,
        outside=outside,
        null_public=null_public,
        outside_public=outside_public,
    )
