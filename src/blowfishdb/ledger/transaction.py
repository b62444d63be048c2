"""Writes of an open ledger: checked before, durable and known to the high-water mark after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from blowfishdb.ledger.mark import HighWaterMark, check_guard, check_not_rolled_back
from blowfishdb.ledger.records import BEGUN, COMMITTED, MARKED, Cursor, Field, StepHook
from blowfishdb.ledger.store import Store
from blowfishdb.ledger.values import Head, Receipt, check_text
from blowfishdb.ledger.verification import LedgerWatch


def utc_now() -> datetime:
    """The time for the record; nothing is ever ordered or decided by it."""
    return datetime.now(UTC)


def nothing_to_do(step: str) -> None:
    """The step hook outside tests."""
    del step


@dataclass(frozen=True, eq=False)
class OpenLedger:
    """A store, its mark and its watch. Every write is durable, and known to the mark, before its method returns."""

    store: Store[Any]
    mark: HighWaterMark
    mark_id: str
    id: str
    watch: LedgerWatch
    clock: Callable[[], datetime] = field(default=utc_now)
    reached: StepHook = field(default=nothing_to_do)

    def head(self) -> Head:
        """Where the ledger ends now."""
        with self.store.read() as cursor:
            return cursor.head()

    @contextmanager
    def _writing(self) -> Iterator[Cursor]:
        """One exclusive write on a sound ledger that its mark knows."""
        seen = self._sound()
        with self.store.write() as cursor:
            self.reached(BEGUN)
            head = cursor.head()
            check_not_rolled_back(seen, head, cursor.hash_at)
            check_guard(cursor.guard(), self.mark_id, head)
            yield cursor
            head = cursor.head()
        self._mark(head)

    def _mark(self, head: Head) -> None:
        """Moves the mark to a head that was committed."""
        self.reached(COMMITTED)
        self.mark.advance(head, self.head)
        self.reached(MARKED)

    def _sound(self, account: str | None = None, analyst: str | None = None) -> Head | None:
        """The mark as it is now; LedgerCorrupt when balances do not add up, before anything is built on them.

        Those of the account and the analyst are looked at every time, and all of them once a minute.
        """
        self.watch.check(self.store, self.mark.read, account, analyst)
        return self.mark.read()

    def _check_past(self, seen: Head | None, receipt: Receipt) -> None:
        """LedgerRolledBack when this charge was built on another past than the mark knew."""

        def hash_of(sequence: int) -> str | None:
            if sequence == receipt.sequence - 1:
                return receipt.previous_hash
            with self.store.read() as cursor:
                return cursor.hash_at(sequence)

        check_not_rolled_back(seen, Head(self.id, receipt.sequence - 1, receipt.previous_hash), hash_of)

    def _stamp(self, by: str, reason: str | None = None) -> dict[str, Field]:
        """When, by whom and why, for the entry of a curator's action."""
        check_text(by, "the curator's name")
        if reason is not None:
            check_text(reason, "the reason")
        return {"at": self._now(), "by": by, "reason": reason}

    def _now(self) -> str:
        return self.clock().isoformat(timespec="milliseconds")
