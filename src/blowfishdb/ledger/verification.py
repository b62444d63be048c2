"""A full check of the ledger: every hash, limit, balance and answer, rebuilt from the entries alone."""

from __future__ import annotations

import copy
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from blowfishdb.errors import BlowfishError, LedgerCorrupt
from blowfishdb.incidents import curator_log
from blowfishdb.ledger.records import (
    ENTRY_COLUMNS,
    Cursor,
    Store,
    digest,
    entry_of,
    genesis,
    link,
    load_account,
    load_account_ids,
    load_analysts,
    load_edge_books,
    load_entry,
    load_head,
    receipt_of,
)
from blowfishdb.ledger.records import text as as_text
from blowfishdb.ledger.records import whole as as_whole
from blowfishdb.ledger.values import (
    SUM,
    EdgeBooks,
    Entry,
    Fault,
    Head,
    Verification,
    account_id,
    check_accounting,
    in_classes,
    read_books,
)


class BooksError(Exception):
    """A rule that an entry or a balance breaks; it never leaves the verification."""


@dataclass
class AccountBooks:
    """One account as its entries tell it."""

    identity: str
    limit: Fraction
    analyst_limit: Fraction | None
    documents: dict[tuple[str, int], str]
    accounting: str = SUM
    edge_books: EdgeBooks = field(default_factory=EdgeBooks)
    edge_books_of: dict[str, EdgeBooks] = field(default_factory=dict)
    spent: Fraction = Fraction(0)
    charges: int = 0
    snapshot: int = 1
    versions: dict[str, int] = field(default_factory=lambda: {"policy": 1, "domain": 1})
    names: set[str] = field(default_factory=set)
    spent_by: dict[str, Fraction] = field(default_factory=dict)
    individual: dict[str, Fraction] = field(default_factory=dict)

    def limit_of(self, analyst: str) -> Fraction | None:
        """The analyst's own limit, or everybody's."""
        return self.individual.get(analyst, self.analyst_limit)


@dataclass
class Books:
    """Everything that the entries so far add up to."""

    accounts: dict[str, AccountBooks] = field(default_factory=dict)
    answers: int = 0


def apply_entry(books: Books, entry: Entry) -> None:
    """Adds one entry to the books; BooksError when it breaks a rule."""
    apply = _RULES.get(entry.kind)
    if apply is None:
        raise BooksError(f"entries of kind {entry.kind!r} are not known")
    apply(books, entry, entry.fields)


def _own(books: Books, entry: Entry) -> AccountBooks:
    if entry.account is None or entry.account not in books.accounts:
        raise BooksError("its account was never opened")
    return books.accounts[entry.account]


def _opened(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    identity = str(fields["identity"])
    if entry.account is None or entry.account in books.accounts or entry.account != account_id(identity):
        raise BooksError("the account is open already or has the wrong id")
    documents = {(kind, 1): digest(str(fields[kind])) for kind in ("policy", "domain")}
    books.accounts[entry.account] = AccountBooks(
        identity,
        _fraction(fields["limit"]),
        _optional(fields["analyst_limit"]),
        documents,
        _accounting(fields.get("accounting", SUM)),
    )


def _named(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    _own(books, entry).names.add(str(fields["name"]))


def _charged(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    del fields
    own, charge = _own(books, entry), receipt_of(entry).charge
    in_force = (own.versions["policy"], own.versions["domain"], own.snapshot)
    if (charge.policy_version, charge.domain_version, charge.snapshot) != in_force:
        raise BooksError("it was charged under versions that were not in force")
    own.charges += 1
    if own.accounting == SUM:
        own.spent += charge.epsilon
        own.spent_by[charge.analyst] = own.spent_by.get(charge.analyst, Fraction(0)) + charge.epsilon
    else:
        losses = in_classes(own.accounting, charge.losses)
        own.edge_books = own.edge_books.plus(charge.epsilon, losses)
        mine = own.edge_books_of.get(charge.analyst, EdgeBooks()).plus(charge.epsilon, losses)
        own.edge_books_of[charge.analyst] = mine
        own.spent, own.spent_by[charge.analyst] = own.edge_books.worst, mine.worst
    limit = own.limit_of(charge.analyst)
    is_own_limit_passed = charge.epsilon > 0 and limit is not None and own.spent_by[charge.analyst] > limit
    if own.spent > own.limit or is_own_limit_passed:
        raise BooksError("it spends more than the limits allow")


def _renewed(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    own, limit = _own(books, entry), _fraction(fields["limit"])
    if limit <= own.limit:
        raise BooksError("a renewal must raise the limit")
    own.limit = limit


def _limited(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    own, limit, analyst = _own(books, entry), _optional(fields["limit"]), fields["analyst"]
    if analyst is None:
        own.analyst_limit = limit
    elif limit is None:
        own.individual.pop(str(analyst), None)
    else:
        own.individual[str(analyst)] = limit


def _refreshed(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    own = _own(books, entry)
    own.snapshot += 1
    if fields["snapshot"] != own.snapshot:
        raise BooksError("snapshots are not numbered in order")


def _versioned(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    own, kind, stretch = _own(books, entry), str(fields["what"]), _optional(fields["stretch"])
    own.versions[kind] += 1
    if fields["version"] != own.versions[kind]:
        raise BooksError("versions are not numbered in order")
    if (stretch is None and own.charges > 0) or (stretch is not None and stretch < 1):
        raise BooksError("past loss was not carried over")
    factor = Fraction(1) if stretch is None else stretch
    own.spent *= factor
    own.spent_by = {name: spent * factor for name, spent in own.spent_by.items()}
    _collapse(own)
    if own.spent > own.limit:
        raise BooksError("past loss carried over passes the limit")
    own.documents[kind, own.versions[kind]] = digest(str(fields["document"]))


def _recounted(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    own = _own(books, entry)
    own.accounting = _accounting(fields["accounting"])
    _collapse(own)


def _collapse(own: AccountBooks) -> None:
    """Every class of edges is taken to have lost what the worst one did."""
    own.edge_books = EdgeBooks(own.spent)
    own.edge_books_of = {name: EdgeBooks(spent) for name, spent in own.spent_by.items()}


def _accounting(value: object) -> str:
    check_accounting(str(value))
    return str(value)


def _answered(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    del fields
    _own(books, entry)
    books.answers += 1


def _restored(books: Books, entry: Entry, fields: Mapping[str, object]) -> None:
    del books, entry, fields


def _fraction(value: object) -> Fraction:
    return Fraction(str(value))


def _optional(value: object) -> Fraction | None:
    return None if value is None else _fraction(value)


_RULES: Mapping[str, Callable[[Books, Entry, Mapping[str, object]], None]] = {
    "account": _opened,
    "name": _named,
    "charge": _charged,
    "renewal": _renewed,
    "analyst-limit": _limited,
    "snapshot": _refreshed,
    "version": _versioned,
    "accounting": _recounted,
    "answer": _answered,
    "restored": _restored,
}


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the entries up to `head` add up to."""

    head: Head
    books: Books


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in a file; None when there is none that can be read, and then everything is checked."""
    try:
        content = json.loads(path.read_text(encoding="ascii"))
        written = content["checkpoint"]
        if content["check"] != digest(written):
            return None
        return _checkpoint(json.loads(written))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError, BlowfishError):
        return None


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Keeps a checkpoint. One that cannot be written is no loss: the next check then begins earlier."""
    head, books = checkpoint.head, checkpoint.books
    content = {
        "ledger": head.ledger,
        "sequence": head.sequence,
        "hash": head.hash,
        "answers": books.answers,
        "accounts": {name: _written(own) for name, own in books.accounts.items()},
    }
    written = json.dumps(content)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            # Like the ledger, it tells who spent what: nobody else on this machine reads it.
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT, 0o600))
            beside.write_text(json.dumps({"checkpoint": written, "check": digest(written)}), encoding="ascii")
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _checkpoint(content: Mapping[str, Any]) -> Checkpoint:
    accounts = {str(name): _account(own) for name, own in content["accounts"].items()}
    head = Head(str(content["ledger"]), int(content["sequence"]), str(content["hash"]))
    return Checkpoint(head, Books(accounts, int(content["answers"])))


def _written(own: AccountBooks) -> dict[str, object]:
    return {
        "identity": own.identity,
        "limit": str(own.limit),
        "analyst_limit": None if own.analyst_limit is None else str(own.analyst_limit),
        "documents": [[kind, number, found] for (kind, number), found in own.documents.items()],
        "accounting": own.accounting,
        "edge_books": own.edge_books.to_json(),
        "edge_books_of": {name: books.to_json() for name, books in own.edge_books_of.items()},
        "spent": str(own.spent),
        "charges": own.charges,
        "snapshot": own.snapshot,
        "versions": own.versions,
        "names": sorted(own.names),
        "spent_by": _amounts_as_text(own.spent_by),
        "individual": _amounts_as_text(own.individual),
    }


def _account(own: Mapping[str, Any]) -> AccountBooks:
    return AccountBooks(
        identity=str(own["identity"]),
        limit=Fraction(own["limit"]),
        analyst_limit=None if own["analyst_limit"] is None else Fraction(own["analyst_limit"]),
        documents={(str(kind), int(number)): str(found) for kind, number, found in own["documents"]},
        accounting=str(own["accounting"]),
        edge_books=read_books(own["edge_books"]),
        edge_books_of={str(name): read_books(books) for name, books in own["edge_books_of"].items()},
        spent=Fraction(own["spent"]),
        charges=int(own["charges"]),
        snapshot=int(own["snapshot"]),
        versions={str(kind): int(number) for kind, number in own["versions"].items()},
        names={str(name) for name in own["names"]},
        spent_by=_amounts(own["spent_by"]),
        individual=_amounts(own["individual"]),
    )


def _amounts_as_text(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _amounts(written: Mapping[str, str]) -> dict[str, Fraction]:
    return {str(name): Fraction(amount) for name, amount in written.items()}


Progress = Callable[[int, int], None]
"""Called with the number of entries checked and the number there are."""
STRIDE = 1_000
UNREADABLE = (BlowfishError, ValueError, KeyError, TypeError, ZeroDivisionError, AttributeError, RecursionError)


def verify(cursor: Cursor, mark: Head | None, progress: Progress | None) -> Verification:
    """Replays the whole chain in one consistent view; memory grows with accounts and analysts, not with entries."""
    return verify_since(cursor, mark, None, progress)[0]


def verify_since(
    cursor: Cursor, mark: Head | None, start: Checkpoint | None, progress: Progress | None = None
) -> tuple[Verification, Checkpoint]:
    """Replays the entries after a checkpoint, whose books it uses up; the checkpoint that this reached.

    A checkpoint is taken at its word: who passes one has looked that its entry is in the chain.
    """
    head = load_head(cursor)
    first = start if start is not None else Checkpoint(Head(head.ledger, 0, genesis(head.ledger)), Books())
    previous, count, books = first.head.hash, first.head.sequence, first.books

    def outcome(fault: Fault | None) -> tuple[Verification, Checkpoint]:
        return Verification(count, previous, fault), Checkpoint(Head(head.ledger, count, previous), books)

    if first.head.ledger != head.ledger:
        return outcome(Fault(None, "the checkpoint belongs to another ledger"))
    for row in cursor.stream(
        f"SELECT {ENTRY_COLUMNS}, analyst, charge_key, request_digest FROM entry WHERE sequence > ? ORDER BY sequence",
        count,
    ):
        sequence = count + 1
        try:
            sequence = as_whole(row[0])
            entry = entry_of(row)
            _check_link(entry, count + 1, previous)
            _check_columns(entry, row[6:])
            apply_entry(books, entry)
            _check_answer(cursor, entry)
            if mark is not None and mark.sequence == entry.sequence and mark.hash != entry.hash:
                raise BooksError("the high-water mark has seen another entry here")
        except BooksError as problem:
            return outcome(Fault(sequence, str(problem)))
        except UNREADABLE:
            return outcome(Fault(sequence, "the entry cannot be read"))
        previous, count = entry.hash, entry.sequence
        if progress is not None and count % STRIDE == 0:
            progress(count, head.sequence)
    if progress is not None:
        progress(count, head.sequence)
    try:
        _check_end(cursor, head, mark, count, previous)
        _check_balances(cursor, books)
    except BooksError as problem:
        return outcome(Fault(None, str(problem)))
    except UNREADABLE:
        return outcome(Fault(None, "a balance cannot be read"))
    return outcome(None)


def _check_link(entry: Entry, expected: int, previous: str) -> None:
    if entry.sequence != expected:
        raise BooksError(f"entry {expected} is missing")
    if entry.previous_hash != previous:
        raise BooksError("it does not follow the entry before it")
    if entry.hash != link(previous, entry.sequence, entry.body):
        raise BooksError("its content was changed after it was written")


def _check_columns(entry: Entry, columns: tuple[object, ...]) -> None:
    """The searchable columns must say what the hashed body says."""
    fields = entry.fields
    if fields["kind"] != entry.kind or fields["account"] != entry.account:
        raise BooksError("its columns contradict its content")
    own = (fields["analyst"], fields["key"], fields["request_digest"]) if entry.kind == "charge" else (None,) * 3
    if columns != own:
        raise BooksError("its columns contradict its content")


def _check_answer(cursor: Cursor, entry: Entry) -> None:
    if entry.kind != "answer":
        return
    fields = entry.fields
    charge = int(str(fields["charge"]))
    rows = cursor.rows("SELECT payload FROM answer WHERE charge = ? AND entry = ?", charge, entry.sequence)
    if not rows or not isinstance(rows[0][0], bytes) or digest(rows[0][0]) != fields["payload_digest"]:
        raise BooksError("the stored answer is missing or was changed")
    paid = cursor.rows("SELECT hash FROM entry WHERE sequence = ? AND kind = 'charge'", charge)
    if not paid or paid[0][0] != fields["charge_hash"]:
        raise BooksError("the answer belongs to no charge")


def _check_end(cursor: Cursor, head: Head, mark: Head | None, count: int, previous: str) -> None:
    if (head.sequence, head.hash) != (count, previous):
        raise BooksError(f"the entries end at {count}, the head says {head.sequence}")
    entries = as_whole(cursor.rows("SELECT count(*) FROM entry")[0][0])
    if entries != count:
        raise BooksError(f"there are {entries} entries of {count}")
    if mark is not None and (mark.ledger != head.ledger or mark.sequence > head.sequence):
        raise BooksError(f"the high-water mark is at entry {mark.sequence}, the ledger ends at {head.sequence}")


def _check_balances(cursor: Cursor, books: Books) -> None:
    """The tables that decide about charges must say what the entries add up to."""
    stored = load_account_ids(cursor)
    if set(stored) != set(books.accounts):
        raise BooksError("the accounts are not those that were opened on record")
    for name in stored:
        account, own = load_account(cursor, name), books.accounts[name]
        pairs = (
            ("limit", account.limit, own.limit),
            ("spent budget", account.spent, own.spent),
            ("limit per analyst", account.analyst_limit, own.analyst_limit),
            ("number of charges", account.charges, own.charges),
            ("policy version", account.policy_version, own.versions["policy"]),
            ("domain version", account.domain_version, own.versions["domain"]),
            ("snapshot", account.snapshot, own.snapshot),
            ("identity", account.identity, own.identity),
            ("names", set(account.names), own.names),
            ("accounting", account.accounting, own.accounting),
        )
        for what, found, expected in pairs:
            if found != expected:
                raise BooksError(f"account {name}: the {what} is {found}, the entries say {expected}")
        if account.accounting != SUM and load_edge_books(cursor, name) != own.edge_books:
            raise BooksError(f"account {name}: the losses per class of edges are not what the entries say")
        _check_analysts(cursor, books, name)
        _check_documents(cursor, books, name)
    (answers,) = cursor.rows("SELECT count(*) FROM answer")[0]
    if answers != books.answers:
        raise BooksError("there are stored answers without an entry")


def _check_analysts(cursor: Cursor, books: Books, account: str) -> None:
    own = books.accounts[account]
    stored = {budget.analyst: budget for budget in load_analysts(cursor, account)}
    for name in stored.keys() | own.spent_by.keys() | own.individual.keys():
        if name not in stored:
            raise BooksError(f"account {account}: the analyst {name!r} is missing")
        budget = stored[name]
        if budget.spent != own.spent_by.get(name, Fraction(0)):
            raise BooksError(f"account {account}: what {name!r} spent is not what the entries say")
        mine = load_edge_books(cursor, account, name) or EdgeBooks()
        if own.accounting != SUM and mine != own.edge_books_of.get(name, EdgeBooks()):
            raise BooksError(
                f"account {account}: the losses of {name!r} per class of edges are not what the entries say"
            )
        if budget.limit != own.limit_of(name) or budget.is_individual != (name in own.individual):
            raise BooksError(f"account {account}: the limit of {name!r} is not what the entries say")


def _check_documents(cursor: Cursor, books: Books, account: str) -> None:
    stored = {
        (as_text(kind), as_whole(number)): digest(as_text(document))
        for kind, number, document in cursor.stream(
            "SELECT kind, number, document FROM version WHERE account = ?", account
        )
    }
    if stored != books.accounts[account].documents:
        raise BooksError(f"account {account}: the policy or domain documents are not those on record")


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
            curator_log.error("the ledger's books, entry %s: %s", found.fault.sequence, found.fault.reason)
            raise LedgerCorrupt("the books do not add up", sequence=found.fault.sequence)
        self._last, self._at = reached, self.clock()
        if reached.head.sequence - self._kept >= WORTH_KEEPING:
            write_checkpoint(self.path, reached)
            self._kept = reached.head.sequence
