"""Numeric columns cut into half-open bins [a, b), of equal width or at given edges, all exact."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.errors import DomainError
from blowfishdb.model.arrays import Floats, Ints, check_sum, distinct
from blowfishdb.model.domain.base import CELL, CLAMP, Attribute, Encoded, Value
from blowfishdb.model.domain.integers import read_number
from blowfishdb.model.numbers import LARGEST, common_denominator, exact, show

EDGE_COUNT_LIMIT = 2**20


@dataclass(frozen=True, kw_only=True)
class Bins(Attribute):
    """Bins [start + i * width, start + (i+1) * width), or between the given edges.

    A raw double belongs to the bin whose edges, rounded to the nearest double, enclose it: 0.3 is at the edge 3/10.
    """

    start: Fraction
    width: Fraction | None
    count: int
    edges: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        if self.width is not None and self.width <= 0:
            raise DomainError("the width of a bin must be positive")
        if (self.width is None) == (not self.edges):
            raise DomainError("bins have either a width or edges")
        if self.edges:
            if len(self.edges) > EDGE_COUNT_LIMIT:
                raise DomainError(f"at most {EDGE_COUNT_LIMIT:,} edges can be listed; use a width")
            if any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
                raise DomainError("edges must increase: bins must not be empty or overlap")
        if self.count < 1:
            raise DomainError("there must be at least one bin: two edges, or a high end above the low one")
        if not self._exact_as_doubles():
            raise DomainError("bins this fine over this range cannot be told apart exactly; use wider bins")
        self.check()

    def _exact_as_doubles(self) -> bool:
        """Whether all edges differ as doubles and the arithmetic guess of `read` is at most one bin off."""
        if self.width is None:
            return bool(np.all(np.diff(self._float_edges) > 0))
        start, width, scale = self._scaled
        return max(abs(start), abs(start + self.count * width), scale) <= LARGEST // 8

    @property
    def size(self) -> int:
        return self.count

    def edge(self, index: int) -> Fraction:
        """The left edge of bin `index`; index `size` is the right end."""
        return self.edges[index] if self.width is None else self.start + index * self.width

    def index_of(self, value: Value) -> int:
        raise DomainError(f"{value!r} is one point of a bin; ask for a range between edges")

    def locate(self, value: Value) -> int:
        number = exact(value, "the value", DomainError)
        if not self.edge(0) <= number < self.edge(self.count):
            raise DomainError(f"{show(number)} is not in [{show(self.edge(0))}, {show(self.edge(self.count))})")
        return self._around(number)[0]

    def below(self, value: Value) -> int:
        number = exact(value, "the value", DomainError)
        low, high = self._around(number)
        if low != high:
            raise DomainError(self._refusal(number, low))
        return low

    def up_to(self, value: Value) -> int:
        number = exact(value, "the value", DomainError)
        low, high = self._around(number)
        if low != high:
            raise DomainError(self._refusal(number, low))
        if self.edge(0) <= number < self.edge(self.count):
            raise DomainError(f"bins include their left edge only: ask for < {show(number)} or for < the next edge")
        return low

    def _around(self, number: Fraction) -> tuple[int, int]:
        """How many edges' bins lie wholly below the number, and how many begin below it."""
        if number <= self.edge(0):
            return 0, 0
        if number >= self.edge(self.count):
            return self.count, self.count
        if self.width is None:
            return bisect_right(self.edges, number) - 1, bisect_left(self.edges, number)
        steps = (number - self.start) / self.width
        return math.floor(steps), math.ceil(steps)

    def _refusal(self, number: Fraction, index: int) -> str:
        near = f"{show(self.edge(index))} and {show(self.edge(index + 1))}"
        return f"{show(number)} is inside a bin; the nearest edges are {near}"

    @cached_property
    def denominator(self) -> int:
        """A whole number that makes every edge whole."""
        return common_denominator(self.edges) if self.width is None else self._scaled[2]

    def spans(self, first: Ints, last: Ints, scale: int) -> tuple[Ints, Ints]:
        """The left and right edges of runs of bins, times the scale (a multiple of the denominator)."""
        furthest = max(abs(self.edge(0)), abs(self.edge(self.count)))
        check_sum("positions of a joint threshold", int(furthest * scale))
        if self.width is None:
            edges = np.array([int(edge * scale) for edge in self.edges], dtype=np.int64)
            return edges[first], edges[last + 1]
        start, width = int(self.start * scale), int(self.width * scale)
        return start + first * width, start + (last + 1) * width

    @cached_property
    def _scaled(self) -> tuple[int, int, int]:
        """Start and width as whole multiples of one over the third number."""
        width = self.width or Fraction(1)
        scale = common_denominator([self.start, width])
        return int(self.start * scale), int(width * scale), scale

    @cached_property
    def _float_edges(self) -> Floats:
        return np.array([float(edge) for edge in self.edges], dtype=np.float64)

    def edge_doubles(self, index: Ints) -> Floats:
        """The left edges of many bins, each the nearest double."""
        if self.width is None:
            return np.asarray(self._float_edges[index], dtype=np.float64)
        # Numerators and denominators below 2^53 are exact doubles, and their quotient is correctly rounded.
        start, width, scale = self._scaled
        return np.asarray((start + index * width) / scale, dtype=np.float64)

    def read(self, values: object) -> Encoded:
        column = np.asarray(values).reshape(-1)
        if column.dtype.kind not in "fiub":
            numbers = [read_number(value) for value in np.asarray(values, dtype=object).reshape(-1)]
            column = np.array([np.nan if n is None else _to_double(n) for n in numbers], dtype=np.float64)
        number = column.astype(np.float64)
        is_null = np.isnan(number)
        low, high = float(self.edge(0)), float(self.edge(self.count))
        is_outside = ~is_null & ((number < low) | (number >= high))
        inside = np.where(is_null | is_outside, low, number)
        if self.width is None:
            index = np.searchsorted(self._float_edges, inside, side="right") - 1
        else:
            guess = np.floor((inside - low) / float(self.width)).astype(np.int64)
            guess = np.clip(guess, 0, self.count - 1)
            guess = guess - (inside < self.edge_doubles(guess))
            index = guess + (inside >= self.edge_doubles(guess + 1))
        index = np.where(is_outside, np.where(number < low, 0, self.count - 1), index)
        return index.astype(np.int64), is_null, is_outside

    def value_at(self, index: int) -> Value:
        return self.edge(index)

    def run_label(self, first: int, last: int) -> str:
        return f"[{show(self.edge(first))}, {show(self.edge(last + 1))})"

    def run_labels(self, firsts: Ints, lasts: Ints) -> Iterable[str]:
        # Neighbours share an edge, which is written once.
        used = distinct(np.concatenate([firsts, lasts + 1])).tolist()
        text = {index: show(self.edge(index)) for index in used}
        return (f"[{text[low]}, {text[high]})" for low, high in zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _to_double(number: Fraction | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def bins(
    low: object = None,
    high: object = None,
    *,
    width: object = None,
    edges: Sequence[object] | None = None,
    null: Value = CELL,
    outside: str = CLAMP,
    null_public: bool = False,
    outside_public: bool = False,
) -> Bins:
    """A numeric column in half-open bins: `bins(0, 4400, width=100)` or `bins(edges=[0, 1, 10, 100])`."""
    if edges is not None:
        if low is not None or high is not None or width is not None:
            raise DomainError("give either edges, or low, high and width")
        cuts = tuple(exact(edge, "an edge", DomainError) for edge in edges)
        start, step, count = (cuts[0] if cuts else Fraction(0)), None, len(cuts) - 1
    else:
        if low is None or high is None or width is None:
            raise DomainError("bins need low, high and width, or edges")
        start, step = exact(low, "low", DomainError), exact(width, "width", DomainError)
        if step <= 0:
            raise DomainError("the width of a bin must be positive")
        steps = (exact(high, "high", DomainError) - start) / step
        if steps.denominator != 1:
            raise DomainError(f"the width {show(step)} does not divide the range from low to high")
        cuts, count = (), int(steps)
    return Bins(
        start=start,
        width=step,
        count=count,
        edges=cuts,
        null=null,
        outside=outside,
        null_public=null_public,
        outside_public=outside_public,
    )
