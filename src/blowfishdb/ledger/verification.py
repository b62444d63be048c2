"""A full check of the books: every hash, every limit at every step, every balance and every stored answer."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from blowfishdb.errors import BlowfishError
from blowfishdb.ledger.base import Cursor
from blowfishdb.ledger.chain import digest, genesis, link
from blowfishdb.ledger.checkpoint import Checkpoint
from blowfishdb.ledger.edge_books import SUM, EdgeBooks
from blowfishdb.ledger.records import (
    ENTRY_COLUMNS,
    entry_of,
    load_account,
    load_account_ids,
    load_analysts,
    load_edge_books,
    load_head,
)
from blowfishdb.ledger.records import text as as_text
from blowfishdb.ledger.records import whole as as_whole
from blowfishdb.ledger.replaying import Books, BooksError, apply_entry
from blowfishdb.ledger.values import Entry, Fault, Head, Verification

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
