"""Executes a quoted plan on counts and turns the measurements into an answer with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths, intervals
from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, answer_tables, chosen, constrained_answers, with_total
from blowfishdb.engine.measure import measure
from blowfishdb.errors import QueryError
from blowfishdb.inference.consistent import (
    Consistent,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    consistent_parts,
)
from blowfishdb.model.cellgraph import ZERO
from blowfishdb.model.domain import Attribute, Bins, Integers
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.query import Measure
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import CertifiedPlan, certified_as_charged
from blowfishdb.plan.plan import EdgePlan
from blowfishdb.present.released import AnswerTable, Bounds, around, single
from blowfishdb.present.words import question_words

STATISTICS = ("sum", "mean", "quantiles")


@dataclass(frozen=True, eq=False)
class Statistic:
    """The values of an answer and the intervals that hold for all of them together."""

    values: Floats
    together: Bounds
    note: str = ""

    @property
    def widths(self) -> HalfWidths:
        """The intervals as half-widths: as far as the further end is away."""
        own = np.maximum(self.together.high - self.values, self.values - self.together.low)
        return HalfWidths(own, float(own.max(initial=0.0)))

    @property
    def consistent(self) -> Consistent:
        """The values as they are shown."""
        return Consistent(self.values, True, self.note)


def statistic_tables(compiled: Compiled) -> tuple[AnswerTable, ...]:
    """The names of the values; QueryError where a quantile would be no number."""
    name = compiled.query.axes[0].attribute
    if compiled.query.kind == "quantiles":
        _ends(compiled)
        return single("quantile", [f"{show(100 * level)} %" for level in compiled.query.levels])
    return single("attribute", [name])


def read_statistic(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Statistic:
    """The sum, mean or quantiles that the measured rows tell."""
    if compiled.query.kind == "quantiles":
        return _quantiles(compiled, raw, widths, total)
    measure = compiled.measure
    if measure is None:
        raise QueryError(f"a {compiled.query.kind} needs the values of a bounded attribute")
    if compiled.query.kind == "mean":
        return _mean(measure, raw, widths)
    values = raw / measure.scale
    return Statistic(values, around(values, widths.simultaneous / measure.scale))


def _mean(measure: Measure, raw: Floats, widths: HalfWidths) -> Statistic:
    """offset + sum / count over the box of both, cut to the declared values; all of them when the count may be 0."""
    ends = measure.numerators[[0, -1]] / measure.scale
    wide = widths.simultaneous
    wide_count = wide if widths.per_answer[1] > 0 else 0.0
    least, most = ((raw[1] + sign * wide_count) / measure.spread for sign in (-1, 1))
    count = raw[1] / measure.spread
    if least <= 0:
        middle = float(np.clip(_ratio(measure, raw[0], max(count, 1.0)), *ends))
        note = "so few records may be counted that the mean can be any declared value"
        return Statistic(np.array([middle]), Bounds(ends[:1].copy(), ends[1:].copy()), note)
    found = [_ratio(measure, raw[0] + sign * wide, size) for sign in (-1, 1) for size in (least, most)]
    low, middle, high = np.clip([min(found), _ratio(measure, raw[0], count), max(found)], *ends)
    return Statistic(np.array([middle]), Bounds(np.array([low]), np.array([high])))


def _ratio(measure: Measure, total: float, count: float) -> float:
    return float(measure.offset + total / count) / measure.scale


def _quantiles(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Statistic:
    """First cell that reaches the share, as estimated, at the earliest and at the latest that the band allows."""
    plain = compiled.cells.plain[0]
    lows, highs = _ends(compiled)
    band = _running_band(raw[:plain], widths.simultaneous)
    running = consistent_cdf(raw[:plain], np.full(plain, widths.simultaneous)).values
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


def _running_band(raw: Floats, wide: float) -> Bounds:
    """Where running counts lie if all of them are within `wide` of the raw ones; both ends never decrease."""
    high = np.minimum.accumulate((raw + wide)[::-1])[::-1]
    return Bounds(np.maximum.accumulate(np.maximum(raw - wide, 0.0)), high)


def _ends(compiled: Compiled) -> tuple[Floats, Floats]:
    """The lowest and highest value of each ordinary cell."""
    name = compiled.cells.axes[0]
    axis = compiled.cells.layout[name]
    return _numbers(axis.segments.attribute, axis.firsts.tolist(), axis.lasts.tolist(), name)


def _numbers(attribute: Attribute, firsts: list[int], lasts: list[int], name: str) -> tuple[Floats, Floats]:
    match attribute:
        case Integers():
            return np.array(firsts) + float(attribute.low), np.array(lasts) + float(attribute.low)
        case Bins():
            edges = [[float(attribute.edge(first)) for first in firsts], [float(attribute.edge(i + 1)) for i in lasts]]
            return np.array(edges[0]), np.array(edges[1])
    raise QueryError(f"quantiles of {name} are no numbers; ask for its cdf instead")


@dataclass(frozen=True, eq=False)
class Outline:
    """All of an answer that is known before data is read: its words, labels, half-widths, and the plan to run.

    `certified` is the quoted plan, certified anew on the graph of this very question: a quote may come from a cache.
    """

    compiled: Compiled
    quote: Quote
    certified: CertifiedPlan
    title: str
    tables: tuple[AnswerTable, ...]
    widths: HalfWidths


def outline(compiled: Compiled, quote: Quote) -> Outline:
    """The data-independent part of a release; the plan is the quoted one, never a new one.

    DigestMismatch when the quote's certificate is not that of its plan on this question's graph.
    """
    widths = intervals(compiled.problem, quote.strategy, quote.plan, quote.beta, quote.shown)
    tables = statistic_tables(compiled) if compiled.query.kind in STATISTICS else answer_tables(compiled)
    certified = certified_as_charged(quote.plan, compiled.problem.graph, quote.certificate)
    return Outline(compiled, quote, certified, question_words(compiled.query), tables, widths)


def finish(ready: Outline, counts: Ints) -> Answer:
    """Draws the noise and makes the answer that the quote promised."""
    compiled, quote, widths = ready.compiled, ready.quote, ready.widths
    plan, strategy = ready.certified.plan, quote.strategy
    measured = measure(ready.certified, counts)
    if isinstance(plan, EdgePlan):
        raw = measured.noisy.astype(np.float64)
    else:
        scales = float(plan.unit) / plan.weights.astype(np.float64)
        noisy, exact = measured.noisy.astype(np.float64), measured.exact.astype(np.float64)
        raw = strategy.decode(noisy, exact, np.asarray(variance(scales)))
    total = public_total(compiled, counts)
    if compiled.query.kind in STATISTICS:
        found = read_statistic(compiled, raw, widths, total)
        return _answer(ready, found.values, found.consistent, found.widths, found.together)
    return _answer(ready, raw, consistent_answers(compiled, raw, widths, total), widths, None)


def _answer(ready: Outline, raw: Floats, consistent: Consistent, widths: HalfWidths, together: Bounds | None) -> Answer:
    quote = ready.quote
    return Answer(
        kind=ready.compiled.query.kind,
        title=ready.title,
        tables=ready.tables,
        raw=raw,
        consistent=consistent,
        widths=widths,
        beta=quote.beta,
        mechanism=quote.mechanism,
        certificate=ready.certified.certificate,
        simultaneous=together,
        pointwise=together,
    )


def release(compiled: Compiled, quote: Quote, counts: Ints) -> Answer:
    """The answer that the quote promised, from counts that are at hand; charges nothing and stores nothing."""
    return finish(outline(compiled, quote), counts)


def public_total(compiled: Compiled, counts: Ints) -> float | None:
    """The total over the cells when no hidden move can change it, so that it is no secret."""
    return None if np.any(compiled.problem.graph.components() == ZERO) else float(counts.sum())


def consistent_answers(compiled: Compiled, raw: Floats, widths: HalfWidths, total: float | None) -> Consistent:
    """The nearest sensible answers inside the simultaneous box."""
    box = np.full(raw.size, widths.simultaneous)
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
