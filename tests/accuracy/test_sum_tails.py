from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.accuracy.tails import KEPT, equal_sums, from_coefficients, from_terms, from_variances, two_terms_tail

ONE = np.ones(1)


def pmf(scale: float, reach: int) -> np.ndarray:
    return np.tanh(0.5 / scale) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)


def true_tail(coefficients, scales, alpha: float) -> float:
    """P(|sum of whole multiples of discrete Laplace| > alpha), by convolution."""
    total = np.ones(1)
    for c, t in zip(coefficients, scales, strict=True):
        reach = int(40 * t) + 1
        spread = np.zeros(2 * abs(c) * reach + 1)
        spread[:: abs(c)] = pmf(t, reach)
        total = np.convolve(total, spread)
    place = np.arange(total.size) - total.size // 2
    return float(total[np.abs(place) > alpha].sum())


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.floats(0.2, 8.0)), min_size=1, max_size=5),
    st.floats(0.0, 60.0),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_never_below_the_truth(terms, alpha, unit):
    coefficients, sizes = np.array([c for c, _ in terms]), np.array([s for _, s in terms])
    truth = true_tail(coefficients, unit * sizes, alpha)
    bound = from_coefficients(coefficients[None, :].astype(float), sizes, ONE)
    assert bound.failure(unit, alpha) >= truth * (1 - 1e-9) - 1e-14
    half = float(np.sum((coefficients * sizes) ** 2))
    crude = from_variances(np.array([half]), np.array([np.sqrt(np.sum(coefficients**2.0))]), ONE)
    assert crude.failure(unit, alpha) >= truth * (1 - 1e-9) - 1e-14


@pytest.mark.parametrize("terms", [1, 2, 3, 5, 20, 60])
@pytest.mark.parametrize("beta", [0.05, 1e-3, 1e-6])
def test_close_to_the_truth_where_noise_is_large(terms, beta):
    scale = 40.0
    grid = np.arange(1, 4000)
    total = np.ones(1)
    for _ in range(terms):
        total = np.convolve(total, pmf(scale, 1200))
        middle = total.size // 2
        total = total[max(0, middle - 4000) : middle + 4001]
    upper = 2.0 * np.cumsum(total[total.size // 2 :][::-1])[::-1]
    true_alpha = grid[np.searchsorted(-upper[2:], -beta)]
    bound = from_terms(np.array([float(terms)]), 1.0, ONE)
    found = next(alpha for alpha in grid if bound.failure(scale, float(alpha)) <= beta)
    assert 1.0 - 1e-3 <= found / true_alpha <= (1.045 if beta < 0.01 else 1.12) + 2.5 * np.sqrt(terms) / true_alpha


def test_small_coefficients_are_bundled_soundly():
    rng = np.random.default_rng(5)
    coefficients = rng.normal(size=(1, 3 * KEPT))
    sizes = np.full(3 * KEPT, 1.0)
    bundled = from_coefficients(coefficients, sizes, ONE)
    assert bundled.largest.shape[1] == KEPT
    errors = np.abs(coefficients @ rng.laplace(scale=100.0, size=(3 * KEPT, 20000)))[0]
    for alpha in np.quantile(errors, [0.5, 0.9, 0.99]):
        assert np.mean(errors > alpha) <= bundled.failure(100.0, float(alpha)) <= 3.0 * np.mean(errors > alpha) + 0.2


@given(st.floats(0.05, 50.0), st.integers(0, 60))
def test_two_terms_in_closed_form(scale, k):
    assert two_terms_tail(scale, np.array(float(k))) == pytest.approx(true_tail([1, 1], [scale, scale], k), abs=1e-9)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), st.floats(0.1, 5.0), st.floats(0.0, 30.0))
def test_equal_terms_bound_the_expected_number_of_failures(terms, scale, alpha):
    count = np.arange(1, len(terms) + 1)
    truth = [true_tail([1] * k, [scale] * k, alpha) if k else 0.0 for k in terms]
    found, _ = equal_sums(np.array(terms), count, 2)
    assert found.failure(2 * scale, alpha) >= float(count @ np.array(truth)) * (1 - 1e-9) - 1e-13
    assert found.worst(2 * scale, alpha) >= max(truth) * (1 - 1e-9) - 1e-13


def test_many_terms_are_rounded_up():
    terms = np.array([1000, 1001, 5000])
    found, place = equal_sums(terms, np.ones(3, dtype=np.int64), 1)
    assert found.terms.min() >= 1000 and found.terms.max() <= 5000 * (1 + 1 / 64)
    assert np.all(found.terms[place] >= terms)


def test_one_bound_serves_several_threads():
    bound = from_coefficients(np.random.default_rng(3).normal(size=(40, 30)), np.ones(30), np.ones(40))
    units = [1.0 + k / 7.0 for k in range(60)] * 4
    expected = [bound.failure(unit, 20.0) for unit in units]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda unit: bound.failure(unit, 20.0), units)) == expected
