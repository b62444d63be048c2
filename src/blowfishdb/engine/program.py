"""Releases that look at the data to decide: programs of stages, the rules that choose them, quantiles by rank."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.intervals import HalfWidths, noise_widths
from blowfishdb.accuracy.quote import QuantileQuote, Quote, Quotes, SelectionQuote, select_at, select_within
from blowfishdb.engine.answer import Answer
from blowfishdb.engine.compile import (
    MOST_ANSWERS,
    Compiled,
    DatasetHandle,
    QuantileOrder,
    cell_ends,
    compile_query,
    group_selection,
    quantile_order,
)
from blowfishdb.engine.infer import Estimate, estimate_answer, infer
from blowfishdb.engine.measure import choose_groups, choose_quantiles, run_program
from blowfishdb.engine.postprocess import listed_rows
from blowfishdb.engine.preview import (
    RANKS_ONLY,
    Preview,
    list_words,
    program_preview,
    quantile_quote,
    quantiles_preview,
    quotes_for,
    selection_preview,
)
from blowfishdb.engine.release import (
    CellsRelease,
    ColumnsRelease,
    PlanRelease,
    described,
    ledger_document,
    plan_release,
    public_total,
    recorded_settings,
)
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.engine.synopsis import MOST_CELLS
from blowfishdb.errors import BlowfishError, Declined, TooLarge, plural
from blowfishdb.inference.consistency import Consistent
from blowfishdb.mechanisms.data_aware import BIAS_BETA, DataAware, Finding, counts_touched, dawa, gated
from blowfishdb.mechanisms.table import data_aware_with
from blowfishdb.model.aggregates import AggregateTable
from blowfishdb.model.cached import cached_property
from blowfishdb.model.constraints import MarginalConstraint, RowsConstraint
from blowfishdb.model.domain import Bins, Integers
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints, show
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis
from blowfishdb.model.query import COUNTS
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.program import (
    EXPONENTIAL_QUANTILES,
    GROUP_SELECTION,
    POSITIONS,
    Program,
    certify_program,
    certify_quantiles,
)
from blowfishdb.present.answer_values import NOISE_ONLY, AnswerColumn, Bounds
from blowfishdb.present.words import percent, question_words, readable, upper_end

BIAS_TOO = (
    "Counts were spread evenly over buckets that the mechanism chose. Intervals cover the noise and a privately "
    "estimated bound on how uneven the data is inside buckets."
)

LEAST_EPSILON = Fraction(1, 100_000)
"""Refused below it, per record that may change: a stage that failed for its noise would fail after the charge."""


@dataclass(frozen=True, eq=False)
class ProgramRelease(CellsRelease):
    """A query answered by the program of stages of a data-aware mechanism.

    `why` is the rule by which the mechanism was chosen, where nobody asked for it by name.
    """

    compiled: Compiled
    target: AccuracyTarget
    mechanism: DataAware
    program: Program
    why: str = ""

    @cached_property
    def certificate(self) -> Certificate:
        """What the whole program may spend."""
        return certify_program(self.program, self.compiled.problem.graph)

    def digest_1(self) -> str:
        """The program in the first encoding."""
        return self.program.digest_1()

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps: the stages with their allowances."""
        stages = {allowance.stage: str(allowance.epsilon) for allowance in self.program.allowances}
        # A synopsis fits its buckets to a few more queries than it has cells.
        self.compiled.check_answers(max(MOST_ANSWERS, 2 * self.size))
        recorded = recorded_settings(self.program.parameters)
        _, details = self.compiled.tables, {"beta": float(self.target.beta), "stages": stages, **recorded}
        return ledger_document(self.compiled.query, self.mechanism.name, self.certificate, details)

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of the program, beside what other mechanisms promise for it."""
        return program_preview(handle, self.compiled, self.target, self.program, self.why)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as it is stored."""
        return described(self.answer_of(self.run(counts)), handle, self.compiled).to_bytes()

    def run(self, counts: Ints) -> Finding:
        """Runs the program on counts, each stage certified before its noise is drawn."""
        problem = self.compiled.problem
        script = self.mechanism.script(problem, self.program)
        return run_program(self.program, self.digest, script, problem.graph, counts)

    def answer_of(self, finding: Finding) -> Answer:
        """The answer that a finding gives, with intervals for the noise and a word on what they leave out."""
        beta = float(self.target.beta)
        widths, caveat = noise_widths(finding.variances, beta), NOISE_ONLY
        if finding.bias is not None and beta > BIAS_BETA:
            widths, caveat = noise_widths(finding.variances, beta - BIAS_BETA).widened(finding.bias), BIAS_TOO
        if finding.adjusted is not None:
            widths = widths.widened(finding.adjusted)
        answer = infer(self.compiled, finding.answers, widths, None, beta, self.mechanism.name, self.certificate)
        stages, settings = self.program.allowances, self.program.parameters
        return replace(answer, stages=stages, caveat=caveat, parameters=settings)


def program_release(compiled: Compiled, target: AccuracyTarget, why: str = "") -> ProgramRelease:
    """The release by the named data-aware mechanism; Declined where it cannot serve the query."""
    mechanism = data_aware_with(target.mechanism or "", target.parameters)
    if target.epsilon is None:
        raise Declined(
            mechanism.name,
            "it looks at the data, so nobody can promise its accuracy beforehand. Give epsilon instead of an accuracy, "
            "or leave the mechanism out",
        )
    rows = compiled.problem.graph.rows_per_person
    floor = LEAST_EPSILON * rows
    if target.epsilon < floor:
        raise Declined(mechanism.name, "this epsilon needs more noise in one stage than the sampler can draw")
    if compiled.query.kind not in COUNTS:
        raise Declined(
            mechanism.name,
            "it answers counts. Publish a synopsis of the attribute, and read sums, means and quantiles off that",
        )
    program = replace(mechanism.program(compiled.problem, target.epsilon), parameters=target.parameters)
    least = min(program.allowances, key=lambda allowance: allowance.epsilon)
    # With its defaults every stage works at a part of the least epsilon, so with any parameters it works at all of it.
    if target.parameters and least.epsilon < floor:
        raise Declined(
            mechanism.name, f"its parameters leave stage {least.stage} too little: {show(least.epsilon)} of epsilon"
        )
    return ProgramRelease(compiled, target, mechanism, program, why)


FEWEST_CELLS = 256
FEWEST_CELLS_2D = 16_384
TREE_ERROR = 40.0
"""About the expected error of boxes that `adaptive-tree` has at epsilon 1 for each count that a record touches."""
MERGED = ("histogram", "histogram2d", "cdf", "ranges")


@dataclass(frozen=True)
class AutoChoice:
    """A data-aware mechanism, or None for the best of the others; and why."""

    mechanism: str | None
    why: str


def choose(compiled: Compiled, target: AccuracyTarget, rows: int | None) -> AutoChoice:
    """The first rule that applies to a target with an epsilon, given the number of records where that is public."""
    graph, kind, cells = compiled.problem.graph, compiled.query.kind, compiled.problem.graph.cells
    axes, epsilon = len(compiled.cells.axes), target.epsilon or Fraction(0)
    if kind not in MERGED or axes > 2:
        return AutoChoice(None, "data-aware mechanisms merge the cells of one or two attributes")
    fewest = FEWEST_CELLS if axes == 1 else FEWEST_CELLS_2D
    if cells < fewest:
        return AutoChoice(None, f"{plural(cells, 'cell')}: few; from {fewest:,} on, merging cells usually pays")
    if axes == 2:
        best = quotes_for(compiled, target.by(None)).best if kind == "ranges" else None
        if best is not None and (
            best.rmse * epsilon < TREE_ERROR * counts_touched(graph) or best.mechanism not in gated.PLAIN_TABLES
        ):
            return AutoChoice(None, f"{best.mechanism} is expected to be closer than counting empty stretches together")
        return AutoChoice(gated.NAME, f"{cells:,} cells; a look decides whether empty stretches are counted together")
    if rows is not None and rows * epsilon > gated.CLEAR * cells:
        return AutoChoice(None, f"{rows:,} rows stand clear of the noise in {cells:,} cells")
    if kind != "histogram" and not _joins_all(graph):
        return AutoChoice(None, "ranges cost little under this policy, whatever the data is")
    if rows is None:
        return AutoChoice(gated.NAME, f"{cells:,} cells; a look decides whether even ones are counted together")
    able = dawa.TRANSFORM if kind == "histogram" else dawa.NAME
    return AutoChoice(able, f"{cells:,} cells, of which even ones can be counted together")


def declared_rows(policy: Policy) -> int | None:
    """The number of rows, where the policy gives it as a public constraint."""
    for constraint in policy.constraints:
        if isinstance(constraint, RowsConstraint) and constraint.value is not None:
            return constraint.value
        if isinstance(constraint, MarginalConstraint) and constraint.total is not None:
            return constraint.total
    return None


def _joins_all(graph: CellGraph) -> bool:
    """Whether one hidden move leads from any cell to any other, or out of the count."""
    axis = graph.factors[0]
    complete = isinstance(axis, WindowGraph) and (axis.universal.size > 0 or int(axis.reach[0]) == axis.size - 1)
    return complete or bool(graph.to_zero.all())


BY_RANK = (
    "The values were chosen by their ranks: each lies within {alpha} records of its share ({sure}), records of one "
    "declared value spread evenly over it. Intervals of values are as wide as that leaves them."
)


class ChoiceRelease(CellsRelease):
    """A release whose outcome is chosen at once by one certified selection."""

    best: QuantileQuote | SelectionQuote

    @property
    def certificate(self) -> Certificate:
        """The certificate of the selection."""
        return self.best.certificate

    def loss_on(self, graph: CellGraph) -> Fraction:
        """The loss of the selection on the edges of a graph of the same cells."""
        return self.best.plan.loss(graph)

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        _, certificate = self.compiled.tables, self.certificate
        details: dict[str, object] = {"alpha": self.best.alpha, "beta": self.best.beta, "witness": None}
        details |= {"is_tight": certificate.is_tight, "together": certificate.constraint_note}
        return ledger_document(self.compiled.query, self.best.mechanism, certificate, details)


@dataclass(frozen=True, eq=False)
class QuantilesRelease(ChoiceRelease, ColumnsRelease):
    """Quantiles chosen by their ranks. `quotes` are those of CDFs, where they were worked out."""

    compiled: Compiled
    target: AccuracyTarget
    best: QuantileQuote
    quotes: Quotes | None = None

    @cached_property
    def order(self) -> QuantileOrder:
        """The attribute in order and the levels."""
        order = quantile_order(self.compiled)
        if order is None:
            raise Declined(EXPONENTIAL_QUANTILES, RANKS_ONLY)
        return order

    def checked(self) -> Certificate:
        """The certificate, worked out anew."""
        return certify_quantiles(self.best.plan, self.compiled.problem.graph)

    def column_alphas(self) -> Mapping[str, float | None]:
        """The ranks within which every quantile lies."""
        return {part.title: self.best.alpha for part in self.compiled.query.aggregates}

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of the selection, beside what a CDF promises."""
        return quantiles_preview(handle, self.compiled, self.target, self.best, self.quotes)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as it is stored."""
        return described(self.answer(counts), handle, self.compiled).to_bytes()

    def answer(self, counts: Ints) -> Answer:
        """Draws the quantiles and makes the answer; charges nothing and stores nothing."""
        compiled, best, order = self.compiled, self.best, self.order
        cells = choose_quantiles(best.plan, compiled.problem.graph, self.certificate, counts)
        ordered = sorted(set(order.levels))
        columns = [ordered.index(level) for level in order.levels]
        lows, highs = cell_ends(compiled.cells, compiled.cells.axes[order.axis])
        table = compiled.table
        if table is None:
            chosen, is_public = cells[0, columns], order.cells == compiled.problem.graph.cells
            total = public_total(compiled, counts) if is_public else None
            bounds = self._bounds(ordered, cells[0], lows, highs, total)
        else:
            chosen = _as_columns(table, cells[:, columns], order.axis)
            bounds = Bounds(np.full(chosen.size, lows[0]), np.full(chosen.size, highs[-1]))
        estimate = Estimate((lows[chosen] + highs[chosen]) / 2.0, bounds)
        answer = estimate_answer(compiled, estimate, best.beta, EXPONENTIAL_QUANTILES, self.certificate)
        caveat = BY_RANK.format(alpha=readable(upper_end(best.alpha)), sure=percent(best.beta))
        return replace(answer, caveat=caveat)

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


def _as_columns(table: AggregateTable, cells: Ints, axis: int) -> Ints:
    """The cells that were chosen, groups by levels, one column after the other in the order of the table's groups."""
    names = [name for place, name in enumerate(table.cells.axes) if place != axis]
    shape = [table.groups.layout[name].cells for name in names]
    by_group = np.transpose(cells.T.reshape(-1, *shape), [0, *(1 + names.index(name) for name in table.groups.axes)])
    return by_group.reshape(-1)


@dataclass(frozen=True, eq=False)
class GroupsRelease(ChoiceRelease):
    """The names of the largest groups, or of those above a least count."""

    compiled: Compiled
    target: AccuracyTarget
    best: SelectionQuote

    def preview(self, handle: DatasetHandle) -> Preview:
        """The price of the list."""
        return selection_preview(handle, self.compiled, self.target, self.best)

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """The finished answer as JSON."""
        return described(self.answer(counts), handle, self.compiled).to_json().encode()

    def answer(self, counts: Ints) -> Answer:
        """The chosen groups; charges nothing and stores nothing."""
        compiled, best = self.compiled, self.best
        places = choose_groups(best.plan, compiled.problem.graph, self.certificate, counts)
        numbers = np.arange(1.0, places.size + 1.0)
        return Answer(
            kind="table",
            title=question_words(compiled.query),
            tables=(listed_rows(compiled.tables[0], places),),
            raw=numbers,
            consistent=Consistent(numbers, True, list_words(best.plan.above, best.reach, percent(best.beta))),
            widths=HalfWidths(np.zeros(places.size), 0.0),
            beta=best.beta,
            mechanism=GROUP_SELECTION,
            certificate=self.certificate,
            simultaneous=Bounds(numbers, numbers),
            pointwise=Bounds(numbers, numbers),
            columns=(AnswerColumn("place", "place"),),
        )


def groups_release(compiled: Compiled, target: AccuracyTarget) -> GroupsRelease:
    """The release of the list that a query asks for; Declined where the selection does not serve it."""
    plan, graph, beta = group_selection(compiled), compiled.problem.graph, float(target.beta)
    if target.epsilon is not None:
        return GroupsRelease(compiled, target, select_at(plan, graph, target.epsilon, beta))
    return GroupsRelease(compiled, target, select_within(plan, graph, float(target.alpha or 0), beta))


MANY = 1024
"""Below this many values a CDF runs unless this mechanism is named: records share values, and a CDF bounds those."""
COARSE = 512
"""It is first compared with a CDF of so many groups, which is quick to quote: finer ones only miss by more."""


def quantiles_release(handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget) -> ColumnsRelease:
    """The release by the mechanism that is named, or else by the one that misses by fewer ranks or costs less."""
    order, free = quantile_order(compiled), target.by(None)
    values = 0 if order is None else compiled.problem.graph.shape[order.axis]
    cells = compiled.problem.graph.cells
    if order is not None and cells > MOST_CELLS:
        # What measures running counts plans for all cells at once; ranks are chosen group by group.
        if target.mechanism not in (None, EXPONENTIAL_QUANTILES):
            raise TooLarge("cells of one question", cells, MOST_CELLS, f"Leave the mechanism out: {RANKS_ONLY}.")
        return QuantilesRelease(compiled, target, quantile_quote(compiled, target))
    if target.mechanism == EXPONENTIAL_QUANTILES:
        quotes = quotes_for(compiled, free) if values < MANY else None
        return QuantilesRelease(compiled, target, quantile_quote(compiled, target), quotes)
    if target.mechanism is None and values >= MANY:
        with suppress(Declined):
            choice = quantile_quote(compiled, target)
            rivals = _coarse_quotes(handle, compiled, target)
            if rivals is not None and _is_better(choice, compiled, rivals.best, target):
                return QuantilesRelease(compiled, target, choice)
            quotes = quotes_for(compiled, target)
            if not quotes.offers or _is_better(choice, compiled, quotes.best, target):
                return QuantilesRelease(compiled, target, choice, quotes)
            return PlanRelease(compiled, quotes.best, target, quotes)
    return plan_release(compiled, target)


def _is_better(choice: QuantileQuote, compiled: Compiled, rival: Quote, target: AccuracyTarget) -> bool:
    """Whether a choice costs less for the same promise, or is expected to miss by fewer ranks for the same price."""
    if rival.epsilon == 0:
        return False
    return choice.epsilon < rival.epsilon if target.epsilon is None else choice.rmse < compiled.shown(rival.rmse)


def _coarse_quotes(handle: DatasetHandle, compiled: Compiled, target: AccuracyTarget) -> Quotes | None:
    """The quotes of a CDF over few wide groups of the same values; None where they have no width."""
    query = compiled.query
    if query.kind != "quantiles":
        return None
    (axis,) = query.axes
    attribute = handle.domain.find(axis.attribute)
    step = Fraction(1) if isinstance(attribute, Integers) else attribute.width if isinstance(attribute, Bins) else None
    if step is None or axis != Axis(axis.attribute):
        return None
    coarse = replace(query, axes=(Axis(axis.attribute, width=step * -(-attribute.size // COARSE)),))
    try:
        return quotes_for(compile_query(handle.domain, handle.policy, coarse), target.by(None))
    except BlowfishError:
        return None
