"""Joint: one plan for all blocks of a table, or for several questions, whose rows are measured side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import kronecker, optimized, ordered_hierarchy
from blowfishdb.mechanisms.identity import ShiftedRows
from blowfishdb.mechanisms.strategy import Mechanism, Strategy
from blowfishdb.model.aggregates import Blocks
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import ZERO, CellGraph
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.serialize import encode
from blowfishdb.model.workload import Kronecker, Rows, Sparse, Stacked, unchanged
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem

NAME = "joint"
COARSE = 1e6
MOST_WEIGHT = 2**40
FINENESS = 2**12
"""Groups of questions have their weights to one part in this many."""
FINEST_RUNNING = 16
"""Where running counts would weigh too much at a weight of 1, theirs is at least this, and other rows are heavier."""


@dataclass(frozen=True, eq=False)
class JointGroup:
    """Rows over cells of their own, which a mechanism measures at an epsilon, the `level`, if it were alone.

    `into` has a row for each of these cells, with a 1 for each common cell that lies in it; None where they are the
    common cells themselves.
    """

    graph: CellGraph
    rows: Rows
    mechanism: str
    propose: Mechanism
    level: Fraction
    into: csr_array | None = None

    @property
    def problem(self) -> Problem:
        """The group by itself."""
        return Problem(self.graph, self.rows)

    def lifted(self, rows: Rows) -> Rows:
        """Rows over the cells of the group, over the common cells."""
        if self.into is None:
            return rows
        return Sparse(csr_array(csr_array(sparse_columns(rows)) @ self.into))

    def fingerprint(self) -> bytes:
        """Bytes that determine the group."""
        into = (
            () if self.into is None else tuple(part.astype(np.int64) for part in (self.into.indptr, self.into.indices))
        )
        return encode((self.problem.fingerprint(), self.mechanism, self.level, *into))


@dataclass(frozen=True, eq=False)
class Groups(Stacked):
    """The rows of several questions over common cells, group by group."""

    groups: tuple[JointGroup, ...] = ()

    def fingerprint(self) -> bytes:
        return encode(("groups", *(group.fingerprint() for group in self.groups)))


def stacked(groups: tuple[JointGroup, ...]) -> Groups:
    """The workload of the groups."""
    return Groups(tuple(group.lifted(group.rows) for group in groups), groups)


def propose(problem: Problem) -> JointStrategy:
    """Serves tables of aggregates; rows that no edge of the policy changes are exact.

    Where no record can leave or be absent the total is exact, so along one axis each row may be shifted by a constant
    at no cost: it is shifted to begin at 0, which the certificate prices exactly for rising rows.
    """
    if isinstance(problem.workload, Groups):
        return _grouped(problem, problem.workload)
    if not isinstance(problem.workload, Blocks):
        raise Declined(NAME, "it serves tables of several aggregates, and several questions at once")
    labels = problem.graph.components()
    is_total_known = not np.any(labels == ZERO) and len(problem.graph.shape) == 1
    workload = problem.workload
    running = {
        place: _running(Problem(problem.graph, plain), times)
        for place, (plain, times) in enumerate(zip(workload.plain, workload.multipliers, strict=True))
        if workload.running[place]
    }
    lightest = min((weight for _, weight in running.values() if weight > 0.0), default=1.0)
    heavier = 1 if lightest >= 1.0 or len(running) == len(workload.parts) else math.ceil(FINEST_RUNNING / lightest)
    parts: list[DirectBlock | SharedBlock] = []
    for place, (rows, times) in enumerate(zip(workload.parts, workload.multipliers, strict=True)):
        if place not in running:
            parts.append(_measured(rows, labels, is_total_known, heavier))
            continue
        strategy, weight = running[place]
        parts.append(_shared(strategy, times, max(1, math.ceil(heavier * weight))))
    return JointStrategy(problem, tuple(parts))


def _grouped(problem: Problem, workload: Groups) -> JointStrategy:
    """Every group by its mechanism, with weights that leave it the noise of its level, or a little less."""
    strategies = [group.propose(group.problem) for group in workload.groups]
    rates = []
    for group, strategy in zip(workload.groups, strategies, strict=True):
        plan = strategy.plan(Fraction(1))
        if not isinstance(plan, Plan):
            raise Declined(NAME, f"{group.mechanism} adds noise on edges, which no other rows can share")
        rates.append(group.level / calibrate(plan, group.graph, Fraction(1))[0].unit)
    # Weights are whole numbers, rounded up: every group has at most the noise of its level.
    unit = 1 / rates[0] if len(rates) == 1 else FINENESS / min(rates)
    blocks = []
    for group, strategy, rate in zip(workload.groups, strategies, rates, strict=True):
        block = SharedBlock(strategy, 1, math.ceil(rate * unit), group)
        if block.noisy and block.weight * int(block.inner.weights.max()) > MOST_WEIGHT:
            raise Declined(NAME, "the accuracies of the questions lie too far apart for one plan; ask them one by one")
        blocks.append(block)
    return JointStrategy(problem, tuple(blocks), unit)


def _measured(rows: Rows, labels: Ints, is_total_known: bool, weight: int) -> DirectBlock:
    columns = sparse_columns(rows)
    is_exact = unchanged(columns, labels)
    shifts = np.zeros(rows.shape[0], dtype=np.int64)
    if is_total_known and not is_exact.all():
        dense = np.asarray(columns.toarray(), dtype=np.int64)
        shifts = dense.min(axis=1) * ~is_exact
        rows = Sparse(dense - shifts[:, None])
    return DirectBlock(shifts, is_exact, rows, weight)


def _running(problem: Problem, times: int) -> tuple[Strategy, float]:
    """The running counts of a block by the mechanism that serves them best, and a weight to match the other blocks.

    It is the least at which the worst running count, times its multiplier, is no noisier than a measured row of weight
    1; 0 where they are exact.
    """
    if len(problem.graph.shape) > 1:
        strategy: Strategy = kronecker.propose(problem)
    else:
        strategy = (
            ordered_hierarchy.propose_ordered(problem)
            if ordered_hierarchy.is_line(problem.graph)
            else optimized.propose(problem)
        )
    plan = strategy.plan(Fraction(1))
    if not isinstance(plan, Plan):
        raise Declined(NAME, "running counts are measured by rows here")
    if not plan.weights.size:
        return strategy, 0.0
    variances = 2.0 * (COARSE / plan.weights) ** 2
    spread = math.sqrt(float(strategy.answer_variances(variances).max()))
    return strategy, times * spread / (math.sqrt(2.0) * COARSE)


def _shared(strategy: Strategy, times: int, weight: int) -> SharedBlock:
    block = SharedBlock(strategy, times, weight)
    if block.noisy and weight * int(block.inner.weights.max()) > MOST_WEIGHT:
        raise Declined(NAME, "the accuracies of the columns lie too far apart for one plan; ask them one by one")
    return block


@dataclass(frozen=True, eq=False)
class DirectBlock(ShiftedRows):
    """Rows that are measured themselves, as parts of one plan, all with one weight."""

    rows: Rows
    weight: int = 1

    @cached_property
    def parts(self) -> tuple[Measurement | KroneckerMeasurement, ...]:
        """The noisy rows."""
        if self.is_exact.all():
            return ()
        if self.is_exact.any():
            return (Measurement(self._chosen(~self.is_exact), np.array([self.weight])),)
        if isinstance(self.rows, Kronecker):
            factors = tuple(Measurement(factor, np.ones(1, dtype=np.int64)) for factor in self.rows.factors)
            return (_heavier(KroneckerMeasurement(factors), self.weight),)
        return (Measurement(self.rows, np.array([self.weight])),)

    @cached_property
    def exact(self) -> Rows | None:
        """The exact rows, and the total that shifted rows need."""
        rows = [self._chosen(self.is_exact)] if self.is_exact.any() else []
        if np.any(self.shifts):
            rows.append(Sparse(np.ones((1, self.rows.shape[1]), dtype=np.int64)))
        return Stacked(tuple(rows)) if rows else None

    def _chosen(self, rows: Bools) -> Sparse:
        return Sparse(csr_array(sparse_columns(self.rows))[np.flatnonzero(rows)])

    @property
    def noisy(self) -> int:
        """The number of noise variables."""
        return int(np.count_nonzero(~self.is_exact))


@dataclass(frozen=True, eq=False)
class SharedBlock:
    """The answers of another mechanism, times `times`: its weights are multiplied by `weight`, its cells a group's."""

    strategy: Strategy
    times: int
    weight: int
    group: JointGroup | None = None

    @cached_property
    def inner(self) -> Plan:
        """The plan of the mechanism, over its own cells."""
        plan = self.strategy.plan(Fraction(1))
        if not isinstance(plan, Plan):
            raise Declined(NAME, "running counts are measured by rows here")
        return plan

    @cached_property
    def parts(self) -> tuple[Measurement | KroneckerMeasurement, ...]:
        """The noisy rows."""
        parts = tuple(_heavier(part, self.weight) for part in self.inner.parts)
        if self.group is None or self.group.into is None:
            return parts
        return tuple(Measurement(self.group.lifted(part.rows), part.weights) for part in parts)

    @property
    def exact(self) -> Rows | None:
        """The exact rows."""
        exact = self.inner.exact
        return exact if exact is None or self.group is None else self.group.lifted(exact)

    @property
    def noisy(self) -> int:
        """The number of noise variables."""
        return int(self.inner.weights.size)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answers of the block."""
        return self.times * self.strategy.decode(measured, exact, variances)

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        return float(self.times) ** 2 * self.strategy.answer_variances(variances)

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable of the block."""
        identity = np.eye(self.noisy)
        exact = np.zeros((0 if self.exact is None else self.exact.shape[0], self.noisy))
        return np.asarray(self.decode(identity, exact, variances))[queries]


def _heavier(part: Measurement | KroneckerMeasurement, weight: int) -> Measurement | KroneckerMeasurement:
    if isinstance(part, Measurement):
        return replace(part, weights=part.weights * weight)
    first, *others = part.factors
    return KroneckerMeasurement((replace(first, weights=first.weights * weight), *others))


@dataclass(frozen=True, eq=False)
class JointStrategy(Strategy):
    """The measurements of all blocks in one plan; the certificate adds up what they lose on each edge.

    At the `unit` each group of questions has the noise of its level.
    """

    problem: Problem
    blocks: tuple[DirectBlock | SharedBlock, ...]
    unit: Fraction = Fraction(1)

    mechanism = NAME

    @cached_property
    def direct(self) -> Ints | None:
        """The noise variable of each answer, where no block is read off a tree."""
        if not all(isinstance(block, DirectBlock) for block in self.blocks):
            return None
        noisy = np.concatenate([~block.is_exact for block in self.blocks if isinstance(block, DirectBlock)])
        return np.where(noisy, np.cumsum(noisy) - 1, -1).astype(np.int64)

    def plan(self, unit: Fraction) -> Plan:
        """The measurements, at the given noise level."""
        exact = tuple(block.exact for block in self.blocks if block.exact is not None)
        return Plan(
            unit, tuple(part for block in self.blocks for part in block.parts), Stacked(exact) if exact else None
        )

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Answers to the workload, block by block."""
        pieces = [
            block.decode(measured[noisy], exact[known], variances[noisy]) for block, noisy, known in self._pieces()
        ]
        return np.concatenate(pieces)

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        return np.concatenate([block.answer_variances(variances[noisy]) for block, noisy, _ in self._pieces()])

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        rows = np.zeros((queries.size, variances.size))
        start = 0
        for (block, noisy, _), part in zip(self._pieces(), self._sizes, strict=True):
            inside = np.flatnonzero((queries >= start) & (queries < start + part))
            rows[inside, noisy] = block.coefficients(queries[inside] - start, variances[noisy])
            start += part
        return rows

    @property
    def _sizes(self) -> list[int]:
        return (
            [part.shape[0] for part in self.problem.workload.parts]
            if isinstance(self.problem.workload, Stacked)
            else []
        )

    def piece(self, place: int) -> tuple[Strategy, slice, slice]:
        """The strategy of a group of questions, its noise variables, and its exact rows."""
        _, noisy, exact = list(self._pieces())[place]
        return self.shared(place).strategy, noisy, exact

    def shared(self, place: int) -> SharedBlock:
        """The block of a group of questions."""
        block = self.blocks[place]
        if not isinstance(block, SharedBlock):
            raise Declined(NAME, "the blocks of a table are not questions of their own")
        return block

    def _pieces(self) -> Iterator[tuple[DirectBlock | SharedBlock, slice, slice]]:
        """Each block with its noise variables and its exact rows."""
        noisy = known = 0
        for block in self.blocks:
            exact = 0 if block.exact is None else block.exact.shape[0]
            yield block, slice(noisy, noisy + block.noisy), slice(known, known + exact)
            noisy, known = noisy + block.noisy, known + exact
