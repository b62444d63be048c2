"""Joint: all blocks of a table in one plan, counts and sums measured as they are, running counts by a tree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import Declined
from blowfishdb.mechanisms import kronecker, optimized, ordered
from blowfishdb.mechanisms.direct import ShiftedRows
from blowfishdb.mechanisms.strategy import Strategy
from blowfishdb.model.aggregates import Blocks, unchanged
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.workload import Kronecker, Rows, Sparse, Stacked
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import KroneckerMeasurement, Measurement, Plan, Problem

NAME = "joint"
COARSE = 1e6
MOST_WEIGHT = 2**40


def propose(problem: Problem) -> JointStrategy:
    """Serves tables of aggregates; rows that no edge of the policy changes are exact.

    Where no record can leave or be absent the total is exact, so along one axis each row may be shifted by a constant
    at no cost: it is shifted to begin at 0, which the certificate prices exactly for rising rows.
    """
    if not isinstance(problem.workload, Blocks):
        raise Declined(NAME, "it serves tables of several aggregates")
    labels = problem.graph.components()
    is_total_known = not np.any(labels == ZERO) and len(problem.graph.shape) == 1
    parts: list[MeasuredBlock | RunningBlock] = []
    workload = problem.workload
    for rows, plain, is_running, times in zip(
        workload.parts, workload.plain, workload.running, workload.multipliers, strict=True
    ):
        if is_running:
            parts.append(_running(Problem(problem.graph, plain), times))
        else:
            parts.append(_measured(rows, labels, is_total_known))
    return JointStrategy(problem, tuple(parts))


def _measured(rows: Rows, labels: Ints, is_total_known: bool) -> MeasuredBlock:
    columns = sparse_columns(rows)
    is_exact = unchanged(columns, labels)
    shifts = np.zeros(rows.shape[0], dtype=np.int64)
    if is_total_known and not is_exact.all():
        dense = np.asarray(columns.toarray(), dtype=np.int64)
        shifts = dense.min(axis=1) * ~is_exact
        rows = Sparse(dense - shifts[:, None])
    return MeasuredBlock(shifts, is_exact, rows)


def _running(problem: Problem, times: int) -> RunningBlock:
    """The running counts of a block by the mechanism that serves them best, with a weight to match the other blocks.

    The weight is the least at which the worst running count, times its multiplier, is no noisier than a measured row.
    """
    if len(problem.graph.shape) > 1:
        strategy: Strategy = kronecker.propose(problem)
    else:
        strategy = ordered.propose(problem) if ordered.is_line(problem.graph) else optimized.propose(problem)
    plan = strategy.plan(Fraction(1))
    if not isinstance(plan, Plan):
        raise Declined(NAME, "running counts are measured by rows here")
    weight = 1
    if plan.weights.size:
        variances = 2.0 * (COARSE / plan.weights) ** 2
        spread = math.sqrt(float(strategy.answer_variances(variances).max()))
        weight = max(1, math.ceil(times * spread / (math.sqrt(2.0) * COARSE)))
        if weight * int(plan.weights.max()) > MOST_WEIGHT:
            raise Declined(NAME, "the accuracies of the columns lie too far apart for one plan; ask them one by one")
    return RunningBlock(strategy, times, weight)


@dataclass(frozen=True, eq=False)
class MeasuredBlock(ShiftedRows):
    """Rows that are measured themselves, as parts of one plan."""

    rows: Rows

    @cached_property
    def parts(self) -> tuple[Measurement | KroneckerMeasurement, ...]:
        """The noisy rows."""
        if self.is_exact.all():
            return ()
        if self.is_exact.any():
            return (Measurement(self._chosen(~self.is_exact), np.ones(1, dtype=np.int64)),)
        if isinstance(self.rows, Kronecker):
            factors = tuple(Measurement(factor, np.ones(1, dtype=np.int64)) for factor in self.rows.factors)
            return (KroneckerMeasurement(factors),)
        return (Measurement(self.rows, np.ones(1, dtype=np.int64)),)

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
class RunningBlock:
    """Running counts by another mechanism, whose weights are multiplied by `weight` and its answers by `times`."""

    strategy: Strategy
    times: int
    weight: int

    @cached_property
    def _plan(self) -> Plan:
        plan = self.strategy.plan(Fraction(1))
        if not isinstance(plan, Plan):
            raise Declined(NAME, "running counts are measured by rows here")
        return plan

    @cached_property
    def parts(self) -> tuple[Measurement | KroneckerMeasurement, ...]:
        """The noisy rows."""
        return tuple(_heavier(part, self.weight) for part in self._plan.parts)

    @property
    def exact(self) -> Rows | None:
        """The exact rows."""
        return self._plan.exact

    @property
    def noisy(self) -> int:
        """The number of noise variables."""
        return int(self._plan.weights.size)

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
class JointStrategy:
    """The measurements of all blocks in one plan; the certificate adds up what they lose on each edge."""

    problem: Problem
    blocks: tuple[MeasuredBlock | RunningBlock, ...]

    mechanism = NAME

    @cached_property
    def direct(self) -> Ints | None:
        """The noise variable of each answer, where no block is read off a tree."""
        if not all(isinstance(block, MeasuredBlock) for block in self.blocks):
            return None
        noisy = np.concatenate([~block.is_exact for block in self.blocks if isinstance(block, MeasuredBlock)])
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

    def _pieces(self) -> Iterator[tuple[MeasuredBlock | RunningBlock, slice, slice]]:
        """Each block with its noise variables and its exact rows."""
        noisy = known = 0
        for block in self.blocks:
            exact = 0 if block.exact is None else block.exact.shape[0]
            yield block, slice(noisy, noisy + block.noisy), slice(known, known + exact)
            noisy, known = noisy + block.noisy, known + exact
