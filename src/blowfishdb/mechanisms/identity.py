"""Identity: measures every cell once and sums what it measured."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.mechanisms.strategy import chosen_rows, column_energies, distinct, is_zero_one, squared
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Rows, as_intervals
from blowfishdb.plan.plan import Measurement, Plan, Problem

NAME = "identity"


def propose(problem: Problem) -> IdentityStrategy:
    """Serves every problem; cells that no edge of the policy touches are released exactly."""
    labels = problem.graph.components()
    counted = labels[labels != ZERO]
    alone = np.zeros(labels.size, dtype=np.bool_)
    alone[labels != ZERO] = (np.bincount(counted) == 1)[counted] if counted.size else False
    return IdentityStrategy(problem, np.flatnonzero(~alone), np.flatnonzero(alone))


@dataclass(frozen=True, eq=False)
class IdentityStrategy:
    """One noise variable per cell of `noisy`, in increasing order; the cells of `alone` are exact."""

    problem: Problem
    noisy: Ints
    alone: Ints

    @property
    def mechanism(self) -> str:
        return NAME

    @cached_property
    def direct(self) -> Ints | None:
        spans = None if isinstance(self.problem.workload, AllRanges) else as_intervals(self.problem.workload)
        if spans is None:
            return None
        noisy_before = np.concatenate([[0], np.cumsum(self._is_noisy)])
        first, count = noisy_before[spans.low], noisy_before[spans.high] - noisy_before[spans.low]
        return np.where(count == 1, first, -1) if np.all(count <= 1) else None

    @property
    def has_fixed_coefficients(self) -> bool:
        """The answers combine the noise in one way, whatever its variances."""
        return True

    def plan(self, unit: Fraction) -> Plan:
        cells = self.problem.graph.cells
        parts = (Measurement(_singles(cells, self.noisy), np.ones(1, dtype=np.int64)),) if self.noisy.size else ()
        return Plan(unit, parts, _singles(cells, self.alone) if self.alone.size else None)

    def estimate_cells(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The measured counts in the order of the cells; takes vectors or column matrices."""
        del variances
        cells = np.empty((self.problem.graph.cells, *measured.shape[1:]))
        cells[self.noisy] = measured
        cells[self.alone] = exact
        return cells

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        return np.asarray(self.problem.workload.dot(self.estimate_cells(measured, exact, variances)))

    def answer_variances(self, variances: Floats) -> Floats:
        return np.asarray(squared(self.problem.workload).dot(self._cell_variances(variances)))

    def total_variance(self, variances: Floats) -> float:
        """The summed expected squared error of all answers."""
        return float(column_energies(self.problem.workload) @ self._cell_variances(variances))

    def coefficients(self, queries: Ints, variances: Floats) -> Floats:
        """For each of the given answers its coefficient on every noise variable."""
        del variances
        return chosen_rows(self.problem.workload, queries)[:, self.noisy].astype(np.float64)

    def answer_terms(self) -> Ints | None:
        """How many variables each answer adds up; None when entries are not 0 or 1."""
        workload = self.problem.workload
        return np.asarray(workload.dot(self._is_noisy)) if is_zero_one(workload) else None

    def term_counts(self) -> tuple[Ints, Ints] | None:
        """How many variables an answer adds up, and how many answers do so; all ranges are never listed."""
        if isinstance(self.problem.workload, AllRanges):
            return _terms_of_all_ranges(self._is_noisy)
        terms = self.answer_terms()
        return None if terms is None else distinct(terms)

    @property
    def _is_noisy(self) -> Ints:
        mask = np.zeros(self.problem.graph.cells, dtype=np.int64)
        mask[self.noisy] = 1
        return mask

    def _cell_variances(self, variances: Floats) -> Floats:
        spread = np.zeros(self.problem.graph.cells)
        spread[self.noisy] = variances
        return spread


def _singles(cells: int, chosen: Ints) -> Rows:
    return Identity(cells) if chosen.size == cells else Intervals(cells, chosen, chosen + 1)


def _terms_of_all_ranges(is_noisy: Ints) -> tuple[Ints, Ints] | None:
    """Ranges by length when every cell is noisy; otherwise too many cases to be worth it."""
    if not np.all(is_noisy):
        return None
    length = np.arange(1, is_noisy.size + 1)
    return length, length[::-1].copy()
