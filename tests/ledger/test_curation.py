"""Accounts belong to data: registering, renewal, snapshots, and versions that carry past loss over."""

from __future__ import annotations

from fractions import Fraction

import pytest

from blowfishdb.errors import (
    AccountConflict,
    AmountTooFine,
    BudgetExceeded,
    ChangeRefused,
    InvalidInput,
    StaleVersion,
    UnknownAccount,
)
from blowfishdb.ledger import Ledger
from tests.ledger.support import charge_of, opened, terms


def test_the_same_data_under_two_names_is_one_account(ledger: Ledger) -> None:
    first = ledger.register(terms(1), name="census", by="cora")
    ledger.charge(charge_of(first, "3/4", "a"))
    second = ledger.register(terms(1), name="people", by="carl")
    assert (second.id, second.spent, second.names) == (first.id, Fraction(3, 4), ("census", "people"))
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge_of(second, "1/2", "b"))
    other = ledger.register(terms(1, identity="duckdb:other#people"), name="census", by="cora")
    assert (other.id != first.id, other.spent) == (True, 0)
    assert {account.id for account in ledger.accounts()} == {first.id, other.id}
    assert ledger.register(terms(1), name="people", by="carl") == second
    assert [entry.kind for entry in ledger.entries(account=first.id)] == ["account", "name", "charge", "name"]
    assert ledger.verify().is_sound


@pytest.mark.parametrize(
    ("other", "what"),
    [(terms(2), "limit"), (terms(1, Fraction(1)), "limit per analyst"), (terms(1, policy="[]"), "policy")],
)
def test_registering_again_cannot_change_the_terms(ledger: Ledger, other: object, what: str) -> None:
    account = opened(ledger, 1)
    head = ledger.head()
    with pytest.raises(AccountConflict) as caught:
        ledger.register(other, name="census", by="mallory")
    assert caught.value.what == what
    assert (ledger.account(account.id), ledger.head()) == (account, head)


def test_a_renewal_raises_the_limit_and_keeps_history(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, 1, "a"))
    for wrong in (Fraction(1), Fraction(1, 2)):
        with pytest.raises(ChangeRefused):
            ledger.renew(account.id, wrong, by="cora", reason="a smaller one")
    renewed = ledger.renew(account.id, Fraction(3, 2), by="cora", reason="board of 12 May")
    assert (renewed.limit, renewed.spent, renewed.charges) == (Fraction(3, 2), 1, 1)
    (entry,) = list(ledger.entries(after=ledger.head().sequence - 1))
    assert (entry.fields["reason"], entry.fields["by"], entry.fields["was"]) == ("board of 12 May", "cora", "1")
    ledger.charge(charge_of(account, "1/2", "b"))
    with pytest.raises(BudgetExceeded):
        ledger.charge(charge_of(account, "1/1000", "c"))


def test_a_refreshed_table_keeps_what_was_spent(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "9/10", "a"))
    refreshed = ledger.new_snapshot(account, "rows of May", by="cora")
    assert (refreshed.snapshot, refreshed.remaining) == (2, Fraction(1, 10))


def test_past_loss_is_carried_over_exactly_as_announced(ledger: Ledger) -> None:
    account = opened(ledger, 2, Fraction(1))
    ledger.charge(charge_of(account, "1/3", "a"))
    ledger.charge(charge_of(account, "1/7", "a", analyst="bob"))
    announced = ledger.what_would_change(account.id, "policy", "[1]", Fraction(5, 2))
    assert announced.spent_before == Fraction(10, 21)
    assert announced.spent_after == Fraction(25, 21)
    assert announced.analysts_after == {"ana": Fraction(5, 6), "bob": Fraction(5, 14)}
    assert ledger.account(account.id).spent == Fraction(10, 21)
    done = ledger.new_version(
        ledger.account(account.id), "policy", "[1]", Fraction(5, 2), by="cora", reason="wider secrets"
    )
    assert done == announced
    after = ledger.account(account.id)
    assert (after.spent, after.policy_version, after.domain_version) == (Fraction(25, 21), 2, 1)
    assert ledger.document(account.id, "policy", 1) == "{}"
    assert ledger.document(account.id, "policy", 2) == "[1]"
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(charge_of(after, "1/3", "b"))
    assert caught.value.remaining_analyst == Fraction(1, 6)
    assert ledger.verify().is_sound


def test_a_change_worked_out_for_other_versions_is_refused(ledger: Ledger) -> None:
    """Two curators at once: the second one's stretch starts from a policy that is not in force any more."""
    seen = opened(ledger, 9)
    ledger.new_version(seen, "policy", "[1]", Fraction(1), by="cora", reason="first")
    ledger.charge(charge_of(ledger.account(seen.id), "1/2", "a"))
    with pytest.raises(StaleVersion, match="policy version 1"):
        ledger.new_version(seen, "policy", "[2]", Fraction(1), by="carl", reason="second")
    with pytest.raises(StaleVersion):
        ledger.set_accounting(seen, "per-edge", by="carl", reason="second")
    now = ledger.account(seen.id)
    ledger.set_accounting(now, "per-edge", by="cora", reason="finer")
    with pytest.raises(ChangeRefused, match="meanwhile"):
        ledger.new_version(now, "domain", "[3]", Fraction(1), by="carl", reason="third")
    assert ledger.account(seen.id).policy_version == 2
    assert ledger.verify().is_sound


def test_loss_beyond_the_limit_is_refused_until_the_budget_is_renewed(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, "1/2", "a"))
    assert "Renew" in (ledger.what_would_change(account.id, "policy", "[1]", Fraction(3)).refusal or "")
    with pytest.raises(ChangeRefused):
        ledger.new_version(ledger.account(account.id), "policy", "[1]", Fraction(3), by="cora", reason="wider")
    assert ledger.account(account.id).policy_version == 1
    ledger.renew(account.id, Fraction(2), by="cora", reason="to allow the new policy")
    ledger.new_version(ledger.account(account.id), "policy", "[1]", Fraction(3), by="cora", reason="wider")
    assert ledger.account(account.id).spent == Fraction(3, 2)


@pytest.mark.parametrize("epsilon", ["1/2", "0"])
def test_infinite_stretch_is_refused_after_any_release_even_a_free_exact_one(ledger: Ledger, epsilon: str) -> None:
    account = opened(ledger, 1)
    assert ledger.what_would_change(account.id, "policy", "[1]", None).refusal is None
    ledger.new_version(ledger.account(account.id), "policy", "[1]", None, by="cora", reason="nothing released yet")
    ledger.charge(charge_of(ledger.account(account.id), epsilon, "a"))
    announced = ledger.what_would_change(account.id, "policy", "[2]", None)
    assert announced.spent_after is None
    assert "leaves apart" in (announced.refusal or "")
    with pytest.raises(ChangeRefused):
        ledger.new_version(ledger.account(account.id), "policy", "[2]", None, by="cora", reason="too late")
    assert ledger.verify().is_sound


def test_senseless_versions_are_refused(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    for stretch in (Fraction(1, 2), Fraction(0), 1.5, 2):
        with pytest.raises(InvalidInput):
            ledger.what_would_change(account.id, "policy", "[1]", stretch)
    with pytest.raises(InvalidInput):
        ledger.what_would_change(account.id, "colour", "[1]", Fraction(1))
    for document in ("not json", "[" * 100_000, "\ud800"):
        with pytest.raises(InvalidInput):
            ledger.what_would_change(account.id, "policy", document, Fraction(1))
    assert "in force" in (ledger.what_would_change(account.id, "policy", "{}", Fraction(1)).refusal or "")
    with pytest.raises(UnknownAccount):
        ledger.what_would_change("nobody", "policy", "[1]", Fraction(1))
    with pytest.raises(InvalidInput):
        ledger.document(account.id, "policy", 7)


def test_a_stretch_too_fine_to_carry_names_a_whole_one(ledger: Ledger) -> None:
    account = opened(ledger, 10)
    ledger.charge(charge_of(account, "1/3", "a"))
    with pytest.raises(AmountTooFine) as caught:
        ledger.what_would_change(account.id, "policy", "[1]", Fraction(10**55 + 1, 10**55))
    assert caught.value.nearest_above == 2
    assert ledger.what_would_change(account.id, "policy", "[1]", Fraction(2)).refusal is None
