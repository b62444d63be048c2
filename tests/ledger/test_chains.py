"""Chains of answers: the data pays the finest level, each analyst what they received, and the entries prove it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import BudgetExceeded, ChainMoved, InvalidInput, LedgerCorrupt
from blowfishdb.ledger import Account, Charge, Ledger, Receipt
from blowfishdb.ledger.values import BROKEN, Link, PastLink, Publication, owed
from tests.ledger.support import charge_of, opened

CHAIN = "rows.identity.shape.1"


def linked(
    account: Account, level: str, epsilon: str, received: str, key: str, analyst: str = "ana", chain: str = CHAIN
) -> Charge:
    link = Link(chain, Fraction(level), Fraction(received))
    return replace(charge_of(account, epsilon, key, analyst=analyst), link=link)


def published(ledger: Ledger, charge: Charge, *given: int, mark: str = "m") -> Receipt:
    receipt = ledger.charge(charge)
    ledger.store_answer(receipt, charge.key.encode(), Publication(frozenset(given), mark))
    return receipt


def test_the_data_pays_the_finest_level_and_each_analyst_what_they_received(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    first = published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    second = published(ledger, linked(account, "1/4", "3/20", "3/20", "b"), first.sequence)
    published(ledger, linked(account, "1/5", "0", "1/5", "c", "ben"), first.sequence, second.sequence)
    assert ledger.account(account.id).spent == Fraction(1, 4)
    assert ledger.budget_of(account.id, "ana").spent == Fraction(1, 4)
    assert ledger.budget_of(account.id, "ben").spent == Fraction(1, 5)
    links = ledger.links(account.id, "rows")
    assert [(past.analyst, past.link.level, past.mark) for past in links] == [
        ("ana", Fraction(1, 10), "m"),
        ("ana", Fraction(1, 4), "m"),
        ("ben", Fraction(1, 5), "m"),
    ]
    assert ledger.receipt_of(account.id, "ana", "b") == second
    assert ledger.receipt_of(account.id, "ben", "b") is None
    assert ledger.time_of(second.sequence)
    assert ledger.verify().is_sound


def test_the_finest_level_of_each_chain_comes_first_with_its_first_answer(ledger: Ledger) -> None:
    account = opened(ledger, 2)
    other, third = "more.identity.shape.1", "last.identity.shape.1"
    coarse = published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    fine = published(ledger, linked(account, "1/4", "3/20", "3/20", "b"), coarse.sequence)
    published(ledger, linked(account, "1/4", "0", "0", "again"), coarse.sequence, fine.sequence)
    alike = published(ledger, linked(account, "1/4", "1/4", "1/4", "c", chain=other))
    little = published(ledger, linked(account, "1/20", "1/20", "1/20", "d", chain=third))
    ledger.charge(linked(account, "1", "1", "1", "unanswered", chain="none.identity.shape.1"))
    assert ledger.finest_links(account.id, "ana") == [
        (Fraction(1, 4), alike.sequence, other),
        (Fraction(1, 4), fine.sequence, CHAIN),
        (Fraction(1, 20), little.sequence, third),
    ]
    assert ledger.finest_links(account.id, "ben") == []


def test_a_charge_pays_what_its_chain_leaves_and_nothing_else(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    for wrong in (
        linked(account, "1/4", "1/10", "3/20", "b"),
        linked(account, "1/4", "3/20", "1/10", "b"),
        linked(account, "1/4", "3/20", "3/20", "b", "ben"),
        linked(account, "1/4", "3/20", "3/20", "b", chain="rows.identity.shape.2"),
    ):
        with pytest.raises(ChainMoved):
            ledger.charge(wrong)
    assert ledger.account(account.id).spent == Fraction(1, 10)
    for numbers in ((Fraction(0), Fraction(0)), (Fraction(1), Fraction(2))):
        with pytest.raises(InvalidInput):
            Link(CHAIN, *numbers)
    with pytest.raises(InvalidInput, match="more than its level"):
        linked(account, "1/10", "1/5", "1/10", "d")


def test_a_draw_made_given_other_answers_is_never_stored(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    first = published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    late = ledger.charge(linked(account, "1/4", "3/20", "3/20", "b"))
    other = published(ledger, linked(account, "1/5", "0", "1/5", "c", "ben"), first.sequence)
    with pytest.raises(ChainMoved):
        ledger.store_answer(late, b"given the first alone", Publication(frozenset([first.sequence]), "m"))
    assert ledger.answer_for(late) is None
    both = frozenset([first.sequence, other.sequence])
    assert ledger.store_answer(late, b"given both", Publication(both, "m")) == b"given both"
    # The first draw of a receipt stays, and a failure joins no chain.
    assert ledger.store_answer(late, b"again", Publication(both, "m")) == b"given both"
    failed = ledger.charge(linked(account, "1/2", "1/4", "1/4", "d"))
    ledger.store_answer(failed, b"failed")
    assert [past.mark for past in ledger.links(account.id, "rows")] == ["m", "m", "m", None]
    assert ledger.verify().is_sound


def test_chains_end_with_the_policy_and_with_the_snapshot(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    ledger.new_version(account, "policy", '{"v":2}', Fraction(1), by="cora", reason="new")
    later = ledger.account(account.id)
    assert ledger.links(account.id, "rows") == []
    with pytest.raises(ChainMoved):
        ledger.charge(linked(later, "1/4", "3/20", "3/20", "b"))
    late = ledger.charge(linked(later, "1/4", "1/4", "1/4", "b"))
    ledger.new_snapshot(later, "of May", by="cora")
    assert ledger.store_answer(late, b"late", Publication(frozenset(), "m")) == b"late"
    assert ledger.links(account.id, "rows") == []
    assert ledger.verify().is_sound


@pytest.mark.parametrize("own_limit", [None, Fraction(1, 2)])
def test_refusals_are_the_same_whether_others_paid_for_these_rows_or_for_other_ones(
    ledger: Ledger, own_limit: Fraction | None
) -> None:
    account = opened(ledger, 1, own_limit)
    published(ledger, linked(account, "1/2", "1/2", "1/2", "a"))
    more = linked(account, "3/4", "1/4", "3/4", "b", "ben")
    elsewhere = linked(account, "3/4", "3/4", "3/4", "b", "ben", "other rows.identity.shape.1")
    for charge in (more, elsewhere):
        for pay in (ledger.charge, lambda one: ledger.charge_all([one])):
            with pytest.raises(BudgetExceeded) as refusal:
                pay(charge)
            assert (refusal.value.requested, refusal.value.remaining_dataset) == (Fraction(3, 4), Fraction(1, 2))
    assert ledger.room(account.id, "ben", None) == (Fraction(1, 2), own_limit)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE link SET level = '1/2'", "the chains are not those"),
        ("DELETE FROM link", "the chains are not those"),
        ("UPDATE link SET mark = 'other'", "the chains are not those"),
    ],
)
def test_changed_chains_are_noticed(ledger: Ledger, change: str, reason: str) -> None:
    account = opened(ledger, 1)
    published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    with ledger.store.write() as cursor:
        cursor.rows(change)
    fault = ledger.verify().fault
    assert fault is not None
    assert reason in fault.reason


@pytest.mark.parametrize("change", ["level = 'much'", "level = '1/0'", "received = '1/2'", "level = '0'"])
def test_a_link_that_was_read_before_is_read_as_it_is_now(ledger: Ledger, change: str) -> None:
    account = opened(ledger, 1)
    published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    assert [past.link.level for past in ledger.links(account.id, "rows")] == [Fraction(1, 10)]
    with ledger.store.write() as cursor:
        cursor.rows(f"UPDATE link SET {change}")
    for _ in range(2):
        with pytest.raises(LedgerCorrupt, match="a chain cannot be read"):
            ledger.links(account.id, "rows")


def test_answers_of_one_chain_on_different_content_are_noticed(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    first = published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    published(ledger, linked(account, "1/4", "3/20", "3/20", "b"), first.sequence, mark="changed")
    fault = ledger.verify().fault
    assert fault is not None
    assert "different content" in fault.reason


def test_a_draw_from_data_after_one_that_failed_is_noticed(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    published(ledger, linked(account, "1/5", "1/5", "1/5", "a"), mark=BROKEN)
    fine = published(ledger, linked(account, "1/10", "0", "1/10", "b", "ben"))
    fault = ledger.verify().fault
    assert fault is not None
    assert (fault.sequence, "a draw has failed" in fault.reason) == (fine.sequence + 1, True)


def test_a_draw_given_a_finer_answer_is_sound_after_one_that_failed(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    first = published(ledger, linked(account, "1/5", "1/5", "1/5", "a"))
    published(ledger, linked(account, "1/4", "1/20", "1/20", "b"), first.sequence, mark=BROKEN)
    published(ledger, linked(account, "1/10", "0", "1/10", "c", "ben"), first.sequence)
    assert ledger.verify().is_sound


def test_losses_per_class_follow_the_part_that_is_paid(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    account = ledger.set_accounting(account, "per-edge", by="cora", reason="tighter")
    losses = {"moves age": Fraction(1, 20), "moves sex": Fraction(1, 10)}
    first = published(ledger, replace(linked(account, "1/10", "1/10", "1/10", "a"), losses=losses))
    doubled = {name: 2 * loss for name, loss in losses.items()}
    more = replace(linked(account, "1/5", "1/10", "1/10", "b"), losses=doubled)
    second = published(ledger, more, first.sequence)
    less = replace(linked(account, "1/10", "0", "1/10", "c", "ben"), losses=losses)
    published(ledger, less, first.sequence, second.sequence)
    with ledger.store.read() as cursor:
        spent, by_ben = cursor.losses(account.id), cursor.losses(account.id, "ben")
    assert spent is not None
    assert by_ben is not None
    assert (dict(spent.classes), dict(by_ben.classes)) == (doubled, losses)
    assert ledger.verify().is_sound


levels = st.builds(Fraction, st.integers(1, 40), st.sampled_from((1, 7, 31, 37, 1000, 37**20)))


@given(st.lists(st.tuples(levels, st.sampled_from(("ana", "ben")))), levels)
def test_what_is_owed_is_the_level_above_the_highest_that_was_charged(
    charged: list[tuple[Fraction, str]], level: Fraction
) -> None:
    chain = [PastLink(number, name, Link(CHAIN, paid, paid), None) for number, (paid, name) in enumerate(charged)]
    assert owed(chain, level) == max([Fraction(0), level - max([paid for paid, _ in charged], default=Fraction(0))])
    by_ana = [paid for paid, name in charged if name == "ana"]
    assert owed(chain, level, "ana") == max([Fraction(0), level - max(by_ana, default=Fraction(0))])
