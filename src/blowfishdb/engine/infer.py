"""Answers from measured numbers: consistent counts, sums, means, quantiles and columns of tables, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from blowfishdb.accuracy.columns import BlockNoise, block_noise, columns_of, divide, paired_noise
from blowfishdb.accuracy.intervals import HalfWidths, pair_widths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, cell_ends
from blowfishdb.engine.value_words import value_words
from blowfishdb.inference.consistency import (
    NO_CONSTRAINED_ANSWERS,
    Consistent,
    ConstrainedAnswers,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    consistent_parts,
)
from blowfishdb.model.aggregates import Aggregate, AggregateTable, BlockRows
from blowfishdb.model.cells import NO_PART, ConstrainedParts
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.query import Measure
from blowfishdb.model.workload import Rows
from blowfishdb.plan.certificate import Certificate
from blowfishdb.present.answer_values import AnswerColumn, Bounds, around
from blowfishdb.present.words import question_words, upper_end

MOST_ENTRIES = 2**24
"""Answers, or cells, times known parts, up to which it is looked for answers that are sums of parts."""


def constrained_answers(compiled: Compiled) -> ConstrainedAnswers:
    """The answers that add up whole known parts and nothing else; rows of 0 and 1 only."""
    known = compiled.known
    if known is None or compiled.measure is not None:
        return NO_CONSTRAINED_ANSWERS
    cells = np.arange(known.labels.size)
    return told_by_parts(known, compiled.problem.workload, cells, cells, np.ones_like(cells))


def told_by_parts(known: ConstrainedParts, rows: Rows, cell: Ints, into: Ints, pieces: Ints) -> ConstrainedAnswers:
    """The answers that add up whole known parts and nothing else; rows of 0 and 1 only.

    `known` is about cells that are cut into so many `pieces` each. A piece of `cell[i]` falls into cell `into[i]` of
    the rows; other pieces are not counted.
    """
    if max(rows.shape) * (known.count + 1) > MOST_ENTRIES:
        return NO_CONSTRAINED_ANSWERS
    # The last column gathers the cells that are in no part.
    member = np.zeros((rows.shape[1], known.count + 1), dtype=np.int64)
    sizes = np.zeros(known.count + 1, dtype=np.int64)
    np.add.at(member, (into, known.labels[cell]), 1)
    np.add.at(sizes, known.labels, pieces)
    held = rows.dot(member)
    whole = (held == 0) | (held == sizes)
    told = np.flatnonzero(np.all(whole, axis=1) & (held[:, NO_PART] == 0))
    taken = (held[told, :-1] > 0).astype(np.float64)
    return ConstrainedAnswers(told, taken @ known.totals.astype(np.float64))


def chosen(known: ConstrainedAnswers, start: int, stop: int) -> ConstrainedAnswers:
    """The known ones among the answers [start, stop), numbered from start."""
    inside = (known.places >= start) & (known.places < stop)
    return ConstrainedAnswers(known.places[inside] - start, known.values[inside])


def with_total(known: ConstrainedParts, total: float | None) -> tuple[Ints, Floats]:
    """Labels and totals of the parts; with a known total the cells in no part are one more."""
    totals = known.totals.astype(np.float64)
    free = known.labels == NO_PART
    if total is None or not free.any():
        return known.labels, totals
    return np.where(free, known.count, known.labels), np.append(totals, max(0.0, total - float(totals.sum())))


def consistent_answers(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Consistent:
    """The nearest sensible answers inside the simultaneous box."""
    box = widths.together
    plain = compiled.cells.plain[0]
    if compiled.query.kind in ("histogram", "histogram2d"):
        if compiled.known is None:
            return consistent_histogram(raw, box, total)
        return consistent_parts(raw, box, *with_total(compiled.known, total))
    told = constrained_answers(compiled)
    if compiled.query.kind == "cdf" and plain == raw.size:
        return consistent_cdf(raw, box, total, known=told)
    if compiled.query.kind == "cdf":
        running = consistent_cdf(raw[:plain], box[:plain], known=chosen(told, 0, plain))
        beside = consistent_counts(raw[plain:], box[plain:], chosen(told, plain, raw.size))
        return Consistent(
            np.concatenate([running.values, beside.values]),
            running.feasible and beside.feasible,
            "; ".join(note for note in (running.note, beside.note) if note),
        )
    return consistent_counts(raw, box, told)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Numbers with intervals that hold for all of them together."""

    values: Floats
    bounds: Bounds
    note: str = ""


def infer(
    compiled: Compiled,
    raw: Floats,
    widths: HalfWidths,
    total: float | None,
    beta: float,
    mechanism: str,
    certificate: Certificate,
) -> Answer:
    """The answer that measured rows and their half-widths tell; `total` is the number of records where it is public."""
    estimate = _estimate(compiled, raw, widths, total, beta)
    if estimate is not None:
        return estimate_answer(compiled, estimate, beta, mechanism, certificate)
    even = Estimate(raw, around(raw, widths.together))
    answer = estimate_answer(compiled, even, beta, mechanism, certificate)
    consistent = consistent_answers(compiled, raw, widths, total)
    # Scales of noise are for quotients; an answer does not keep them.
    return replace(
        answer, consistent=consistent, widths=replace(widths, scales=None), simultaneous=None, pointwise=None
    )


def estimate_answer(
    compiled: Compiled, estimate: Estimate, beta: float, mechanism: str, certificate: Certificate
) -> Answer:
    """The answer whose values come with intervals of their own."""
    values, bounds = estimate.values, estimate.bounds
    far = np.maximum(bounds.high - values, values - bounds.low)
    return Answer(
        kind=compiled.query.kind,
        title=question_words(compiled.query),
        tables=compiled.tables,
        raw=values,
        consistent=Consistent(values, True, "; ".join(filter(None, (estimate.note, value_words(compiled))))),
        widths=HalfWidths(far, float(far.max(initial=0.0))),
        beta=beta,
        mechanism=mechanism,
        certificate=certificate,
        simultaneous=bounds,
        pointwise=bounds,
        columns=tuple(AnswerColumn(part.title, part.function) for part in compiled.query.aggregates),
    )


def _estimate(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None, beta: float) -> Estimate | None:
    """The sum, mean, quantiles or columns that the measured rows tell; None for counts."""
    if compiled.table is not None:
        return table_columns(compiled.table, raw, widths, beta)
    kind, measure = compiled.query.kind, compiled.measure
    if kind == "quantiles":
        return _quantiles(compiled, raw, widths, total)
    if kind == "linear":
        return Estimate(raw, Bounds(raw - widths.together, raw + widths.together))
    if measure is None:
        return None
    if kind == "mean":
        return _mean(measure, raw, widths, beta)
    if raw.size == 1:
        return Estimate(raw / measure.scale, around(raw / measure.scale, widths.simultaneous / measure.scale))
    # The second row is how far off the first is, wherever in their bins values lie.
    scales = measure.scale * np.array([1.0, measure.fineness])
    wide = widths.together / scales
    value, far = np.split(raw / scales, 2)
    inside = np.clip(far + wide[1], 0.0, math.inf if total is None else total * measure.coarsest)
    note = f"intervals hold up to {upper_end(float(inside[0])):g} for where in their bins values lie"
    return Estimate(value, around(value, wide[0] + inside), note)


def _mean(measure: Measure, raw: Floats, widths: HalfWidths, beta: float) -> Estimate:
    """offset + sum / count, cut to the declared values; all of them when the count may be 0."""
    wide, spread = widths.together, float(measure.spread)
    total, count = (
        Interval(value / unit, (value - off) / unit, (value + off) / unit)
        for value, off, unit in zip(np.split(raw, 2), np.split(wide, 2), (1.0, spread), strict=True)
    )
    ends = (measure.numerators[[0, -1]] - measure.offset).tolist()
    pair = None
    if widths.scales is not None:
        pair = NoisePair(np.array([1.0, 1.0 / spread]), widths.scales, beta)
        most = np.abs(ends).max(keepdims=True)
        pair = pair if pair.widths(most)[0] <= wide[0] + most[0] * wide[1] / spread else None
    mean = ratio(total, count, ends, pair)
    few = bool(np.any(mean.high - mean.low >= ends[1] - ends[0])) and wide[1] > 0
    mean = (mean + _constant(mean, float(measure.offset))).times(1.0 / measure.scale)
    mean = mean.widened(measure.coarsest).within(*measure.ends)
    note = "so few records may be counted that the mean can be any declared value" if few else ""
    return Estimate(mean.value, Bounds(mean.low, mean.high), note)


def _quantiles(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Estimate:
    """The values at which a band of running counts reaches each share."""
    plain = compiled.cells.plain[0]
    lows, highs = cell_ends(compiled.cells, compiled.cells.axes[0])
    wide = widths.together[:plain]
    band = _running_band(raw[:plain], wide)
    running = consistent_cdf(raw[:plain], wide).values
    known = total if plain == raw.size else None
    size = float(running[-1]) if known is None else known
    least, most = (float(band.low[-1]), float(band.high[-1])) if known is None else (known, known)
    curves = (running, size), (band.high, least), (band.low, most)
    rows = [_quantile(lows, highs, curves, float(level)) for level in compiled.query.levels]
    values, low_ends, high_ends = np.array(rows).T
    return Estimate(values, Bounds(low_ends, high_ends))


def _quantile(
    lows: Floats, highs: Floats, curves: Iterable[tuple[Floats, float]], share: float
) -> tuple[float, float, float]:
    """The value at which running counts reach a share of the records, and the ends of its interval.

    `curves` are the counts as estimated, at most and at least, each with the number of records; `lows` and `highs` the
    ends of the cells.
    """
    middle, first, last = (
        min(int(np.searchsorted(curve, share * size, side="left")), lows.size - 1) for curve, size in curves
    )
    # A band that contradicts itself, which happens with probability at most beta, still gives an interval.
    first, last = min(first, last), max(first, last)
    middle = min(max(middle, first), last)
    return (lows[middle] + highs[middle]) / 2, lows[first], highs[last]


def _running_band(raw: Floats, wide: Floats) -> Bounds:
    """Where running counts lie if each is within its `wide` of the raw one; both ends never decrease."""
    high = np.minimum.accumulate((raw + wide)[::-1])[::-1]
    return Bounds(np.maximum.accumulate(np.maximum(raw - wide, 0.0)), high)


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

    def widened(self, by: float | Floats) -> Interval:
        """The interval with both ends moved outward."""
        return Interval(self.value, self.low - by, self.high + by)

    def times(self, factor: float) -> Interval:
        """The interval times a number of any sign."""
        ends = np.sort(np.stack([factor * self.low, factor * self.high]), axis=0)
        return Interval(factor * self.value, ends[0], ends[1])

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        """The estimates, and both ends of their intervals."""
        return self.value, self.low, self.high

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def product(self, other: Interval) -> Interval:
        """Each number of the one times each of the other."""
        corners = [mine * yours for mine in (self.low, self.high) for yours in (other.low, other.high)]
        return Interval(self.value * other.value, np.minimum.reduce(corners), np.maximum.reduce(corners))

    def inverse(self, grain: float) -> Interval:
        """One over numbers that are 0 or at least `grain` in size; over 0 nothing is said."""
        is_above, is_below = self.low >= 0.0, self.high <= 0.0
        far, near = np.maximum(np.abs(self.parts), grain).max(axis=0), np.maximum(np.abs(self.parts), grain).min(axis=0)
        largest, smallest = 1.0 / near, 1.0 / far
        low = np.where(is_above, smallest, np.where(is_below, -largest, -1.0 / grain if grain else -np.inf))
        high = np.where(is_above, largest, np.where(is_below, -smallest, 1.0 / grain if grain else np.inf))
        value = np.where(self.value < 0.0, -1.0, 1.0) / np.maximum(np.abs(self.value), grain)
        return Interval(np.clip(value, low, high), low, high)

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


RATIO_STEPS = 64
"""The ratios for which the noise of a quotient is bounded; those between two are given the larger bound."""


@dataclass(frozen=True, eq=False)
class NoisePair:
    """The noise of two measured numbers: variables of these `scales`, each in units of its factor.

    Every statement about one pair of them may fail with probability `beta`.
    """

    factors: Floats
    scales: Floats
    beta: float

    def widths(self, ratios: Floats) -> Floats:
        """For each ratio r how far the first number less r times the second is off at most."""
        return pair_widths(np.stack([np.ones_like(ratios), ratios], axis=1) * self.factors, self.scales, self.beta)


def ratio(total: Interval, count: Interval, ends: Sequence[float], pair: NoisePair | None) -> Interval:
    """The quotient of two measured numbers, which lies between two ends.

    Without `pair` from the box of both. With it the interval has every ratio r for which the first less r times the
    second is as near to 0 as its noise is: the true ratio is one of them (docs/proofs/accuracy.md, "Quotients").
    """
    low, high = ends
    if pair is None:
        return total.over(count).within(low, high)
    first, second = total.value, count.value
    value = np.clip(first / np.maximum(second, 1.0), low, high)
    least, most = np.full_like(value, np.inf), np.full_like(value, -np.inf)
    edges = max(abs(low), abs(high)) * np.arange(RATIO_STEPS + 1) / RATIO_STEPS
    sign, size = np.where(second < 0, -1.0, 1.0), np.abs(second)
    for start, stop, wide in zip(edges, edges[1:], pair.widths(edges[1:]), strict=False):
        for bottom, top in ((start, stop), (-stop, -start)):
            # |first - r second| <= wide, for r in this step.
            with np.errstate(divide="ignore", invalid="ignore"):
                lower, upper = (sign * first - wide) / size, (sign * first + wide) / size
            is_any = (size == 0) & (np.abs(first) <= wide)
            lower = np.maximum(np.where(is_any, -np.inf, np.where(size == 0, np.inf, lower)), max(bottom, low))
            upper = np.minimum(np.where(is_any, np.inf, np.where(size == 0, -np.inf, upper)), min(top, high))
            holds = lower <= upper
            least, most = (
                np.where(holds, np.minimum(least, lower), least),
                np.where(holds, np.maximum(most, upper), most),
            )
    # The estimate is one of them but for counts near 0; it is in the interval always, also where no ratio is left.
    return Interval(value, np.minimum(least, value), np.maximum(most, value))


@dataclass(frozen=True, eq=False)
class MeasuredBlock:
    """The measured rows of a block over its groups, in units of the rows, each with its interval in the box of all."""

    rows: BlockRows
    measured: Floats
    box: Interval

    @property
    def plain(self) -> Interval:
        """The numbers as they were measured, without intervals."""
        return Interval(self.measured, self.measured, self.measured)


def table_columns(table: AggregateTable, raw: Floats, widths: HalfWidths, beta: float) -> Estimate:
    """The columns that measured blocks tell, one after the other.

    A mean is a ratio, a spread comes from three intervals, a share from two counts (docs/proofs/joint.md).
    """
    is_exact = np.isin(np.arange(raw.size), widths.exact)
    ends = np.cumsum([block.rows.shape[0] for block in table.blocks])[:-1]
    places = np.split(np.arange(raw.size), ends)
    noise = block_noise([rows.size for rows in places], widths.scales)
    pairs, wide = _pairs(table, noise, widths.simultaneous, beta)
    blocks = [
        _block(table, block, raw[rows], np.where(is_exact[rows], 0.0, wide))
        for block, rows in zip(table.blocks, places, strict=True)
    ]
    named = [{role: blocks[place] for role, place in roles.items()} for roles in table.places]
    columns, has_few = [], False
    for aggregate, roles, pair in zip(table.aggregates, named, pairs, strict=True):
        columns.append(_column(table, aggregate, roles, pair))
        if "count" in roles and aggregate.function not in ("count", "people", "sum"):
            has_few = has_few or bool(np.any(roles["count"].box.low <= 0))
    values, low, high = (
        np.concatenate([np.broadcast_to(numbers, column.value.shape).reshape(-1) for column, numbers in each])
        for each in zip(*([(c, c.value), (c, c.low), (c, c.high)] for c in columns), strict=True)
    )
    steps = [_coarse_words(table, place) for place in range(len(columns))]
    return Estimate(values, Bounds(low, high), "; ".join(filter(None, (FEW if has_few else "", *steps))))


def _coarse_words(table: AggregateTable, place: int) -> str:
    """That the values of a mean were rounded; nothing where they were not."""
    aggregate, roles = table.aggregates[place], table.places[place]
    rows = table.blocks[roles["sum"]] if aggregate.function == "mean" else None
    if rows is None or rows.coarse == 0.0:
        return ""
    off = f"{rows.inside / rows.scale:g}"
    return f"{aggregate.title} is of rounded values, each off by at most {off}, which its interval covers"


def _pairs(
    table: AggregateTable, blocks: Sequence[BlockNoise] | None, wide: float, beta: float
) -> tuple[list[NoisePair | None], float]:
    """For each column the noise of its two blocks, where that promises no less than the box; and the others' box."""
    pairs: list[NoisePair | None] = [None] * len(table.aggregates)
    columns = columns_of(table)
    if columns is None:
        return pairs, wide
    noise = paired_noise(columns, blocks)
    division = divide(columns, blocks, {place: pair.tail for place, pair in noise.items()}, wide, beta)
    for place in division.quotients:
        one = columns.quotients[place]
        first, second = (table.blocks[block] for block in one.blocks)
        factors = np.array([float(first.step) / first.multiplier, 1.0 / second.multiplier])
        pairs[one.column] = NoisePair(factors, noise[place].scales, division.each)
    return pairs, division.wide


def _block(table: AggregateTable, block: BlockRows, raw: Floats, wide: Floats) -> MeasuredBlock:
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

    measured = arranged(raw / block.multiplier)
    width = arranged(wide / block.multiplier)
    interval = Interval(measured, measured - width, measured + width)
    if block.block.power == 0:
        high = np.maximum(interval.high, 0.0)
        low = np.minimum(np.maximum(interval.low, 0.0), high)
        interval = Interval(np.maximum(measured, 0.0), low, high)
    return MeasuredBlock(block, measured, interval)


def _column(
    table: AggregateTable, aggregate: Aggregate, roles: Mapping[str, MeasuredBlock], pair: NoisePair | None
) -> Interval:
    if aggregate.function in ("count", "people"):
        return roles["count"].box
    if aggregate.function in ("quantile", "running"):
        return _running(table, aggregate, roles["running"].box)
    if aggregate.function == "share":
        part, whole = roles["part"], _spread_out(table, roles["whole"], is_measured=pair is not None)
        return ratio(part.box if pair is None else part.plain, whole, (0.0, 1.0), pair).times(float(aggregate.times))
    rows, total = roles["sum"].rows, roles["sum"].box
    if aggregate.function == "sum":
        return _sum(roles, pair).times(1.0 / rows.scale)
    count = roles["count"].box if pair is None else roles["count"].plain
    ends = float(rows.ends[0] - rows.offset), float(rows.ends[1] - rows.offset)
    mean = ratio(total.times(float(rows.step)), count, ends, pair)
    if aggregate.function == "mean":
        mean = (mean + _constant(mean, float(rows.offset))).widened(rows.inside)
        return mean.within(*rows.reach).times(1.0 / rows.scale)
    squares, square = roles["square"].rows, roles["square"].box
    step = float(squares.step)
    rounding = rows.inside + (0.0 if step == 1.0 else step / 2)
    variance = _variance(square.times(step**2).over(count), mean, rows.spread, rounding)
    if not aggregate.function.endswith("_pop"):
        variance = _of_sample(variance, count)
    is_root = aggregate.function.startswith("stddev")
    return variance.map(np.sqrt).times(1.0 / rows.scale) if is_root else variance.times(1.0 / rows.scale**2)


def _sum(roles: Mapping[str, MeasuredBlock], pair: NoisePair | None) -> Interval:
    """The sum of values from that of values less an offset and, where there is one, the count.

    Each record's value may be off by as much as it can be `inside` its bin, to either side.
    """
    total, offset, inside = roles["sum"].box, float(roles["sum"].rows.offset), roles["sum"].rows.inside
    if "count" not in roles:
        return total
    counts = roles["count"]
    if pair is None:
        return (total + counts.box.times(offset)).widened(inside * counts.box.high)
    value = roles["sum"].measured + offset * counts.measured
    # Each end is a sum of both numbers that its noise passes on one side only: both ends fail no oftener than one sum.
    low, high = (pair.widths(np.array([-each]))[0] for each in (offset - inside, offset + inside))
    apart = inside * counts.measured
    return Interval(value, np.minimum(value - apart - low, value), np.maximum(value + apart + high, value))


def _variance(squares: Interval, mean: Interval, spread: int, rounding: float) -> Interval:
    """The variance from the means of values and of their squares; values are off by at most `rounding`, and so is its
    root."""
    away = mean.squared()
    between = Interval(squares.value - away.value, squares.low - away.high, squares.high - away.low)
    root = between.within(0.0, float(spread) ** 2).map(np.sqrt)
    return root.widened(rounding).within(0.0, spread + rounding).map(np.square)


def _of_sample(variance: Interval, count: Interval) -> Interval:
    """The sample variance, which divides by one record less; that of a single record is left unchanged."""
    ratio = count.map(lambda size: np.maximum(size, 2.0) / np.maximum(size - 1.0, 1.0))
    return Interval(variance.value * ratio.value, variance.low * ratio.high, variance.high * ratio.low)


def _constant(like: Interval, number: float) -> Interval:
    constant = np.full_like(like.value, number)
    return Interval(constant, constant, constant)


def _spread_out(table: AggregateTable, whole: MeasuredBlock, *, is_measured: bool) -> Interval:
    """Counts over some of the groups' attributes, shaped to stand beside all groups."""
    by = whole.rows.block.by
    shape = [table.groups.layout[name].cells if name in by else 1 for name in table.groups.axes]
    counts = whole.plain if is_measured else whole.box
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
    rows = []
    for running, least, most in zip(*(part.reshape(flat.shape) for part in (value, low, high)), strict=True):
        band = (np.maximum.accumulate(most), least[-1]), (np.maximum.accumulate(least), most[-1])
        rows.append(_quantile(firsts, lasts, ((running, running[-1]), *band), float(aggregate.level or 0)))
    shape = counts.value.shape[:-1]
    middle_ends, low_ends, high_ends = (np.array(ends).reshape(shape) for ends in zip(*rows, strict=True))
    return Interval(middle_ends, low_ends, high_ends)


def _in_place(table: AggregateTable, aggregate: Aggregate, numbers: Floats) -> Floats:
    """Running counts with their axis where it stands among the table's groups."""
    return np.moveaxis(numbers, -1, table.groups.axes.index(aggregate.factors[0]))
