"""The balances can be proven: every change behind the ledger's back is found, and where."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.ledger import Account, Ledger, verification
from blowfishdb.ledger.amounts import ClassLosses, in_parts
from blowfishdb.ledger.records import LedgerCursor, charge_body, link
from blowfishdb.ledger.state import Tally
from blowfishdb.ledger.store import SqliteCursor
from tests.ledger.support import charge_of, opened

Damage = Callable[[LedgerCursor], object]


def busy_ledger(ledger: Ledger) -> Account:
    """Entries: 1 account, 2 name, 3 charge, 4 answer, 5 limit, 6 renewal, 7 version, 8 snapshot, 9 charge."""
    account = opened(ledger, 1, Fraction(1, 2))
    ledger.store_answer(ledger.charge(charge_of(account, "1/5", "a")), b"noisy")
    ledger.limit_analyst(account.id, "bob", Fraction(3, 4), by="cora", reason="more")
    ledger.renew(account.id, Fraction(2), by="cora", reason="board")
    ledger.new_version(ledger.account(account.id), "policy", "[1]", Fraction(2), by="cora", reason="wider")
    ledger.new_snapshot(ledger.account(account.id), "May", by="cora")
    ledger.charge(charge_of(ledger.account(account.id), "1/10", "b"))
    return ledger.account(account.id)


def rechained(cursor: LedgerCursor, sequence: int, old: str, new: str) -> None:
    """Changes an entry and recomputes all hashes after it, as a patient forger would."""
    cursor.rows("UPDATE entry SET body = replace(body, ?, ?) WHERE sequence = ?", old, new, sequence)
    rows = cursor.rows("SELECT sequence, body, previous_hash FROM entry WHERE sequence >= ? ORDER BY 1", sequence)
    previous = str(rows[0][2])
    for number, body, _ in rows:
        own = link(previous, int(str(number)), str(body))
        cursor.rows("UPDATE entry SET previous_hash = ?, hash = ? WHERE sequence = ?", previous, own, number)
        previous = own
    cursor.rows("UPDATE head SET hash = ?", previous)


DAMAGES: list[tuple[Damage, int | None, str]] = [
    (lambda c: c.rows("UPDATE entry SET body = replace(body, '1/5', '1/6') WHERE sequence = 3"), 3, "changed"),
    (lambda c: c.rows("UPDATE entry SET hash = previous_hash WHERE sequence = 5"), 5, "changed"),
    (lambda c: c.rows("DELETE FROM entry WHERE sequence = 6"), 7, "entry 6 is missing"),
    (lambda c: c.rows("DELETE FROM entry WHERE sequence = 9"), None, "head says 9"),
    (lambda c: c.rows("UPDATE entry SET analyst = 'eve' WHERE sequence = 3"), 3, "columns"),
    (lambda c: c.rows("UPDATE entry SET kind = 'snapshot' WHERE sequence = 9"), 9, "columns"),
    (lambda c: c.rows("UPDATE entry SET request_digest = 'x' WHERE sequence = 3"), 3, "columns"),
    (lambda c: c.rows("UPDATE answer SET payload = ?", b"other"), 4, "answer"),
    (lambda c: c.rows("DELETE FROM answer"), 4, "answer"),
    (lambda c: c.rows("INSERT INTO answer VALUES (9, 9, ?)", b"unpaid"), None, "without an entry"),
    (lambda c: c.rows("UPDATE account SET spent_units = '0'"), None, "spent budget"),
    (lambda c: c.rows("UPDATE account SET limit_top = '9'"), None, "limit"),
    (lambda c: c.rows("UPDATE account SET charges = 0"), None, "charges"),
    (lambda c: c.rows("UPDATE account SET snapshot = 1"), None, "snapshot"),
    (lambda c: c.rows("UPDATE analyst SET spent_units = '0' WHERE name = 'ana'"), None, "spent"),
    (lambda c: c.rows("UPDATE analyst SET limit_top = '9' WHERE name = 'bob'"), None, "limit of 'bob'"),
    (lambda c: c.rows("DELETE FROM analyst WHERE name = 'bob'"), None, "missing"),
    (lambda c: c.rows("UPDATE version SET document = '[]' WHERE number = 2"), None, "documents"),
    (lambda c: c.rows("DELETE FROM label"), None, "names"),
    (lambda c: rechained(c, 3, '"1/5"', '"9/5"'), 3, "more than the limits"),
    (lambda c: rechained(c, 3, '"1/5"', '"3/5"'), 3, "more than the limits"),
    (lambda c: rechained(c, 3, '"1/5"', '"1/6"'), 4, "belongs to no charge"),
    (lambda c: rechained(c, 9, '"1/10"', '"1/20"'), None, "spent budget"),
    (lambda c: rechained(c, 3, '"1/5"', '"1/0"'), 3, "cannot be read"),
    (lambda c: rechained(c, 9, '"policy_version":2', '"policy_version":2.0'), 9, "cannot be read"),
    (lambda c: rechained(c, 9, '"program-b"', '""'), 9, "cannot be read"),
    (lambda c: rechained(c, 4, '"charge":3', f'"charge":{10**30}'), 4, "answer"),
    (lambda c: rechained(c, 4, '"charge":3', f'"charge":-{10**30}'), 4, "answer"),
    (lambda c: c.rows("UPDATE answer SET entry = 9"), 4, "answer"),
    (lambda c: rechained(c, 6, '"limit":"2"', '"limit":"1"'), 6, "raise"),
    (lambda c: rechained(c, 7, '"stretch":"2"', '"stretch":null'), 7, "carried over"),
    (lambda c: rechained(c, 7, '"stretch":"2"', '"stretch":"11"'), 7, "passes the limit"),
    (lambda c: rechained(c, 8, '"snapshot":2', '"snapshot":5'), 8, "order"),
    (lambda c: rechained(c, 9, '"snapshot":2', '"snapshot":1'), 9, "not in force"),
]


def test_a_sound_ledger_is_sound(ledger: Ledger) -> None:
    busy_ledger(ledger)
    found = ledger.verify()
    assert (found.is_sound, found.entries, found.head) == (True, 9, ledger.head().hash)


def test_every_damage_is_found_where_it_is(ledger: Ledger) -> None:
    busy_ledger(ledger)
    for damage, sequence, reason in DAMAGES:
        fault = fault_after(ledger, damage)
        assert fault is not None, reason
        assert (fault.sequence, reason in fault.reason) == (sequence, True), (reason, fault)
    assert ledger.verify().is_sound


def test_damage_is_found_in_whatever_piece_it_lies(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_ledger(ledger)
    monkeypatch.setattr(verification, "STRIDE", 2)
    monkeypatch.setattr(verification, "READ_AHEAD", 1)
    assert ledger.verify().is_sound
    for damage, sequence, reason in DAMAGES[:9]:
        fault = fault_after(ledger, damage)
        assert fault is not None, reason
        assert (fault.sequence, reason in fault.reason) == (sequence, True), (reason, fault)


def test_answers_in_another_order_than_their_charges_are_sound_and_each_one_is_looked_at(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    receipts = [ledger.charge(charge_of(account, "1/10", key)) for key in "abcd"]
    for receipt in (receipts[2], receipts[0], receipts[3]):
        ledger.store_answer(receipt, receipt.charge.key.encode())
    assert ledger.verify().is_sound
    for place, answered in ((7, 5), (8, 3), (9, 6)):
        fault = fault_after(
            ledger, lambda c, charge=answered: c.rows("UPDATE answer SET payload = ? WHERE charge = ?", b"x", charge)
        )
        assert fault is not None
        assert (fault.sequence, fault.reason) == (place, "the stored answer is missing or was changed")


@pytest.mark.parametrize("read_ahead", [1, 2, 3, 64])
def test_every_entry_and_every_answer_is_looked_at_wherever_pieces_end(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, read_ahead: int
) -> None:
    """Entries 1 account, 2 name; then charges 3 to 7 and their answers 8 to 12, the last charge answered first."""
    monkeypatch.setattr(verification, "READ_AHEAD", read_ahead)
    account = opened(ledger, 1)
    receipts = [ledger.charge(charge_of(account, "1/10", key)) for key in "abcde"]
    for receipt in reversed(receipts):
        ledger.store_answer(receipt, receipt.charge.key.encode())
    assert ledger.verify().is_sound
    for number in range(1, 13):
        for change, reason in (
            ("body = body || ' '", "its content was changed after it was written"),
            ("hash = body", "its content was changed after it was written"),
            ("previous_hash = body", "it does not follow the entry before it"),
            ("analyst = 'eve'", "its columns contradict its content"),
            ("account = 'other'", "its columns contradict its content"),
        ):
            statement = f"UPDATE entry SET {change} WHERE sequence = {number}"
            fault = fault_after(ledger, lambda c, sql=statement: c.rows(sql))
            assert fault == verification.Fault(number, reason), statement
    for charge in range(3, 8):
        told = 15 - charge
        for change in (
            f"UPDATE answer SET payload = ? WHERE charge = {charge}",
            f"UPDATE answer SET entry = 1, payload = ? WHERE charge = {charge}",
            f"DELETE FROM answer WHERE charge = {charge} AND payload <> ?",
        ):
            fault = fault_after(ledger, lambda c, sql=change: c.rows(sql, b"x"))
            assert fault == verification.Fault(told, "the stored answer is missing or was changed"), change
        for other in {*range(3, 8)} - {charge}:
            # Two stored answers claim the same entry.
            moved = f"UPDATE answer SET entry = {15 - other} WHERE charge = {charge}"
            fault = fault_after(ledger, lambda c, sql=moved: c.rows(sql))
            assert fault == verification.Fault(told, "the stored answer is missing or was changed"), moved


def test_a_body_with_spaces_around_it_is_read_as_any_json(ledger: Ledger) -> None:
    busy_ledger(ledger)
    with ledger.store.write() as cursor:
        rechained(cursor, 6, "{", " {")
        rechained(cursor, 8, "}", "}\n")
    ledger.mark.replace(ledger.head())
    assert ledger.verify().is_sound


amounts = st.builds(Fraction, st.integers(0, 40), st.sampled_from((1, 7, 31, 37, 1000, 37**20)))


@given(st.lists(st.tuples(amounts, st.none() | st.just("class") | st.just("scale"))), amounts)
def test_a_tally_is_the_sum_of_its_charges(steps: list[tuple[Fraction, str | None]], limit: Fraction) -> None:
    tally, losses = Tally(), ClassLosses()
    for amount, what in steps:
        if what == "scale":
            tally.scale(amount)
            losses = losses.times(amount)
        else:
            named = None if what is None else {what: amount}
            losses = losses.plus(amount, named)
            assert tally.add(in_parts(amount), named, limit) == (losses.worst > limit)
            assert not tally.is_over(None)
        assert tally.losses == losses
        assert tally.is_over(limit) == (losses.worst > limit)
    assert tally == Tally(losses)
    assert tally != Tally(ClassLosses(losses.rest + 1, losses.classes))


class Undo(Exception):
    """Takes the damage back after the look."""


def fault_after(ledger: Ledger, damage: Damage) -> verification.Fault | None:
    found = None
    try:
        with ledger.store.write() as cursor:
            _without_references(cursor, damage)
            found = verification.verify_since(cursor, None, None)[0].fault
            raise Undo
    except Undo:
        return found


def _without_references(cursor: LedgerCursor, damage: Damage) -> None:
    """A forger has no use for foreign keys; SQLite can put them off, PostgreSQL must drop them."""
    if isinstance(cursor, SqliteCursor):
        cursor.rows("PRAGMA defer_foreign_keys = ON")
    else:
        cursor.rows("SET LOCAL session_replication_role = replica")
        cursor.rows("ALTER TABLE account DROP CONSTRAINT account_check")
    damage(cursor)


def test_an_overspending_entry_with_perfect_hashes_is_found(ledger: Ledger) -> None:
    account = opened(ledger, 1)
    ledger.charge(charge_of(account, 1, "a"))
    extra = charge_of(account, Fraction(1, 10**12), "b")
    with ledger.store.write() as cursor:
        cursor.append_body("charge", account.id, charge_body(extra, "now"), extra)
    fault = ledger.verify().fault
    assert fault is not None
    assert (fault.sequence, fault.reason) == (4, "it spends more than the limits allow")


def test_unknown_kinds_and_strange_bodies_are_faults(ledger: Ledger) -> None:
    opened(ledger, 1)
    for number, body in enumerate(['{"account":null,"kind":"gift"}', "[]", "{}", "no json"]):
        found = None
        try:
            with ledger.store.write() as cursor:
                cursor.append_body("gift", None, body)
                found = verification.verify_since(cursor, None, None)[0].fault
                raise Undo
        except Undo:
            pass
        assert found is not None, number
        assert found.sequence == 3


def test_the_mark_takes_part_in_the_proof(ledger: Ledger) -> None:
    busy_ledger(ledger)
    with ledger.store.write() as cursor:
        rechained(cursor, 9, "program-b", "program-c")
    fault = ledger.verify().fault
    assert fault is not None
    assert (fault.sequence, "mark" in fault.reason) == (9, True)


def test_progress_is_told(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_ledger(ledger)
    monkeypatch.setattr(verification, "STRIDE", 4)
    calls: list[tuple[int, int]] = []
    ledger.verify(lambda done, total: calls.append((done, total)))
    assert calls == [(4, 9), (8, 9), (9, 9)]
