"""The declared table: whole numbers, numeric bins and categories, with slots for NULL and values outside."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import Self, TypeAlias

import numpy as np

from blowfishdb.errors import DomainError, InvalidInput, QueryError
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import (
    LARGEST,
    LARGEST_EXPONENT,
    Bools,
    Floats,
    Ints,
    check_sum,
    distinct,
    exact,
    show,
    suggest,
    whole,
)

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


@dataclass(frozen=True)
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

    def begins_with(self, value: Value) -> int:
        """The index of one declared value, or of the bin or period that begins with it."""
        return self.index_of(value)

    def code_of(self, value: Value) -> int:
        """The code of what begins with a value, or of the special cell of that name."""
        try:
            return self.begins_with(value)
        except DomainError:
            for slot in self.slots:
                if slot.name == value:
                    return slot.code
            raise

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
        slots = []
        if self.null == CELL:
            slots.append(Slot("NULL", self.size, self.null_public))
        if self.outside == CELL:
            slots.append(Slot("outside", self.size + 1, self.outside_public))
        return tuple(slots)

    @property
    def has_hidden_cell(self) -> bool:
        """Whether some special cell is hidden among all values, and so brings them within two steps."""
        return any(not slot.public for slot in self.slots)

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


UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether every engine and file can hold the text: no NUL, and no half of a surrogate pair."""
    return UNSTORABLE.search(text) is None


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
            is_quoted = isinstance(value, str) and value in [str(known) for known in self.values]
            advice = f"write {value} without quotes" if is_quoted else suggest(value, self.values)
            raise DomainError(f"there is no value {value!r}; {advice}")
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


@checked(DomainError)
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
    return Categorical(null, outside, null_public, outside_public, values=tuple(values), is_ordered=ordered)


@dataclass(frozen=True, kw_only=True)
class Integers(Attribute):
    """The whole numbers low .. high, both included; raw fractions are rounded down."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise DomainError(f"low ({self.low}) must not be above high ({self.high})")
        if max(abs(self.low), abs(self.high)) > LARGEST:
            raise DomainError(f"whole numbers beyond {LARGEST:,} in size are not exact on every engine; use bins")
        self.check()

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def index_of(self, value: Value) -> int:
        number = whole(value, "the value", DomainError)
        if not self.low <= number <= self.high:
            raise DomainError(f"{number} is not between {self.low} and {self.high}")
        return number - self.low

    def below(self, value: Value) -> int:
        return self._clip(math.ceil(exact(value, "the value", DomainError)))

    def up_to(self, value: Value) -> int:
        return self._clip(math.floor(exact(value, "the value", DomainError)) + 1)

    def _clip(self, number: int) -> int:
        return min(max(number - self.low, 0), self.size)

    @property
    def denominator(self) -> int:
        """A whole number that makes every position whole."""
        return 1

    def spans(self, first: Ints, last: Ints, scale: int) -> tuple[Ints, Ints]:
        """The lowest and highest positions of runs of values, times the scale."""
        check_sum("positions in their finest unit", max(abs(self.low), abs(self.high)) * scale)
        return (self.low + first) * scale, (self.low + last) * scale

    def value_ends(self, first: Ints, last: Ints, scale: int) -> tuple[Ints, Ints]:
        """The least and greatest values of runs of values, times the scale: their positions."""
        return self.spans(first, last, scale)

    def read(self, values: object) -> Encoded:
        column = np.asarray(values).reshape(-1)
        if column.dtype.kind == "f":
            is_null = np.isnan(column)
            number = np.floor(np.where(is_null, self.low, column))
        elif column.dtype.kind in "iub":
            is_null = np.zeros(column.size, dtype=np.bool_)
            number = column.astype(np.int64) if column.dtype.kind == "b" else column
        else:
            return one_by_one(column, read_whole, self.low, self.high)
        is_outside = (number < self.low) | (number > self.high)
        inside = np.where(is_outside, 0, number).astype(np.int64)
        clamped = np.where(number < self.low, self.low, np.where(is_outside, self.high, inside))
        return clamped.astype(np.int64) - self.low, is_null, is_outside & ~is_null

    def value_at(self, index: int) -> Value:
        return self.low + index

    def run_label(self, first: int, last: int) -> str:
        return str(self.low + first) if first == last else f"{self.low + first}-{self.low + last}"

    def run_labels(self, firsts: Ints, lasts: Ints) -> Iterable[str]:
        if np.array_equal(firsts, lasts):
            return map(str, (self.low + firsts).tolist())
        return super().run_labels(firsts, lasts)


DIGITS = Context(prec=1000, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
"""Numbers are read down to so many digits: to make a fraction of a million of them would take a minute."""


def read_number(value: object) -> Fraction | float | None:
    """A raw entry as a number; None for NULL, NaN and anything but a number; infinities stay floats."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        try:
            plain = Decimal(plain.strip())
        except InvalidOperation:
            return None
    if isinstance(plain, Decimal):
        if plain.is_nan():
            return None
        plain = DIGITS.plus(plain)
        if abs(plain.adjusted()) > LARGEST_EXPONENT or plain.is_infinite():
            return float(plain)
    if isinstance(plain, float) and (math.isnan(plain) or math.isinf(plain)):
        return None if math.isnan(plain) else plain
    return Fraction(plain) if isinstance(plain, int | float | Decimal | Fraction) else None


def read_whole(value: object) -> int | None:
    """A raw entry rounded down; infinities become numbers beyond every domain."""
    number = read_number(value)
    if number is None:
        return None
    if isinstance(number, float):
        return 0 if number == 0 else int(math.copysign(4 * LARGEST, number))
    return math.floor(number)


@checked(DomainError)
def integers(
    low: int,
    high: int,
    *,
    null: Value = CELL,
    outside: str = CLAMP,
    null_public: bool = False,
    outside_public: bool = False,
) -> Integers:
    """A column of whole numbers from low to high, both included."""
    first, last = whole(low, "low", DomainError), whole(high, "high", DomainError)
    return Integers(null, outside, null_public, outside_public, low=first, high=last)


EDGE_COUNT_LIMIT = 2**20


@dataclass(frozen=True, kw_only=True)
class Bins(Attribute):
    """Bins [start + i * width, start + (i+1) * width), or between the given edges.

    A raw double belongs to the bin whose edges, rounded to the nearest double, enclose it: 0.3 is at the edge 3/10.
    With `whole` the column holds whole numbers, so that sums count those of a bin and not all of its points.
    """

    start: Fraction
    width: Fraction | None
    count: int
    edges: tuple[Fraction, ...] = ()
    whole: bool = False

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
        if self.whole and not self.hold_whole_numbers:
            raise DomainError("whole=True needs a whole number in every bin")
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
        point = show(value) if isinstance(value, Fraction) else repr(value)
        raise DomainError(f"{point} is one point of a bin; ask for a range between edges")

    def begins_with(self, value: Value) -> int:
        index = self.locate(value)
        if self.edge(index) != exact(value, "the value", DomainError):
            raise DomainError(
                f"{value} is inside the bin that begins with {show(self.edge(index))}; name the bin by that"
            )
        return index

    def locate(self, value: Value) -> int:
        number = exact(value, "the value", DomainError)
        if not self.edge(0) <= number < self.edge(self.count):
            raise DomainError(f"{show(number)} is not in [{show(self.edge(0))}, {show(self.edge(self.count))})")
        return self._around(number)[0]

    def below(self, value: Value) -> int:
        number = exact(value, "the value", DomainError)
        low, high = self._around(number)
        if low != high:
            near = f"{show(self.edge(low))} and {show(self.edge(high))}"
            raise DomainError(f"{show(number)} is inside a bin; the nearest edges are {near}")
        return low

    def up_to(self, value: Value) -> int:
        number = exact(value, "the value", DomainError)
        low = self.below(number)
        if self.edge(0) <= number < self.edge(self.count):
            edges = f"{show(number)} or {show(self.edge(low + 1))}"
            raise DomainError(f"each bin is counted as a whole: compare by < or >= with {edges}")
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

    @cached_property
    def denominator(self) -> int:
        """A whole number that makes every edge whole."""
        return self._scaled[2] if self.width is not None else math.lcm(*(edge.denominator for edge in self.edges))

    def spans(self, first: Ints, last: Ints, scale: int) -> tuple[Ints, Ints]:
        """The left and right edges of runs of bins, times the scale (a multiple of the denominator)."""
        furthest = max(abs(self.edge(0)), abs(self.edge(self.count)))
        check_sum("positions in their finest unit", int(furthest * scale))
        if self.width is None:
            edges = np.array([int(edge * scale) for edge in self.edges], dtype=np.int64)
            return edges[first], edges[last + 1]
        start, width = int(self.start * scale), int(self.width * scale)
        return start + first * width, start + (last + 1) * width

    def value_ends(self, first: Ints, last: Ints, scale: int) -> tuple[Ints, Ints]:
        """The least and greatest values of runs of bins, times the scale: edges, or whole numbers between them."""
        low, high = self.spans(first, last, scale)
        return (-(-low // scale) * scale, (-(-high // scale) - 1) * scale) if self.whole else (low, high)

    @property
    def hold_whole_numbers(self) -> bool:
        """Whether there is a whole number in every bin."""
        if self.width is None:
            return all(math.ceil(low) < high for low, high in pairwise(self.edges))
        # Narrower than 1, a bin holds one at most.
        ends = math.ceil(self.edge(0)), math.ceil(self.edge(self.count))
        return self.width >= 1 or ends[1] - ends[0] == self.count

    @cached_property
    def _scaled(self) -> tuple[int, int, int]:
        """Start and width as whole multiples of one over the third number."""
        width = self.width or Fraction(1)
        scale = math.lcm(self.start.denominator, width.denominator)
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
        edge = self.edge(index)
        return int(edge) if edge.denominator == 1 else edge

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


@checked(DomainError)
def bins(
    low: object = None,
    high: object = None,
    *,
    width: object = None,
    edges: Sequence[object] | None = None,
    whole: bool = False,
    null: Value = CELL,
    outside: str = CLAMP,
    null_public: bool = False,
    outside_public: bool = False,
) -> Bins:
    """A numeric column in half-open bins: `bins(0, 4400, width=100)` or `bins(edges=[0, 1, 10, 100])`.

    `whole` says that it holds whole numbers. Where the source has a column of such, a dataset is declared so anyway.
    """
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
        null, outside, null_public, outside_public, start=start, width=step, count=count, edges=cuts, whole=whole
    )


@dataclass(frozen=True)
class Domain:
    """What a record may be: one value of every attribute."""

    attributes: tuple[tuple[str, Attribute], ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute")
        for name, attribute in self.attributes:
            if not isinstance(name, str) or not name:
                raise DomainError(f"the name of an attribute is a non-empty text, not {name!r}")
            if not is_storable(name):
                raise DomainError(f"the name {name!r} holds a character that no engine takes in a statement")
            if not isinstance(attribute, Attribute):
                raise DomainError(f"{name} must be declared as integers, bins, dates, timestamps or categorical")
        if len(set(self.names)) != len(self.names):
            raise DomainError("every attribute has a name of its own")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    @property
    def size(self) -> int:
        """How many different records there can be, special cells included."""
        return math.prod(attribute.total_size for _, attribute in self.attributes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Attribute:
        return self.find(name)

    def find(self, name: str, error: type[InvalidInput] = QueryError) -> Attribute:
        """The attribute of that name, or an error that names the nearest one."""
        for known, attribute in self.attributes:
            if known == name:
                return attribute
        raise error(f"there is no attribute {name!r}; {suggest(name, self.names)}")

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of the named attributes alone, in the given order."""
        return Domain(tuple((name, self.find(name, DomainError)) for name in names))


@checked(DomainError)
def domain(attributes: Mapping[str, Attribute | Sequence[str]]) -> Domain:
    """A domain from names and attributes; a plain list of texts stands for a categorical attribute."""
    declared = []
    for name, attribute in attributes.items():
        declared.append((name, attribute if isinstance(attribute, Attribute) else categorical(attribute)))
    return Domain(tuple(declared))
