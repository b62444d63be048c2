"""Release: what can be charged and then run once on the counts; and the release of one certified plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths, intervals
from blowfishdb.accuracy.quote import Quote, Quotes
from blowfishdb.engine.answer import Answer, now
from blowfishdb.engine.compile import Compiled, DatasetHandle, answer_tables, chosen, constrained_answers, with_total
from blowfishdb.engine.evidence import evidence_of, not_protected
from blowfishdb.engine.measure import measure
from blowfishdb.engine.preview import Preview, plan_preview
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import InvalidInput, QueryError, TooLarge
from blowfishdb.inference.consistent import (
    Consistent,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    consistent_parts,
)
from blowfishdb.model.domain import Attribute, Bins, Integers
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.query import Measure
from blowfishdb.noise.distribution import variance
from blowfishdb.plan import encoding_1
from blowfishdb.plan.certificate import CertifiedPlan, certified_as_charged
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.present.released import AnswerTable, Bounds, around, single
from blowfishdb.present.words import policy_words, question_words
from blowfishdb.sources.base import Counting

MOST_ANSWERS = 1_000_000
STATISTICS = ("sum", "mean", "quantiles")


class Release(Protocol):
    """A query with its price, ready to be charged and then run once on the counts; no data was read.

    The four kinds: PlanRelease below, ProgramRelease (program.py), SynopsisRelease (synopsis.py) and PointsRelease
    (points.py). `request.decode` reads back what any of them published.
    """

    @property
    def compiled(self) -> Compiled | None:
        """The cells that are counted; None for points."""
        ...

    @property
    def plan(self) -> Plan | EdgePlan | None:
        """The plan over the cells; None where stages are planned as they come, and for points."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """What it costs."""
        ...

    @property
    def digest(self) -> str:
        """What the receipt covers: the plan, or the program with its allowances."""
        ...

    def digest_1(self) -> str:
        """The same in the first encoding, which receipts of earlier versions hold."""
        ...

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps. All that can fail without data has been done when this returns."""
        ...

    def preview(self, handle: DatasetHandle) -> object:
        """What the release would cost and how accurate it would be."""
        ...

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that will count, checked against the table as it is; reads no row."""
        ...

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """Draws the noise and gives what is published, in the bytes that will be stored."""
        ...


@dataclass(frozen=True, eq=False)
class PlanRelease:
    """A query answered by one certified plan. `target` and `quotes`, the offers for it, are for the preview."""

    compiled: Compiled
    best: Quote
    target: AccuracyTarget | None = None
    quotes: Quotes | None = None

    @property
    def plan(self) -> Plan | EdgePlan:
        """The quoted plan."""
        return self.best.plan

    @property
    def epsilon(self) -> Fraction:
        """What the plan costs."""
        return self.best.certificate.epsilon

    @property
    def digest(self) -> str:
        """The plan that a receipt covers."""
        return self.best.certificate.plan_digest

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return encoding_1.plan_digest(self.best.plan)

    @cached_property
    def certified(self) -> CertifiedPlan:
        """The quoted plan, certified anew on the graph of this very query: a quote may come from a cache.

        DigestMismatch when the quote's certificate is not that of its plan on this graph.
        """
        return certified_as_charged(self.best.plan, self.compiled.problem.graph, self.best.certificate)

    @cached_property
    def shown(self) -> tuple[tuple[AnswerTable, ...], HalfWidths]:
        """The labels and the half-widths of the answers, which no data changes."""
        best, compiled = self.best, self.compiled
        widths = intervals(compiled.problem, best.strategy, best.plan, best.beta, best.shown)
        return statistic_tables(compiled) if compiled.query.kind in STATISTICS else answer_tables(compiled), widths

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps; labels and half-widths are made for it, before anything is charged."""
        answers = self.compiled.problem.workload.shape[0]
        if answers > MOST_ANSWERS:
            raise TooLarge("answers of one release", answers, MOST_ANSWERS, "Ask for wider bins or fewer ranges.")
        _, certificate = self.shown, self.certified.certificate
        return {
            "question": question_words(self.compiled.query)[:2000],
            "mechanism": self.best.mechanism,
            "epsilon": str(certificate.epsilon),
            "alpha": self.best.alpha,
            "beta": self.best.beta,
            "witness": certificate.witness,
            "is_tight": certificate.is_tight,
            "together": certificate.constraint_note,
            "plan": certificate.plan_digest,
            "graph": certificate.graph_digest,
        }

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price list of all mechanisms."""
        if self.target is None or self.quotes is None:
            raise InvalidInput("a release of one quote has no price list")
        return plan_preview(handle, self.compiled, self.target, self.quotes)

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the cells."""
        return handle.source.prepare(self.compiled.cells, handle.policy.unit)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        return described(self.answer(counts), handle, self.compiled).to_json().encode()

    def answer(self, counts: Ints) -> Answer:
        """Draws the noise and makes the answer that the quote promised; charges nothing and stores nothing."""
        compiled, plan, (tables, widths) = self.compiled, self.certified.plan, self.shown
        measured = measure(self.certified, counts)
        if isinstance(plan, EdgePlan):
            raw = measured.noisy.astype(np.float64)
        else:
            scales = float(plan.unit) / plan.weights.astype(np.float64)
            noisy, exact = measured.noisy.astype(np.float64), measured.exact.astype(np.float64)
            raw = self.best.strategy.decode(noisy, exact, np.asarray(variance(scales)))
        total, together = public_total(compiled, counts), None
        if compiled.query.kind in STATISTICS:
            statistic = read_statistic(compiled, raw, widths, total)
            raw, consistent = statistic.values, statistic.consistent
            widths, together = statistic.widths, statistic.together
        else:
            consistent = consistent_answers(compiled, raw, widths, total)
        return Answer(
            kind=compiled.query.kind,
            title=question_words(compiled.query),
            tables=tables,
            raw=raw,
            consistent=consistent,
            widths=widths,
            beta=self.best.beta,
            mechanism=self.best.mechanism,
            certificate=self.certified.certificate,
            simultaneous=together,
            pointwise=together,
        )


def described(answer: Answer, handle: DatasetHandle, compiled: Compiled) -> Answer:
    """The answer as it will be stored: with its dataset, what is hidden, and the evidence for its certificate."""
    return replace(
        answer,
        dataset=handle.name,
        policy_version=handle.policy_version,
        protected=policy_words(handle.domain, handle.policy, compiled.cells.attributes),
        unprotected=not_protected(handle.domain, handle.policy),
        released=now(),
        evidence=evidence_of(handle.domain, handle.policy, compiled.query),
    )


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
