"""Histograms read off noisy running sums, and the variances of running totals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms import edge_transform, identity, optimized, ordered_hierarchy
from blowfishdb.mechanisms import strategy as strategies
from blowfishdb.mechanisms.data_aware import dawa
from blowfishdb.mechanisms.data_aware.dawa import RUN_RULE, RunRule, even_runs
from blowfishdb.mechanisms.strategy import Strategy, row_variances
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.plan.plan import Problem


def noisy_sums(counts: Ints, scale: float, seed: int) -> tuple[Floats, float]:
    sums = np.cumsum(counts).astype(np.float64)
    noise = np.random.default_rng(seed).laplace(0, scale, counts.size - 1)
    return sums[:-1] + noise, float(sums[-1])


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40))
def test_without_noise_the_cells_come_back(counts: list[int]) -> None:
    sums = np.cumsum(counts).astype(np.float64)
    found = even_runs(sums[:-1], float(sums[-1]), 1e-9)
    assert found.cells == pytest.approx(np.array(counts, dtype=np.float64), abs=1e-3)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=70), st.integers(0, 100))
def test_cells_are_counts_of_the_total_and_even_inside_their_buckets(counts: list[int], seed: int) -> None:
    sums, total = noisy_sums(np.array(counts), 5.0, seed)
    found = even_runs(sums, total, 50.0)
    assert found.cells.sum() == pytest.approx(total)
    assert found.cells.min() >= -1e-9
    assert found.starts[0] == 0
    assert np.all(np.diff(found.starts) > 0)
    for bucket in np.split(found.cells, found.starts[1:]):
        assert np.ptp(bucket) == pytest.approx(0, abs=1e-9)


def to_line(path: Floats, low: int, high: int) -> float:
    """Squared distance of the sums low..high to the nearest line, which meets the first and the last sum of all."""
    place = np.arange(low, high + 1)
    exact = [end for end in (0, path.size - 1) if low <= end <= high]
    weights = np.where(np.isin(place, exact), 1e6, 1.0)
    fitted = np.polyval(np.polyfit(place, path[low : high + 1], 1, w=weights), place)
    return float(np.sum((path[low : high + 1] - fitted) ** 2))


def to_level(path: Floats, low: int, high: int) -> float:
    points = path[low : high + 1]
    level = path[0] if low == 0 else path[-1] if high == path.size - 1 else points.mean()
    return float(np.sum((points - level) ** 2))


def cheapest(path: Floats, penalty: float, start: int, length: int) -> tuple[float, set[int]]:
    """The least cost of the block from `start` on and where its buckets start, by trying everything."""
    end = min(start + length, path.size - 1)
    options = [(penalty + (to_line(path, start, end) if length > 1 else 0.0), {start})]
    if length > 1:
        for cell in range(start, end):
            apart = to_level(path, start, cell) + to_level(path, cell + 1, end)
            options.append((2.0 * penalty + apart, {start, cell, min(cell + 1, end)} - {end}))
        cost, starts = cheapest(path, penalty, start, length // 2)
        if start + length // 2 < end:
            further, more = cheapest(path, penalty, start + length // 2, length // 2)
            cost, starts = cost + further, starts | more
        options.append((cost, starts))
    return min(options, key=lambda option: option[0])


@pytest.mark.parametrize(("cells", "seed"), list(itertools.product((1, 2, 3, 7, 8, 13, 32), range(4))))
def test_the_blocks_are_the_cheapest_ones(cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.exponential(3, cells) * (rng.random(cells) < 0.4)
    path = np.concatenate([[0.0], np.cumsum(counts)]) + rng.normal(0, 0.5, cells + 1)
    length = 1
    while length < cells:
        length *= 2
    _, starts = cheapest(path, 2.0, 0, length)
    rule = RunRule(2.0, 4.0, 0.0, 0.0, meets_ends=True)
    assert dawa._best_blocks(path, 1.0, rule).tolist() == sorted(starts)


def test_one_cell_in_an_empty_stretch_is_found_where_it_is() -> None:
    counts = np.zeros(1000, dtype=np.int64)
    counts[[77, 610]] = 900, 400
    sums, total = noisy_sums(counts, 20.0, 5)
    found = even_runs(sums, total, 2 * 20.0**2)
    assert found.starts.size < 14
    assert abs(found.cells[77] - 900) < 40
    assert abs(found.cells[610] - 400) < 40


def test_the_broken_line_is_the_nearest_one() -> None:
    rng = np.random.default_rng(2)
    sums, total, knots = rng.normal(0, 4, 19).cumsum(), 30.0, np.array([0, 3, 4, 11, 20])
    heights = dawa._spline(sums, total, knots)
    place = np.arange(1, 20)

    def distance(inner: Floats) -> float:
        return float(np.sum((np.interp(place, knots, [0.0, *inner, total]) - sums) ** 2))

    for nudge in np.eye(3):
        assert distance(heights) < min(distance(heights + 0.01 * nudge), distance(heights - 0.01 * nudge))


def test_even_stretches_cost_far_less_than_raw_differences() -> None:
    counts = np.repeat([0, 90, 4, 0], 512)
    errors = []
    for seed in range(5):
        sums, total = noisy_sums(counts, 100.0, seed)
        found = even_runs(sums, total, 2 * 100.0**2)
        errors.append(float(np.mean((found.cells - counts) ** 2)))
        assert found.starts.size < 40
    assert np.mean(errors) < 0.01 * 4 * 100.0**2


def test_rough_counts_are_left_as_they_are() -> None:
    counts = np.random.default_rng(1).integers(0, 2000, 2048)
    sums, total = noisy_sums(counts, 100.0, 3)
    found = even_runs(sums, total, 2 * 100.0**2)
    assert found.starts.size == counts.size
    assert float(np.mean((found.cells - counts) ** 2)) < 4 * 100.0**2


def test_a_lower_penalty_would_follow_the_noise() -> None:
    counts = np.full(2048, 300)
    sums, total = noisy_sums(counts, 100.0, 4)
    calm = even_runs(sums, total, 2 * 100.0**2, replace(RUN_RULE, penalty=5.0, step_penalty=10.0))
    nervous = even_runs(sums, total, 2 * 100.0**2, replace(RUN_RULE, penalty=0.5, step_penalty=1.0))
    assert nervous.starts.size > 20 * calm.starts.size


def test_senseless_rules_are_refused() -> None:
    for wrong in ((0.0, 1.0, 1.0, 0.5), (2.0, 1.0, 1.0, 0.5), (2.0, 4.0, -1.0, 0.5), (2.0, 4.0, 1.0, -0.5)):
        with pytest.raises(PlanError):
            RunRule(*wrong, meets_ends=True)


def test_ends_are_met_where_the_rule_says_so() -> None:
    path = np.array([0.0, 10.0, 11.0, 12.0, 13.0])
    free, met = (RunRule(25.0, 999.0, 0.0, 0.0, meets_ends=met) for met in (False, True))
    assert dawa._best_blocks(path, 1.0, free).tolist() == [0]
    assert dawa._best_blocks(path, 1.0, met).tolist() == [0, 2]


CELLS = 300
PROPOSALS = [
    edge_transform.propose,
    ordered_hierarchy.propose_hierarchy,
    identity.propose,
    optimized.propose,
    ordered_hierarchy.propose_ordered,
]


def line(theta: int, presence: str = "public") -> CellGraph:
    reach = np.minimum(np.arange(CELLS) + theta, CELLS - 1)
    return CellGraph((WindowGraph(reach, np.empty(0, dtype=np.int64)),), "record", np.array(False), presence)


@pytest.mark.parametrize("theta", [1, 4])
@pytest.mark.parametrize("propose", PROPOSALS, ids=lambda propose: propose.__module__.rpartition(".")[2])
def test_running_totals_vary_as_the_noise_that_is_in_them(propose: Callable[[Problem], Strategy], theta: int) -> None:
    strategy = propose(Problem(line(theta), Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    variances = row_variances(plan)
    found = strategy.running_variances(variances)
    assert found is not None
    exact = getattr(plan, "exact", None)
    none = np.zeros((0 if exact is None else exact.shape[0], variances.size))
    coefficients = np.cumsum(strategy.decode(np.eye(variances.size), none, variances), axis=0)
    assert found == pytest.approx(coefficients**2 @ variances, rel=1e-6, abs=1e-6)
    if propose is not identity.propose:
        assert found[99] != pytest.approx(strategy.answer_variances(variances)[:100].sum(), rel=0.01)


def test_running_sums_are_measured_one_by_one() -> None:
    strategy = ordered_hierarchy.propose_ordered(Problem(line(1), Prefix(CELLS)))
    plan = strategy.plan(Fraction(5))
    assert strategy.running_variances(row_variances(plan)) == pytest.approx(np.append(np.full(CELLS - 1, 50.0), 0))


def test_large_tables_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "MOST_WRITTEN_OUT", CELLS - 2)
    strategy = edge_transform.propose(Problem(line(1), Identity(CELLS)))
    plan = strategy.plan(Fraction(5))
    assert strategy.running_variances(row_variances(plan)) is None
