"""Moments, tails, quantiles and moment generating functions against sums in high precision."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import AccuracyError, InvalidInput, NoiseScaleError
from blowfishdb.noise import distribution as d
from tests.effort import effort
from tests.noise.support import decimal_exp

SCALES = [Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(1000), Fraction(10**9)]
float_scales = st.floats(-3, 9).map(lambda power: 10.0**power)


def exact_tail(scale: Fraction, k: int) -> Decimal:
    return 2 * decimal_exp(Fraction(k + 1) / scale) / (1 + decimal_exp(1 / scale))


def close(ours: float, exact: Decimal, tolerance: float = 1e-12) -> bool:
    # Below 1e-300 a float runs out of exponents.
    return abs(Decimal(ours) - exact) <= Decimal(tolerance) * abs(exact) + Decimal("1e-300")


@pytest.mark.parametrize("scale", SCALES)
def test_variance_matches_its_closed_form_in_high_precision(scale: Fraction) -> None:
    power = decimal_exp(1 / scale)
    exact = 2 * power / (1 - power) ** 2
    assert close(float(d.variance(float(scale))), exact)
    assert not close(float(d.variance(float(scale) * 1.02)), exact)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7 / 3, 20.0])
def test_moments_match_plain_sums(scale: float) -> None:
    reach = int(700 * scale) + 1
    k = np.arange(-reach, reach + 1)
    mass = d.pmf(scale, k)
    assert mass.sum() == pytest.approx(1.0, rel=1e-12)
    assert (mass * k**2).sum() == pytest.approx(float(d.variance(scale)), rel=1e-12)
    for bound in (0, 1, 2.5, 17):
        assert mass[np.abs(k) > bound].sum() == pytest.approx(float(d.tail(scale, bound)), rel=1e-9)
    for s in (0.0, 1e-8, 0.3 / scale, -0.9 / scale):
        assert np.log((mass * np.exp(s * k)).sum()) == pytest.approx(float(d.log_mgf(scale, s)), abs=1e-12)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7 / 3, 20.0])
def test_geometric_moments_match_plain_sums(scale: float) -> None:
    k = np.arange(int(700 * scale) + 2)
    mass = np.exp(-k / scale) * -np.expm1(-1.0 / scale)
    mean = (mass * k).sum()
    assert (mass * (k - mean) ** 2).sum() == pytest.approx(float(d.variance(scale)) / 2, rel=1e-12)
    assert mass[k > 2.5].sum() == pytest.approx(float(d.geometric_tail(scale, 2.5)), rel=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-9])
def test_a_quantile_is_the_least_bound_that_holds(scale: Fraction, beta: float) -> None:
    k = int(d.quantile(float(scale), beta))
    assert exact_tail(scale, k) <= Decimal(beta) * (1 + Decimal("1e-12"))
    assert k == 0 or exact_tail(scale, k - 1) > Decimal(beta) * (1 - Decimal("1e-12"))


@effort(200)
@given(float_scales, st.floats(1e-300, 0.999))
def test_quantiles_agree_with_tails_at_every_scale(scale: float, beta: float) -> None:
    k = int(d.quantile(scale, beta))
    assert d.tail(scale, k) <= beta
    assert k == 0 or d.tail(scale, k - 1) > beta
    g = int(d.geometric_quantile(scale, beta))
    assert d.geometric_tail(scale, g) <= beta
    assert g == 0 or d.geometric_tail(scale, g - 1) > beta
    assert g <= k


def test_functions_are_vectorised_over_scales() -> None:
    scales = np.array([1e-3, 1.0, 1e9])
    assert d.variance(scales).shape == (3,)
    assert d.quantile(scales, 0.05).dtype == np.int64
    assert d.quantile(scales, 0.05).tolist() == [int(d.quantile(s, 0.05)) for s in scales]
    assert d.tail(scales, [0, 1, 2]).tolist() == [float(d.tail(s, k)) for k, s in enumerate(scales)]


@effort(100)
@given(
    st.lists(st.tuples(float_scales, st.integers(1, 10**6)), min_size=1, max_size=5),
    st.floats(1e-9, 0.5),
)
def test_a_simultaneous_quantile_is_the_least_bound(groups: list[tuple[float, int]], beta: float) -> None:
    scales, counts = zip(*groups, strict=True)
    k = d.simultaneous_quantile(scales, counts, beta)
    assert d.simultaneous_tail(scales, counts, k) <= beta
    assert k == 0 or d.simultaneous_tail(scales, counts, k - 1) > beta


def test_a_simultaneous_tail_is_the_complement_of_a_product() -> None:
    scales, counts = [Fraction(1), Fraction(7, 3), Fraction(1000)], [3, 2, 5]
    for k in (0, 4, 100, 20_000):
        within = Decimal(1)
        for scale, count in zip(scales, counts, strict=True):
            within *= (1 - exact_tail(scale, k)) ** count
        ours = d.simultaneous_tail([float(s) for s in scales], counts, k)
        assert close(ours, 1 - within)
        assert not close(d.simultaneous_tail([float(s) for s in scales], [3, 2, 6], k), 1 - within, 1e-30)


def test_a_simultaneous_tail_keeps_its_digits_when_it_is_tiny() -> None:
    assert d.simultaneous_tail([1.0], [1000], 80) == pytest.approx(1000 * float(d.tail(1.0, 80)), rel=1e-12)


def test_no_variables_need_no_bound() -> None:
    assert d.simultaneous_quantile([], [], 0.05) == 0
    assert d.simultaneous_quantile([5.0], [0], 0.05) == 0
    assert d.simultaneous_quantile([5.0, 1e9], [3, 0], 0.05) == d.simultaneous_quantile([5.0], [3], 0.05)


@effort(200)
@given(float_scales, st.floats(0.0, 0.999999))
def test_the_moment_generating_function_stays_below_the_continuous_one(scale: float, fraction: float) -> None:
    continuous = -np.log1p(-(fraction**2))
    assert float(d.log_mgf(scale, fraction / scale)) <= continuous * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1), Fraction(10**9)])
@pytest.mark.parametrize("fraction", [Fraction(1, 10**6), Fraction(1, 3), Fraction(9999, 10000)])
def test_the_moment_generating_function_in_high_precision(scale: Fraction, fraction: Fraction) -> None:
    s = fraction / scale
    power, up, down = decimal_exp(1 / scale), 1 / decimal_exp(s), decimal_exp(s)
    exact = ((1 - power) ** 2 / ((1 - power * up) * (1 - power * down))).ln()
    assert close(float(d.log_mgf(float(scale), float(s))), exact, 1e-9)


def test_the_moment_generating_function_ends_at_the_inverse_scale() -> None:
    assert d.log_mgf([2.0, 2.0, 2.0], [0.5, -0.5, 0.499]).tolist()[:2] == [np.inf, np.inf]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e13])
def test_a_bad_scale_is_refused(scale: float) -> None:
    for call in (d.variance, lambda t: d.tail(t, 1), lambda t: d.quantile(t, 0.05)):
        with pytest.raises(NoiseScaleError):
            call(scale)


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, float("nan")])
def test_a_bad_beta_is_refused(beta: float) -> None:
    with pytest.raises(AccuracyError):
        d.quantile(1.0, beta)
    with pytest.raises(AccuracyError):
        d.simultaneous_quantile([1.0], [1], beta)


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(AccuracyError):
        d.tail(1.0, -1)
    with pytest.raises(AccuracyError):
        d.tail(1.0, float("nan"))
    with pytest.raises(InvalidInput):
        d.simultaneous_tail([1.0, 2.0], [1], 3)
    with pytest.raises(InvalidInput):
        d.simultaneous_tail([1.0], [-1], 3)
    with pytest.raises(InvalidInput):
        d.variance("wide")  # type: ignore[arg-type]
