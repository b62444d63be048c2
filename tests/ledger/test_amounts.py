"""Balances are exact up to denominators that no account carries: there they are a little more, and never refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.errors import InvalidInput
from blowfishdb.ledger.amounts import (
    EASY,
    FINEST,
    NOTHING,
    Balance,
    ClassLosses,
    check_amount,
    nearest_above,
    total,
)

amounts = st.fractions(min_value=0, max_value=1000, max_denominator=10**12)
FEWER = settings(max_examples=max(1, settings().max_examples // 3))
short = st.builds(Fraction, st.integers(0, 10**15), st.sampled_from([1, 3, 7, 29, 30, 10**6, 10**12]))


@FEWER
@given(st.lists(amounts, max_size=30))
def test_sums_are_exact_or_a_little_more_and_never_refused(charges: list[Fraction]) -> None:
    balance, losses, sums = NOTHING, ClassLosses(), Fraction(0)
    for charge in charges:
        before, is_short = balance.value, math.lcm(EASY, balance.value.denominator, charge.denominator) <= FINEST
        balance, losses, sums = balance.plus(charge), losses.plus(charge, None), sums + charge
        added = balance.value - before
        assert added == charge if is_short else charge <= added < charge + Fraction(1, 10**12)
        # Whatever adds them up, and in whatever form the balance is kept, finds the same sum.
        assert balance.value == losses.worst == total(before, charge)
        assert balance.grid <= FINEST
    assert sums <= balance.value < sums + Fraction(max(1, len(charges)), 10**12)


@FEWER
@given(st.lists(amounts, max_size=8), short)
def test_short_amounts_are_added_exactly(charges: list[Fraction], amount: Fraction) -> None:
    balance = NOTHING
    for charge in charges:
        balance = balance.plus(charge)
    assert balance.plus(amount).value == balance.value + amount


@FEWER
@given(amounts, st.fractions(min_value=1, max_value=50, max_denominator=40))
def test_products_are_exact(charge: Fraction, factor: Fraction) -> None:
    balance = NOTHING.plus(charge)
    assert balance.times(factor).value == charge * factor


@FEWER
@given(st.integers(0, 10**6), st.integers(1, 100))
def test_whole_factors_always_fit(units: int, factor: int) -> None:
    finest = Balance(units, EASY * (FINEST // EASY))
    assert finest.times(Fraction(factor)).value == finest.value * factor


@FEWER
@given(st.fractions(min_value=0, max_value=10**6))
def test_the_nearest_short_amount_is_never_below(amount: Fraction) -> None:
    found = nearest_above(amount)
    assert 0 <= found - amount < Fraction(1, 10**12)
    check_amount(found, "it")


@pytest.mark.parametrize("wrong", [(-1, EASY), (1, EASY + 1), (1, 0), (1, EASY * FINEST)])
def test_balances_off_the_grid_are_refused(wrong: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput):
        Balance(*wrong)
