"""The variances of running totals are those of the strategies that answer them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.mechanisms import cell_noise, edge_transform, hierarchy, identity, optimized, ordered
from blowfishdb.mechanisms.cell_noise import running_variances
from blowfishdb.mechanisms.strategy import Strategy, row_variances
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.plan.plan import Problem

CELLS = 300
PROPOSALS = [edge_transform.propose, hierarchy.propose, identity.propose, optimized.propose, ordered.propose]


def line(theta: int, presence: str = "public") -> CellGraph:
    reach = np.minimum(np.arange(CELLS) + theta, CELLS - 1)
    return CellGraph((WindowGraph(reach, np.empty(0, dtype=np.int64)),), "record", np.array(False), presence)


@pytest.mark.parametrize("theta", [1, 4])
@pytest.mark.parametrize("propose", PROPOSALS, ids=lambda propose: propose.__module__.rpartition(".")[2])
def test_running_totals_vary_as_the_noise_that_is_in_them(propose: Callable[[Problem], Strategy], theta: int) -> None:
    strategy = propose(Problem(line(theta), Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    variances = row_variances(plan)
    found = running_variances(strategy, plan, variances)
    assert found is not None
    exact = getattr(plan, "exact", None)
    none = np.zeros((0 if exact is None else exact.shape[0], variances.size))
    coefficients = np.cumsum(strategy.decode(np.eye(variances.size), none, variances), axis=0)
    assert found == pytest.approx(coefficients**2 @ variances, rel=1e-6, abs=1e-6)
    if propose is not identity.propose:
        assert found[99] != pytest.approx(strategy.answer_variances(variances)[:100].sum(), rel=0.01)


def test_running_sums_are_measured_one_by_one() -> None:
    strategy = ordered.propose(Problem(line(1), Prefix(CELLS)))
    plan = strategy.plan(Fraction(5))
    assert running_variances(strategy, plan, row_variances(plan)) == pytest.approx(
        np.append(np.full(CELLS - 1, 50.0), 0)
    )


def test_large_tables_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_noise, "MOST_WRITTEN_OUT", CELLS - 2)
    strategy = edge_transform.propose(Problem(line(1), Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    assert running_variances(strategy, plan, row_variances(plan)) is None
