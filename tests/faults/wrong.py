"""Ledgers that are wrong on purpose, installed into client processes, to show that the checker notices."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from blowfishdb.ledger import Account, Charge, Ledger, Receipt, charges
from blowfishdb.ledger import ledger as ledger_module
from blowfishdb.ledger.records import LedgerCursor
from blowfishdb.ledger.store import SqliteCursor, SqliteStore
from blowfishdb.ledger.values import Publication


def charge_after_answer(number: int) -> None:
    """Answers first; the charge is made when the next release begins, or never."""
    charge, store, replay = Ledger.charge, Ledger.store_answer, Ledger.replay
    owed: list[tuple[Charge, bytes]] = []

    def promise(self: Ledger, wanted: Charge) -> Receipt:
        return Receipt(0, wanted, "", "")

    def show(self: Ledger, receipt: Receipt, payload: bytes, publication: Publication | None = None) -> bytes:
        owed.append((receipt.charge, payload))
        return payload

    def pay_first(self: Ledger, *values: Any, **named: Any) -> Any:
        while owed:
            late, payload = owed.pop()
            store(self, charge(self, late), payload)
        return replay(self, *values, **named)

    Ledger.charge, Ledger.store_answer, Ledger.replay = promise, show, pay_first
    Ledger.answer_for = lambda self, receipt: None


def not_atomic(number: int) -> None:
    """Every statement commits by itself, and the first process dies between the debit and the entry."""

    @contextmanager
    def write(self: SqliteStore) -> Iterator[LedgerCursor]:
        yield SqliteCursor(self._writer)

    append = SqliteCursor.append_body
    flag = Path(os.environ["FAULTS_FLAG"])

    def die_once(*values: Any) -> Any:
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return append(*values)

    SqliteStore.write = write
    SqliteCursor.append_body = die_once


def second_draw(number: int) -> None:
    """Never looks whether an answer is on record: whoever asks again sees new noise under the old charge."""
    store = Ledger.store_answer

    def own(self: Ledger, receipt: Receipt, payload: bytes, publication: Publication | None = None) -> bytes:
        store(self, receipt, payload, publication)
        return payload

    Ledger.store_answer = own
    Ledger.answer_for = lambda self, receipt: None
    Ledger.replay = lambda self, *values, **named: None


def no_limits(number: int) -> None:
    """Forgets to look at the limits when it charges."""
    post_charge, load_analyst = charges.post_charge, charges.ensure_analyst

    class Endless(SqliteCursor):
        def account(self, account: str) -> Account:
            return replace(super().account(account), limit=Fraction(10**6))

    charges.post_charge = lambda cursor, *values: post_charge(Endless(cursor.connection), *values)
    charges.ensure_analyst = lambda *values: replace(load_analyst(*values), limit=None)


def forgetful(number: int) -> None:
    """Says that an answer is on record and rolls the record back."""

    @contextmanager
    def write(self: SqliteStore) -> Iterator[LedgerCursor]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield SqliteCursor(self._writer)
        finally:
            self._writer.execute("ROLLBACK")

    SqliteStore.write = write
    ledger_module.HighWaterMark.advance = lambda self, *values: None
    Ledger.answer_for = lambda self, receipt: None
    Ledger.store_answer = lambda self, receipt, payload, publication=None: payload


__all__ = ["charge_after_answer", "forgetful", "no_limits", "not_atomic", "second_draw"]
