"""Identity and direct: every cell measured once and summed, or the asked rows measured themselves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.strategy import LineStrategy, Strategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.workload import Identity, Intervals, Rows, Sparse, unchanged
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import Measurement, Plan, Problem

NAME = "identity"


def propose(problem: Problem) -> LineStrategy:
    """Serves every problem; cells that no edge of the policy touches are released exactly."""
    labels = problem.graph.components()
    counted = labels[labels != ZERO]
    alone = np.zeros(labels.size, dtype=np.bool_)
    alone[labels != ZERO] = (np.bincount(counted) == 1)[counted] if counted.size else False
    parent = np.where(alone, np.arange(labels.size), labels.size)
    return LineStrategy(
        NAME,
        problem,
        parent,
        _singles(np.flatnonzero(~alone), labels.size),
        _singles(np.flatnonzero(alone), labels.size),
    )


def _singles(chosen: Ints, cells: int) -> Rows | None:
    """One row for each of the chosen cells; None for none."""
    if chosen.size == cells:
        return Identity(cells)
    return Intervals(cells, chosen, chosen + 1) if chosen.size else None


DIRECT = "direct"
MOST_ROWS = 64
MOST_ENTRIES = 2**22


def propose_direct(problem: Problem) -> DirectStrategy:
    """Serves a few rows; rows that no edge of the policy changes are exact.

    Where no record can leave or be absent the total is exact, so each row may be shifted by a constant at no cost: it
    is shifted to begin at 0, which the certificate prices exactly for rising rows.
    """
    answers, cells = problem.workload.shape
    if isinstance(problem.workload, Identity):
        raise Declined(DIRECT, "every cell is asked for, which is what identity measures")
    if answers > MOST_ROWS or answers * cells > MOST_ENTRIES:
        raise Declined(DIRECT, f"it measures up to {MOST_ROWS} asked rows, each with its own noise")
    columns = sparse_columns(problem.workload)
    rows = np.asarray(columns.toarray(), dtype=np.int64)
    labels = problem.graph.components()
    is_total_known = not np.any(labels == ZERO)
    shifts = rows.min(axis=1) if is_total_known else np.zeros(answers, dtype=np.int64)
    return DirectStrategy(shifts, unchanged(columns, labels), problem, rows - shifts[:, None])


@dataclass(frozen=True, eq=False)
class ShiftedRows:
    """Answers measured themselves, less their `shifts` times the total; those that nothing changes are exact."""

    shifts: Ints
    is_exact: Bools

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answers; the last exact number is the total where anything is shifted."""
        del variances
        answers = np.empty((self.shifts.size, *measured.shape[1:]))
        answers[~self.is_exact] = measured
        answers[self.is_exact] = exact[: np.count_nonzero(self.is_exact)]
        return answers + np.multiply.outer(self.shifts, exact[-1]) if np.any(self.shifts) else answers

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        answers = np.zeros(self.shifts.size)
        answers[~self.is_exact] = variances
        return answers

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        noisy = np.flatnonzero(~self.is_exact)
        return np.asarray(queries[:, None] == noisy[None, :], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class DirectStrategy(ShiftedRows, Strategy):
    """One noise variable per row that the policy can change. `rows` are the asked ones less their `shifts`."""

    problem: Problem
    rows: Ints

    mechanism = DIRECT

    @cached_property
    def direct(self) -> Ints:
        return np.where(self.is_exact, -1, np.cumsum(~self.is_exact) - 1).astype(np.int64)

    def plan(self, unit: Fraction) -> Plan:
        noisy, exact = self.rows[~self.is_exact], self.rows[self.is_exact]
        parts = (Measurement(Sparse(noisy), np.ones(1, dtype=np.int64)),) if noisy.size else ()
        if np.any(self.shifts):
            exact = np.concatenate([exact, np.ones((1, self.rows.shape[1]), dtype=np.int64)])
        return Plan(unit, parts, Sparse(exact) if exact.size else None)
