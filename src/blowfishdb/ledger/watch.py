"""A ledger that is in use is checked as it grows: what is new each time, everything once a minute, over restarts."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from blowfishdb.errors import LedgerCorrupt
from blowfishdb.incidents import curator_log
from blowfishdb.ledger.amounts import read_losses
from blowfishdb.ledger.mark import check_not_rolled_back
from blowfishdb.ledger.records import LinkRow, digest
from blowfishdb.ledger.state import AccountState, ChainState, LedgerState, Tally, fraction, optional
from blowfishdb.ledger.store import Store
from blowfishdb.ledger.values import Head, Spent
from blowfishdb.ledger.verification import (
    UNREADABLE,
    Checkpoint,
    check_spender,
    fault_of,
    replayed,
    verify_since,
)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in a file; None when there is none that can be read, and then everything is checked."""
    try:
        document = json.loads(path.read_text(encoding="ascii"))
        if document["check"] != digest(document["checkpoint"]):
            return None
        content = json.loads(document["checkpoint"])
        accounts = {name: _read_account(fields) for name, fields in content["accounts"].items()}
        lost = {
            name: [Spent(fraction(one["amount"]), one["declared"]) for one in many]
            for name, many in content["lost"].items()
        }
        state = LedgerState(accounts, content["answers"], lost, content["restored"])
        return Checkpoint(Head(**content["head"]), state)
    except (OSError, *UNREADABLE):
        return None


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Stores a checkpoint. One that cannot be written is no loss: the next check then begins earlier."""
    content = {"head": vars(checkpoint.head), **vars(checkpoint.state)}
    text = json.dumps(content, default=_plain)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Like the ledger, it tells who spent what: nobody else on this machine reads it.
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600))
            beside.write_text(json.dumps({"checkpoint": text, "check": digest(text)}), encoding="ascii")
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _plain(value: object) -> object:
    """A part of a checkpoint as JSON."""
    if isinstance(value, AccountState | Spent):
        return vars(value)
    if isinstance(value, Tally):
        return value.losses.to_json()
    if isinstance(value, ChainState):
        return list(value.links.values())
    return sorted(value) if isinstance(value, set) else str(value)


def _read_account(fields: dict[str, Any]) -> AccountState:
    amounts = {
        "limit": fraction(fields["limit"]),
        "analyst_limit": optional(fields["analyst_limit"]),
        "names": set(fields["names"]),
        "losses": Tally(read_losses(fields["losses"])),
        "analysts": {name: Tally(read_losses(losses)) for name, losses in fields["analysts"].items()},
        "individual": {name: fraction(limit) for name, limit in fields["individual"].items()},
        "chains": {name: _read_chain(links) for name, links in fields["chains"].items()},
    }
    return AccountState(**{**fields, **amounts})


def _read_chain(rows: list[LinkRow]) -> ChainState:
    chain = ChainState()
    for charge, analyst, name, level, received, mark in rows:
        chain.add((charge, analyst, name, level, received, mark))
    return chain


EVERY = 60.0
"""Seconds between two checks of a ledger that stays open."""
CHECKPOINT_EVERY = 200
"""The number of entries after which the next checkpoint is written."""


@dataclass(eq=False)
class LedgerWatch:
    """Checks what is new since the last check, and balances. `path` keeps how far that came, over restarts.

    Its lock is held while a few rows are read: charges of one ledger come one after another anyway.
    """

    path: Path
    every: float = EVERY
    clock: Callable[[], float] = time.monotonic
    _last: Checkpoint | None = None
    _written_at: int = -1
    _at: float | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def check(
        self, store: Store[Any], mark: Callable[[], Head | None], account: str | None, analyst: str | None
    ) -> None:
        """LedgerCorrupt when entries or balances are wrong; LedgerRolledBack when entries that were seen are gone.

        Each time the new entries and the balances of the account and the analyst; everything where the last sound
        check of it is long ago.
        """
        with self._turn:
            is_due = self._at is None or self.clock() - self._at >= self.every
            # The mark is read before the ledger: it never ends after a view that is taken later.
            if is_due or not self._follows(store, account, analyst):
                self._check(store, mark())

    def _follows(self, store: Store[Any], account: str | None, analyst: str | None) -> bool:
        """Whether the entries since the last look, and these balances, are as they should be."""
        with store.read() as cursor:
            known = self._last
            if known is None:
                return False
            head = cursor.head()
            check_not_rolled_back(known.head, head, cursor.hash_at)
            self._last, fault = replayed(cursor, head, None, known)
            state = self._last.state.accounts.get(account or "")
            if fault is None and account is not None and state is not None:
                fault = fault_of(partial(check_spender, cursor, account, state, analyst))
        if fault is not None:
            # The state may hold half of what is wrong.
            self._last = None
        return fault is None

    def _check(self, store: Store[Any], mark: Head | None) -> None:
        known = self._last
        if known is None:
            known = read_checkpoint(self.path)
            self._written_at = 0 if known is None else known.head.sequence
        with store.read() as cursor:
            for seen in (mark, None if self._last is None else self._last.head):
                if seen is not None:
                    check_not_rolled_back(seen, cursor.head(), cursor.hash_at)
            if known is not None:
                entry = cursor.entry(known.head.sequence)
                if entry is None or entry.hash != known.head.hash:
                    known = None
            start = None if known is None else Checkpoint(known.head, copy.deepcopy(known.state))
            report, reached = verify_since(cursor, mark, start)
            if report.fault is not None and start is not None:
                # Entries are the truth: a checkpoint that they contradict stops nobody.
                report, reached = verify_since(cursor, mark, None)
        if report.fault is not None:
            # Whoever asks hears of the fault, and not of other people's balances.
            curator_log.error("the ledger does not add up, entry %s: %s", report.fault.sequence, report.fault.reason)
            raise LedgerCorrupt("the balances do not add up", sequence=report.fault.sequence)
        self._last, self._at = reached, self.clock()
        if reached.head.sequence - self._written_at >= CHECKPOINT_EVERY:
            write_checkpoint(self.path, reached)
            self._written_at = reached.head.sequence
