"""The integer enclosures hold the true value, are narrow, and their floors are exact."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.noise.sampler import digit_expansion, enclose_exp, power_expansion
from tests.effort import effort
from tests.noise.support import decimal_exp

RATES = st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1500), max_denominator=10**12)
EDGE_RATES = [
    Fraction(1, 10**9),
    Fraction(1, 1000),
    Fraction(1),
    Fraction(255, 256),
    Fraction(256),
    Fraction(1000),
    Fraction(10**12),
    Fraction(3**80, 2**120),
]


def floor_of(value: Decimal, bits: int) -> int:
    return int((value * 2**bits).to_integral_value(rounding="ROUND_FLOOR"))


@effort(100)
@given(RATES, st.sampled_from([1, 16, 64, 256, 512]))
def test_an_enclosure_holds_the_exponential_and_is_narrow(rate: Fraction, bits: int) -> None:
    low, high = enclose_exp(rate, bits)
    assert low <= decimal_exp(rate) * 2**bits <= high
    assert 0 <= high - low <= 2


@pytest.mark.parametrize("rate", EDGE_RATES)
def test_an_enclosure_holds_at_the_ends_of_the_range(rate: Fraction) -> None:
    low, high = enclose_exp(rate, 256)
    assert low <= decimal_exp(rate) * 2**256 <= high


def test_an_enclosure_of_rate_zero_holds_one() -> None:
    low, high = enclose_exp(Fraction(0), 256)
    assert low <= 2**256 <= high


@effort(100)
@given(RATES, st.sampled_from([16, 256, 512]))
def test_floors_agree_with_decimal_arithmetic(rate: Fraction, bits: int) -> None:
    power = decimal_exp(rate)
    assert power_expansion(rate, bits) == floor_of(power, bits)
    assert digit_expansion(rate, bits) == floor_of(power / (1 + power), bits)


@effort(100)
@given(RATES)
def test_a_longer_expansion_begins_with_the_shorter_one(rate: Fraction) -> None:
    assert digit_expansion(rate, 512) >> 256 == digit_expansion(rate, 256)
    assert digit_expansion(rate, 256) >> 240 == digit_expansion(rate, 16)


def test_a_rate_that_is_slightly_wrong_gives_another_expansion() -> None:
    rate = Fraction(7, 3)
    assert digit_expansion(rate + Fraction(1, 2**240), 256) != digit_expansion(rate, 256)


def test_precision_grows_until_the_floor_is_certain() -> None:
    # exp(-r) lies within 2^-150 of 1/2, far below what the first enclosure can tell apart.
    half = Decimal(2).ln() + Decimal(2) ** -150
    rate = Fraction(half)
    assert power_expansion(rate, 1) == 0
    assert power_expansion(rate, 160) == floor_of(decimal_exp(rate), 160)
