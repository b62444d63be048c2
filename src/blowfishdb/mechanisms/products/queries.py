"""Reads a workload as products of one row per axis: boxes, cells, marginals, unions of such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.entries import spread_choice
from blowfishdb.mechanisms.products.axis_rows import AxisRows, RunRows, axis_rows
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Identity, Intervals, Kronecker, Rectangles, Stacked, as_intervals


@dataclass(frozen=True, eq=False)
class ProductPart:
    """Queries that are products over the axes of rows from `rows[axis]`.

    `index[q, axis]` names the row of query q on each axis; None stands for every combination, in row-major order.
    """

    rows: tuple[AxisRows, ...]
    index: Ints | None

    @property
    def count(self) -> int:
        if self.index is not None:
            return int(self.index.shape[0])
        return math.prod(axis.count for axis in self.rows)

    def rows_of(self, queries: Ints) -> Ints:
        """The row on each axis of the given queries."""
        if self.index is not None:
            return self.index[queries]
        places = np.unravel_index(queries, tuple(axis.count for axis in self.rows))
        return np.stack(places, axis=1).astype(np.int64)

    def sample(self, most: int) -> ProductPart:
        """An even choice of at most `most` queries, or of as many rows per axis where all combinations are asked."""
        if self.index is None:
            return ProductPart(tuple(axis.chosen(spread_choice(axis.count, most)) for axis in self.rows), None)
        return ProductPart(*self.listed(most))

    def listed(self, most: int) -> tuple[tuple[AxisRows, ...], Ints]:
        """An even choice of at most `most` queries: the rows that they need on each axis, and which ones each needs."""
        index, rows = self.rows_of(spread_choice(self.count, most)).copy(), []
        for axis, own in enumerate(self.rows):
            used, index[:, axis] = np.unique(index[:, axis], return_inverse=True)
            rows.append(own.chosen(used))
        return tuple(rows), index

    def shares(self, values: Sequence[Floats], axis: int) -> Floats:
        """For each row of one axis, the summed product over its queries of the other axes' values."""
        others = [k for k in range(len(self.rows)) if k != axis]
        if self.index is None:
            rest = math.prod(float(values[k].sum()) for k in others)
            return np.full(self.rows[axis].count, rest)
        product = np.ones(self.count)
        for k in others:
            product = product * values[k][self.index[:, k]]
        return np.asarray(
            np.bincount(self.index[:, axis], weights=product, minlength=self.rows[axis].count), dtype=np.float64
        )


def product_parts(workload: Rows, shape: tuple[int, ...]) -> tuple[ProductPart, ...] | None:
    """The workload over cells of the given shape as products, in its own order; None where it is not."""
    if isinstance(workload, Stacked):
        found = [product_parts(part, shape) for part in workload.parts]
        if any(part is None for part in found):
            return None
        return tuple(one for part in found if part is not None for one in part)
    if isinstance(workload, Identity):
        workload = Kronecker(tuple(Identity(size) for size in shape))
    if isinstance(workload, Rectangles) and workload.grid == shape:
        return _from_boxes(workload)
    if isinstance(workload, Kronecker) and tuple(f.shape[1] for f in workload.factors) == shape:
        rows = [axis_rows(factor) for factor in workload.factors]
        known = tuple(axis for axis in rows if axis is not None)
        return (ProductPart(known, None),) if len(known) == len(rows) else None
    return None


def _from_boxes(boxes: Rectangles) -> tuple[ProductPart, ...]:
    rows, index = [], []
    for axis, size in enumerate(boxes.grid):
        keys, places = np.unique(boxes.low[:, axis] * (size + 1) + boxes.high[:, axis], return_inverse=True)
        rows.append(RunRows(Intervals(size, keys // (size + 1), keys % (size + 1))))
        index.append(places.reshape(-1))
    return (ProductPart(tuple(rows), np.stack(index, axis=1)),)


def as_boxes(workload: Rows, shape: tuple[int, ...]) -> Rectangles | None:
    """The workload as axis-parallel boxes, in its own order; None where some row is not a box."""
    if isinstance(workload, Identity):
        workload = Kronecker(tuple(Identity(size) for size in shape))
    if isinstance(workload, Rectangles):
        return workload if workload.grid == shape else None
    if isinstance(workload, Stacked):
        parts = [as_boxes(part, shape) for part in workload.parts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return Rectangles(shape, np.concatenate([p.low for p in known]), np.concatenate([p.high for p in known]))
    if not isinstance(workload, Kronecker) or tuple(f.shape[1] for f in workload.factors) != shape:
        return None
    spans = [as_intervals(factor) for factor in workload.factors]
    sizes = tuple(factor.shape[0] for factor in workload.factors)
    places = np.unravel_index(np.arange(math.prod(sizes)), sizes)
    bounds = [(span.low[p], span.high[p]) for span, p in zip(spans, places, strict=True) if span is not None]
    if len(bounds) < len(spans):
        return None
    return Rectangles(shape, np.stack([low for low, _ in bounds], 1), np.stack([high for _, high in bounds], 1))
