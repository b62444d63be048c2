"""A full check of the ledger: every hash, limit, balance and answer, rebuilt from the entries alone."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from blowfishdb.errors import BlowfishError, LedgerCorrupt
from blowfishdb.ledger.records import (
    CHARGE_COLUMNS,
    ENTRY_COLUMNS,
    LedgerCursor,
    LedgerRow,
    charge_of,
    declared,
    digest,
    exact,
    genesis,
    link,
)
from blowfishdb.ledger.records import text as as_text
from blowfishdb.ledger.records import whole as as_whole
from blowfishdb.ledger.values import (
    BROKEN,
    EASY,
    SUM,
    VERSION_KINDS,
    Account,
    AnalystBudget,
    Charge,
    ClassLosses,
    Fault,
    Head,
    PastLink,
    Spending,
    Spent,
    Verification,
    account_id,
    check_accounting,
    check_texts,
    in_classes,
    parse_body,
    spending_of,
)

UNREADABLE = (BlowfishError, ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError)


NOT_PAID = Fraction(0)


class RuleBroken(Exception):
    """A rule that an entry or a balance breaks; it never leaves the verification."""


def in_units(amount: Fraction) -> int | None:
    """The amount in parts of 1/EASY; None where it is not a whole number of them."""
    size = amount.denominator
    return None if EASY % size else EASY // size * amount.numerator


@dataclass(eq=False)
class Tally:
    """Losses that charges add to one after another; the usual amounts, parts of 1/EASY, as whole numbers."""

    added: ClassLosses = field(default_factory=ClassLosses)
    units: int = 0
    """Parts of 1/EASY that every class lost besides."""
    is_easy: bool = field(init=False)
    """Whether parts of 1/EASY may be counted apart from the rest."""
    _limit: Fraction | None = None
    _room: int = 0

    def __post_init__(self) -> None:
        self.is_easy = EASY % self.added.rest.denominator == 0

    @property
    def losses(self) -> ClassLosses:
        """What each class lost."""
        return ClassLosses(self.added.rest + Fraction(self.units, EASY), self.added.classes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.losses == other.losses

    def add(self, amount: Fraction, losses: Mapping[str, Fraction] | None) -> None:
        """Counts a charge; one that names no classes cost each of them the amount."""
        units = in_units(amount) if losses is None and self.is_easy else None
        if units is None:
            self._begin(self.losses.plus(amount, losses))
        else:
            self.units += units

    def scale(self, stretch: Fraction) -> None:
        """Multiplies what was lost; every class is taken to have lost what the worst one did."""
        self._begin(self.losses.times(stretch))

    def is_over(self, limit: Fraction) -> bool:
        """Whether the worst class lost more than this."""
        if limit is not self._limit:
            self._limit, self._room = limit, math.floor((limit - self.added.worst) * EASY)
        return self.units > self._room

    def _begin(self, losses: ClassLosses) -> None:
        self.added, self.units, self._limit = losses, 0, None
        self.__post_init__()


@dataclass
class ChainState:
    """The charges of one chain, and what they decide about the next charge and the next answer."""

    links: dict[int, PastLink] = field(default_factory=dict)
    """By the number of the charge, oldest first."""
    paid: Fraction = NOT_PAID
    """The highest level that was charged."""
    received: dict[str, Fraction] = field(default_factory=dict)
    """The highest level that each analyst was charged for."""
    content: str | None = None
    """The mark of the content that all published answers were made on."""
    told: Fraction = NOT_PAID
    """The highest level that was published."""
    has_failed: bool = False
    """Whether a draw failed after noise."""

    def owed(self, level: Fraction, analyst: str) -> tuple[Fraction, Fraction]:
        """What the data, and the analyst, have not yet paid of a level."""
        return max(NOT_PAID, level - self.paid), max(NOT_PAID, level - self.received.get(analyst, NOT_PAID))

    def add(self, past: PastLink) -> None:
        """Takes up a charge; one with a mark has its answer."""
        level, analyst = past.link.level, past.analyst
        self.links[past.charge] = past
        self.paid = max(self.paid, level)
        self.received[analyst] = max(self.received.get(analyst, NOT_PAID), level)
        if past.mark is not None:
            self.publish(past.charge, past.mark)

    def publish(self, charge: int, mark: str) -> None:
        """Notes the mark of the answer of a charge that is here."""
        past = self.links[charge]
        self.links[charge] = replace(past, mark=mark)
        if mark == BROKEN:
            self.has_failed = True
        else:
            self.content, self.told = mark, max(self.told, past.link.level)


@dataclass
class AccountState:
    """One account as its entries tell it."""

    identity: str
    limit: Fraction
    analyst_limit: Fraction | None
    documents: dict[str, str]
    """The digest of each version of the policy and of the domain, by kind and number."""
    accounting: str = SUM
    charges: int = 0
    snapshot: int = 1
    versions: dict[str, int] = field(default_factory=lambda: {"policy": 1, "domain": 1})
    names: set[str] = field(default_factory=set)
    losses: Tally = field(default_factory=Tally)
    analysts: dict[str, Tally] = field(default_factory=dict)
    individual: dict[str, Fraction] = field(default_factory=dict)
    """Limits of single analysts."""
    chains: dict[str, ChainState] = field(default_factory=dict)
    """The chains under the versions in force."""

    def as_account(self, account: str) -> Account:
        """The account that the tables must hold."""
        return Account(
            id=account,
            identity=self.identity,
            names=tuple(sorted(self.names)),
            limit=self.limit,
            spent=self.losses.losses.worst,
            analyst_limit=self.analyst_limit,
            charges=self.charges,
            policy_version=self.versions["policy"],
            domain_version=self.versions["domain"],
            snapshot=self.snapshot,
            accounting=self.accounting,
        )

    @property
    def in_force(self) -> tuple[int, int, int]:
        """The versions of policy and domain, and the snapshot, under which charges are made."""
        return self.versions["policy"], self.versions["domain"], self.snapshot

    def tally_of(self, analyst: str) -> Tally:
        """What an analyst lost so far."""
        tally = self.analysts.get(analyst)
        if tally is None:
            tally = self.analysts[analyst] = Tally()
        return tally

    def limit_of(self, analyst: str) -> Fraction | None:
        """The analyst's individual limit, or everybody's."""
        return self.individual.get(analyst, self.analyst_limit)

    def count_restored(self, lost: Fraction) -> None:
        """Counts what the account is known to have lost, by charges that a restored copy does not have."""
        self.charges, self.limit = max(1, self.charges), max(lost, self.limit)
        self.losses = Tally(ClassLosses(max(lost, self.losses.losses.worst)))

    def scale(self, stretch: Fraction) -> None:
        """Multiplies past loss; every class of edges is taken to have lost what the worst one did."""
        for tally in (self.losses, *self.analysts.values()):
            tally.scale(stretch)


@dataclass
class LedgerState:
    """Everything that the entries so far add up to."""

    accounts: dict[str, AccountState] = field(default_factory=dict)
    answers: int = 0
    lost: dict[str, list[Spent]] = field(default_factory=dict)
    """What accounts that a restored copy does not have had lost."""


def apply_entry(state: LedgerState, sequence: int, kind: str, name: str | None, fields: Mapping[str, Any]) -> None:
    """Adds an entry with these fields, about the account of this name, to the state; RuleBroken if it breaks a rule."""
    if kind == "restored":
        if "spending" in fields:
            _restore(state, spending_of(json.loads(str(fields["spending"]))))
        return
    if kind == "account":
        identity, limits = str(fields["identity"]), (fraction(fields["limit"]), optional(fields["analyst_limit"]))
        if name is None or name in state.accounts or name != account_id(identity):
            raise RuleBroken("the account is open already or has the wrong id")
        documents = {f"{what} 1": digest(str(fields[what])) for what in VERSION_KINDS}
        accounting = _accounting(fields.get("accounting", SUM))
        account = state.accounts[name] = AccountState(identity, *limits, documents, accounting)
        for spent in state.lost.pop(name, []):
            account.count_restored(spent.amount)
            if account.limit != limits[0] or spent.declared != declared(str(fields["policy"]), str(fields["domain"])):
                raise RuleBroken("its data lost more, or under another policy, before the ledger was restored")
        return
    if name is None or name not in state.accounts:
        raise RuleBroken("its account was never opened")
    account = state.accounts[name]
    match kind:
        case "answer":
            state.answers += 1
            _publish(account, fields)
        case "name":
            account.names.add(str(fields["name"]))
        case "charge":
            _add_charge(account, sequence, fields)
        case "renewal":
            limit = fraction(fields["limit"])
            if limit <= account.limit:
                raise RuleBroken("a renewal must raise the limit")
            account.limit = limit
        case "analyst-limit":
            _limit_analyst(account, fields["analyst"], optional(fields["limit"]))
        case "snapshot":
            account.snapshot += 1
            account.chains.clear()
            if fields["snapshot"] != account.snapshot:
                raise RuleBroken("snapshots are not numbered in order")
        case "version":
            _add_version(account, fields)
        case "accounting":
            account.accounting = _accounting(fields["accounting"])
            account.scale(Fraction(1))
        case _:
            raise RuleBroken(f"entries of kind {kind!r} are not known")


def _restore(state: LedgerState, spending: Spending) -> None:
    """Counts what was spent by the time of the last release, and ends all chains: some of their draws are unknown."""
    for account in state.accounts.values():
        account.chains.clear()
    for name, spent in spending.items():
        if name in state.accounts:
            state.accounts[name].count_restored(spent.amount)
        else:
            state.lost.setdefault(name, []).append(spent)


def _publish(account: AccountState, fields: Mapping[str, object]) -> None:
    """Notes an answer in its chain; all answers of one chain were made on the same content."""
    if "mark" not in fields:
        return
    chain, charge, mark = account.chains.get(str(fields["chain"])), fields["charge"], str(fields["mark"])
    if chain is None or charge not in chain.links:
        raise RuleBroken("it joins a chain that its charge does not name, or that has ended")
    if mark != BROKEN and chain.content not in (None, mark):
        raise RuleBroken("the answers of one chain were made on different content")
    if mark != BROKEN and chain.has_failed and chain.told < chain.links[charge].link.level:
        raise RuleBroken("it was drawn from data in a chain of which a draw has failed")
    chain.publish(charge, mark)


LONGEST_SHARED = 4096


@dataclass(frozen=True)
class SharedCharge:
    """What charges have in common that are alike but for who pays and for what: an amount that all classes lost.

    `units` is the amount in parts of 1/EASY, None where it is not a whole number of them.
    """

    epsilon: Fraction
    units: int | None
    versions: tuple[int, int, int]


@lru_cache(maxsize=1024, typed=True)
def _shared(epsilon: str, policy_version: int, domain_version: int, snapshot: int, certificate: str) -> SharedCharge:
    """All rules of a charge except those about its texts, checked once for all charges that share the rest."""
    nobody, amount, versions = "-", exact(epsilon), (policy_version, domain_version, snapshot)
    Charge(nobody, nobody, amount, nobody, nobody, nobody, *versions, certificate)
    return SharedCharge(amount, in_units(amount), versions)


def _add_charge(account: AccountState, sequence: int, fields: Mapping[str, Any]) -> None:
    certificate, analyst = fields["certificate"], fields["analyst"]
    if "losses" in fields or "chain" in fields or len(certificate) > LONGEST_SHARED:
        _add_linked(account, sequence, fields)
        return
    check_texts((analyst, fields["key"], fields["request_digest"], fields["program_digest"]), "a text of a charge")
    charge = _shared(
        fields["epsilon"], fields["policy_version"], fields["domain_version"], fields["snapshot"], certificate
    )
    if charge.versions != account.in_force:
        raise RuleBroken(NOT_IN_FORCE)
    account.charges += 1
    by_analyst = account.tally_of(analyst)
    for tally in (account.losses, by_analyst):
        if charge.units is not None and tally.is_easy:
            tally.units += charge.units
        else:
            tally.add(charge.epsilon, None)
    _check_limits(account, analyst, by_analyst, charge.epsilon)


NOT_IN_FORCE = "it was charged under versions that were not in force"


def _add_linked(account: AccountState, sequence: int, fields: Mapping[str, Any]) -> None:
    """Adds a charge that names the losses of its classes or its chain."""
    charge = charge_of(fields)
    if (charge.policy_version, charge.domain_version, charge.snapshot) != account.in_force:
        raise RuleBroken(NOT_IN_FORCE)
    account.charges += 1
    if charge.link is not None:
        chain = account.chains.setdefault(charge.link.chain, ChainState())
        if (charge.epsilon, charge.received) != chain.owed(charge.link.level, charge.analyst):
            raise RuleBroken("it pays another part of its level than its chain leaves to pay")
        chain.add(PastLink(sequence, charge.analyst, charge.link, None))
    by_analyst = account.tally_of(charge.analyst)
    for tally, amount in ((account.losses, charge.epsilon), (by_analyst, charge.received)):
        losses = None if charge.losses is None else in_classes(account.accounting, charge.losses_of(amount))
        tally.add(amount, losses)
    _check_limits(account, charge.analyst, by_analyst, charge.received)


def _check_limits(account: AccountState, analyst: str, spent: Tally, received: Fraction) -> None:
    limit = account.limit_of(analyst)
    is_analyst_over = limit is not None and spent.is_over(limit) and received > 0
    if account.losses.is_over(account.limit) or is_analyst_over:
        raise RuleBroken("it spends more than the limits allow")


def _limit_analyst(account: AccountState, analyst: object, limit: Fraction | None) -> None:
    if analyst is None:
        account.analyst_limit = limit
    elif limit is None:
        account.individual.pop(str(analyst), None)
    else:
        account.individual[str(analyst)] = limit


def _add_version(account: AccountState, fields: Mapping[str, object]) -> None:
    kind, stretch = str(fields["what"]), optional(fields["stretch"])
    account.versions[kind] += 1
    if fields["version"] != account.versions[kind]:
        raise RuleBroken("versions are not numbered in order")
    if (stretch is None and account.charges > 0) or (stretch is not None and stretch < 1):
        raise RuleBroken("past loss was not carried over")
    account.scale(Fraction(1) if stretch is None else stretch)
    account.chains.clear()
    if account.losses.is_over(account.limit):
        raise RuleBroken("past loss carried over passes the limit")
    account.documents[f"{kind} {account.versions[kind]}"] = digest(str(fields["document"]))


def _accounting(value: object) -> str:
    check_accounting(str(value))
    return str(value)


def fraction(value: object) -> Fraction:
    return Fraction(str(value))


def optional(value: object) -> Fraction | None:
    return None if value is None else fraction(value)


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the entries up to `head` add up to."""

    head: Head
    state: LedgerState


VerifyProgress = Callable[[int, int], None]
"""Called with the number of entries checked and the number there are."""
STRIDE = 500
"""Entries that are read and told of together."""


def verify_since(
    cursor: LedgerCursor, mark: Head | None, start: Checkpoint | None, progress: VerifyProgress | None = None
) -> tuple[Verification, Checkpoint]:
    """Replays the entries after a checkpoint, whose state it changes; the checkpoint that this reached.

    A checkpoint is taken at its word: who passes one has looked that its entry is in the chain.
    """
    head = cursor.head()
    first = start if start is not None else Checkpoint(Head(head.ledger, 0, genesis(head.ledger)), LedgerState())
    reached, fault = replayed(cursor, mark, first, progress)
    if fault is None:
        fault = fault_of(lambda: _check_whole(cursor, mark, reached))
    return Verification(reached.head.sequence, reached.head.hash, fault), reached


def replayed(
    cursor: LedgerCursor, mark: Head | None, first: Checkpoint, progress: VerifyProgress | None = None
) -> tuple[Checkpoint, Fault | None]:
    """How far the entries after a checkpoint follow each other and the rules, and the first that does not."""
    head, previous, count, state = cursor.head(), first.head.hash, first.head.sequence, first.state

    def outcome(fault: Fault | None) -> tuple[Checkpoint, Fault | None]:
        return Checkpoint(Head(head.ledger, count, previous), state), fault

    charges, answers = dict[int, str](), StoredAnswers(cursor, count)
    if first.head.ledger != head.ledger:
        return outcome(Fault(None, "the checkpoint belongs to another ledger"))
    rows = cursor.stream(
        f"SELECT {ENTRY_COLUMNS}, {CHARGE_COLUMNS} FROM entry WHERE sequence > ? ORDER BY sequence", count
    )
    while piece := list(itertools.islice(rows, STRIDE)):
        for row, known in zip(piece, _all_followed(piece, count, previous), strict=True):
            sequence = count + 1
            try:
                if known is None:
                    sequence = as_whole(row[0])
                kind, name, chained, fields = known or _followed(row, sequence, count + 1, previous)
                apply_entry(state, sequence, kind, name, fields)
                if kind == "charge":
                    charges[sequence] = chained
                elif kind == "answer":
                    _check_answer(cursor, sequence, fields, charges, answers)
                if mark is not None and mark.sequence == sequence and mark.hash != chained:
                    raise RuleBroken("the high-water mark has seen another entry here")
            except RuleBroken as problem:
                return outcome(Fault(sequence, str(problem)))
            except UNREADABLE:
                return outcome(Fault(sequence, "the entry cannot be read"))
            previous, count = chained, sequence
        if progress is not None and len(piece) == STRIDE:
            progress(count, head.sequence)
    if progress is not None:
        progress(count, head.sequence)
    if (head.sequence, head.hash) != (count, previous):
        return outcome(Fault(None, f"the entries end at {count}, the head says {head.sequence}"))
    return outcome(None)


def fault_of(check: Callable[[], None]) -> Fault | None:
    """What a check of balances finds wrong."""
    try:
        check()
    except RuleBroken as problem:
        return Fault(None, str(problem))
    except UNREADABLE:
        return Fault(None, "a balance cannot be read")
    return None


Followed = tuple[str, str | None, str, Mapping[str, Any]]
"""Kind, account, hash and fields of an entry."""
NOT_SEARCHED = (None, None, None)
"""What the searchable columns of an entry other than a charge hold."""


def _all_followed(rows: Sequence[LedgerRow], count: int, previous: str) -> Sequence[Followed | None]:
    """What `_followed` gives for each of these rows after entry `count`, where all of them pass its checks.

    They are made for all rows at once. Where one fails it is not told which: then each row is None, and is checked by
    itself.
    """
    columns: list[tuple[Any, ...]] = list(zip(*rows, strict=True))
    numbers, kinds, accounts, bodies, before, hashes, *searched = columns
    is_text = {str}.issuperset(map(type, (*kinds, *bodies, *before, *hashes)))
    follows = before == (previous, *hashes[:-1]) and numbers == tuple(range(count + 1, count + 1 + len(rows)))
    try:
        if is_text and follows and hashes == tuple(map(link, before, numbers, bodies)):
            fields = [*map(parse_body, bodies)]
            told = [(one["kind"], one["account"], *_searched(one)) for one in fields]
            is_name = {str, type(None)}.issuperset(map(type, accounts))
            if is_name and told == [*zip(kinds, accounts, *searched, strict=True)]:
                return [*zip(kinds, accounts, hashes, fields, strict=True)]
    except UNREADABLE:
        pass
    return [None] * len(rows)


def _followed(row: LedgerRow, sequence: int, expected: int, previous: str) -> Followed:
    """Kind, account, hash and fields of an entry; RuleBroken where it is not the next one or was changed."""
    _, kind, account, body, before, chained, *columns = row
    if not (isinstance(kind, str) and isinstance(body, str) and (account is None or isinstance(account, str))):
        raise LedgerCorrupt("a stored text is not text")
    if not (isinstance(before, str) and isinstance(chained, str)):
        raise LedgerCorrupt("a stored hash is not text")
    if sequence != expected:
        raise RuleBroken(f"entry {expected} is missing")
    if before != previous:
        raise RuleBroken("it does not follow the entry before it")
    if chained != link(previous, sequence, body):
        raise RuleBroken("its content was changed after it was written")
    fields = parse_body(body)
    if fields["kind"] != kind or fields["account"] != account or tuple(columns) != _searched(fields):
        raise RuleBroken("its columns contradict its content")
    return kind, account, chained, fields


def _searched(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the searchable columns must say, by the hashed body."""
    is_charge = fields["kind"] == "charge"
    return (fields["analyst"], fields["key"], fields["request_digest"]) if is_charge else NOT_SEARCHED


READ_AHEAD = 64
"""Stored answers that are looked at together."""


@dataclass
class StoredAnswers:
    """The stored answers, those of charges after a number read once, in the order of their charges."""

    cursor: LedgerCursor
    after: int
    _unclaimed: dict[int, LedgerRow] = field(default_factory=dict)
    _rows: Iterator[LedgerRow] | None = None
    _reached: float = field(init=False)

    def __post_init__(self) -> None:
        self._reached = self.after

    def claim(self, charge: int) -> LedgerRow | None:
        """The entry and the digest of the answer of a charge, once; None where there is none to be read."""
        if charge > self._reached:
            self._read_to(charge)
        if 0 < charge <= self.after:
            rows = self.cursor.rows(f"{self._query} = ?", charge)
            return rows[0][1:] if rows else None
        return self._unclaimed.pop(charge, None)

    def _read_to(self, charge: int) -> None:
        if self._rows is None:
            self._rows = self.cursor.stream(f"{self._query} > ? ORDER BY charge", self.after)
        while self._reached < charge:
            piece = list(itertools.islice(self._rows, READ_AHEAD))
            self._reached = as_whole(piece[-1][0]) if piece else math.inf
            self._unclaimed.update((as_whole(row[0]), row[1:]) for row in piece)

    @property
    def _query(self) -> str:
        return f"SELECT charge, entry, {self.cursor.payload_digest} FROM answer WHERE charge"


def _check_answer(
    cursor: LedgerCursor, sequence: int, fields: Mapping[str, Any], charges: dict[int, str], answers: StoredAnswers
) -> None:
    """The answer is stored as it was and belongs to a charge; `charges` has the hashes of those not yet answered."""
    charge = fields["charge"] if type(fields["charge"]) is int else int(str(fields["charge"]))
    payload_digest = fields["payload_digest"]
    if payload_digest is None or answers.claim(charge) != (sequence, payload_digest):
        raise RuleBroken("the stored answer is missing or was changed")
    if charge in charges:
        paid = charges.pop(charge)
    else:
        rows = cursor.rows("SELECT hash FROM entry WHERE sequence = ? AND kind = 'charge'", charge)
        paid = as_text(rows[0][0]) if rows else ""
    if paid != fields["charge_hash"]:
        raise RuleBroken("the answer belongs to no charge")


def _check_whole(cursor: LedgerCursor, mark: Head | None, reached: Checkpoint) -> None:
    """Nothing is there that the entries do not tell of, and every balance says what they add up to."""
    head = reached.head
    entries = as_whole(cursor.rows("SELECT count(*) FROM entry")[0][0])
    if entries != head.sequence:
        raise RuleBroken(f"there are {entries} entries of {head.sequence}")
    is_exchanged = mark is not None and mark.ledger != head.ledger and max(mark.sequence, head.sequence) > 0
    if mark is not None and (is_exchanged or mark.sequence > head.sequence):
        raise RuleBroken(f"the high-water mark is at entry {mark.sequence}, the ledger ends at {head.sequence}")
    _check_balances(cursor, reached.state)


LABELS = {"spent": "spent budget", "analyst_limit": "limit per analyst", "charges": "number of charges"}


def _check_balances(cursor: LedgerCursor, state: LedgerState) -> None:
    """The tables that decide about charges must say what the entries add up to."""
    stored = cursor.account_ids()
    if set(stored) != set(state.accounts):
        raise RuleBroken("the accounts are not those that were opened on record")
    for name in stored:
        account = state.accounts[name]
        _check_account(cursor, name, account)
        budgets = {budget.analyst: budget for budget in cursor.analysts(name)}
        for analyst in sorted(budgets.keys() | account.analysts.keys() | account.individual.keys()):
            _check_analyst(cursor, name, account, analyst, budgets.get(analyst))
        links = [past for chain in account.chains.values() for past in chain.links.values()]
        if cursor.links(name) != sorted(links, key=lambda past: past.charge):
            raise RuleBroken(f"account {name}: the chains are not those that the entries tell")
        documents = {
            f"{as_text(kind)} {as_whole(number)}": digest(as_text(document))
            for kind, number, document in cursor.stream(
                "SELECT kind, number, document FROM version WHERE account = ?", name
            )
        }
        if documents != account.documents:
            raise RuleBroken(f"account {name}: the policy or domain documents are not those on record")
    (answers,) = cursor.rows("SELECT count(*) FROM answer")[0]
    if answers != state.answers:
        raise RuleBroken("there are stored answers without an entry")


def _check_account(cursor: LedgerCursor, name: str, state: AccountState) -> None:
    account, expected = vars(cursor.account(name)), vars(state.as_account(name))
    for column, value in account.items():
        if value != expected[column]:
            what = LABELS.get(column, column.replace("_", " "))
            raise RuleBroken(f"account {name}: the {what} is {value}, the entries say {expected[column]}")
    if state.accounting != SUM and cursor.losses(name) != state.losses.losses:
        raise RuleBroken(f"account {name}: the losses per class of edges are not what the entries say")


def _check_analyst(
    cursor: LedgerCursor, account: str, state: AccountState, name: str, budget: AnalystBudget | None
) -> None:
    if budget is None:
        if name in state.analysts or name in state.individual:
            raise RuleBroken(f"account {account}: the analyst {name!r} is missing")
        return
    losses = state.analysts.get(name, Tally()).losses
    if budget.spent != losses.worst:
        raise RuleBroken(f"account {account}: what {name!r} spent is not what the entries say")
    if state.accounting != SUM and (cursor.losses(account, name) or ClassLosses()) != losses:
        raise RuleBroken(f"account {account}: the losses of {name!r} per class of edges are not what the entries say")
    if budget.limit != state.limit_of(name) or budget.is_individual != (name in state.individual):
        raise RuleBroken(f"account {account}: the limit of {name!r} is not what the entries say")


def check_spender(cursor: LedgerCursor, account: str, state: AccountState, analyst: str | None) -> None:
    _check_account(cursor, account, state)
    if analyst is not None:
        _check_analyst(cursor, account, state, analyst, cursor.analyst(account, analyst))
