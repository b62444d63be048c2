"""The books rebuilt from the entries alone, with every rule checked again as each entry is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from blowfishdb.ledger.chain import digest
from blowfishdb.ledger.edge_books import SUM, EdgeBooks, check_accounting, in_classes
from blowfishdb.ledger.records import receipt_of
from blowfishdb.ledger.values import Entry, account_id


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
