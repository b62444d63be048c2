"""Answers from measured numbers: consistent counts, sums, means and quantiles, with their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.columns import table_columns
from blowfishdb.engine.compile import Compiled, cell_ends
from blowfishdb.inference.consistency import (
    NO_CONSTRAINED_ANSWERS,
    Consistent,
    ConstrainedAnswers,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    consistent_parts,
)
from blowfishdb.model.cells import NO_PART, ConstrainedParts
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.query import Measure
from blowfishdb.model.workload import Rows
from blowfishdb.plan.certificate import Certificate
from blowfishdb.present.answer_values import AnswerColumn, Bounds, around
from blowfishdb.present.words import question_words

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
class Statistic:
    """Values with the intervals that hold for all of them together."""

    values: Floats
    together: Bounds
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
    statistic = _statistic(compiled, raw, widths, total)
    if statistic is None:
        consistent, together = consistent_answers(compiled, raw, widths, total), None
    else:
        raw, together = statistic.values, statistic.together
        consistent = Consistent(raw, True, statistic.note)
        far = np.maximum(together.high - raw, raw - together.low)
        widths = HalfWidths(far, float(far.max(initial=0.0)))
    return Answer(
        kind=compiled.query.kind,
        title=question_words(compiled.query),
        tables=compiled.tables,
        raw=raw,
        consistent=consistent,
        widths=widths,
        beta=beta,
        mechanism=mechanism,
        certificate=certificate,
        simultaneous=together,
        pointwise=together,
        columns=tuple(AnswerColumn(part.title, part.function) for part in compiled.query.aggregates),
    )


def _statistic(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Statistic | None:
    """The sum, mean, quantiles or columns that the measured rows tell; None for counts."""
    if compiled.table is not None:
        is_exact = np.isin(np.arange(raw.size), widths.exact)
        columns = table_columns(compiled.table, raw, is_exact, widths.simultaneous)
        return Statistic(columns.values, columns.bounds, columns.note)
    kind, measure = compiled.query.kind, compiled.measure
    if kind == "quantiles":
        return _quantiles(compiled, raw, widths, total)
    if kind == "linear":
        return Statistic(raw, Bounds(raw - widths.together, raw + widths.together))
    if measure is None:
        return None
    if kind == "mean":
        return _mean(measure, raw, widths)
    values = raw / measure.scale
    return Statistic(values, around(values, widths.simultaneous / measure.scale))


def _mean(measure: Measure, raw: Floats, widths: HalfWidths) -> Statistic:
    """offset + sum / count over the box of both, cut to the declared values; all of them when the count may be 0."""
    ends = measure.numerators[[0, -1]] / measure.scale
    wide, wide_count = widths.together
    least, most = ((raw[1] + sign * wide_count) / measure.spread for sign in (-1, 1))
    count = raw[1] / measure.spread
    if least <= 0:
        middle = float(np.clip(_ratio(measure, raw[0], max(count, 1.0)), *ends))
        note = "so few records may be counted that the mean can be any declared value"
        return Statistic(np.array([middle]), Bounds(ends[:1].copy(), ends[1:].copy()), note)
    means = [_ratio(measure, raw[0] + sign * wide, size) for sign in (-1, 1) for size in (least, most)]
    low, middle, high = np.clip([min(means), _ratio(measure, raw[0], count), max(means)], *ends)
    return Statistic(np.array([middle]), Bounds(np.array([low]), np.array([high])))


def _ratio(measure: Measure, total: float, count: float) -> float:
    return float(measure.offset + total / count) / measure.scale


def _quantiles(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Statistic:
    """First cell that reaches the share, as estimated, at the earliest and at the latest that the band allows."""
    plain = compiled.cells.plain[0]
    lows, highs = cell_ends(compiled.cells, compiled.cells.axes[0])
    wide = widths.together[:plain]
    band = _running_band(raw[:plain], wide)
    running = consistent_cdf(raw[:plain], wide).values
    known = total if plain == raw.size else None
    size = float(running[-1]) if known is None else known
    least, most = (float(band.low[-1]), float(band.high[-1])) if known is None else (known, known)
    rows = []
    for level in compiled.query.levels:
        share = float(level)
        middle, low, high = (
            min(int(np.searchsorted(curve, share * whole, side="left")), plain - 1)
            for curve, whole in ((running, size), (band.high, least), (band.low, most))
        )
        # A band that contradicts itself, which happens with probability at most beta, still gives an interval.
        low, high = min(low, high), max(low, high)
        middle = min(max(middle, low), high)
        rows.append(((lows[middle] + highs[middle]) / 2, lows[low], highs[high]))
    values, low_ends, high_ends = np.array(rows).T
    return Statistic(values, Bounds(low_ends, high_ends))


def _running_band(raw: Floats, wide: Floats) -> Bounds:
    """Where running counts lie if each is within its `wide` of the raw one; both ends never decrease."""
    high = np.minimum.accumulate((raw + wide)[::-1])[::-1]
    return Bounds(np.maximum.accumulate(np.maximum(raw - wide, 0.0)), high)
