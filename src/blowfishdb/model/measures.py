"""The rows of sums and means: each cell of a bounded numeric attribute with the whole number it counts for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Attribute, Bins, Integers
from blowfishdb.model.workload import Sparse

LARGEST_ENTRY = 2**40


@dataclass(frozen=True, eq=False)
class Measure:
    """What the ordinary cells count for: `numerators` over `scale`. NULL and outside count for nothing.

    A mean is `offset` (over `scale`) plus the first row over the count; the count's row is multiplied by `spread`, the
    most that a value differs from the offset, so that one alpha means the same for both rows.
    """

    numerators: Ints
    scale: int
    offset: int
    spread: int


def measure_of(cells: Cells) -> Measure:
    """The values along the one axis of a sum or mean; whole numbers by themselves, bins by their exact middle."""
    if len(cells.axes) != 1 or cells.plain[0] == 0:
        raise QueryError("sums and means are of one attribute, with at least one value that the filter keeps")
    axis = cells.layout[cells.axes[0]]
    attribute = axis.segments.attribute
    if not axis.in_order:
        raise QueryError(f"{cells.axes[0]}: sums and means need values or bins in order")
    middles = _middles(attribute, axis.firsts, axis.lasts, cells.axes[0])
    scale = math.lcm(*{middle.denominator for middle in middles})
    largest = max(abs(middle) for middle in middles) * scale
    if largest > LARGEST_ENTRY:
        raise TooLarge(
            f"values of {cells.axes[0]} in their finest unit", int(largest), LARGEST_ENTRY, "Use wider bins."
        )
    numerators = np.array([int(middle * scale) for middle in middles], dtype=np.int64)
    offset = int(numerators[0] + numerators[-1]) // 2
    spread = max(1, int(np.abs(numerators - offset).max()))
    return Measure(numerators, scale, offset, spread)


def sum_rows(cells: Cells) -> Sparse:
    """One row: the values."""
    found = measure_of(cells)
    return Sparse(_padded(cells, found.numerators)[None, :])


def mean_rows(cells: Cells) -> Sparse:
    """Two rows: values less the offset, and the count of ordinary cells times the spread."""
    found = measure_of(cells)
    count = np.full(found.numerators.size, found.spread, dtype=np.int64)
    return Sparse(np.stack([_padded(cells, found.numerators - found.offset), _padded(cells, count)]))


def _padded(cells: Cells, values: Ints) -> Ints:
    row = np.zeros(cells.graph.cells, dtype=np.int64)
    row[: values.size] = values
    return row


def _middles(attribute: Attribute, firsts: Ints, lasts: Ints, name: str) -> list[Fraction]:
    ends = list(zip(firsts.tolist(), lasts.tolist(), strict=True))
    match attribute:
        case Integers():
            return [Fraction(2 * attribute.low + first + last, 2) for first, last in ends]
        case Bins():
            return [(attribute.edge(first) + attribute.edge(last + 1)) / 2 for first, last in ends]
    raise QueryError(f"{name} is no bounded number; sums and means are of integers and numeric bins")
