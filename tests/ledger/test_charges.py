"""Charges on both stores: exact sums, both limits, keys, versions, and refusals that leave no trace."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from blowfishdb.errors import AmountTooFine, BudgetExceeded, InvalidInput, KeyReused, StaleVersion, UnknownAccount
from blowfishdb.ledger import Ledger
from blowfishdb.ledger.amounts import FINEST, PER_EDGE, SUM
from tests.ledger.support import charge_of, opened, terms


def test_ten_tenths_are_exactly_one(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    for number in range(10):
        ledger.charge(charge_of(account, "1/10", f"k{number}"))
    assert ledger.account(account.id).remaining == 0
    # The same sum in floats is not 1, so a ledger of floats would have let a little more through.
    assert sum([0.1] * 10) < 1
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge_of(account, Fraction(1, 10**12), "k10"))


def test_a_charge_one_part_above_the_rest_is_refused_and_the_rest_itself_is_not(ledger: Ledger) -> None:
    account = opened(ledger, Fraction(1, 3))
    ledger.charge(charge_of(account, "1/7", "a"))
    rest = Fraction(1, 3) - Fraction(1, 7)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(charge_of(account, rest + Fraction(1, 10**18), "b"))
    assert (caught.value.requested, caught.value.remaining_dataset) == (rest + Fraction(1, 10**18), rest)
    assert caught.value.remaining_analyst is None
    ledger.charge(charge_of(account, rest, "c"))
    assert ledger.account(account.id).spent == Fraction(1, 3)


def test_a_refusal_leaves_no_trace(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "1/2", "a"))
    before = (ledger.head(), ledger.account(account.id), ledger.analysts(account.id))
    refused = [
        charge_of(account, 1, "b"),
        charge_of(account, 2, "c", analyst="bob"),
        replace(charge_of(account, "1/10", "d"), policy_version=2),
        charge_of(account, "1/10", "a", request="another"),
        replace(charge_of(account, "1/10", "e"), account="nobody"),
    ]
    for charge in refused:
        with pytest.raises((BudgetExceeded, StaleVersion, KeyReused, UnknownAccount)):
            ledger.charge(charge)
    assert (ledger.head(), ledger.account(account.id), ledger.analysts(account.id)) == before
    assert ledger.verify().is_sound


def test_each_analyst_has_a_limit_and_some_have_their_own(ledger: Ledger) -> None:
    account = opened(ledger, 1, Fraction(1, 4))
    ledger.limit_analyst(account.id, "bob", Fraction(1, 2), by="cora", reason="thesis")
    ledger.charge(charge_of(account, "1/4", "a"))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(charge_of(account, "1/100", "b"))
    assert (caught.value.remaining_dataset, caught.value.remaining_analyst) == (Fraction(3, 4), 0)
    ledger.charge(charge_of(account, "1/2", "a", analyst="bob"))
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge_of(account, "1/100", "b", analyst="bob"))
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(charge_of(account, "1/2", "a", analyst="eve"))
    assert (caught.value.remaining_dataset, caught.value.remaining_analyst) == (Fraction(1, 4), Fraction(1, 4))
    assert [budget.analyst for budget in ledger.analysts(account.id)] == ["ana", "bob"]
    assert ledger.budget_of(account.id, "eve").remaining == Fraction(1, 4)
    assert ledger.verify().is_sound


def test_a_new_limit_for_everyone_spares_individual_ones(ledger: Ledger) -> None:
    account = opened(ledger, 10, Fraction(1))
    ledger.charge(charge_of(account, 1, "a"))
    ledger.limit_analyst(account.id, "bob", Fraction(3), by="cora", reason="more")
    ledger.limit_everyone(account.id, Fraction(2), by="cora", reason="term begins")
    assert ledger.budget_of(account.id, "ana").remaining == 1
    assert ledger.budget_of(account.id, "bob").remaining == 3
    ledger.limit_analyst(account.id, "bob", None, by="cora", reason="thesis done")
    assert ledger.budget_of(account.id, "bob").remaining == 2
    ledger.limit_everyone(account.id, None, by="cora", reason="open house")
    assert ledger.budget_of(account.id, "ana").remaining is None
    ledger.limit_everyone(account.id, Fraction(1, 2), by="cora", reason="closed again")
    assert ledger.budget_of(account.id, "ana").remaining == 0
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge_of(account, "1/10", "b"))
    ledger.charge(charge_of(account, 0, "exact"))
    assert ledger.verify().is_sound


def test_a_key_pays_once_and_belongs_to_its_analyst(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    first = ledger.charge(charge_of(account, "1/4", "k"))
    again = ledger.charge(charge_of(account, "1/4", "k"))
    assert again == first
    assert (first.is_new, again.is_new) == (True, False)
    with pytest.raises(KeyReused):
        ledger.charge(charge_of(account, "1/4", "k", request="another"))
    other = ledger.charge(charge_of(account, "1/4", "k", analyst="bob"))
    assert other.sequence == first.sequence + 1
    assert ledger.account(account.id).spent == Fraction(1, 2)


def test_a_key_returns_its_receipt_after_the_budget_ran_out_and_the_policy_changed(ledger: Ledger) -> None:
    account = opened(ledger, 2)
    first = ledger.charge(charge_of(account, 1, "k"))
    ledger.new_version(ledger.account(account.id), "policy", "[1]", Fraction(2), by="cora", reason="stricter")
    assert ledger.account(account.id).remaining == 0
    assert ledger.charge(charge_of(account, 1, "k")) == first


def test_an_exact_release_costs_nothing_and_is_recorded(ledger: Ledger) -> None:
    account = opened(ledger, 0)
    receipt = ledger.charge(charge_of(account, 0, "k"))
    found = ledger.account(account.id)
    assert (found.spent, found.charges) == (0, 1)
    assert [entry.kind for entry in ledger.entries(after=receipt.sequence - 1)] == ["charge"]


def test_a_stale_quote_is_refused(ledger: Ledger) -> None:
    account = opened(ledger, 5)
    ledger.new_snapshot(account, "rows of May", by="cora")
    with pytest.raises(StaleVersion) as caught:
        ledger.charge(charge_of(account, 1, "k"))
    assert (caught.value.what, caught.value.quoted, caught.value.current) == ("snapshot", 1, 2)
    ledger.charge(charge_of(ledger.account(account.id), 1, "k"))
    ledger.new_version(ledger.account(account.id), "domain", "[2]", Fraction(1), by="cora", reason="new column")
    with pytest.raises(StaleVersion) as caught:
        ledger.charge(charge_of(replace(account, snapshot=2), 1, "l"))
    assert caught.value.what == "domain version"


PRIMES = [10**9 + 7, 10**9 + 9, 998244353, 10**9 + 21, 10**9 + 33]


@pytest.mark.parametrize("accounting", [SUM, PER_EDGE])
def test_no_charge_is_refused_for_fractions_that_others_were_charged(ledger: Ledger, accounting: str) -> None:
    account = ledger.register(replace(terms(1), accounting=accounting), name="census", by="cora")
    for number, prime in enumerate(PRIMES):
        losses = None if accounting == SUM else {f"class {number % 2}": Fraction(1, prime)}
        ledger.charge(replace(charge_of(account, Fraction(1, prime), f"k{number}", analyst="bob"), losses=losses))
    own = Fraction(1, 10**9 + 87)
    ledger.charge(charge_of(account, own, "fine"))
    assert ledger.budget_of(account.id, "ana").spent == own
    lost = ledger.account(account.id).spent
    sums = sum((Fraction(1, prime) for prime in (PRIMES if accounting == SUM else PRIMES[::2])), own)
    assert sums <= lost < sums + Fraction(len(PRIMES) + 1, 10**12)
    assert lost > sums or accounting != SUM
    assert ledger.verify().is_sound


def test_amounts_beyond_every_account_are_refused_at_once(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    with pytest.raises(AmountTooFine):
        charge_of(account, Fraction(1, FINEST + 1), "k")
    with pytest.raises(AmountTooFine):
        charge_of(account, Fraction(1, 10**5000), "k")
    for wrong in (Fraction(-1), Fraction(10**10)):
        with pytest.raises(InvalidInput):
            charge_of(account, wrong, "k")
    with pytest.raises(InvalidInput):
        replace(charge_of(account, 1, "k"), epsilon=0.1)


@pytest.mark.parametrize("field", ["analyst", "key", "request_digest", "program_digest"])
@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\x00b", "a\nb", "\ud800", "a\u200bb"])
def test_names_that_cannot_be_stored_are_refused(field: str, wrong: str) -> None:
    from blowfishdb.ledger import Charge

    good = Charge("account", "ana", Fraction(1), "k", "r", "p", 1, 1, 1, "{}")
    with pytest.raises(InvalidInput):
        replace(good, **{field: wrong})


def test_hostile_names_are_only_names(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    for number, name in enumerate(["'; DROP TABLE entry; --", "%s", "?", "{whole}", "ünï", "\U0001f421" * 200]):
        receipt = ledger.charge(charge_of(account, "1/100", name[:180], analyst=name, request=f"{number}?%s"))
        assert ledger.charge(receipt.charge) == receipt
        ledger.charge(charge_of(account, "1/100", "second", analyst=name))
    assert ledger.account(account.id).spent == Fraction(12, 100)
    assert ledger.verify().is_sound


def test_clock_jumps_change_nothing(ledger: Ledger) -> None:
    from datetime import UTC, datetime, timedelta

    times = iter([datetime(2030, 1, 1, tzinfo=UTC) - timedelta(days=500 * number) for number in range(20)])
    jumping = Ledger(ledger.store, ledger.mark, ledger.mark_id, ledger.id, ledger.watch, clock=lambda: next(times))
    account = opened(jumping, 1)
    receipts = [jumping.charge(charge_of(account, "1/10", f"k{number}")) for number in range(10)]
    assert [receipt.sequence for receipt in receipts] == list(range(3, 13))
    with pytest.raises(BudgetExceeded):
        jumping.charge(charge_of(account, "1/10", "k10"))
    assert jumping.verify().is_sound
