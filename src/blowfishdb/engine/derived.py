"""Derived answers: questions whose cells are made of the cells that an earlier release of the same analyst measured."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import coo_array, csr_array

from blowfishdb.accuracy.candidates import CertifiedCandidate, EstimatesCells, certified_strategy
from blowfishdb.accuracy.intervals import Assessment, noise_widths
from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.compile import Compiled, DatasetHandle, PartStrategy, compile_query, looked_at
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError
from blowfishdb.mechanisms.joint import Groups, JointStrategy
from blowfishdb.mechanisms.strategy import CellStrategy, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cells import Cells, merged_cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.model.workload import AllRanges, Identity, Kronecker, Rows, Sparse
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import Measurement, Plan, Problem

MOST_ENTRIES = 2**21
"""Answers times measured cells, and measured cells times rows, up to which an answer is derived."""
MOST_IN_RANGES = 256
"""Cells up to which the ranges of them are listed."""
CACHED = 64
CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class DerivedStrategy(CellStrategy):
    """The answers to another workload over the cells that a strategy estimates; `place` is their group among others."""

    mechanism: str
    problem: Problem
    inner: Strategy
    answers: Rows
    place: int = 0

    def plan(self, unit: Fraction) -> Plan:
        """The measurements of the strategy."""
        plan = self.inner.plan(unit)
        if not isinstance(plan, Plan):
            raise TypeError("noise on edges estimates no cells")
        return plan

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The count of every measured cell."""
        inner = self.inner
        if isinstance(inner, JointStrategy):
            inner, noisy, known = inner.piece(self.place)
            measured, exact, variances = measured[noisy], exact[known], variances[noisy]
        if not isinstance(inner, EstimatesCells):
            raise TypeError("this strategy estimates no cells")
        return inner.estimate_cells(measured, exact, variances)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answer to every query."""
        return np.asarray(self.answers.dot(self.estimate_cells(measured, exact, variances)))

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        plan = self.plan(Fraction(1))
        exact = 0 if plan.exact is None else plan.exact.shape[0]
        coefficients = self.decode(np.eye(variances.size), np.zeros((exact, variances.size)), variances)
        return np.asarray(np.square(coefficients) @ variances)


class Measured:
    """Compiled queries and certified strategies of past releases, a few at a time; what is cached is public."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[Domain, Policy, Compiled, CertifiedCandidate]]
        self._known = OrderedDict()
        self._turn = threading.Lock()

    def of(
        self, handle: DatasetHandle, question: str, query: Query, mechanism: str
    ) -> tuple[Compiled, CertifiedCandidate]:
        """The cells that a query counted under the versions in force, and the strategy that measured them.

        Declarations are compared themselves: two ledgers in one process may have versions of the same numbers.
        """
        key = *handle.versions().values(), question, mechanism
        with self._turn:
            known = self._known.pop(key, None)
        if known is None or known[:2] != (handle.domain, handle.policy):
            compiled = compile_query(handle.domain, handle.policy, query)
            measured = certified_strategy(compiled.problem, MECHANISMS[mechanism](compiled.problem))
            known = handle.domain, handle.policy, compiled, measured
        with self._turn:
            self._known[key] = known
            while len(self._known) > CACHED:
                self._known.popitem(last=False)
        return known[2:]


def may_derive(query: Query, past: Query) -> bool:
    """Whether a look at the attributes leaves it possible that the cells of a query are made of those of a past one."""
    measured = [part.query for part in past.parts] or [past]
    return {axis.attribute for axis in query.axes} <= {name for one in measured for name in looked_at(one)}


def derive(
    compiled: Compiled, target: AccuracyTarget, past: Compiled, measured: CertifiedCandidate, level: Fraction
) -> tuple[Compiled, Quote] | None:
    """The query over the cells of a past release, and what its rows promise at their level; None where they cannot."""
    joined = past.joined
    if joined is None:
        return _read_off(compiled, target, past, measured, level, past.cells, 0)
    for part in joined.parts:
        if part.compiled.query == compiled.query:
            rows = csr_array(sparse_columns(past.problem.workload))[part.start : part.stop]
            rows.data //= part.times
            problem = Problem(past.problem.graph, Sparse(rows))
            strategy = PartStrategy(problem, measured.strategy, part.start, part.stop, part.times)
            return _promised(part.compiled, target, strategy, measured, level)
    for place, group in enumerate(joined.groups):
        derived = _read_off(compiled, target, past, measured, level, group.cells, place)
        if derived is not None:
            return derived
    return None


def _read_off(
    compiled: Compiled,
    target: AccuracyTarget,
    past: Compiled,
    measured: CertifiedCandidate,
    level: Fraction,
    estimated: Cells,
    place: int,
) -> tuple[Compiled, Quote] | None:
    """The query over cells that a past release estimates: all of its cells, or those of one of its groups."""
    inner = measured.strategy
    if isinstance(inner, JointStrategy):
        inner, _, _ = inner.piece(place)
    merged = merged_cells(compiled.cells, estimated)
    if merged is None or compiled.measure is not None or not isinstance(inner, EstimatesCells):
        return None
    rows, cells = compiled.problem.workload.shape[0], past.problem.graph.cells
    if max(rows, measured.weights.size) * cells > MOST_ENTRIES:
        return None
    counted = merged != ZERO
    into = csr_array(
        coo_array(
            (np.ones(int(counted.sum()), dtype=np.int64), (merged[counted], np.flatnonzero(counted))),
            shape=(compiled.problem.graph.cells, merged.size),
        )
    )
    answers = Sparse(csr_array(compiled.problem.workload.dot(into.toarray())))
    groups = past.problem.workload.groups if isinstance(past.problem.workload, Groups) else ()
    problem = Problem(past.problem.graph, groups[place].lifted(answers) if groups else answers)
    strategy = DerivedStrategy(measured.strategy.mechanism, problem, measured.strategy, answers, place)
    return _promised(compiled, target, strategy, measured, level)


def _promised(
    compiled: Compiled,
    target: AccuracyTarget,
    strategy: DerivedStrategy | PartStrategy,
    measured: CertifiedCandidate,
    level: Fraction,
) -> tuple[Compiled, Quote] | None:
    """The query over the cells of a past release, with the accuracy of the strategy; None where it promises none."""
    candidate = CertifiedCandidate(strategy.problem, strategy, measured.plan, measured.certificate)
    if candidate.is_exact or not _is_unbiased(candidate, level):
        return None
    try:
        alpha, method = Assessment(candidate, target.guarantee).alpha(level, float(target.beta), simulate=True)
    except BlowfishError:
        return None
    quote = Quote(candidate, level, alpha, float(target.beta), target.guarantee, method)
    return replace(compiled, problem=strategy.problem, known=None), quote


def family_width(quote: Quote, past: Compiled) -> float:
    """A half-width for derived answers that holds for all questions that add up cells of the past release together.

    So it holds for a question chosen after that release was seen. Two families are bounded, each at half of beta: all
    cells, whose errors add up, and all ranges of cells where there is one axis.
    """
    candidate, strategy = quote.candidate, quote.strategy
    if not isinstance(strategy, DerivedStrategy):
        # A question of a plan was chosen with it.
        return quote.alpha
    estimated = past.cells if past.joined is None else past.joined.groups[strategy.place].cells
    cells = estimated.graph.cells
    # Variances of continuous noise, which the bound asks for.
    variances = 2.0 * np.square(candidate.scales(quote.epsilon))

    def width(workload: Rows) -> float:
        family = replace(strategy, answers=workload)
        return noise_widths(family.answer_variances(variances), quote.beta / 2).simultaneous

    rows = strategy.answers.dense()
    widths = np.abs(rows).sum(axis=1) * width(Identity(cells))
    if len(estimated.axes) == 1 and cells <= MOST_IN_RANGES:
        is_range = np.array([_is_range(row) for row in rows])
        widths = np.where(is_range, np.minimum(widths, width(AllRanges(cells))), widths)
    return float(widths.max(initial=0.0))


def _is_range(row: Ints) -> bool:
    """Whether a row counts neighbouring cells, each once."""
    (places,) = np.nonzero(row)
    return places.size == 0 or bool(np.all(row[places] == 1) and places[-1] - places[0] == places.size - 1)


def _is_unbiased(candidate: CertifiedCandidate, level: Fraction) -> bool:
    """Whether the rows determine the answers: decoding what they measure of each cell gives the workload."""
    plan = candidate.plan
    if not isinstance(plan, Plan):
        return False
    each = np.eye(candidate.problem.graph.cells, dtype=np.int64)
    parts = [p.rows if isinstance(p, Measurement) else Kronecker(tuple(f.rows for f in p.factors)) for p in plan.parts]
    measured = np.concatenate([np.asarray(part.dot(each), dtype=np.float64) for part in parts])
    exact = np.empty((0, each.shape[0])) if plan.exact is None else np.asarray(plan.exact.dot(each), dtype=np.float64)
    answers = candidate.strategy.decode(measured, exact, candidate.variances(level))
    return bool(np.allclose(answers, candidate.problem.workload.dense(), rtol=0.0, atol=CLOSE))
