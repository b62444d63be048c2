"""The L1 partition: exact chances on three and four cells, costs against their definition, and where ties go."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import PlanError, TooLarge
from blowfishdb.model.graphs import CellGraph, WindowGraph
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise.distribution import pmf
from papers.baselines.printed_dawa import Candidates, L1Partition, l1_partition


def graph(cells: int, presence: str = "only") -> CellGraph:
    window = WindowGraph(np.full(cells, cells - 1), np.empty(0, np.int64))
    return CellGraph((window,), "record", np.array(False), presence)  # type: ignore[arg-type]


def coarse(cells: int, candidates: Candidates, epsilon: str, one_sided: bool) -> L1Partition:
    """A stage with costs in whole numbers, so that its chances can be added up."""
    stage = L1Partition(cells, candidates, Fraction(1), Fraction(0), one_sided, grid=1)
    return replace(stage, unit=stage.epsilon(graph(cells)) / Fraction(epsilon))


def partitions(stage: L1Partition) -> list[tuple[tuple[int, ...], list[int]]]:
    """Every candidate as its first cells and its items, in the order in which ties are settled."""
    item = {
        (length, place * step): offset + place
        for length, step, offset, end in zip(stage.lengths, stage.steps, stage.offsets, stage.offsets[1:], strict=False)
        for place in range(end - offset)
    }
    found = []
    for cuts in itertools.product((False, True), repeat=stage.cells - 1):
        starts = (0, *(place + 1 for place, cut in enumerate(cuts) if cut))
        lengths = [b - a for a, b in itertools.pairwise((*starts, stage.cells))]
        keys = list(zip(lengths, starts, strict=True))
        if all(key in item for key in keys):
            found.append((starts, [item[key] for key in keys], tuple(reversed(lengths))))
    return [(starts, items) for starts, items, _ in sorted(found, key=lambda one: one[2])]


def class_noise(stage: L1Partition, sign: int) -> list[tuple[Ints, Floats]]:
    """The values and chances of each item's noise, out to 11 scales."""
    found = []
    for weight, size in zip(stage.noise.weights, stage.noise.sizes, strict=True):
        scale = float(stage.unit) / int(weight)
        reach = math.ceil(11 * scale)
        if stage.one_sided:
            values = np.arange(reach + 1)
            chances = np.exp(-values / scale) * -math.expm1(-1 / scale)
        else:
            values = np.arange(-reach, reach + 1)
            chances = pmf(scale, values)
        found.extend([(sign * values, chances)] * int(size))
    return found


def outcome_chances(stage: L1Partition, counts: tuple[int, ...], sign: int = 1) -> Floats:
    """The exact chance of each candidate, over all values of all noise variables."""
    noise = class_noise(stage, sign)
    costs = stage.costs(np.array(counts))
    axes = len(noise)
    values = [v.reshape([-1 if k == axis else 1 for k in range(axes)]) for axis, (v, _) in enumerate(noise)]
    weight: Floats = np.ones([1] * axes)
    for axis, (_, chance) in enumerate(noise):
        weight = weight * chance.reshape([-1 if k == axis else 1 for k in range(axes)])
    best = np.full(weight.shape, np.iinfo(np.int64).max)
    winner = np.zeros(weight.shape, dtype=np.int8)
    for place, (_, items) in enumerate(partitions(stage)):
        score = np.broadcast_to(sum(costs[item] - values[item] for item in items), weight.shape)
        winner[score < best] = place
        best = np.minimum(best, score)
    return np.bincount(winner.reshape(-1), weights=weight.reshape(-1), minlength=len(partitions(stage)))


def largest_loss(stage: L1Partition, most: int, sign: int = 1) -> float:
    """The largest log-ratio between tables with counts up to `most` that differ by one record."""

    @cache
    def chances(counts: tuple[int, ...]) -> Floats:
        return outcome_chances(stage, counts, sign)

    worst = 0.0
    for counts in itertools.product(range(most + 1), repeat=stage.cells):
        for place in range(stage.cells):
            other = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            if other[place] <= most:
                one, two = (np.maximum(chances(table), 1e-9) for table in (counts, other))
                worst = max(worst, float(np.abs(np.log(one / two)).max()))
    return worst


@pytest.mark.parametrize(
    ("candidates", "cells", "one_sided", "epsilon", "most"),
    [("powers", 3, True, "2", 4), ("powers", 3, False, "3", 4), ("all", 3, True, "6", 3), ("aligned", 4, True, "6", 2)],
)
def test_exact_chances_lose_at_most_epsilon(
    candidates: Candidates, cells: int, one_sided: bool, epsilon: str, most: int
) -> None:
    stage = coarse(cells, candidates, epsilon, one_sided)
    assert stage.epsilon(graph(cells)) == Fraction(epsilon)
    assert stage.epsilon(graph(cells, "public")) == 2 * Fraction(epsilon)
    assert 0.4 * float(Fraction(epsilon)) < largest_loss(stage, most) <= float(Fraction(epsilon)) + 1e-3


def test_too_little_noise_loses_more() -> None:
    stage = coarse(3, "powers", "2", one_sided=True)
    assert largest_loss(replace(stage, unit=stage.unit / 3), 4) > 2


def test_noise_of_the_other_sign_loses_more() -> None:
    assert largest_loss(coarse(3, "powers", "2", one_sided=True), 4, sign=-1) > 2


@given(st.data())
def test_the_choice_is_the_first_of_the_least_candidates(data: st.DataObject) -> None:
    candidates = data.draw(st.sampled_from(["powers", "aligned", "all"]))
    cells = data.draw(st.integers(1, 6))
    stage = L1Partition(cells, candidates, Fraction(40), Fraction(1, 2), grid=1)
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=cells, max_size=cells)))
    size = int(stage.offsets[-1])
    draws = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    scores = stage.costs(counts) - draws + np.repeat(stage.penalties, np.diff(stage.offsets))
    expected = min(partitions(stage), key=lambda one: int(scores[one[1]].sum()))
    assert stage.choose(counts, draws).tolist() == list(expected[0])


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=90), st.sampled_from(["powers", "aligned", "all"]))
def test_costs_are_rounded_deviations_from_the_mean(counts: list[int], candidates: Candidates) -> None:
    stage = L1Partition(len(counts), candidates, Fraction(1), Fraction(0))
    expected = []
    for length, step in zip(stage.lengths.tolist(), stage.steps.tolist(), strict=True):
        for start in range(0, len(counts) - length + 1, step):
            window = counts[start : start + length]
            mean = Fraction(sum(window), length)
            expected.append(math.floor(64 * sum(abs(x - mean) for x in window) + Fraction(1, 2)))
    assert stage.costs(np.array(counts)).tolist() == expected


@given(st.lists(st.integers(0, 50), min_size=1, max_size=70), st.sampled_from(["powers", "aligned", "all"]), st.data())
def test_one_record_moves_costs_by_at_most_their_sensitivity(
    counts: list[int], candidates: Candidates, data: st.DataObject
) -> None:
    stage = L1Partition(len(counts), candidates, Fraction(1), Fraction(0))
    more = counts.copy()
    more[data.draw(st.integers(0, len(counts) - 1))] += 1
    change = np.abs(stage.costs(np.array(more)) - stage.costs(np.array(counts)))
    assert np.all(change <= np.repeat(stage.sensitivities, np.diff(stage.offsets)))


def test_sensitivities_are_those_of_the_proof() -> None:
    stage = L1Partition(8, "all", Fraction(1), Fraction(0))
    assert stage.sensitivities.tolist() == [math.ceil(Fraction(128 * (length - 1), length)) for length in range(1, 9)]
    reach = stage.noise.weights * (stage.noise.sensitivities.max() + stage.noise.sensitivities)
    assert np.all(reach == reach[0])


def frequencies(stage: L1Partition, counts: Ints, shrink: int, seed: int) -> Counter[bool]:
    """How often the first cell stands alone, with noise of the right scale or of one shrunk by a factor."""
    generator = np.random.default_rng(seed)
    found: Counter[bool] = Counter()
    scales = [float(stage.unit) / int(weight) / shrink for weight in stage.noise.weights]
    for _ in range(1500):
        draws = [
            generator.geometric(-math.expm1(-1 / s), n) - 1 for s, n in zip(scales, stage.noise.sizes, strict=True)
        ]
        found[1 in stage.choose(counts, np.concatenate(draws))] += 1
    return found


def test_neighbours_of_64_cells_are_told_apart_no_better_than_claimed() -> None:
    epsilon = Fraction(1, 2)
    stage = l1_partition(64, graph(64), epsilon, candidates="aligned", penalty=Fraction(3))
    counts = np.zeros(64, dtype=np.int64)
    counts[0] = 51
    more = counts.copy()
    more[0] += 2

    def least_ratio(shrink: int) -> float:
        """A lower confidence bound (5 standard errors) of the log-ratio for two records."""
        one, two = frequencies(stage, counts, shrink, 1), frequencies(stage, more, shrink, 2)
        return max(
            abs(math.log(one[key] / two[key])) - 5 * math.sqrt(1 / one[key] + 1 / two[key]) for key in (False, True)
        )

    assert least_ratio(1) <= 2 * epsilon
    assert least_ratio(8) > 2 * epsilon


def test_moves_need_twice_the_noise() -> None:
    only = l1_partition(100, graph(100), Fraction(1, 4), candidates="powers", penalty=Fraction(2))
    moves = l1_partition(100, graph(100, "public"), Fraction(1, 4), candidates="powers", penalty=Fraction(2))
    assert moves.unit == 2 * only.unit
    assert only.epsilon(graph(100)) == moves.epsilon(graph(100, "public")) == Fraction(1, 4)
    assert only.digest() != moves.digest()


def test_huge_counts_are_cut_off_and_not_wrapped() -> None:
    stage = L1Partition(4, "powers", Fraction(1), Fraction(0))
    assert np.all(stage.costs(np.array([2**61, 0, 2**61, 5])) >= 0)


def test_senseless_stages_are_refused() -> None:
    with pytest.raises(TooLarge):
        L1Partition(8193, "all", Fraction(1), Fraction(0))
    with pytest.raises(PlanError):
        L1Partition(0, "all", Fraction(1), Fraction(0))
    with pytest.raises(PlanError):
        L1Partition(4, "some", Fraction(1), Fraction(0))  # type: ignore[arg-type]
    with pytest.raises(PlanError):
        l1_partition(1, graph(1), Fraction(1), candidates="powers", penalty=Fraction(0))
