"""A released answer as values: its numbers with their intervals, its labels, and its certificate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any, Self, TypeVar

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.errors import InvalidInput, QueryError, plural
from blowfishdb.inference.consistency import Consistent
from blowfishdb.mechanisms.parameters import ParameterValues
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.query import COUNTS, KINDS, PUBLISHED, Kind
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import Allowance


@dataclass(frozen=True)
class AnswerAxis:
    """The labels along one attribute: `plain` ordinary groups, then special ones (NULL, outside).

    `edges` are the ends of ordinary groups that lie side by side on a number line, else empty; with `in_days` they
    are days since 1970.
    """

    name: str
    labels: Sequence[str]
    plain: int
    edges: Sequence[float] = ()
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
        labels = []
        for axis in reversed(self.axes):
            place, along = divmod(place, len(axis.labels))
            labels.append(axis.labels[along])
        return tuple(reversed(labels))


def single(name: str, labels: Sequence[str]) -> tuple[AnswerTable, ...]:
    """A table of one column, for answers that are no cells: quantiles, a sum, a mean."""
    return (AnswerTable((AnswerAxis(name, tuple(labels), len(labels)),)),)


@dataclass(frozen=True)
class AnswerColumn:
    """One aggregate of a table: its heading, and the function that it is."""

    name: str
    function: str


@dataclass(frozen=True, eq=False)
class Bounds:
    """The ends of an interval for each answer."""

    low: Floats
    high: Floats

    def at(self, places: Ints) -> Bounds:
        """The intervals of some of the answers."""
        return Bounds(self.low[places], self.high[places])


def around(raw: Floats, widths: Floats | float) -> Bounds:
    """Raw answers plus and minus their half-widths."""
    return Bounds(raw - widths, raw + widths)


def of_counts(bounds: Bounds) -> Bounds:
    """The part of each interval that holds a count; an interval without one stays as it is."""
    return Bounds(np.where(bounds.high >= 0.0, np.maximum(bounds.low, 0.0), bounds.low), bounds.high)


def of_running_counts(bounds: Bounds, plain: int) -> Bounds:
    """Intervals that hold together, cut down to what running counts over the first `plain` answers can be.

    If all intervals hold, a running count is at least every earlier low end and at most every later high end; so the
    cut keeps the truth exactly when the intervals did. Where they contradict each other they stay as they are.
    """
    low, high = bounds.low.copy(), bounds.high.copy()
    low[:plain] = np.maximum.accumulate(low[:plain])
    high[:plain] = np.minimum.accumulate(high[:plain][::-1])[::-1]
    return bounds if np.any(low > high) else Bounds(low, high)


NOISE_ONLY = (
    "Intervals cover the noise only. Counts were spread evenly over buckets that the mechanism chose; how uneven the "
    "data is inside them is not covered."
)
CUT = "Cells that the question cuts were spread evenly."


@cache
def software_version() -> str:
    """The version of BlowfishDB that is running."""
    return metadata.version("blowfishdb")


@dataclass(frozen=True)
class Evidence:
    """The declarations and the query that an answer belongs to, as plain data."""

    declared: Mapping[str, Any]
    question: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """What was measured, as it is published: noisy rows, exact rows, and the total where it is public.

    Answers at other noise levels are drawn from it.
    """

    noisy: Ints
    exact: Ints
    total: float | None

    def to_dict(self) -> dict[str, Any]:
        """The rows as an answer stores them, in arrays."""
        return {"noisy": self.noisy, "exact": self.exact, "total": self.total}

    @staticmethod
    def read(content: Any) -> MeasuredRows | None:
        """The rows that `to_dict` wrote; None for anything else."""
        try:
            noisy, exact = (np.array(content[key], dtype=np.int64) for key in ("noisy", "exact"))
            total = content["total"]
        except (TypeError, KeyError, ValueError, OverflowError):
            return None
        if noisy.ndim != 1 or exact.ndim != 1 or not (total is None or isinstance(total, float)):
            return None
        return MeasuredRows(noisy, exact, total)


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class AnswerValues:
    """The released answers to one query.

    `raw` is unbiased; all true answers lie within `widths.together` of it with probability 1 - beta, and any single
    one within its `widths.per_answer`. `consistent` lies inside the simultaneous box. Where intervals are not raw plus
    or minus a width (a quantile, a mean), `simultaneous` and `pointwise` are the intervals. `columns` name the
    aggregates of a table, whose `tables` are the same groups once for each of them. `stages` are those of a
    data-aware mechanism, `parameters` those of any mechanism that were set, and `caveat` says what intervals leave out.
    The certificate is checked with `evidence`.
    `counted` says which rows count where not all of a person's do. Answers with the same `subject` have the same true
    values; `question` is the query of an answer without evidence.
    Where an answer builds on earlier ones of the same analyst, `rests_on` are their entries and `charged` is what it
    cost beyond them. Epsilon is what all of them lose together where they share their noise, and what was measured anew
    where they were combined.
    Several questions that were answered together are the `parts`, and their numbers follow each other here.
    """

    kind: Kind
    title: str
    tables: tuple[AnswerTable, ...]
    raw: Floats
    consistent: Consistent
    widths: HalfWidths
    beta: float
    mechanism: str
    certificate: Certificate
    dataset: str = ""
    policy_version: int | None = None
    protected: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()
    released: str = ""
    version: str = field(default_factory=software_version)
    simultaneous: Bounds | None = None
    pointwise: Bounds | None = None
    stages: tuple[Allowance, ...] = ()
    parameters: ParameterValues = ()
    caveat: str = ""
    evidence: Evidence | None = None
    columns: tuple[AnswerColumn, ...] = ()
    counted: str = ""
    subject: str = ""
    question: Mapping[str, Any] | None = None
    measured: MeasuredRows | None = None
    charged: Fraction | None = None
    rests_on: tuple[int, ...] = ()
    parts: tuple[Self, ...] = ()

    def __post_init__(self) -> None:
        sizes = {
            "labels": sum(table.size for table in self.tables),
            "consistent answers": self.consistent.values.size,
            "half-widths": self.widths.per_answer.size,
        }
        for bounds in (self.simultaneous, self.pointwise):
            if bounds is not None:
                sizes |= {"low ends": bounds.low.size, "high ends": bounds.high.size}
        wrong = [f"{size} {what}" for what, size in sizes.items() if size != self.raw.size]
        kinds = [kind for kind in KINDS if kind not in PUBLISHED]
        if self.kind not in kinds:
            raise InvalidInput(f"an answer is of a kind in {', '.join(kinds)}, not {self.kind!r}")
        if self.kind == "cdf" and [len(table.axes) for table in self.tables] != [1]:
            raise InvalidInput("running counts are one table along one attribute")
        if len(self.columns) != (len(self.tables) if self.kind == "table" else 0):
            raise InvalidInput("a table of aggregates has a name for each of its columns")
        if bool(self.parts) != (self.kind == "joint"):
            raise InvalidInput("several answers in one have parts, and nothing else has them")
        if wrong:
            raise InvalidInput(f"an answer with {self.raw.size} values has {' and '.join(wrong)}")

    @property
    def epsilon(self) -> Fraction:
        """The price of the release."""
        return self.certificate.epsilon

    @property
    def values(self) -> Floats:
        """The answers to show: consistent ones, or the raw ones where none are consistent."""
        return self.consistent.values

    @property
    def is_exact(self) -> bool:
        """Whether no noise is in the measured numbers."""
        return self.epsilon == 0 or 0 < self.widths.exact.size == self.raw.size

    @property
    def is_list(self) -> bool:
        """Whether groups are listed without their numbers, only their places."""
        return any(column.function == "place" for column in self.columns)

    @property
    def leaves_out(self) -> bool:
        """Whether the true values may lie outside the intervals for other reasons than noise."""
        return any(part in self.caveat for part in (NOISE_ONLY, CUT))

    @property
    def is_true(self) -> bool:
        """Whether the numbers shown are the true ones: no noise, no interval with a width, and nothing left out."""
        is_point = self.simultaneous is None or np.array_equal(self.simultaneous.low, self.simultaneous.high)
        return self.is_exact and is_point and not self.leaves_out

    @property
    def is_counts(self) -> bool:
        """Whether the answers are counts of records, and so never below 0."""
        if self.kind == "table":
            return all(column.function in ("count", "people") for column in self.columns)
        return self.kind in COUNTS

    @property
    def value_name(self) -> str:
        """The name of the numbers: count, sum, mean or value; of a table with one column, that column's."""
        if len(self.columns) == 1:
            return self.columns[0].name
        return KINDS[self.kind].number

    @property
    def row_count(self) -> int:
        """The number of rows to list: of a table one for each group, else one for each number."""
        return self.tables[0].size if self.columns else int(self.raw.size)

    def column(self, place: int) -> Self:
        """One column of a table as a table of its own."""
        if not 0 <= place < len(self.columns):
            raise QueryError(f"the answer has {plural(len(self.columns), 'column')}, the first of which is 0")
        starts = np.cumsum([0, *(table.size for table in self.tables)])
        places = np.arange(*starts[place : place + 2])
        column = chosen_numbers(self, places, (self.tables[place],), (self.columns[place],))
        widths = column.widths.per_answer
        return replace(column, widths=HalfWidths(widths, float(widths.max(initial=0.0))))

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each answer, in order."""
        several = len(self.tables) > 1
        labels = [
            " × ".join(f"{name} {part}" if several else part for name, part in zip(table.names, row, strict=True))
            for table in self.tables
            for row in table.rows()
        ]
        return tuple(f"up to {label}" if place < self.running else label for place, label in enumerate(labels))

    @property
    def running(self) -> int:
        """How many of the first answers are running counts."""
        return self.tables[0].axes[0].plain if self.kind == "cdf" else 0

    @cached_property
    def bounds(self) -> Bounds:
        """Simultaneous intervals: all of them hold with probability 1 - beta."""
        if self.simultaneous is not None:
            return self.simultaneous
        bounds = around(self.raw, self.widths.together)
        return of_running_counts(of_counts(bounds), self.running) if self.is_counts else bounds

    @cached_property
    def pointwise_bounds(self) -> Bounds:
        """Pointwise intervals: each of them holds with probability 1 - beta."""
        if self.pointwise is not None:
            return self.pointwise
        bounds = around(self.raw, self.widths.per_answer)
        return of_counts(bounds) if self.is_counts else bounds


def query_document(answer: AnswerValues) -> Mapping[str, Any] | None:
    """The query that was answered, as plain data; None where it is not known."""
    return answer.question or (None if answer.evidence is None else answer.evidence.question)


AnyReleased = TypeVar("AnyReleased", bound=AnswerValues)


def chosen_numbers(
    answer: AnyReleased, places: Ints, tables: tuple[AnswerTable, ...], columns: tuple[AnswerColumn, ...]
) -> AnyReleased:
    """The numbers of an answer at some places, under labels of their own."""
    return replace(
        answer,
        tables=tables,
        raw=answer.raw[places],
        consistent=replace(answer.consistent, values=answer.values[places]),
        widths=answer.widths.at(places),
        simultaneous=None if answer.simultaneous is None else answer.simultaneous.at(places),
        pointwise=None if answer.pointwise is None else answer.pointwise.at(places),
        columns=columns,
    )
