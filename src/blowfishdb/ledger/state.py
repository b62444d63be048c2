"""What the entries of a ledger add up to: accounts with their limits, losses and chains, by the rules for each kind."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from blowfishdb.ledger.amounts import (
    EASY,
    LARGEST,
    SUM,
    AmountParts,
    ClassLosses,
    check_accounting,
    check_amount,
    check_losses,
    in_classes,
    in_parts,
)
from blowfishdb.ledger.records import LinkRow, declared, digest, exact
from blowfishdb.ledger.values import (
    BROKEN,
    VERSION_KINDS,
    Account,
    Spending,
    Spent,
    account_id,
    check_document,
    check_level,
    check_number,
    check_texts,
    spending_of,
)


class RuleBroken(Exception):
    """A rule that an entry or a balance breaks; it never leaves the verification."""


@lru_cache(maxsize=4096)
def parts_of(text: str) -> AmountParts:
    """The amount that an entry says, in parts of 1/EASY; raises whatever is wrong with it."""
    top, slash, bottom = text.partition("/")
    if not slash:
        bottom = "1"
    if text.isascii() and top.isdecimal() and bottom.isdecimal():
        # Most amounts are whole numbers of parts, and such a one needs no fraction to be made.
        parts, rest = divmod(int(top) * EASY, int(bottom))
        if rest == 0 and parts <= LARGEST * EASY:
            return parts
    amount = Fraction(text)
    check_amount(amount, "an amount")
    return in_parts(amount)


@dataclass(eq=False)
class Tally:
    """Losses that charges add to one after another; the usual amounts, parts of 1/EASY, as whole numbers."""

    added: ClassLosses = field(default_factory=ClassLosses)
    units: int = 0
    """AmountParts of 1/EASY that every class lost besides."""
    is_easy: bool = field(init=False)
    """Whether parts of 1/EASY may be counted apart from the rest."""
    _limit: Fraction | None = None
    _room: float = math.inf
    """The most parts that the limit allows."""

    def __post_init__(self) -> None:
        self.is_easy = EASY % self.added.rest.denominator == 0

    @property
    def losses(self) -> ClassLosses:
        """What each class lost."""
        return ClassLosses(self.added.rest + Fraction(self.units, EASY), self.added.classes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.losses == other.losses

    def add(self, parts: AmountParts, losses: Mapping[str, Fraction] | None, limit: Fraction | None) -> bool:
        """Counts a charge; one that names no classes cost each of them the amount. Whether that passes the limit."""
        if losses is None and self.is_easy and type(parts) is int:
            self.units += parts
        else:
            self._begin(self.losses.plus(Fraction(parts, EASY), losses))
        return self.units > self._room if limit is self._limit else self.is_over(limit)

    def scale(self, stretch: Fraction) -> None:
        """Multiplies what was lost; every class is taken to have lost what the worst one did."""
        self._begin(self.losses.times(stretch))

    def is_over(self, limit: Fraction | None) -> bool:
        """Whether the worst class lost more than this."""
        if limit is not self._limit:
            self._limit = limit
            self._room = math.inf if limit is None else math.floor((limit - self.added.worst) * EASY)
        return self.units > self._room

    def _begin(self, losses: ClassLosses) -> None:
        self.added, self.units, self._limit, self._room = losses, 0, None, math.inf
        self.__post_init__()


@dataclass
class ChainState:
    """The charges of one chain, and what they decide about the next charge and the next answer."""

    links: dict[int, LinkRow] = field(default_factory=dict)
    """By the number of the charge, oldest first."""
    paid: AmountParts = 0
    """The highest level that was charged."""
    received: dict[str, AmountParts] = field(default_factory=dict)
    """The highest level that each analyst was charged for."""
    content: str | None = None
    """The mark of the content that all published answers were made on."""
    told: AmountParts = 0
    """The highest level that was published."""
    has_failed: bool = False
    """Whether a draw failed after noise."""

    def owed(self, level: AmountParts, analyst: str) -> tuple[AmountParts, AmountParts]:
        """What the data, and the analyst, have not yet paid of a level."""
        return max(0, level - self.paid), max(0, level - self.received.get(analyst, 0))

    def level_of(self, charge: int) -> AmountParts:
        """The level of a charge that is here."""
        return parts_of(self.links[charge][3])

    def add(self, row: LinkRow) -> None:
        """Takes up a charge; one with a mark has its answer."""
        charge, analyst, *_, mark = row
        self.links[charge] = row
        level = self.level_of(charge)
        if level > self.paid:
            self.paid = level
        if level > self.received.get(analyst, -1):
            self.received[analyst] = level
        if mark is not None:
            self.publish(charge, mark)

    def publish(self, charge: int, mark: str) -> None:
        """Notes the mark of the answer of a charge that is here."""
        self.links[charge] = (*self.links[charge][:5], mark)
        if mark == BROKEN:
            self.has_failed = True
        else:
            self.content, self.told = mark, max(self.told, self.level_of(charge))


ChainTerms = tuple[str, str, str]
"""The chain, the level and what the analyst received, as a charge says them."""
NamedLosses = Sequence[Mapping[str, Fraction] | None]
"""What each class of edges loses by what the data pays, and by what the analyst pays; None: all lose all of it."""
UNNAMED: NamedLosses = (None, None)


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

    def limit_of(self, analyst: str) -> Fraction | None:
        """The analyst's individual limit, or everybody's."""
        return self.individual.get(analyst, self.analyst_limit)

    def count_charge(
        self, analyst: str, epsilon: AmountParts, received: AmountParts, losses: NamedLosses = UNNAMED
    ) -> None:
        """Counts what the data and the analyst pay, and what classes of edges lose by it; RuleBroken over a limit."""
        self.charges += 1
        by_analyst = self.analysts.get(analyst)
        if by_analyst is None:
            by_analyst = self.analysts[analyst] = Tally()
        is_over = self.losses.add(epsilon, losses[0], self.limit)
        is_analyst_over = by_analyst.add(received, losses[1], self.limit_of(analyst))
        if is_over or (is_analyst_over and received > 0):
            raise RuleBroken("it spends more than the limits allow")

    def extend_chain(self, sequence: int, analyst: str, linked: ChainTerms, epsilon: AmountParts) -> None:
        """Takes up a charge of a chain, which pays what the chain leaves to pay of its level; RuleBroken if not."""
        name, level, received = linked
        chain = self.chains.get(name)
        if chain is None:
            chain = self.chains[name] = ChainState()
        if (epsilon, parts_of(received)) != chain.owed(parts_of(level), analyst):
            raise RuleBroken("it pays another part of its level than its chain leaves to pay")
        chain.add((sequence, analyst, name, level, received, None))

    def publish(self, chain: str, charge: int, mark: str) -> None:
        """Notes an answer in its chain; RuleBroken unless all answers of one chain were made on the same content."""
        known = self.chains.get(chain)
        if known is None or charge not in known.links:
            raise RuleBroken("it joins a chain that its charge does not name, or that has ended")
        if mark != BROKEN and known.content not in (None, mark):
            raise RuleBroken("the answers of one chain were made on different content")
        if mark != BROKEN and known.has_failed and known.told < known.level_of(charge):
            raise RuleBroken("it was drawn from data in a chain of which a draw has failed")
        known.publish(charge, mark)

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
    restored: int = 0
    """The newest entry that accepted a copy; no charge before it is answered any more."""

    def count_answer(self, charge: int) -> None:
        """Counts the answer of a charge; RuleBroken where another may have been published before a restore."""
        if charge <= self.restored:
            raise RuleBroken("it answers a charge from before the ledger was restored")
        self.answers += 1


def apply_entry(state: LedgerState, sequence: int, kind: str, name: str | None, fields: Mapping[str, Any]) -> None:
    """Adds an entry with these fields, about the account of this name, to the state; RuleBroken if it breaks a rule."""
    if kind == "restored":
        _restore(state, sequence, spending_of(json.loads(str(fields["spending"]))))
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
            state.count_answer(fields["charge"])
            if "mark" in fields:
                account.publish(str(fields["chain"]), fields["charge"], str(fields["mark"]))
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


def _restore(state: LedgerState, sequence: int, spending: Spending) -> None:
    """Counts what was spent elsewhere, and ends chains and unanswered charges: some of their draws are unknown."""
    state.restored = sequence
    for account in state.accounts.values():
        account.chains.clear()
    for name, spent in spending.items():
        if name in state.accounts:
            state.accounts[name].count_restored(spent.amount)
        else:
            state.lost.setdefault(name, []).append(spent)


@lru_cache(maxsize=256, typed=True)
def _check_versions(policy: int, domain: int, snapshot: int) -> None:
    for number in (policy, domain, snapshot):
        check_number(number, "a version", 1)


def _add_charge(account: AccountState, sequence: int, fields: Mapping[str, Any]) -> None:
    """Counts a charge; everything that cannot be read of it is refused before any rule is looked at."""
    analyst, chain = fields["analyst"], fields.get("chain")
    texts = [analyst, fields["key"], fields["request_digest"], fields["program_digest"]]
    epsilon = received = level = parts_of(fields["epsilon"])
    if chain is not None:
        texts.append(chain)
        level, received = parts_of(fields["level"]), parts_of(fields["received"])
        check_level(level, received, epsilon)
    check_texts(texts, "a text of a charge")
    versions = fields["policy_version"], fields["domain_version"], fields["snapshot"]
    _check_versions(*versions)
    check_document(fields["certificate"], "the certificate")
    losses = _losses(fields, account.accounting, level, epsilon, received)
    if versions != account.in_force:
        raise RuleBroken("it was charged under versions that were not in force")
    if chain is not None:
        account.extend_chain(sequence, analyst, (chain, fields["level"], fields["received"]), epsilon)
    account.count_charge(analyst, epsilon, received, losses)


def _losses(fields: Mapping[str, Any], accounting: str, level: AmountParts, *paid: AmountParts) -> NamedLosses:
    """What each class of edges loses by each of these payments for an answer of this level."""
    if fields.get("losses") is None:
        return UNNAMED
    losses = {name: exact(loss) for name, loss in json.loads(fields["losses"]).items()}
    check_losses(losses, Fraction(level, EASY))
    # All losses of a chain's levels are proportional.
    shares = [1 if part == level else Fraction(part, level) for part in paid]
    return [in_classes(accounting, {name: loss * share for name, loss in losses.items()}) for share in shares]


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
