"""Differences that are there are seen, differences by chance are not, and slopes have honest intervals."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.statistics import at, difference, slope

RNG = np.random.default_rng(5)


def test_a_shift_is_seen_and_measured() -> None:
    one, two = RNG.exponential(1.0, 200), RNG.exponential(1.0, 200) + 0.7
    found = difference(one.tolist(), two.tolist())
    assert found.is_seen
    assert found.low < 0.7 < found.high
    assert found.gap == pytest.approx(0.45, abs=0.15)


def test_the_same_distribution_is_rarely_told_apart() -> None:
    seen = [difference(RNG.normal(size=60).tolist(), RNG.normal(size=60).tolist()).is_seen for _ in range(6)]
    assert sum(seen) <= 3


def test_times_that_padding_made_equal_show_no_gap() -> None:
    assert not difference([0.25] * 50, [0.25] * 50).is_seen


def test_a_slope_is_found_and_a_flat_line_holds_zero() -> None:
    places = np.linspace(0, 10, 500)
    rising = slope(places.tolist(), (3 * places + RNG.normal(size=500)).tolist())
    assert rising.value == pytest.approx(3, abs=0.2)
    assert 2.5 < rising.low < rising.value < rising.high < 3.5
    flat = slope(places.tolist(), RNG.normal(size=500).tolist())
    assert flat.value == pytest.approx(0, abs=0.1)
    assert flat.low < flat.value < flat.high


def test_percentiles_are_values_of_the_sample() -> None:
    assert at([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert at([3.0, 1.0, 2.0, 4.0], 0.95) == 4.0
