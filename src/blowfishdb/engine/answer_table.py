"""What the numbers of an answer stand for: tables of named cells, in the order of the answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blowfishdb.errors import InvalidInput


@dataclass(frozen=True)
class AnswerAxis:
    """The labels along one attribute; the first `plain` are ordinary groups, the rest special ones (NULL, outside).

    `edges` are the ends of the ordinary groups on a number line where they lie side by side on one, else empty; with
    `in_days` they are days since 1970.
    """

    name: str
    labels: tuple[str, ...]
    plain: int
    edges: tuple[float, ...] = ()
    in_days: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.plain <= len(self.labels):
            raise InvalidInput(f"{self.name}: {self.plain} ordinary labels of {len(self.labels)} make no sense")
        if self.edges and len(self.edges) != self.plain + 1:
            raise InvalidInput(f"{self.name}: {self.plain} groups side by side have {self.plain + 1} ends")


@dataclass(frozen=True)
class AnswerTable:
    """Answers for all combinations of the axes' labels, row-major; when not `crossed`, row i has each i-th label."""

    axes: tuple[AnswerAxis, ...]
    crossed: bool = True

    def __post_init__(self) -> None:
        if not self.crossed and len({len(axis.labels) for axis in self.axes}) != 1:
            raise InvalidInput("a listed table has equally many labels on each axis")

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, in the order of the columns."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels along each axis; of a listed table, its number of rows."""
        return tuple(len(axis.labels) for axis in (self.axes if self.crossed else self.axes[:1]))

    @property
    def size(self) -> int:
        """The number of answers."""
        return math.prod(self.shape)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The labels of each answer, one per axis."""
        labels = [axis.labels for axis in self.axes]
        return itertools.product(*labels) if self.crossed else zip(*labels, strict=True)

    def row(self, place: int) -> tuple[str, ...]:
        """The labels of one answer, without walking through the others."""
        if not self.crossed:
            return tuple(axis.labels[place] for axis in self.axes)
        found = []
        for axis in reversed(self.axes):
            place, own = divmod(place, len(axis.labels))
            found.append(axis.labels[own])
        return tuple(reversed(found))


def single(name: str, labels: Sequence[str]) -> tuple[AnswerTable, ...]:
    """One column of labels, for answers that are no cells: quantiles, a sum, a mean."""
    return (AnswerTable((AnswerAxis(name, tuple(labels), len(labels)),)),)
