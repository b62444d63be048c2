"""QuantilesRelease: quantiles chosen by the exponential mechanism, where that misses by fewer ranks than a CDF."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.accuracy.quantiles import QuantileQuote
from blowfishdb.accuracy.quote import Quote, Quotes
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import Compiled, DatasetHandle, cell_ends, compile_query
from blowfishdb.engine.measure import choose_quantiles
from blowfishdb.engine.preview import Preview, quantile_quote, quantiles_preview, quotes_for
from blowfishdb.engine.release import CellsRelease, PlanRelease, described, ledger_document, public_total
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError, Declined
from blowfishdb.inference.consistency import Consistent
from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.predicate import Axis
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES, POSITIONS
from blowfishdb.present.answer_values import Bounds
from blowfishdb.present.words import percent, question_words, readable, upper_end

CAVEAT = (
    "The values were chosen by their ranks: each lies within {alpha} records of its share ({sure}), records of one "
    "declared value spread evenly over it. Intervals of values are as wide as that leaves them."
)


@dataclass(frozen=True, eq=False)
class QuantilesRelease(CellsRelease):
    """Quantiles chosen at once by one certified selection. `quotes` are those of CDFs, where they were worked out."""

    compiled: Compiled
    target: AccuracyTarget
    best: QuantileQuote
    quotes: Quotes | None = None

    @property
    def certificate(self) -> Certificate:
        """The certificate of the selection."""
        return self.best.certificate

    def loss_on(self, graph: CellGraph) -> Fraction:
        """The loss of the selection on the edges of a graph of the same cells."""
        return self.best.plan.loss(graph)

    def digest_1(self) -> str:
        """The same digest: nothing of this kind was ever stored in the first encoding."""
        return self.digest

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        _, certificate = self.compiled.tables, self.certificate
        details: dict[str, object] = {
            "alpha": self.best.alpha,
            "beta": self.best.beta,
            "witness": None,
            "is_tight": certificate.is_tight,
            "together": certificate.constraint_note,
        }
        return ledger_document(self.compiled.query, EXPONENTIAL_QUANTILES, certificate, details)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of the selection, beside what a CDF promises."""
        return quantiles_preview(handle, self.compiled, self.target, self.best, self.quotes)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        return described(self.answer(counts), handle, self.compiled).to_json().encode()

    def answer(self, counts: Ints) -> Answer:
        """Draws the quantiles and makes the answer; charges nothing and stores nothing."""
        compiled, best, levels = self.compiled, self.best, self.compiled.query.levels
        cells = choose_quantiles(best.plan, compiled.problem.graph, self.certificate, counts)
        ordered = sorted(set(levels))
        chosen = cells[[ordered.index(level) for level in levels]]
        lows, highs = cell_ends(compiled.cells, compiled.cells.axes[0])
        values = (lows[chosen] + highs[chosen]) / 2.0
        is_public = compiled.cells.plain[0] == compiled.problem.graph.cells
        bounds = self._bounds(ordered, cells, lows, highs, public_total(compiled, counts) if is_public else None)
        far = np.maximum(bounds.high - values, values - bounds.low)
        return Answer(
            kind=compiled.query.kind,
            title=question_words(compiled.query),
            tables=compiled.tables,
            raw=values,
            consistent=Consistent(values, True, ""),
            widths=HalfWidths(far, float(far.max())),
            beta=best.beta,
            mechanism=EXPONENTIAL_QUANTILES,
            certificate=self.certificate,
            simultaneous=bounds,
            pointwise=bounds,
            caveat=CAVEAT.format(alpha=readable(upper_end(best.alpha)), sure=percent(best.beta)),
        )

    def _bounds(self, ordered: list[Fraction], cells: Ints, lows: Floats, highs: Floats, total: float | None) -> Bounds:
        """From the last quantile surely below each true one to the first surely above, where the total is public."""
        low, high = [], []
        for level in self.compiled.query.levels:
            below, above = lows[0], highs[-1]
            if total is not None:
                within = self.best.alpha + total * len(ordered) / (2 * POSITIONS)
                apart = [float(other - level) * total for other in ordered]
                for cell, ranks in zip(cells, apart, strict=True):
                    below = max(below, lows[cell]) if ranks < -within else below
                    above = min(above, highs[cell]) if ranks >= within else above
            low.append(below)
            high.append(above)
        return Bounds(np.array(low), np.array(high))


MANY = 1024
"""Below this many values a CDF runs unless this mechanism is named: records share values, and a CDF bounds those."""
COARSE = 512
"""It is first compared with a CDF of so many groups, which is quick to quote: finer ones only miss by more."""


def quantiles_release(handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget) -> CellsRelease:
    """The release by the mechanism that is named, or else by the one that misses by fewer ranks or costs less."""
    cells, free = compiled.problem.graph.cells, replace(target, mechanism=None)
    if target.mechanism == EXPONENTIAL_QUANTILES:
        quotes = quotes_for(compiled, free) if cells < MANY else None
        return QuantilesRelease(compiled, target, quantile_quote(compiled, target), quotes)
    if target.mechanism is None and cells >= MANY:
        with suppress(Declined):
            choice = quantile_quote(compiled, target)
            rivals = _coarse_quotes(handle, compiled, target)
            if rivals is not None and _is_better(choice, rivals.best, target):
                return QuantilesRelease(compiled, target, choice)
            quotes = quotes_for(compiled, target)
            if _is_better(choice, quotes.best, target):
                return QuantilesRelease(compiled, target, choice, quotes)
            return PlanRelease(compiled, quotes.best, target, quotes)
    quotes = quotes_for(compiled, target)
    return PlanRelease(compiled, quotes.best, target, quotes)


def _is_better(choice: QuantileQuote, rival: Quote, target: AccuracyTarget) -> bool:
    """Whether a choice costs less for the same promise, or is expected to miss by fewer ranks for the same price."""
    if rival.epsilon == 0:
        return False
    return choice.epsilon < rival.epsilon if target.epsilon is None else choice.rmse < rival.rmse


def _coarse_quotes(handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget) -> Quotes | None:
    """The quotes of a CDF over few wide groups of the same values; None where they have no width."""
    (axis,), query = compiled.query.axes, compiled.query
    attribute = handle.domain.find(axis.attribute)
    step = Fraction(1) if isinstance(attribute, Integers) else attribute.width if isinstance(attribute, Bins) else None
    if step is None or axis != Axis(axis.attribute):
        return None
    coarse = replace(query, axes=(Axis(axis.attribute, width=step * -(-attribute.size // COARSE)),))
    try:
        return quotes_for(compile_query(handle.domain, handle.policy, coarse), replace(target, mechanism=None))
    except BlowfishError:
        return None
