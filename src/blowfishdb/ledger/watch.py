"""A watch over the books: before a ledger is used, and every minute from then on, balances must be what entries say."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from blowfishdb.errors import LedgerCorrupt
from blowfishdb.ledger.base import Store
from blowfishdb.ledger.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from blowfishdb.ledger.records import load_entry
from blowfishdb.ledger.values import Head
from blowfishdb.ledger.verification import verify_since

logger = logging.getLogger("blowfishdb.curator")

EVERY = 60.0
"""Seconds between two checks of a ledger that stays open."""
WORTH_KEEPING = 200
"""A checkpoint is written once so many entries are newer than the last one."""


@dataclass(eq=False)
class BooksWatch:
    """Checks what is new since the last check, and every balance. `path` keeps how far that came, over restarts."""

    path: Path
    every: float = EVERY
    clock: Callable[[], float] = time.monotonic
    _last: Checkpoint | None = None
    _kept: int = -1
    _at: float | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def check_if_due(self, store: Store, mark: Callable[[], Head | None]) -> None:
        """LedgerCorrupt when the books are wrong; looks only when the last sound look was long ago, or none was."""
        with self._turn:
            if self._at is None or self.clock() - self._at >= self.every:
                # The mark is read before the ledger: it never ends after a view that is taken later.
                self._check(store, mark())

    def _check(self, store: Store, mark: Head | None) -> None:
        if self._last is None:
            self._last = read_checkpoint(self.path)
            self._kept = 0 if self._last is None else self._last.head.sequence
        with store.read() as cursor:
            known = self._last
            if known is not None:
                entry = load_entry(cursor, known.head.sequence)
                if entry is None or entry.hash != known.head.hash:
                    known = None
            start = None if known is None else Checkpoint(known.head, copy.deepcopy(known.books))
            found, reached = verify_since(cursor, mark, start)
            if found.fault is not None and start is not None:
                # Entries are the truth: a checkpoint that they contradict stops nobody.
                found, reached = verify_since(cursor, mark, None)
        if found.fault is not None:
            # Whoever asks hears of the fault, and not of other people's balances.
            logger.error("the ledger's books, entry %s: %s", found.fault.sequence, found.fault.reason)
            raise LedgerCorrupt("the books do not add up", sequence=found.fault.sequence)
        self._last, self._at = reached, self.clock()
        if reached.head.sequence - self._kept >= WORTH_KEEPING:
            write_checkpoint(self.path, reached)
            self._kept = reached.head.sequence
