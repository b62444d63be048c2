"""Questions that can be asked of a dataset, and of a synopsis."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, Self, TypeAlias, TypeVar

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.cells import Cells
from blowfishdb.model.predicate import PREDICATES, Axis, Both, Column, Predicate, as_axes, condition_words
from blowfishdb.model.query import Box, Query, cell_range, query

Asked = TypeVar("Asked", covariant=True)
Grouped: TypeAlias = str | Column | Axis
Span: TypeAlias = tuple[object, object]


@dataclass(frozen=True, eq=False, repr=False)
class Questions(ABC, Generic[Asked]):
    """Records, perhaps filtered, with a method for each kind of question."""

    filter: Predicate | None = field(default=None, kw_only=True)
    most_boxes: ClassVar[float] = math.inf

    @abstractmethod
    def _ask(self, query: Query) -> Asked:
        """What a query of these records leads to."""

    @abstractmethod
    def _cells(self, axes: tuple[Axis, ...]) -> Cells:
        """The cells of the filtered records along the axes."""

    def _filter_words(self) -> str:
        return "" if self.filter is None else f" where {condition_words(self.filter)}"

    def where(self, predicate: Predicate) -> Self:
        """The records for which the condition is true; several conditions hold together."""
        if not isinstance(predicate, PREDICATES):
            raise QueryError(f"a filter is a condition such as col('age') >= 18, not {type(predicate).__name__}")
        return replace(self, filter=predicate if self.filter is None else Both(self.filter, predicate))

    def count(self) -> Asked:
        """How many records there are."""
        return self._ask(query("count", (), self.filter))

    def histogram(self, *axes: Grouped) -> Asked:
        """One count per value, bin or group; over several attributes, per combination."""
        return self._ask(query("histogram", grouped(axes), self.filter))

    def histogram2d(self, first: Grouped, second: Grouped) -> Asked:
        """One count per pair of values, bins or groups of two attributes."""
        return self._ask(query("histogram2d", grouped((first, second)), self.filter))

    def cdf(self, axis: Grouped) -> Asked:
        """Running counts along an ordered attribute."""
        return self._ask(query("cdf", grouped((axis,)), self.filter))

    def ranges(self, axis: Grouped, spans: Iterable[Span] | None = None) -> Asked:
        """Counts of half-open ranges [low, high) of an ordered attribute; without spans, of all ranges."""
        if spans is None:
            return self._ask(query("ranges", grouped((axis,)), self.filter))
        return self.rectangles([axis], ((span,) for span in spans))

    def rectangles(self, axes: Sequence[Grouped], boxes: Iterable[Sequence[Span]]) -> Asked:
        """Counts of boxes: for each attribute a half-open range [low, high)."""
        along = grouped(axes)
        cells, ranges = self._cells(along), list[Box]()
        for box in boxes:
            if len(ranges) == self.most_boxes:
                advice = "Ask for all ranges, or for a cdf."
                raise TooLarge("ranges of one question", len(ranges) + 1, len(ranges), advice)
            if isinstance(box, str) or len(box) != len(along) or any(len(span) != 2 for span in box):
                raise QueryError(f"a box has a pair (low, high) for each of {len(along)} attributes")
            sides = zip(along, box, strict=True)
            ranges.append(tuple(cell_range(cells, axis.attribute, *span) for axis, span in sides))
        if not ranges:
            raise QueryError("name at least one range")
        return self._ask(query("ranges", along, self.filter, boxes=ranges))

    def marginal(self, *axes: Grouped) -> Asked:
        """The table of counts over the named attributes together."""
        along = grouped(axes)
        return self._ask(query("marginals", along, self.filter, subsets=[[axis.attribute for axis in along]]))

    def marginals(self, *axes: Grouped, ways: int = 2) -> Asked:
        """The tables of all sets of `ways` of the named attributes, answered together."""
        return self._ask(query("marginals", grouped(axes), self.filter, ways=ways))

    def sum(self, column: Grouped) -> Asked:
        """The sum of a bounded attribute; bins count as their middle, NULL as nothing."""
        return self._ask(query("sum", grouped((column,)), self.filter))

    def mean(self, column: Grouped, *, rows: int | None = None) -> Asked:
        """The mean of a bounded attribute, within alpha where it is taken over at least `rows` records.

        Without `rows` it follows from the number of records, where that is public.
        """
        return self._ask(query("mean", grouped((column,)), self.filter, rows=rows))

    def quantiles(self, column: Grouped, levels: Iterable[object]) -> Asked:
        """The values below which the given shares of the records lie, by a CDF or by rank, with intervals."""
        return self._ask(query("quantiles", grouped((column,)), self.filter, levels=levels))


def grouped(axes: Iterable[Grouped]) -> tuple[Axis, ...]:
    """What to group by, as axes; QueryError for anything but names, columns and axes."""
    listed = list(axes)
    wrong = [axis for axis in listed if not isinstance(axis, str | Column | Axis)]
    if wrong:
        raise QueryError(f"name attributes as texts or col('name'), not as {type(wrong[0]).__name__}")
    return as_axes(listed)
