"""Draws follow the exact law, and every check that says so rejects a wrong scale or a wrong digit.

A right sampler fails a check with probability 1e-9; the draws are so many that a
wrong one misses the alarm by many standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from blowfishdb.noise import distribution
from blowfishdb.noise.sampler import (
    BitStream,
    DigitTable,
    Keystream,
    digit_table,
    draw_geometric,
    draw_laplace,
    sample,
    sample_geometric,
)
from tests.noise.support import ALARM, RepeatingStream, geometric_p_value, laplace_p_value, normal_p_value

DRAWS = 1_000_000
SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(1000), Fraction(10**6), Fraction(10**9)]
TWO_PERCENT = Fraction(102, 100)

Check = Callable[[NDArray[np.int64], float], float]


@cache
def draws_of(scale: Fraction) -> NDArray[np.int64]:
    return sample(scale, 1, DRAWS)


def wrong_draws(scale: Fraction) -> NDArray[np.int64]:
    """Draws of a scale that the public function might refuse."""
    return draw_laplace(digit_table(scale, np.array([1])), None, DRAWS, Keystream())


def mean_p_value(draws: NDArray[np.int64], scale: float) -> float:
    total = float(draws.sum(dtype=np.float64))
    return normal_p_value(total, 0.0, draws.size * float(distribution.variance(scale)))


def size_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """The mean of |X| is 1 / sinh(1 / scale)."""
    mean = 1.0 / float(np.sinh(1.0 / scale))
    spread = float(distribution.variance(scale)) - mean**2
    return normal_p_value(float(np.abs(draws).sum(dtype=np.float64)), draws.size * mean, draws.size * spread)


def tail_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """How many draws exceed the bound that one in five may exceed."""
    bound = int(distribution.quantile(scale, 0.2))
    chance = float(distribution.tail(scale, bound))
    return float(stats.binomtest(int((np.abs(draws) > bound).sum()), draws.size, chance).pvalue)


def far_tail_p_value(draws: NDArray[np.int64], scale: float) -> float:
    bound = int(distribution.quantile(scale, 1e-4))
    chance = float(distribution.tail(scale, bound))
    return float(stats.binomtest(int((np.abs(draws) > bound).sum()), draws.size, chance).pvalue)


@pytest.mark.parametrize("check", [laplace_p_value, size_p_value, tail_p_value])
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.sampled(4)
def test_the_law_holds_and_a_scale_off_by_two_percent_is_rejected(scale: Fraction, check: Check) -> None:
    assert check(draws_of(scale), float(scale)) > ALARM
    for wrong in (scale * TWO_PERCENT, scale / TWO_PERCENT):
        assert check(wrong_draws(wrong), float(scale)) < ALARM


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_mean_is_zero_and_a_shift_is_rejected(scale: Fraction) -> None:
    draws = draws_of(scale)
    assert mean_p_value(draws, float(scale)) > ALARM
    shifted = draws + int(np.ceil(0.02 * float(scale)))
    assert mean_p_value(shifted, float(scale)) < ALARM


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_far_tail_holds_and_a_scale_off_by_a_third_is_rejected(scale: Fraction) -> None:
    assert far_tail_p_value(draws_of(scale), float(scale)) > ALARM
    assert far_tail_p_value(wrong_draws(scale * Fraction(4, 3)), float(scale)) < ALARM


def test_the_smallest_scale_is_always_zero() -> None:
    assert not sample(Fraction(1, 1000), 1, DRAWS).any()
    assert sample(Fraction(1, 3), 1, DRAWS).any()


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_geometric_draws_follow_their_law(scale: Fraction) -> None:
    assert geometric_p_value(sample_geometric(scale, 1, DRAWS), float(scale)) > ALARM
    wrong = draw_geometric(digit_table(scale * TWO_PERCENT, np.array([1])), None, DRAWS, Keystream())
    assert geometric_p_value(wrong, float(scale)) < ALARM


def digit_p_values(draws: NDArray[np.int64], scale: Fraction, digits: int) -> NDArray[np.float64]:
    """One p-value a digit for the number of ones among geometric draws."""
    ones = [int(((draws >> j) & 1).sum()) for j in range(digits)]
    chances = [1.0 / (1.0 + np.exp(min(2.0**j / float(scale), 700.0))) for j in range(digits)]
    return np.array([stats.binomtest(k, draws.size, q).pvalue for k, q in zip(ones, chances, strict=True)])


def with_wrong_digit(table: DigitTable, position: int, excess: float) -> DigitTable:
    heads = table.heads.copy()
    heads[position, 0] += int(excess * 2**16)
    return replace(table, heads=heads)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 3), Fraction(1000)], ids=str)
def test_every_digit_has_its_probability_and_each_wrong_one_is_found(scale: Fraction) -> None:
    table = digit_table(scale, np.array([1]))
    alarm = ALARM / table.digits**2
    right = draw_geometric(table, None, DRAWS, Keystream())
    assert digit_p_values(right, scale, table.digits).min() > alarm
    for position in range(table.digits):
        wrong = draw_geometric(with_wrong_digit(table, position, 0.01), None, DRAWS, Keystream())
        found = np.flatnonzero(digit_p_values(wrong, scale, table.digits) < alarm)
        assert found.tolist() == [position]


def test_all_digits_of_the_largest_scale_have_their_probability() -> None:
    scale = Fraction(10**9)
    table = digit_table(scale, np.array([1]))
    draws = sample_geometric(scale, 1, DRAWS)
    assert digit_p_values(draws, scale, table.digits).min() > ALARM
    wrong = draw_geometric(with_wrong_digit(table, 17, 0.01), None, DRAWS, Keystream())
    assert np.flatnonzero(digit_p_values(wrong, scale, table.digits) < ALARM).tolist() == [17]


def test_one_wrong_digit_fails_the_chi_square_of_the_laplace_draws() -> None:
    scale = Fraction(1000)
    table = digit_table(scale, np.array([1]))
    for position in (9, 10, 11, 12):
        draws = draw_laplace(with_wrong_digit(table, position, 0.05), None, DRAWS, Keystream())
        assert laplace_p_value(draws, float(scale)) < ALARM


def digit_dependence(stream: BitStream) -> float:
    """The largest |z| among the covariances of all pairs of digits with a chance above 1 %."""
    scale, count = 1000.0, 400_000
    table = digit_table(Fraction(1000), np.array([1]))
    draws = draw_geometric(table, None, count, stream)
    chances = 1.0 / (1.0 + np.exp(2.0 ** np.arange(13) / scale))
    chances = chances[chances > 0.01]
    bits = (draws[:, None] >> np.arange(chances.size)) & 1
    centred = (bits - chances) / np.sqrt(chances * (1.0 - chances))
    z = centred.T @ centred / np.sqrt(count)
    return float(np.abs(z[np.triu_indices(chances.size, 1)]).max())


def test_digits_are_independent_and_a_repeating_stream_is_found() -> None:
    bound = float(stats.norm.isf(ALARM / 200))
    assert digit_dependence(Keystream()) < bound
    assert digit_dependence(RepeatingStream()) > bound


def neighbour_p_value(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Independence of two rows of draws, each cut into eight parts."""
    edges = np.quantile(first, np.arange(1, 8) / 8)
    table = np.zeros((8, 8))
    np.add.at(table, (np.searchsorted(edges, first), np.searchsorted(edges, second)), 1)
    return float(stats.chi2_contingency(table).pvalue)


def test_neighbours_are_independent_and_a_weak_echo_is_found() -> None:
    draws = draws_of(Fraction(1000))
    for lag in (1, 2, 16_384):
        assert neighbour_p_value(draws[:-lag], draws[lag:]) > ALARM
    echo = np.where(np.arange(draws.size) % 50 == 1, np.roll(draws, 1), draws)
    assert neighbour_p_value(echo[:-1], echo[1:]) < ALARM


def test_calls_are_independent() -> None:
    first, second = sample(Fraction(1000), 1, 200_000), sample(Fraction(1000), 1, 200_000)
    assert neighbour_p_value(first, second) > ALARM
    assert neighbour_p_value(first, first) < ALARM


def test_each_entry_of_a_mixed_call_has_its_own_scale() -> None:
    unit, weights = Fraction(700, 3), np.array([1, 2, 3, 100, 70_000])
    rows = np.arange(2_000_000) % 5
    draws = sample(unit, weights[rows])
    geometric = sample_geometric(unit, weights[rows])
    for row, weight in enumerate(weights.tolist()):
        scale = float(unit / weight)
        if weight == 70_000:
            assert not draws[rows == row].any()
            continue
        assert laplace_p_value(draws[rows == row], scale) > ALARM
        assert laplace_p_value(draws[rows == row], scale * 1.04) < ALARM
        assert geometric_p_value(geometric[rows == row], scale) > ALARM
    assert neighbour_p_value(draws[rows == 0], draws[rows == 1]) > ALARM


def test_a_thousand_weights_at_once() -> None:
    weights = np.arange(1, 1001)
    rows = np.arange(500_000) % 1000
    unit = Fraction(10**5)
    draws = sample(unit, weights[rows])
    shares = np.abs(draws) * weights[rows] / float(unit)
    scales = float(unit) / weights[rows]
    means = weights[rows] / float(unit) / np.sinh(1.0 / scales)
    spreads = distribution.variance(scales) / scales**2 - means**2
    assert normal_p_value(float(shares.sum()), float(means.sum()), float(spreads.sum())) > ALARM
    assert normal_p_value(float(shares.sum()) * 1.02, float(means.sum()), float(spreads.sum())) < ALARM


def opendp_draws(scale: float, count: int) -> NDArray[np.int64]:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return np.array(dp.m.make_laplace(*space, scale=scale)([0] * count), np.int64)


def two_sample_p_value(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    edges = np.arange(-12, 13)
    table = np.array([np.bincount(np.searchsorted(edges, draws), minlength=26) for draws in (first, second)])
    return float(stats.chi2_contingency(table).pvalue)


def test_opendp_draws_from_the_same_law() -> None:
    theirs = opendp_draws(7 / 3, 40_000)
    assert two_sample_p_value(draws_of(Fraction(7, 3)), theirs) > ALARM
    assert two_sample_p_value(sample(Fraction(7, 3) * Fraction(11, 10), 1, DRAWS), theirs) < ALARM
