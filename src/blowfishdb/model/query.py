"""What an analyst asks: a kind of answer over groups of records, perhaps filtered; its rows; a method for each kind."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from blowfishdb.errors import DomainError, QueryError, TooLarge, between, plural
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.arguments import checked
from blowfishdb.model.cells import Cells, middles
from blowfishdb.model.domain import Domain
from blowfishdb.model.numbers import Ints, exact
from blowfishdb.model.predicate import PREDICATES, Axis, Both, Column, Predicate, as_axes, condition_words
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Prefix,
    Rectangles,
    Rows,
    Sparse,
    all_marginals,
    marginals,
)

LARGEST_ENTRY = 2**40


@dataclass(frozen=True, eq=False)
class Measure:
    """What the ordinary cells count for: `numerators` over `scale`. NULL and outside count for nothing.

    A mean is `offset` (over `scale`) plus the first row over the count; the count's row is multiplied by `spread`, the
    most that a value differs from the offset, so that one alpha means the same for both rows. `inside` is how far a
    value may be from that of its cell; a sum of such cells measures how much it may be off, times `fineness`, as a
    second row.
    """

    numerators: Ints
    inside: Ints
    scale: int
    offset: int
    spread: int

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value of a record that counts."""
        low, high = self.numerators - self.inside, self.numerators + self.inside
        return float(low.min()) / self.scale, float(high.max()) / self.scale

    @property
    def fineness(self) -> int:
        """The factor of the second row of a sum.

        Both rows have the same noise. With s and t as the most that a record adds to them, this costs the first row
        f t / s more noise and adds a part 1 / f of it to the interval: together the least for f = sqrt(s / t).
        """
        most = max(1, int(self.inside.max()))
        return max(1, math.isqrt(int(np.abs(self.numerators).max()) // most))

    @property
    def coarsest(self) -> float:
        """How far any value may be from that of its cell."""
        return float(self.inside.max()) / self.scale


def measure_of(cells: Cells) -> Measure:
    """The values along the one axis of a sum or mean: whole numbers by themselves, others by the middles of bins."""
    if len(cells.axes) != 1 or cells.plain[0] == 0:
        raise QueryError("sums and means are of one attribute, with at least one value that the filter keeps")
    (name,), (axis,) = cells.axes, cells.layout.values()
    if not axis.in_order:
        raise QueryError(f"{name}: sums and means need values or bins in order")
    halves, inside, unit = middles(name, axis)
    shared = math.gcd(unit.denominator, int(np.gcd.reduce(halves)), int(np.gcd.reduce(inside)))
    numerators, inside, scale = halves // shared, inside // shared, unit.denominator // shared
    largest = int(np.abs(numerators).max())
    if largest > LARGEST_ENTRY:
        raise TooLarge(f"values of {name} in their finest unit", largest, LARGEST_ENTRY, "Use wider bins.")
    offset = int(numerators[0] + numerators[-1]) // 2
    spread = max(1, int(np.abs(numerators - offset).max()))
    return Measure(numerators, inside, scale, offset, spread)


Kind = Literal[
    "count",
    "histogram",
    "histogram2d",
    "cdf",
    "ranges",
    "marginals",
    "linear",
    "sum",
    "mean",
    "quantiles",
    "selection",
    "table",
    "joint",
    "synopsis",
    "points",
]
Box: TypeAlias = tuple[tuple[int, int], ...]
"""A half-open range [low, high) of ordinary cells for each axis, in the order of the query's axes."""
LinearRow: TypeAlias = tuple[tuple[int, int], ...]
"""A linear query as pairs (cell, weight), cells numbered as a histogram over the same axes lists them."""


@dataclass(frozen=True)
class KindRules:
    """What holds for every query of one kind: it is over `least` to `most` attributes, and `number` names an answer.

    Its rows `may_share` their noise with others at another level. One that `is_published` leads to a table of its own
    to work with, not to an answer.
    """

    least: int
    most: int
    number: str = "count"
    may_share: bool = True
    is_published: bool = False


KINDS: Mapping[Kind, KindRules] = {
    "count": KindRules(0, 0),
    "histogram": KindRules(1, 16),
    "histogram2d": KindRules(2, 2),
    "cdf": KindRules(1, 1),
    "ranges": KindRules(1, 16),
    "marginals": KindRules(1, 16),
    "linear": KindRules(1, 16, "value"),
    "sum": KindRules(1, 1, "sum"),
    "mean": KindRules(1, 1, "mean"),
    "quantiles": KindRules(1, 1, "value"),
    "selection": KindRules(1, 16, "place", may_share=False),
    "table": KindRules(0, 16, "value"),
    "joint": KindRules(0, 0, "value"),
    "synopsis": KindRules(1, 16, may_share=False, is_published=True),
    "points": KindRules(1, 16, may_share=False, is_published=True),
}
PUBLISHED = tuple(kind for kind, rules in KINDS.items() if rules.is_published)
COUNTS = tuple(kind for kind, rules in KINDS.items() if rules.number == "count" and not rules.is_published)
"""Kinds whose answers are counts of records."""
MOST_LEVELS = 1000
MOST_PARTS = 64
MOST_CLUSTERS = 1000
MOST_ROWS = 10**12
MOST_LINEAR = 4096
MOST_WEIGHTS = 100_000
LARGEST_WEIGHT = 2**20
LISTED_RANGES = 2048
"""All ranges beside special cells are listed one by one, up to this many ordinary cells."""


@dataclass(frozen=True)
class Part:
    """One of several questions that are answered together: off by at most `alpha`, except with probability `beta`.

    All of its answers are so at once, or, with `per_query`, each of them.
    """

    query: Query
    alpha: Fraction
    beta: Fraction
    per_query: bool = False


@dataclass(frozen=True)
class PartGroup:
    """Places of parts that are read off the same measured rows, their mechanism, and what that would lose alone."""

    members: tuple[int, ...]
    mechanism: str
    level: Fraction


@dataclass(frozen=True)
class Query:
    """What is asked, without its accuracy.

    count: how many records pass the filter. histogram, histogram2d: one count per cell. cdf: running counts along
    one ordered axis; its special cells (NULL, outside) stand beside the order and follow as counts of their own.
    ranges: the given boxes, or all ranges of one axis; special cells are in no range. marginals: the tables of the
    given sets of attributes, or of all sets of `ways` attributes. linear: weighted sums of counts by the rows `linear`.
    sum, mean: of one bounded numeric attribute.
    quantiles: the values below which the shares `levels` of the records lie, read off a cdf or chosen by rank.
    selection: the names of the `most` largest cells, or of those with at least `above` records, without counts. table:
    several `aggregates` of every group. Means, spreads and shares keep an accuracy over at least `rows` records.
    joint: several questions, the `parts`, in one release; `groups` say how they are measured, once that is planned.
    synopsis: a histogram whose noisy counts are published, to be asked for ever. points: weights on a grid over numeric
    attributes that suits `clusters` clusters of about `rows` records, for k-means.
    """

    kind: Kind
    axes: tuple[Axis, ...] = ()
    where: Predicate | None = None
    boxes: tuple[Box, ...] = ()
    subsets: tuple[tuple[str, ...], ...] = ()
    ways: int | None = None
    levels: tuple[Fraction, ...] = ()
    clusters: int | None = None
    rows: int | None = None
    aggregates: tuple[Aggregate, ...] = ()
    linear: tuple[LinearRow, ...] = ()
    parts: tuple[Part, ...] = ()
    groups: tuple[PartGroup, ...] = ()
    most: int | None = None
    above: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise QueryError(f"the kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        rules = KINDS[self.kind]
        if not rules.least <= len(self.axes) <= rules.most:
            wanted = between(rules.least, rules.most, "attribute")
            raise QueryError(f"a {self.kind} is over {wanted}, not {len(self.axes)}")
        if self.where is not None and not isinstance(self.where, PREDICATES):
            raise QueryError(f"a filter is a condition such as col('age') >= 18, not {self.where!r}")
        if self.boxes and self.kind != "ranges":
            raise QueryError("only ranges take boxes")
        if self.kind == "ranges" and not self.boxes and len(self.axes) > 1:
            raise QueryError("ranges over several attributes need the boxes to be given")
        if self.kind == "marginals" and bool(self.subsets) == (self.ways is not None):
            raise QueryError("marginals need either subsets of attributes or ways, a number of attributes")
        if self.kind != "marginals" and (self.subsets or self.ways is not None):
            raise QueryError("only marginals take subsets or ways")
        if bool(self.linear) != (self.kind == "linear"):
            raise QueryError("linear queries have rows of weights, and nothing else has them")
        if len(self.linear) > MOST_LINEAR or sum(map(len, self.linear)) > MOST_WEIGHTS:
            raise QueryError(f"a workload has at most {MOST_LINEAR:,} rows and {MOST_WEIGHTS:,} weights that are not 0")
        if any(type(part) is not int for row in self.linear for pair in row for part in pair):
            raise QueryError("a linear query is made of pairs (cell, weight) of whole numbers")
        if any(abs(weight) > LARGEST_WEIGHT for row in self.linear for _, weight in row):
            raise QueryError(f"weights are whole numbers from -{LARGEST_WEIGHT:,} to {LARGEST_WEIGHT:,}")
        if self.levels and self.kind != "quantiles":
            raise QueryError("only quantiles take levels")
        if bool(self.aggregates) != (self.kind == "table"):
            raise QueryError("a table has aggregates, and nothing else has them")
        given = [number for number in (self.most, self.above) if number is not None]
        if len(given) != (1 if self.kind == "selection" else 0):
            raise QueryError("a selection has a number of groups or a least count, and nothing else has one")
        if any(type(number) is not int or not 1 <= number <= MOST_ROWS for number in given):
            raise QueryError(f"the number of groups, or of records, is a whole number from 1 to {MOST_ROWS:,}")
        self._check_parts()
        titles = [part.title for part in self.aggregates]
        if len(set(titles)) < len(titles):
            twice = next(title for title in titles if titles.count(title) > 1)
            raise QueryError(f"two columns are called {twice}: give one of them another name")
        if self.kind != "points" and self.clusters is not None:
            raise QueryError("only points take clusters")
        if self.kind in ("linear", "synopsis") and self.rows is not None:
            raise QueryError(f"a {self.kind} takes no rows")
        for what, number, most in (("clusters", self.clusters, MOST_CLUSTERS), ("rows", self.rows, MOST_ROWS)):
            is_needed = self.kind == "points" or number is not None
            if is_needed and (type(number) is not int or not 1 <= number <= most):
                raise QueryError(f"the number of {what} is a whole number from 1 to {most:,}")

    def _check_parts(self) -> None:
        if bool(self.parts) != (self.kind == "joint") or (self.groups and not self.parts):
            raise QueryError("questions that are answered together have parts, and nothing else has them")
        if len(self.parts) > MOST_PARTS:
            raise TooLarge("questions that are answered together", len(self.parts), MOST_PARTS, "Ask for fewer.")
        if self.kind == "joint" and self.where is not None:
            raise QueryError("questions that are answered together have filters of their own")
        if any(part.query.kind in ("joint", *PUBLISHED) for part in self.parts):
            raise QueryError("only questions with an answer of their own are answered together")
        if any(part.alpha <= 0 or not 0 < part.beta < 1 for part in self.parts):
            raise QueryError("each question has an alpha above 0 and a beta strictly between 0 and 1")
        places = sorted(place for group in self.groups for place in group.members)
        if self.groups and (places != list(range(len(self.parts))) or any(group.level <= 0 for group in self.groups)):
            raise QueryError("each question is in one group, and each group loses more than 0")


@checked(QueryError)
def query(
    kind: Kind,
    group_by: str | Column | Axis | Iterable[str | Column | Axis] = (),
    where: Predicate | None = None,
    *,
    boxes: Iterable[Box] = (),
    subsets: Iterable[Iterable[str]] = (),
    ways: int | None = None,
    levels: Iterable[object] | None = None,
    clusters: int | None = None,
    rows: int | None = None,
    aggregates: Iterable[Aggregate] = (),
    linear: Any = None,
) -> Query:
    """A query from names, columns or grouped columns; `linear` is a matrix or a list of rows."""
    shares = () if levels is None else levels_of(levels)
    listed = tuple(tuple(subset) for subset in subsets)
    columns, weights = tuple(aggregates), () if linear is None else linear_rows(linear)
    return Query(kind, as_axes(group_by), where, tuple(boxes), listed, ways, shares, clusters, rows, columns, weights)


def linear_rows(matrix: Any) -> tuple[LinearRow, ...]:
    """The rows of a matrix (numpy, scipy's sparse ones, or lists of whole numbers), without their zeros."""
    if issparse(matrix):
        weights = matrix.tocsr()
    else:
        try:
            weights = np.atleast_2d(np.asarray(matrix))
        except ValueError:
            raise QueryError("the rows of a workload have one weight for each cell") from None
    if weights.ndim != 2 or weights.dtype.kind not in "iub":
        raise QueryError("a workload is a matrix of whole numbers, a row for each answer and a column for each cell")
    if weights.shape[0] > MOST_LINEAR:
        raise QueryError(f"a workload has at most {MOST_LINEAR:,} rows, not {weights.shape[0]:,}")
    entries = csr_array(weights)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    if entries.nnz > MOST_WEIGHTS:
        raise QueryError(f"a workload has at most {MOST_WEIGHTS:,} weights that are not 0, not {entries.nnz:,}")
    pairs = list(zip(entries.indices.tolist(), map(int, entries.data.tolist()), strict=True))
    return tuple(tuple(pairs[first:last]) for first, last in pairwise(entries.indptr.tolist()))


def synopsis_of(histogram: Query) -> Query:
    """The synopsis that publishes the cells of a histogram."""
    if histogram.kind not in ("histogram", "histogram2d", "synopsis"):
        raise QueryError("a synopsis is published from a histogram over its attributes; ask anything of it afterwards")
    return replace(histogram, kind="synopsis")


def levels_of(levels: Iterable[object]) -> tuple[Fraction, ...]:
    """The shares for quantiles, each strictly between 0 and 1."""
    listed = [levels] if isinstance(levels, str | int | float | Fraction) else list(levels)
    if not 0 < len(listed) <= MOST_LEVELS:
        raise QueryError(f"quantiles need 1 to {MOST_LEVELS} levels such as [0.25, 0.5, 0.75]")
    shares = tuple(exact(level, "a level", QueryError) for level in listed)
    if not all(0 < level < 1 for level in shares):
        raise QueryError("a level lies strictly between 0 and 1: 0.5 asks for the median")
    return shares


def workload(query: Query, cells: Cells) -> Rows:
    """The linear queries over the cells that answer the question, in the order in which answers are shown.

    Quantiles are read off a cdf, and a mean off a sum and a count; those are what their rows ask.
    """
    if query.kind in ("cdf", "quantiles"):
        return _running(cells)
    if query.kind in ("sum", "mean"):
        return _measured(query, cells)
    if query.kind == "ranges":
        return _boxes(query, cells) if query.boxes else _all_ranges(cells)
    if query.kind == "marginals":
        return _marginals(query, cells)
    if query.kind == "linear":
        return _linear(query, cells)
    return Identity(cells.graph.cells)


def cell_range(cells: Cells, name: str, low: object, high: object) -> tuple[int, int]:
    """The ordinary cells of an axis that hold exactly the values in [low, high)."""
    if name not in cells.layout:
        raise QueryError(f"{name} is not grouped")
    _need_order(cells, cells.axes.index(name))
    axis = cells.layout[name]
    try:
        ends = [axis.segments.attribute.below(value) for value in (low, high)]
    except DomainError as error:
        raise QueryError(f"{name}: {error}") from None
    first, last = (int(np.searchsorted(axis.firsts, end, side="left")) for end in ends)
    for place, end in ((first, ends[0]), (last, ends[1])):
        if place > 0 and axis.lasts[place - 1] >= end:
            label = cells.labels[cells.axes.index(name)][place - 1]
            raise QueryError(f"{name}: the range would cut the cell {label} in two; begin and end it at a cell")
    if first >= last:
        raise QueryError(f"{name}: the range holds no cell")
    return first, last


def _need_order(cells: Cells, place: int) -> None:
    axis = cells.layout[cells.axes[place]]
    if not axis.segments.attribute.ordered or not axis.in_order:
        raise QueryError(f"{cells.axes[place]} has no order here, so running counts and ranges mean nothing")


def _measured(query: Query, cells: Cells) -> Rows:
    """The values for a sum, and how far off they may be where they are; for a mean the values less the offset, and
    the count of ordinary cells times the spread."""
    measure = measure_of(cells)
    mean = [measure.numerators - measure.offset, np.full(measure.numerators.size, measure.spread)]
    total = [measure.numerators, *([measure.inside * measure.fineness] if measure.inside.any() else [])]
    values = total if query.kind == "sum" else mean
    rows = np.zeros((len(values), cells.graph.cells), dtype=np.int64)
    rows[:, : measure.numerators.size] = values
    return Sparse(rows)


def _running(cells: Cells) -> Rows:
    _need_order(cells, 0)
    plain, count = cells.plain[0], cells.graph.cells
    if plain == count:
        return Prefix(count)
    index = np.arange(count)
    return Intervals(count, np.where(index < plain, 0, index), index + 1)


def _all_ranges(cells: Cells) -> Rows:
    _need_order(cells, 0)
    plain, count = cells.plain[0], cells.graph.cells
    if plain == 0:
        raise QueryError(f"the filter keeps no value of {cells.axes[0]} that lies in a range; ask for a count")
    if plain == count:
        return AllRanges(count)
    if plain > LISTED_RANGES:
        raise TooLarge("cells for all ranges beside NULL", plain, LISTED_RANGES, "Filter NULL out or give the boxes.")
    low, high = np.triu_indices(plain)
    return Intervals(count, low, high + 1)


def _boxes(query: Query, cells: Cells) -> Rows:
    order = [[axis.attribute for axis in query.axes].index(name) for name in cells.axes]
    for place in range(len(order)):
        _need_order(cells, place)
    low, high = [], []
    for box in query.boxes:
        if len(box) != len(order):
            raise QueryError(f"a box has one range per attribute: {len(order)}, not {len(box)}")
        ranges = [box[place] for place in order]
        for (begin, end), plain, name in zip(ranges, cells.plain, cells.axes, strict=True):
            if not 0 <= begin < end <= plain:
                raise QueryError(f"the range [{begin}, {end}) does not lie within the {plain} cells of {name}")
        low.append([begin for begin, _ in ranges])
        high.append([end for _, end in ranges])
    if len(order) == 1:
        return Intervals(cells.graph.cells, np.array(low)[:, 0], np.array(high)[:, 0])
    return Rectangles(cells.graph.shape, np.array(low), np.array(high))


def _linear(query: Query, cells: Cells) -> Rows:
    count = cells.graph.cells
    places = [(row, cell, weight) for row, pairs in enumerate(query.linear) for cell, weight in pairs]
    rows, columns, weights = np.array(places, dtype=np.int64).reshape(-1, 3).T
    if columns.size and not 0 <= int(columns.min()) <= int(columns.max()) < count:
        raise QueryError(f"a workload over {count:,} cells has weights for the cells 0 to {count - 1:,}")
    return Sparse(csr_array((weights, (rows, columns)), shape=(len(query.linear), count)))


def _marginals(query: Query, cells: Cells) -> Rows:
    if query.ways is not None:
        if not 1 <= query.ways <= len(cells.axes):
            raise QueryError(f"ways is between 1 and the number of attributes, {len(cells.axes)}, not {query.ways}")
        return all_marginals(cells.graph.shape, query.ways)
    unknown = [name for subset in query.subsets for name in subset if name not in cells.axes]
    if unknown:
        raise QueryError(f"{unknown[0]} is not grouped, so it is in no marginal")
    return marginals(cells.graph.shape, [sorted(cells.axes.index(name) for name in s) for s in query.subsets])


T_co = TypeVar("T_co", covariant=True)
Grouped: TypeAlias = str | Column | Axis
Span: TypeAlias = tuple[object, object]


@checked(QueryError)
@dataclass(frozen=True, eq=False, repr=False)
class Questions(ABC, Generic[T_co]):
    """Records, perhaps filtered, with a method for each kind of question."""

    filter: Predicate | None = field(default=None, kw_only=True)
    most_boxes: ClassVar[float] = math.inf
    if TYPE_CHECKING:

        @property
        def domain(self) -> Domain:
            """What is declared of the attributes: a field of a table, and computed for a synopsis."""

    @abstractmethod
    def _ask(self, query: Query) -> T_co:
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

    def count(self) -> T_co:
        """How many records there are."""
        return self._ask(query("count", (), self.filter))

    def histogram(self, *axes: Grouped) -> T_co:
        """One count per value, bin or group; over several attributes, per combination."""
        return self._ask(query("histogram", grouped(axes), self.filter))

    def histogram2d(self, first: Grouped, second: Grouped) -> T_co:
        """One count per pair of values, bins or groups of two attributes."""
        return self._ask(query("histogram2d", grouped((first, second)), self.filter))

    def cdf(self, axis: Grouped) -> T_co:
        """Running counts along an ordered attribute."""
        return self._ask(query("cdf", grouped((axis,)), self.filter))

    def ranges(self, axis: Grouped, spans: Iterable[Span] | None = None) -> T_co:
        """Counts of half-open ranges [low, high) of an ordered attribute; without spans, of all ranges."""
        if spans is None:
            return self._ask(query("ranges", grouped((axis,)), self.filter))
        return self.rectangles([axis], ((span,) for span in spans))

    def rectangles(self, axes: Sequence[Grouped], boxes: Iterable[Sequence[Span]]) -> T_co:
        """Counts of boxes: for each attribute a half-open range [low, high)."""
        along = grouped(axes)
        cells, ranges = self._cells(along), list[Box]()
        for box in boxes:
            if len(ranges) == self.most_boxes:
                advice = "Ask for all ranges, or for a cdf."
                raise TooLarge("ranges of one question", len(ranges) + 1, len(ranges), advice)
            if isinstance(box, str) or len(box) != len(along) or any(len(span) != 2 for span in box):
                raise QueryError(f"a box has a pair (low, high) for each of {plural(len(along), 'attribute')}")
            sides = zip(along, box, strict=True)
            ranges.append(tuple(cell_range(cells, axis.attribute, *span) for axis, span in sides))
        if not ranges:
            raise QueryError("name at least one range")
        return self._ask(query("ranges", along, self.filter, boxes=ranges))

    def marginal(self, *axes: Grouped) -> T_co:
        """The table of counts over the named attributes together."""
        along = grouped(axes)
        return self._ask(query("marginals", along, self.filter, subsets=[[axis.attribute for axis in along]]))

    def marginals(self, *axes: Grouped, ways: int = 2) -> T_co:
        """The tables of all sets of `ways` of the named attributes, answered together."""
        return self._ask(query("marginals", grouped(axes), self.filter, ways=ways))

    def sum(self, column: Grouped) -> T_co:
        """The sum of a bounded attribute; NULL counts as nothing, and a value in a bin as the middle of the bin.

        The interval then adds half a width for each record; bins of whole numbers of width 1 are these numbers.
        """
        return self._ask(query("sum", grouped((column,)), self.filter))

    def mean(self, column: Grouped, *, rows: int | None = None) -> T_co:
        """The mean of a bounded attribute, within alpha where it is taken over at least `rows` records.

        Without `rows` it follows from the number of records, where that is public.
        """
        return self._ask(query("mean", grouped((column,)), self.filter, rows=rows))

    def quantiles(self, column: Grouped, levels: Iterable[object]) -> T_co:
        """The values below which the given shares of the records lie, by a CDF or by rank, with intervals."""
        return self._ask(query("quantiles", grouped((column,)), self.filter, levels=levels))


def grouped(axes: Iterable[Grouped]) -> tuple[Axis, ...]:
    """What to group by, as axes; QueryError for anything but names, columns and axes."""
    listed = list(axes)
    wrong = [axis for axis in listed if not isinstance(axis, str | Column | Axis)]
    if wrong:
        raise QueryError(f"name attributes as texts or col('name'), not as {type(wrong[0]).__name__}")
    return as_axes(listed)
