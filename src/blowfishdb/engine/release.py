"""Executes a quoted plan on counts and turns the measurements into an answer with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths, intervals
from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.answer_bounds import Bounds
from blowfishdb.engine.answer_table import AnswerTable
from blowfishdb.engine.compiled import Compiled
from blowfishdb.engine.known_answers import chosen, known_answers, with_total
from blowfishdb.engine.labels import answer_tables
from blowfishdb.engine.measure import measure
from blowfishdb.engine.present.words import question_words
from blowfishdb.engine.statistics import STATISTICS, read_statistic, statistic_tables
from blowfishdb.inference.consistent import (
    Consistent,
    consistent_cdf,
    consistent_counts,
    consistent_histogram,
    consistent_parts,
)
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import ZERO
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import CertifiedPlan, certified_as_charged
from blowfishdb.plan.plan import EdgePlan


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
        together=together,
        alone=together,
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
    told = known_answers(compiled)
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
