"""Balances are exact: they agree with plain fractions, and short amounts fit whatever came before."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blowfishdb.errors import AmountTooFine, InvalidInput
from blowfishdb.ledger.amounts import EASY, FINEST, NOTHING, Balance, check_amount, nearest_above

amounts = st.fractions(min_value=0, max_value=1000, max_denominator=10**12)
FEWER = settings(max_examples=max(1, settings().max_examples // 3))
short = st.builds(Fraction, st.integers(0, 10**15), st.sampled_from([1, 3, 7, 29, 30, 10**6, 10**12]))


@FEWER
@given(st.lists(amounts, max_size=30))
def test_sums_are_exact_or_refused_with_an_amount_that_fits(charges: list[Fraction]) -> None:
    balance, total = NOTHING, Fraction(0)
    for charge in charges:
        try:
            balance = balance.plus(charge)
            total += charge
        except AmountTooFine as refusal:
            assert charge <= refusal.nearest_above < charge + Fraction(1, 10**12)
            balance = balance.plus(refusal.nearest_above)
            total += refusal.nearest_above
        assert balance.value == total
        assert balance.grid <= FINEST


@FEWER
@given(st.lists(amounts, max_size=8), short)
def test_short_amounts_always_fit(charges: list[Fraction], amount: Fraction) -> None:
    balance = NOTHING
    for charge in charges:
        try:
            balance = balance.plus(charge)
        except AmountTooFine:
            continue
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
