"""Buckets found from the top down: exact chances on tiny tables, a statistical check, and where blocks are cut."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PlanError
from blowfishdb.mechanisms.data_aware.partition import (
    KEEP,
    MERGE,
    CutRule,
    L1Gate,
    L1Refinement,
    block_sizes,
    deviations,
    l1_gate,
    l1_refinement,
    range_refinement,
    running_deviations,
)
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Ints
from blowfishdb.noise.distribution import pmf
from blowfishdb.plan.program import RefinementNoise


def graph(cells: int, presence: str = "only") -> CellGraph:
    window = WindowGraph(np.full(cells, cells - 1), np.empty(0, np.int64))
    return CellGraph((window,), "record", np.array(False), presence)  # type: ignore[arg-type]


def quiet(stage: L1Refinement) -> Ints:
    return np.zeros(int(stage.noise.sizes[0]), dtype=np.int64)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.sampled_from([2, 4, 16]))
def test_deviations_are_the_least_sums_of_distances(counts: list[int], size: int) -> None:
    found = deviations(np.array(counts), size)
    blocks = [counts[start : start + size] for start in range(0, len(counts), size)]
    assert found.tolist() == [min(sum(abs(x - c) for x in block) for c in block) for block in blocks]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.data())
def test_one_record_moves_each_deviation_by_at_most_one_and_parts_never_deviate_more(
    counts: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = counts.copy()
    more[place] += 1
    for size in (4, 16):
        change = deviations(np.array(more), size) - deviations(np.array(counts), size)
        assert np.abs(change).max() <= 1
        assert np.flatnonzero(change).tolist() in ([], [place // size])
    whole = np.repeat(deviations(np.array(counts), 16), 4)
    part = deviations(np.array(counts), 4)
    assert np.all(part <= whole[: part.size])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.sampled_from([3, 4, 16]))
def test_running_deviations_are_the_least_spreads_around_a_line(counts: list[int], size: int) -> None:
    blocks = [counts[start : start + size] for start in range(0, len(counts), size)]
    assert running_deviations(np.array(counts), size).tolist() == [least_spread(block) for block in blocks]


def least_spread(block: list[int]) -> int:
    """By trying every line through two of the running totals: the best one is among them."""
    totals = list(itertools.accumulate(block, initial=0))
    slopes = {Fraction(totals[j] - totals[i], j - i) for i, j in itertools.combinations(range(len(totals)), 2)}
    around = [[total - slope * place for place, total in enumerate(totals)] for slope in slopes]
    return math.floor(min(max(each) - min(each) for each in around))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.data())
def test_one_record_moves_each_score_for_ranges_by_at_most_one_and_parts_never_score_more(
    counts: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = counts.copy()
    more[place] += 1
    stage = range_refinement(len(counts), graph(len(counts)), Fraction(1))
    above = None
    for size in stage.blocks:
        scores = stage.scores(np.array(counts), size)
        change = stage.scores(np.array(more), size) - scores
        assert np.abs(change).max() <= 1
        assert np.flatnonzero(change).tolist() in ([], [place // size])
        running = running_deviations(np.array(counts), size)
        assert np.all(running > np.array(error_of_ranges(counts, size)) - 1 - 1e-9)
        if above is not None:
            assert np.all(scores <= np.repeat(above, 4)[: scores.size])
        above = scores


def error_of_ranges(counts: list[int], size: int) -> list[float]:
    """For each block the most that a range which ends inside it is wrong by when its count is spread evenly."""
    errors = []
    for start in range(0, len(counts), size):
        block = counts[start : start + size]
        totals = list(itertools.accumulate(block, initial=0))
        errors.append(max(abs(total - totals[-1] * k / len(block)) for k, total in enumerate(totals)))
    return errors


def test_huge_counts_are_cut_off_before_they_overflow() -> None:
    counts = np.zeros(4096, dtype=np.int64)
    counts[1::2] = 2**62
    assert running_deviations(counts, 4096).tolist() == [2**60 // 4096**2 // 2]


def test_a_table_that_is_even_is_one_bucket_for_ranges() -> None:
    stage = range_refinement(4096, graph(4096), Fraction(1, 10))
    assert stage.choose(np.full(4096, 7), np.full(int(stage.noise.sizes[0]), -1000)).tolist() == [0]
    assert stage.digest() != l1_refinement(4096, graph(4096), Fraction(1, 10)).digest()


def outcome_chances(stage: L1Refinement, counts: Ints, reach: int = 40) -> dict[tuple[int, ...], float]:
    """The exact chance of each partition of eight cells (two blocks), by running the stage on every pair of draws."""
    draws = np.arange(-reach, reach + 1)
    weights = pmf(float(stage.noise.unit), draws)
    found: Counter[tuple[int, ...]] = Counter()
    for (one, first), (two, second) in itertools.product(zip(draws, weights, strict=True), repeat=2):
        found[tuple(stage.choose(counts, np.array([one, two])).tolist())] += float(first * second)
    return found


def exact_loss(unit: Fraction) -> float:
    """The largest log-ratio over a few neighbouring tables of eight cells."""
    stage = L1Refinement(8, RefinementNoise(unit, np.array([2]), 2, 1, 2))
    tables = [np.array([0, 0, 0, a, 5, 5, 5, 5]) for a in (1, 2)]
    chances = [outcome_chances(stage, table) for table in tables]
    assert all(math.isclose(sum(chance.values()), 1, abs_tol=1e-6) for chance in chances)
    pairs = [*itertools.pairwise(chances), *((two, one) for one, two in itertools.pairwise(chances))]
    return max(abs(math.log(one[key] / two[key])) for one, two in pairs for key in one)


@pytest.mark.nightly
def test_exact_chances_of_two_blocks_stay_within_the_loss_and_attain_it() -> None:
    unit = Fraction(2)
    claimed = float(L1Refinement(8, RefinementNoise(unit, np.array([2]), 2, 1, 2)).epsilon(graph(8)))
    assert claimed == 0.5
    assert 0.999 * claimed <= exact_loss(unit) <= claimed + 1e-6
    assert exact_loss(Fraction(3, 2)) > 1.3 * claimed


def path_counts(stage: L1Refinement, extra: int) -> Ints:
    """65 cells of which the first block of 64 lies just below its threshold."""
    counts = np.zeros(65, dtype=np.int64)
    counts[0] = stage.noise.first - 1 + extra
    return counts


def frequencies(stage: L1Refinement, counts: Ints, unit: Fraction, seed: int, runs: int = 3000) -> Counter[int]:
    """How often the first block is kept, and how often cut, when the noise has the given scale."""
    generator = np.random.default_rng(seed)
    stop = -math.expm1(-1 / float(unit))
    size = int(stage.noise.sizes[0])
    draws = generator.geometric(stop, (runs, size)) - generator.geometric(stop, (runs, size))
    return Counter(int(16 in stage.choose(counts, one)) for one in draws)


def largest_ratio(stage: L1Refinement, unit: Fraction) -> float:
    """A lower confidence bound (5 standard errors) of the largest log-ratio between two neighbours."""
    one = frequencies(stage, path_counts(stage, 0), unit, 1)
    two = frequencies(stage, path_counts(stage, 1), unit, 2)
    return max(abs(math.log(one[key] / two[key])) - 5 * math.sqrt(1 / one[key] + 1 / two[key]) for key in (0, 1))


def test_neighbours_of_64_cells_are_told_apart_no_better_than_claimed() -> None:
    stage = l1_refinement(65, graph(65), Fraction(1, 2))
    assert largest_ratio(stage, stage.noise.unit) <= 0.5
    assert largest_ratio(stage, stage.noise.unit / 3) > 0.5


@pytest.mark.parametrize("presence", ["only", "public", "secret"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(3, 20), Fraction(2)])
def test_the_noise_found_costs_just_less_than_allowed(presence: str, epsilon: Fraction) -> None:
    stage = l1_refinement(1000, graph(1000, presence), epsilon)
    assert Fraction(96, 100) * epsilon <= stage.epsilon(graph(1000, presence)) <= epsilon


def test_even_stretches_stay_whole_and_spikes_are_isolated() -> None:
    counts = np.full(300, 7)
    counts[130] = 10**6
    stage = l1_refinement(300, graph(300), Fraction(1))
    starts = stage.choose(counts, quiet(stage))
    assert starts[0] == 0
    assert {128, 129, 130, 131}.issubset(starts.tolist())
    assert starts.size < 15
    assert stage.choose(np.full(300, 7), quiet(stage)).tolist() == [0, 256]


@given(st.integers(1, 70), st.data())
def test_buckets_are_runs_that_begin_at_the_first_cell(cells: int, data: st.DataObject) -> None:
    stage = l1_refinement(cells, graph(cells), Fraction(1))
    size = int(stage.noise.sizes[0])
    draws = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size)))
    counts = np.array(data.draw(st.lists(st.integers(0, 50), min_size=cells, max_size=cells)))
    starts = stage.choose(counts, draws)
    assert starts[0] == 0
    assert np.all(np.diff(starts) > 0)
    assert starts[-1] < cells


def test_digests_differ_with_the_cells_and_the_noise() -> None:
    stage = l1_refinement(64, graph(64), Fraction(1))
    digests = {stage.digest(), replace(stage, cells=63).digest(), l1_refinement(64, graph(64), Fraction(2)).digest()}
    assert len(digests) == 3
    assert block_sizes(64) == (16, 4)


def test_the_gate_keeps_cells_where_most_blocks_are_uneven() -> None:
    gate = l1_gate(256, graph(256), Fraction(1, 10), block=16, cap=50, share=0.5)
    assert gate.epsilon(graph(256)) == Fraction(1, 10)
    assert gate.epsilon(graph(256, "public")) == Fraction(2, 10)
    rough, even = np.tile([0, 100], 128), np.full(256, 9)
    none = np.zeros(1, dtype=np.int64)
    assert gate.choose(rough, none).tolist() == [KEEP]
    assert gate.choose(even, none).tolist() == [MERGE]
    assert gate.digest() != replace(gate, cap=51).digest()


def gate_loss(unit: Fraction) -> float:
    """The exact largest log-ratio of the gate between two neighbours near the threshold."""
    gate, q = L1Gate(16, 16, 100, 10, unit), math.exp(-1 / unit)
    law = {draw: q ** abs(draw) * (1 - q) / (1 + q) for draw in range(-400, 401)}
    chances = []
    for uneven in range(6, 15):
        counts = np.zeros(16, dtype=np.int64)
        counts[0] = uneven
        kept = sum(chance for draw, chance in law.items() if gate.choose(counts, np.array([draw]))[0] == KEEP)
        chances.append((kept, 1 - kept))
    return max(abs(math.log(p / q)) for a, b in itertools.pairwise(chances) for p, q in zip(a, b, strict=True))


def test_the_gate_loses_no_more_than_it_claims() -> None:
    claimed = float(L1Gate(16, 16, 100, 10, Fraction(4)).epsilon(graph(16)))
    assert claimed == 0.25
    assert 0.99 * claimed <= gate_loss(Fraction(4)) <= claimed + 1e-9
    assert gate_loss(Fraction(36, 10)) > claimed


@given(st.floats(-5, 20), st.floats(0.01, 10), st.floats(0, 20), st.sampled_from(["only", "public"]))
def test_whatever_the_rule_the_noise_pays_for_it(first: float, spacing: float, clip: float, presence: str) -> None:
    allowed = Fraction(1, 7)
    stage = l1_refinement(200, graph(200, presence), allowed, CutRule(first, spacing, clip))
    assert Fraction(9, 10) * allowed <= stage.epsilon(graph(200, presence)) <= allowed


def test_senseless_rules_are_refused() -> None:
    for spacing, clip in ((0.0, 1.0), (1.0, -0.1)):
        with pytest.raises(PlanError):
            CutRule(0.0, spacing, clip)


@given(st.integers(2, 64), st.floats(0.5, 1e4), st.floats(0.01, 2))
def test_whatever_its_limits_the_gate_costs_its_allowance(block: int, cap: float, share: float) -> None:
    assert l1_gate(100, graph(100), Fraction(1, 9), block, cap, share).epsilon(graph(100)) == Fraction(1, 9)
