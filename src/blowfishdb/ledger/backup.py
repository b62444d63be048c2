"""Copies of a ledger in a file of their own, and a copy put back with everything that is known to have been spent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from blowfishdb.errors import BackupRefused, LedgerCorrupt, LedgerRolledBack, plural
from blowfishdb.ledger.charges import utc_now
from blowfishdb.ledger.ledger import Ledger, count_restored, open_mark, open_store
from blowfishdb.ledger.mark import HighWaterMark, new_identity
from blowfishdb.ledger.records import EntryField, LedgerCursor, LedgerRow, text
from blowfishdb.ledger.store import Store, open_sqlite
from blowfishdb.ledger.values import Head, Seen, Spending, Spent, check_text, spending_fields
from blowfishdb.ledger.verification import verify_since

BATCH = 100
"""Rows that are written by one statement."""
WAYS_OUT = (
    "Restore a newer backup; or give a signed checkpoint that was kept elsewhere (--checkpoint), which counts what was "
    "spent up to it; or, if you know what was released since, say so for the record (--accept)."
)


@dataclass(frozen=True)
class Restored:
    """The ledger after a copy was put back, and the accounts that count more than the copy did."""

    head: Head
    counted: Spending
    aside: Path | None
    """Where the ledger that was here before is kept."""


def back_up_ledger(ledger: Ledger, file: Path) -> Seen:
    """A checked copy of the ledger in a new SQLite file, as it was at one moment; charges go on meanwhile."""
    # Read before the ledger is: a copy that lacks what the mark has seen is no backup.
    mark = ledger.mark.read()
    with closing(open_sqlite(file)) as copy:
        with copy.write() as target, ledger.store.read() as source:
            _copy(source, target, target)
        return _checked(copy, mark)


def check_copy(file: Path) -> Seen:
    """Where a copy ends and what it has spent; LedgerCorrupt when it does not add up."""
    with closing(open_sqlite(file)) as copy:
        return _checked(copy, None)


def restore_ledger(
    file: Path,
    url: str | Path,
    *,
    mark: str | Path | None,
    by: str,
    reason: str,
    checkpoint: Seen | None = None,
    accept: bool = False,
    aside: Path | None = None,
) -> Restored:
    """Puts a copy in the place of the ledger at `url`; its accounts count what mark, ledger and checkpoint there saw.

    `accept` restores although something may have been spent of which nothing is known here. A ledger with entries is
    replaced only where `aside` names the file that is to hold it. All of it is one transaction of the ledger, followed
    by the mark: whoever dies in between leaves a ledger that opens as it was, or that is refused until it is restored.
    """
    check_text(by, "the curator's name")
    check_text(reason, "the reason")
    with closing(open_sqlite(file)) as copy, closing(open_store(url)) as here, closing(open_mark(url, mark)) as guard:
        copied = _checked(copy, None)
        with here.write() as target, copy.read() as source:
            present = target.seen({})
            replaced = _set_aside(target, present.head, aside)
            marked = _seen(guard)
            witnesses = [one for one in (marked, present, checkpoint) if one and one.head.ledger == copied.head.ledger]
            if not accept:
                _check_known(source, copied, marked, checkpoint, witnesses)
            counted = _more_than(copied, witnesses)
            _copy(source, target, source)
            target.rows("DELETE FROM link")
            for account in source.account_ids():
                count_restored(target, account, counted[account].amount if account in counted else None)
            identity = new_identity() if marked is None else guard.identity() or new_identity()
            target.append("restored", None, _fields(by, reason, marked, counted))
            target.set_guard(identity)
            fault = verify_since(target, None, None)[0].fault
            if fault is not None:
                raise LedgerCorrupt(fault.reason, sequence=fault.sequence)
            restored = target.seen({})
        guard.replace(restored.head, identity, restored.spending)
    return Restored(restored.head, counted, aside if replaced else None)


def _checked(copy: Store[Any], mark: Head | None) -> Seen:
    with copy.read() as cursor:
        fault = verify_since(cursor, mark, None)[0].fault
        if fault is not None:
            raise LedgerCorrupt(f"the copy is not sound: {fault.reason}", sequence=fault.sequence)
        return cursor.seen({})


def _copy(source: LedgerCursor, target: LedgerCursor, schema: LedgerCursor) -> None:
    """All rows of one ledger in the place of those of another; `schema` is the one of them that is in SQLite."""
    tables = [text(row[0]) for row in schema.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")]
    tables.remove("head")
    # The row of the head stays: whoever waits for its lock finds it there.
    head = source.rows("SELECT ledger, sequence, hash, mark FROM head")[0]
    target.rows("UPDATE head SET ledger = ?, sequence = ?, hash = ?, mark = ?", *head)
    for table in reversed(tables):
        target.rows(f"DELETE FROM {table}")
    for table in tables:
        columns = schema.rows("SELECT name, type FROM pragma_table_info(?)", table)
        names = ", ".join(text(name) for name, _ in columns)
        is_text = [kind == "TEXT" for _, kind in columns]
        rows = source.stream(f"SELECT {names} FROM {table}")
        while batch := list(islice(rows, BATCH)):
            places = ", ".join([f"({', '.join('?' * len(columns))})"] * len(batch))
            target.rows(f"INSERT INTO {table} ({names}) VALUES {places}", *_values(batch, is_text))


def _values(batch: list[LedgerRow], is_text: list[bool]) -> Iterator[str | int | bytes | None]:
    """The values of rows; exact amounts are text in SQLite, and of any size."""
    for row in batch:
        for value, wants_text in zip(row, is_text, strict=True):
            yield str(value) if wants_text and isinstance(value, int) else value


def _set_aside(target: LedgerCursor, head: Head, aside: Path | None) -> bool:
    """Keeps what is to be replaced; whether there was anything."""
    if head.sequence == 0:
        return False
    if aside is None:
        entries = plural(head.sequence, "entry", "entries")
        raise BackupRefused(f"there is a ledger of {entries} in this place. To replace it, and keep a copy: --replace")
    with closing(open_sqlite(aside)) as spare, spare.write() as copy:
        _copy(target, copy, copy)
    return True


def _seen(mark: HighWaterMark) -> Seen | None:
    """What the mark remembers; None without a mark, and for one that cannot be read or has seen nothing."""
    with suppress(LedgerRolledBack):
        seen = mark.seen()
        if seen is not None and seen.head.sequence > 0:
            return seen
    return None


def _check_known(
    source: LedgerCursor, copied: Seen, marked: Seen | None, checkpoint: Seen | None, witnesses: list[Seen]
) -> None:
    """BackupRefused unless everything that was spent after the copy was made is known."""
    head = copied.head
    ahead = [seen for seen in witnesses if seen.head.sequence > head.sequence]
    furthest = max((seen.head.sequence for seen in ahead), default=head.sequence)
    known = max((seen.head.sequence for seen in ahead if seen.spending is not None), default=head.sequence)
    forked = [seen for seen in witnesses if 0 < seen.head.sequence <= head.sequence]
    other = [
        account
        for seen in ahead
        for account, spent in (seen.spending or {}).items()
        if spent.declared != (copied.spending or {}).get(account, spent).declared
    ]
    if marked is not None and marked.head.ledger != head.ledger:
        reason = "the high-water mark here belongs to another ledger."
    elif marked is None and (checkpoint is None or checkpoint not in witnesses):
        reason = (
            "there is no high-water mark of this ledger here, so nobody knows what was spent after the backup. Bring "
            "it along: its file, or its address as `mark` in the configuration."
        )
    elif furthest > known:
        reason = f"entry {furthest} had been written, and what was spent by then is not known."
    elif any(source.hash_at(seen.head.sequence) != seen.head.hash for seen in forked):
        reason = "the backup tells another history than the one that is known here."
    elif other:
        reason = "the policy or the domain of a dataset was changed after the backup, and the backup lacks the new one."
    else:
        return
    raise BackupRefused(f"{reason} {WAYS_OUT}")


def _more_than(copied: Seen, witnesses: list[Seen]) -> dict[str, Spent]:
    """What accounts are known to have lost beyond what the copy says, or without being in it."""
    most: dict[str, Spent] = {}
    for seen in sorted(witnesses, key=lambda one: one.head.sequence):
        for account, spent in (seen.spending or {}).items():
            before = most.get(account, spent).amount
            most[account] = Spent(max(spent.amount, before), spent.declared)
    known = copied.spending or {}
    return {name: spent for name, spent in most.items() if name not in known or spent.amount > known[name].amount}


def _fields(by: str, reason: str, marked: Seen | None, counted: Spending) -> dict[str, EntryField]:
    head = None if marked is None else marked.head
    return {
        "at": utc_now().isoformat(timespec="milliseconds"),
        "by": by,
        "reason": reason,
        "mark_ledger": head.ledger if head else None,
        "mark_sequence": head.sequence if head else None,
        "mark_hash": head.hash if head else None,
        "spending": json.dumps(spending_fields(counted)),
    }
