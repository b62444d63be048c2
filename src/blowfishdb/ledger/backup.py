"""Copies of a ledger in a file of their own, and a copy put back with everything that is known to have been spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from blowfishdb.errors import BackupRefused, LedgerCorrupt, plural
from blowfishdb.ledger.histories import (
    Branch,
    Takeover,
    Witness,
    branches,
    differs,
    known_until,
    lost_in_all,
    marked_by,
    take_over,
)
from blowfishdb.ledger.ledger import Ledger, open_mark, open_store
from blowfishdb.ledger.mark import DRILL, new_identity
from blowfishdb.ledger.records import LedgerCursor, LedgerRow, text
from blowfishdb.ledger.store import Store, open_sqlite
from blowfishdb.ledger.values import Head, Seen, Spending, check_text
from blowfishdb.ledger.verification import verify_since

BATCH = 100
"""Rows that are written by one statement."""
WAYS_OUT = (
    "Restore a newer backup; or give a signed checkpoint that was kept elsewhere (--checkpoint), which counts what was "
    "spent up to it; or, if you know what was released since, say so for the record (--accept)."
)


OTHER_POLICY = (
    "The policy or the domain of a dataset differs between the two, and a loss under one says nothing about the other, "
    "so their losses cannot be added up. Put the same version in force in one of them, and make the backup anew."
)


@dataclass(frozen=True)
class Restored:
    """The ledger after a copy was put back, and the accounts that count more than the copy did."""

    head: Head
    counted: Spending
    aside: Path | None
    """Where the ledger that was here before is kept."""
    known_until: int | None
    """The last entry of which it is known what was spent; None where the mark knows of all."""


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
    drill: bool = False,
    aside: Path | None = None,
) -> Restored:
    """Puts a copy in the place of the ledger at `url`; its accounts count what mark, ledger and checkpoint there saw.

    A `drill` needs to know nothing of what was spent since: nothing is released from it until a curator accepts it.
    `accept` restores although something may have been spent of which nothing is known here, or although the copy and a
    witness went different ways; then both are counted since they parted. A ledger with entries is replaced only where
    `aside` names the file that is to hold it. All of it is one transaction of the ledger, followed by the mark: whoever
    dies in between leaves a ledger that opens as it was, or that is refused until it is restored.
    """
    check_text(by, "the curator's name")
    check_text(reason, "the reason")
    with closing(open_sqlite(file)) as copy, closing(open_store(url)) as here, closing(open_mark(url, mark)) as guard:
        copied, marked, identity = _checked(copy, None), marked_by(guard), new_identity(is_drill=drill)
        with here.write() as target, copy.read() as source:
            present = target.seen({})
            is_free = aside is None and _is_outcome(target, present, copied)
            replaced = not is_free and _set_aside(target, present.head, aside)
            kept = Witness(copied, source)
            # Entries that contradict each other do not tell where histories part.
            is_sound = verify_since(target, None, None)[0].is_sound
            witnesses = [
                Witness(present, target if is_sound else None),
                *(Witness(one) for one in (marked, checkpoint) if one is not None),
            ]
            found = branches(kept, witnesses)
            if drill:
                _check_apart(marked, present)
            else:
                _check_known(kept, found, marked, checkpoint, accept=accept)
            counted, until = lost_in_all(kept, found), known_until(kept, found, marked)
            _copy(source, target, source)
            there = Takeover(counted, found, marked, until)
            restored = take_over(Witness(copied, target), there, identity, by=by, reason=reason)
            fault = verify_since(target, None, None)[0].fault
            if fault is not None:
                raise LedgerCorrupt(fault.reason, sequence=fault.sequence)
        guard.replace(restored.head, identity, restored.spending, restored.eras)
    return Restored(restored.head, counted, aside if replaced else None, until)


def is_in_place(file: Path, url: str | Path) -> bool:
    """Whether the ledger that a copy was made of is the one at `url` still, or whether the copy was never finished."""
    with closing(open_sqlite(file)) as copy, copy.read() as source, closing(open_store(url)) as here:
        head = source.head()
        with here.read() as target:
            return head.sequence == 0 or target.hash_at(head.sequence) == head.hash


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
    head = source.only("SELECT ledger, sequence, hash, mark FROM head")
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


def _is_outcome(target: LedgerCursor, present: Seen, copied: Seen) -> bool:
    """Whether the ledger here is this very copy, put in place by a restore that was interrupted, and nothing more."""
    head, last = copied.head, target.entry(present.head.sequence)
    is_next = last is not None and last.kind == "restored" and last.sequence == head.sequence + 1
    return is_next and target.hash_at(head.sequence) == head.hash


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


def _check_known(
    kept: Witness, found: Sequence[Branch], marked: Seen | None, checkpoint: Seen | None, *, accept: bool
) -> None:
    """BackupRefused unless all that was spent is known, in one history; who accepts may leave it at what is known."""
    ledger = kept.seen.head.ledger
    reasons = list[str]()
    if marked is not None and marked.head.ledger != ledger:
        reasons.append("the high-water mark here belongs to another ledger.")
    elif marked is None and (checkpoint is None or checkpoint.head.ledger != ledger):
        reasons.append(
            "there is no high-water mark of this ledger here, so nobody knows what was spent after the backup. Bring "
            "it along: its file, or its address as `mark` in the configuration."
        )
    for branch in found:
        if branch.seen.spending is None:
            reasons.append(
                f"entry {branch.seen.head.sequence} had been written, and what was spent by then is not known."
            )
        if not branch.is_ahead:
            reasons.append(_parting_words(branch))
        if differs(kept, branch):
            if not branch.is_ahead:
                # A loss under one policy bounds none under another.
                raise BackupRefused(f"{_parting_words(branch)} {OTHER_POLICY}")
            reasons.append(
                "the policy or the domain of a dataset was changed after the backup, and the backup lacks the new one."
            )
    if reasons and not accept:
        raise BackupRefused(f"{' '.join(reasons)} {WAYS_OUT}")


def _check_apart(marked: Seen | None, present: Seen) -> None:
    """BackupRefused where a drill would take the place, or the mark, of a ledger that is in use."""
    for here in (marked, present):
        if here is not None and here.head.sequence > 0 and not (here.eras and here.eras[-1].guard.startswith(DRILL)):
            raise BackupRefused(
                "a ledger that is in use, or its high-water mark, is in this place. A drill has a ledger and a mark of "
                "its own: name others in a configuration of its own (--config)."
            )


def _parting_words(branch: Branch) -> str:
    place = "" if branch.parted is None else f": they parted after entry {branch.parted}"
    return (
        f"the backup tells another history than the one that is known here{place}. Both were asked, and together they "
        "have lost more than either says; accepted, both are counted."
    )
