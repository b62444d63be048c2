"""Columns of a table of aggregates, with intervals that hold together, from the measured blocks of its joint plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from blowfishdb.engine.compile import cell_ends
from blowfishdb.inference.consistency import consistent_cdf
from blowfishdb.model.aggregates import Aggregate, AggregateTable, BlockRows
from blowfishdb.model.numbers import Bools, Floats
from blowfishdb.present.answer_values import Bounds

FEW = "where so few records may be counted that nothing is known, the interval is all declared values"


@dataclass(frozen=True, eq=False)
class Interval:
    """Estimates, each with an interval; all intervals of a table hold together with probability 1 - beta."""

    value: Floats
    low: Floats
    high: Floats

    def map(self, change: Callable[[Floats], Floats]) -> Interval:
        """The interval under a rising function."""
        return Interval(change(self.value), change(self.low), change(self.high))

    def within(self, low: float, high: float) -> Interval:
        """The part of the interval between two numbers that the truth lies between anyway."""
        return self.map(lambda ends: np.clip(ends, low, high))

    def widened(self, by: float) -> Interval:
        """The interval with both ends moved outward."""
        return Interval(self.value, self.low - by, self.high + by)

    def times(self, factor: float) -> Interval:
        """The interval times a number of any sign."""
        ends = np.sort(np.stack([factor * self.low, factor * self.high]), axis=0)
        return Interval(factor * self.value, ends[0], ends[1])

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def over(self, count: Interval) -> Interval:
        """The ratio to a count that is above 0; infinite where the count may be 0."""
        is_some = count.low > 0
        least, most = np.where(is_some, count.low, 1.0), np.maximum(count.high, 1.0)
        corners = np.stack([end / size for end in (self.low, self.high) for size in (least, most)])
        value = self.value / np.maximum(count.value, np.where(is_some, count.low, 1.0))
        low, high = np.where(is_some, corners.min(axis=0), -np.inf), np.where(is_some, corners.max(axis=0), np.inf)
        return Interval(np.clip(value, low, high), low, high)

    def squared(self) -> Interval:
        """The squares."""
        ends = np.stack([self.low**2, self.high**2])
        low = np.where((self.low <= 0) & (self.high >= 0), 0.0, ends.min(axis=0))
        return Interval(self.value**2, low, ends.max(axis=0))


@dataclass(frozen=True, eq=False)
class TableNumbers:
    """All columns one after the other: values, intervals that hold together, and a remark."""

    values: Floats
    bounds: Bounds
    note: str


def table_columns(table: AggregateTable, raw: Floats, is_exact: Bools, wide: float) -> TableNumbers:
    """The columns that measured blocks tell: all noisy rows are within `wide` of their measured ones.

    A mean is a ratio of intervals, a spread comes from three, a share from two counts (docs/proofs/joint.md).
    """
    ends = np.cumsum([block.rows.shape[0] for block in table.blocks])[:-1]
    pieces = zip(table.blocks, np.split(raw, ends), np.split(is_exact, ends), strict=True)
    blocks = [(block, _block(table, block, rows, exact, wide)) for block, rows, exact in pieces]
    columns, has_few = [], False
    for aggregate, roles in zip(table.aggregates, table.places, strict=True):
        columns.append(_column(table, aggregate, {role: blocks[place] for role, place in roles.items()}))
        if "count" in roles and aggregate.function not in ("count", "people", "sum"):
            has_few = has_few or bool(np.any(blocks[roles["count"]][1].low <= 0))
    values, low, high = (
        np.concatenate([np.broadcast_to(numbers, column.value.shape).reshape(-1) for column, numbers in each])
        for each in zip(*([(c, c.value), (c, c.low), (c, c.high)] for c in columns), strict=True)
    )
    return TableNumbers(values, Bounds(low, high), FEW if has_few else "")


def _block(table: AggregateTable, block: BlockRows, raw: Floats, is_exact: Bools, wide: float) -> Interval:
    """The rows of a block in their own units, as an array over its groups in the order of the table's groups."""
    names = [name for name in table.cells.axes if name in block.block.by]
    order = [name for name in table.groups.axes if name in block.block.by]
    shape = [table.groups.layout[name].cells for name in names]
    tail = [raw.size // max(1, int(np.prod(shape, dtype=np.int64)))] if block.block.is_running else []

    def arranged(numbers: Floats) -> Floats:
        if block.block.is_running:
            # The running axis may stand anywhere among the cells' axes; it comes last here.
            at = [*names]
            inner = block.block.factors[0]
            place = sum(table.cells.axes.index(name) < table.cells.axes.index(inner) for name in names)
            at.insert(place, inner)
            sizes = [tail[0] if name == inner else table.groups.layout[name].cells for name in at]
            return np.transpose(numbers.reshape(sizes), [at.index(name) for name in [*order, inner]])
        return np.transpose(numbers.reshape(shape), [names.index(name) for name in order])

    value = arranged(raw / block.multiplier)
    width = arranged(np.where(is_exact, 0.0, wide / block.multiplier))
    interval = Interval(value, value - width, value + width)
    if block.block.power == 0:
        high = np.maximum(interval.high, 0.0)
        interval = Interval(np.maximum(value, 0.0), np.minimum(np.maximum(interval.low, 0.0), high), high)
    return interval


def _column(table: AggregateTable, aggregate: Aggregate, roles: Mapping[str, tuple[BlockRows, Interval]]) -> Interval:
    if aggregate.function in ("count", "people"):
        return roles["count"][1]
    if aggregate.function in ("quantile", "running"):
        return _running(table, aggregate, roles["running"][1])
    if aggregate.function == "share":
        whole = _spread_out(table, roles["whole"])
        return roles["part"][1].over(whole).within(0.0, 1.0).times(float(aggregate.times))
    rows, total = roles["sum"]
    if aggregate.function == "sum":
        if "count" in roles:
            total = total + roles["count"][1].times(float(rows.offset))
        return total.times(1.0 / rows.scale)
    count = roles["count"][1]
    ends = float(rows.ends[0] - rows.offset), float(rows.ends[1] - rows.offset)
    mean = total.times(float(rows.step)).over(count).within(*ends)
    if aggregate.function == "mean":
        return (mean + _constant(mean, float(rows.offset))).times(1.0 / rows.scale)
    squares, square = roles["square"]
    step = float(squares.step)
    variance = _variance(square.times(step**2).over(count), mean, rows.spread, 0.0 if step == 1.0 else step / 2)
    if not aggregate.function.endswith("_pop"):
        variance = _of_sample(variance, count)
    is_root = aggregate.function.startswith("stddev")
    return variance.map(np.sqrt).times(1.0 / rows.scale) if is_root else variance.times(1.0 / rows.scale**2)


def _variance(squares: Interval, mean: Interval, spread: int, rounding: float) -> Interval:
    """The variance from the means of values and of their squares; rounding moves its root by at most so much."""
    away = mean.squared()
    between = Interval(squares.value - away.value, squares.low - away.high, squares.high - away.low)
    root = between.within(0.0, float(spread) ** 2).map(np.sqrt)
    return root.widened(rounding).within(0.0, float(spread)).map(np.square)


def _of_sample(variance: Interval, count: Interval) -> Interval:
    """The variance that divides by one record less; that of a single record is taken as it is."""
    ratio = count.map(lambda size: np.maximum(size, 2.0) / np.maximum(size - 1.0, 1.0))
    return Interval(variance.value * ratio.value, variance.low * ratio.high, variance.high * ratio.low)


def _constant(like: Interval, number: float) -> Interval:
    constant = np.full_like(like.value, number)
    return Interval(constant, constant, constant)


def _spread_out(table: AggregateTable, whole: tuple[BlockRows, Interval]) -> Interval:
    """Counts over some of the groups' attributes, shaped to stand beside all groups."""
    rows, counts = whole
    shape = [table.groups.layout[name].cells if name in rows.block.by else 1 for name in table.groups.axes]
    return counts.map(lambda numbers: numbers.reshape(shape or ()))


def _running(table: AggregateTable, aggregate: Aggregate, counts: Interval) -> Interval:
    """Running counts along the last axis that never fall, or the quantile that they tell for each group."""
    low = np.maximum.accumulate(counts.low, axis=-1)
    high = np.minimum.accumulate(counts.high[..., ::-1], axis=-1)[..., ::-1]
    is_sound = np.all(low <= high, axis=-1, keepdims=True)
    low, high = np.where(is_sound, low, counts.low), np.where(is_sound, high, np.maximum(counts.high, counts.low))
    flat = counts.value.reshape(-1, counts.value.shape[-1])
    boxes = np.maximum(counts.high - counts.low, 1e-9).reshape(flat.shape)
    rising = np.stack([consistent_cdf(row, box).values for row, box in zip(flat, boxes, strict=True)])
    value = np.clip(rising.reshape(counts.value.shape), low, high)
    if aggregate.function == "running":
        return Interval(
            _in_place(table, aggregate, value), _in_place(table, aggregate, low), _in_place(table, aggregate, high)
        )
    firsts, lasts = cell_ends(table.cells, aggregate.factors[0])
    share = float(aggregate.level or 0)
    rows = []
    for running, least, most in zip(
        value.reshape(flat.shape), low.reshape(flat.shape), high.reshape(flat.shape), strict=True
    ):
        places = [
            min(int(np.searchsorted(curve, share * size, side="left")), flat.shape[1] - 1)
            for curve, size in (
                (running, running[-1]),
                (np.maximum.accumulate(most), least[-1]),
                (np.maximum.accumulate(least), most[-1]),
            )
        ]
        # A band that contradicts itself, which happens with probability at most beta, still gives an interval.
        first, last = min(places[1:]), max(places[1:])
        middle = min(max(places[0], first), last)
        rows.append(((firsts[middle] + lasts[middle]) / 2, firsts[first], lasts[last]))
    shape = counts.value.shape[:-1]
    middle_ends, low_ends, high_ends = (np.array(ends).reshape(shape) for ends in zip(*rows, strict=True))
    return Interval(middle_ends, low_ends, high_ends)


def _in_place(table: AggregateTable, aggregate: Aggregate, numbers: Floats) -> Floats:
    """Running counts with their axis where it stands among the table's groups."""
    return np.moveaxis(numbers, -1, table.groups.axes.index(aggregate.factors[0]))
