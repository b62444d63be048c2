"""Derived answers: questions whose cells are made of the cells that an earlier release of the same analyst measured."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import coo_array, csr_array

from blowfishdb.accuracy.candidates import CertifiedCandidate, EstimatesCells, certified_strategy
from blowfishdb.accuracy.intervals import Assessment, noise_widths
from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError
from blowfishdb.mechanisms.strategy import CellStrategy, Strategy
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.model.workload import AllRanges, Identity, Kronecker, Rows, Sparse
from blowfishdb.plan.plan import Measurement, Plan, Problem

MOST_PIECES = 2**18
MOST_ENTRIES = 2**21
"""Answers times measured cells, and measured cells times rows, up to which an answer is derived."""
MOST_IN_RANGES = 256
"""Cells up to which the ranges of them are listed."""
CACHED = 64
CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class DerivedStrategy(CellStrategy):
    """The answers to another workload over the cells that a strategy estimates."""

    mechanism: str
    problem: Problem
    inner: Strategy

    def plan(self, unit: Fraction) -> Plan:
        """The measurements of the strategy."""
        plan = self.inner.plan(unit)
        if not isinstance(plan, Plan):
            raise TypeError("noise on edges estimates no cells")
        return plan

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The count of every measured cell."""
        if not isinstance(self.inner, EstimatesCells):
            raise TypeError("this strategy estimates no cells")
        return self.inner.estimate_cells(measured, exact, variances)

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
    return {axis.attribute for axis in query.axes} <= {axis.attribute for axis in past.axes}


def derive(
    compiled: Compiled, target: AccuracyTarget, past: Compiled, measured: CertifiedCandidate, level: Fraction
) -> tuple[Compiled, Quote] | None:
    """The query over the cells of a past release, and what its rows promise at their level; None where they cannot."""
    merged = merged_cells(compiled.cells, past.cells)
    if merged is None or compiled.measure is not None or not isinstance(measured.strategy, EstimatesCells):
        return None
    rows, cells = compiled.problem.workload.shape[0], past.problem.graph.cells
    if max(rows, measured.weights.size) * cells > MOST_ENTRIES:
        return None
    counted = merged != ZERO
    into = csr_array(
        coo_array(
            (np.ones(int(counted.sum()), dtype=np.int64), (merged[counted], np.flatnonzero(counted))),
            shape=(compiled.problem.graph.cells, cells),
        )
    )
    workload = Sparse(csr_array(compiled.problem.workload.dot(into.toarray())))
    problem = Problem(past.problem.graph, workload)
    strategy = DerivedStrategy(measured.strategy.mechanism, problem, measured.strategy)
    candidate = CertifiedCandidate(problem, strategy, measured.plan, measured.certificate)
    if candidate.is_exact or not _is_unbiased(candidate, level):
        return None
    try:
        alpha, method = Assessment(candidate, target.guarantee).alpha(level, float(target.beta), simulate=True)
    except BlowfishError:
        return None
    quote = Quote(candidate, level, alpha, float(target.beta), target.guarantee, method)
    return replace(compiled, problem=problem, known=None), quote


def family_width(quote: Quote, past: Compiled) -> float:
    """A half-width for derived answers that holds for all questions that add up cells of the past release together.

    So it holds for a question chosen after that release was seen. Two families are bounded, each at half of beta: all
    cells, whose errors add up, and all ranges of cells where there is one axis.
    """
    candidate, cells = quote.candidate, past.problem.graph.cells
    inner = candidate.strategy.inner if isinstance(candidate.strategy, DerivedStrategy) else candidate.strategy
    # Variances of continuous noise, which the bound asks for.
    variances = 2.0 * np.square(candidate.scales(quote.epsilon))

    def width(workload: Rows) -> float:
        family = DerivedStrategy(quote.mechanism, Problem(past.problem.graph, workload), inner)
        return noise_widths(family.answer_variances(variances), quote.beta / 2).simultaneous

    rows = candidate.problem.workload.dense()
    widths = np.abs(rows).sum(axis=1) * width(Identity(cells))
    if len(past.cells.axes) == 1 and cells <= MOST_IN_RANGES:
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


def merged_cells(new: Cells, past: Cells) -> Ints | None:
    """For each cell of the past query the cell of the new one it lies in (ZERO: it does not count there).

    None where a past cell is cut, or where the new query counts records that the past one did not.
    """
    names = list(dict.fromkeys([*past.attributes, *new.attributes]))
    if not names:
        return np.zeros(1, dtype=np.int64)
    codes = []
    for name in names:
        cuts = [cells.cuts[name] for cells in (past, new) if name in cells.cuts]
        starts = np.unique(np.concatenate([cut.starts for cut in cuts]))
        slots = np.array([slot.code for slot in cuts[0].slots], dtype=np.int64)
        codes.append(np.concatenate([starts, slots]).astype(np.int64))
    sizes = [code.size for code in codes]
    if math.prod(sizes) > MOST_PIECES:
        return None
    columns: Mapping[str, Ints] = {
        name: np.broadcast_to(code.reshape([-1 if n == place else 1 for n in range(len(names))]), sizes).reshape(-1)
        for place, (name, code) in enumerate(zip(names, codes, strict=True))
    }
    before, after = (_places(cells, columns, math.prod(sizes)) for cells in (past, new))
    if np.any((before == ZERO) & (after != ZERO)):
        return None
    merged = np.full(past.graph.cells, ZERO, dtype=np.int64)
    counted = before != ZERO
    merged[before[counted]] = after[counted]
    return merged if np.array_equal(merged[before[counted]], after[counted]) else None


def _places(cells: Cells, columns: Mapping[str, Ints], size: int) -> Ints:
    """The cell of each combination of values."""
    return cells.cell_of(columns) if cells.attributes else np.zeros(size, dtype=np.int64)
