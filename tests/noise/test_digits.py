"""Every head and every expansion of a digit table is the true probability, for any scale served."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import InvalidInput
from blowfishdb.noise.sampler import DigitTable, digit_table, digits_needed, heads_of
from tests.effort import effort
from tests.noise.support import decimal_exp

SCALES = [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(1000), Fraction(10**9)]


@cache
def true_floor(scale: Fraction, position: int, bits: int) -> int:
    power = decimal_exp(Fraction(2**position) / scale)
    return int(power / (1 + power) * 2**bits)


def wrong_digits(table: DigitTable, scale: Fraction) -> list[int]:
    return [j for j in range(table.digits) if int(table.heads[j, 0]) != true_floor(scale, j, 16)]


@pytest.mark.parametrize("scale", SCALES)
def test_every_digit_probability_is_exact(scale: Fraction) -> None:
    table = digit_table(scale, np.array([1]))
    assert wrong_digits(table, scale) == []
    for position in range(table.digits):
        assert table.digit(position, 0)(256) == true_floor(scale, position, 256)
    carry = decimal_exp(Fraction(2**table.digits) / scale)
    assert table.carry(0)(1500) == int(carry * 2**1500)


def test_a_table_that_is_made_once_cannot_be_changed_and_is_told_apart_by_unit_and_weights() -> None:
    weights = np.array([1, 3])
    table = digit_table(Fraction(5), weights)
    assert digit_table(Fraction(5), np.array([1, 3])) is table
    with pytest.raises(ValueError, match="read-only"):
        table.heads[0, 0] = 0
    # Whoever changes the weights afterwards changes no table.
    weights[1] = 2
    assert table.weights.tolist() == [1, 3]
    for unit, others in ((Fraction(5), weights), (Fraction(6), np.array([1, 3])), (Fraction(5), np.array([1, 3, 4]))):
        other = digit_table(unit, others)
        assert np.array_equal(other.heads, heads_of(unit, others, other.digits))
        assert not np.array_equal(other.heads, table.heads)


@pytest.mark.parametrize("scale", SCALES[1:])
def test_a_scale_off_by_two_percent_or_one_wrong_digit_is_seen(scale: Fraction) -> None:
    table = digit_table(scale, np.array([1]))
    assert wrong_digits(digit_table(scale * Fraction(102, 100), np.array([1])), scale) != []
    for position in range(table.digits):
        heads = table.heads.copy()
        heads[position, 0] += 1
        assert wrong_digits(replace(table, heads=heads), scale) == [position]


def test_the_smallest_scale_lives_in_the_carry_alone() -> None:
    table = digit_table(Fraction(1, 1000), np.array([1]))
    assert table.digits == 0
    other = digit_table(Fraction(102, 100_000), np.array([1]))
    assert table.carry(0)(1500) != other.carry(0)(1500)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(2, 3), Fraction(64, 48), Fraction(65, 48)])
def test_digits_reach_just_beyond_forty_eight_scales(scale: Fraction) -> None:
    digits = digits_needed(scale)
    assert 2**digits >= 48 * scale
    assert digits == 0 or 2 ** (digits - 1) < 48 * scale


@effort(15)
@given(
    st.fractions(Fraction(1, 10), Fraction(10**8), max_denominator=10**6),
    st.lists(st.integers(1, 2**62), min_size=1, max_size=20, unique=True),
)
def test_heads_of_many_weights_match_integer_arithmetic(scale: Fraction, weights: list[int]) -> None:
    unit = scale * max(weights)
    heads = heads_of(unit, np.array(weights), 8)
    for row, weight in enumerate(weights):
        for position in range(8):
            assert int(heads[position, row]) == true_floor(unit / weight, position, 16)


def test_a_head_that_floats_cannot_settle_is_settled_exactly() -> None:
    # q = 1/2 - 2^-52 or so: closer to the head's edge than the floats' error.
    unit = Fraction(2**50)
    assert heads_of(unit, np.array([1]), 1).tolist() == [[32767]]


def test_malformed_tables_are_refused() -> None:
    weights, heads = np.array([1]), np.zeros((10, 1), np.uint16)
    with pytest.raises(InvalidInput):
        DigitTable(Fraction(0), weights, heads)
    with pytest.raises(InvalidInput):
        DigitTable(Fraction(1), np.array([0]), heads)
    with pytest.raises(InvalidInput):
        DigitTable(Fraction(1), np.array([], np.int64), np.zeros((10, 0), np.uint16))
    with pytest.raises(InvalidInput):
        DigitTable(Fraction(1), weights, np.zeros((10, 2), np.uint16))
    with pytest.raises(InvalidInput):
        DigitTable(Fraction(1), weights, np.zeros((62, 1), np.uint16))
    with pytest.raises(InvalidInput):
        DigitTable(Fraction(1000), weights, heads)
