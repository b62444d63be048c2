"""Values of the ledger: accounts, charges, receipts, entries, reports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from blowfishdb.errors import ChainMoved, InvalidInput
from blowfishdb.ledger.amounts import SUM, AmountParts, check_accounting, check_amount, check_losses, in_parts
from blowfishdb.model.cached import cached_property

VersionKind = Literal["policy", "domain"]
VERSION_KINDS: tuple[VersionKind, ...] = ("policy", "domain")
LONGEST_NAME = 200
LONGEST_IDENTITY = 2_000
LARGEST_DOCUMENT = 4 * 2**20


def check_text(text: str, what: str, longest: int = LONGEST_NAME) -> None:
    """Refuses empty or overlong text and characters that cannot be seen: two names must not merely look alike."""
    if not isinstance(text, str) or not 0 < len(text) <= longest:
        raise InvalidInput(f"{what} is text of 1 to {longest:,} characters")
    if not text.isprintable():
        raise InvalidInput(f"{what} holds visible characters and plain spaces only")


def check_texts(texts: Sequence[str], what: str) -> None:
    """Refuses what `check_text` refuses in any of these texts."""
    sizes = [*map(len, texts)]
    if min(sizes) == 0 or max(sizes) > LONGEST_NAME or not "".join(texts).isprintable():
        for text in texts:
            check_text(text, what)


_decoder: Any = json.JSONDecoder()
_scan = _decoder.scan_once


def read_json(text: str) -> Any:  # any JSON
    """What a JSON text says; ValueError where it is none."""
    # What we write begins and ends with its JSON, and such text is read with fewer steps.
    try:
        parsed, end = _scan(text, 0)
    except StopIteration:
        return json.loads(text)
    return parsed if end == len(text) else json.loads(text)


def check_document(document: str, what: str) -> None:
    """Refuses what is not JSON text of a bearable size."""
    if not isinstance(document, str) or len(document) > LARGEST_DOCUMENT:
        raise InvalidInput(f"{what} is JSON text of at most {LARGEST_DOCUMENT:,} characters")
    try:
        document.encode()
        read_json(document)
    except (ValueError, RecursionError):
        raise InvalidInput(f"{what} is not JSON text") from None


def check_number(number: int, what: str, least: int) -> None:
    """Refuses what is not a whole number of at least `least`."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**62:
        raise InvalidInput(f"{what} is a whole number from {least} on")


def account_id(identity: str) -> str:
    """The id of the one account that data with this canonical source identity has, whatever name it goes by."""
    check_text(identity, "a source identity", LONGEST_IDENTITY)
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Terms:
    """The terms of a new account: identity of the data, limits, first policy and domain (JSON), way of accounting."""

    identity: str
    limit: Fraction
    policy: str
    domain: str
    analyst_limit: Fraction | None = None
    accounting: str = SUM

    def __post_init__(self) -> None:
        check_text(self.identity, "a source identity", LONGEST_IDENTITY)
        check_amount(self.limit, "the limit")
        if self.analyst_limit is not None:
            check_amount(self.analyst_limit, "the limit per analyst")
        check_document(self.policy, "a policy document")
        check_document(self.domain, "a domain document")
        check_accounting(self.accounting)


@dataclass(frozen=True)
class Account:
    """The budget of one body of data: what it may lose, what it has lost, and the versions in force."""

    id: str
    identity: str
    names: tuple[str, ...]
    limit: Fraction
    spent: Fraction
    analyst_limit: Fraction | None
    charges: int
    policy_version: int
    domain_version: int
    snapshot: int
    accounting: str = SUM

    @property
    def remaining(self) -> Fraction:
        """What the data may still lose."""
        return self.limit - self.spent

    def version(self, kind: VersionKind) -> int:
        """The number of the policy or domain version in force."""
        return self.policy_version if kind == "policy" else self.domain_version


@dataclass(frozen=True)
class AnalystBudget:
    """What one analyst spent on an account and may spend; a limit of None means only the account's limit holds."""

    account: str
    analyst: str
    spent: Fraction
    limit: Fraction | None
    is_individual: bool

    @property
    def remaining(self) -> Fraction | None:
        """What the analyst may still spend; never negative, even after a policy change made past loss grow."""
        return None if self.limit is None else max(Fraction(0), self.limit - self.spent)


@dataclass(frozen=True)
class Link:
    """A charge's place in a chain of answers that share their noise (docs/proofs/sharing.md).

    `level` is what the answer loses by itself. The data pays what no charge of the chain has paid of it, the analyst
    what this analyst has not: `received`.
    """

    chain: str
    """What is measured (a digest), a point, and which of several chains of it."""
    level: Fraction
    received: Fraction

    @property
    def rows(self) -> str:
        """The digest of what is measured."""
        return self.chain.partition(".")[0]

    @cached_property
    def parts(self) -> AmountParts:
        """The level in parts of 1/EASY."""
        return in_parts(self.level)

    def __post_init__(self) -> None:
        check_text(self.chain, "a chain")
        check_amount(self.level, "a level")
        check_amount(self.received, "what an analyst received")
        check_level(self.level, self.received)


def check_level(level: Fraction | int, *charged: Fraction | int) -> None:
    """Refuses a level of nothing, and amounts charged for it that are more than it; all in the same unit."""
    if level <= 0 or max(charged) > level:
        raise InvalidInput("a level is more than 0, and nobody is charged more than it")


BROKEN = "-"
"""The mark of a draw that failed after noise. Its failure may depend on the noise, so its chain is not drawn on."""


def is_published(mark: str | None) -> bool:
    """Whether others may be drawn given an answer of this mark."""
    return mark not in (None, BROKEN)


@dataclass(frozen=True)
class PastLink:
    """A charge of a chain: its entry, and the mark of the content it was measured on; None while nothing is published.

    The mark is empty where the source could not tell, and BROKEN where the draw failed after noise.
    """

    charge: int
    analyst: str
    link: Link
    mark: str | None

    @property
    def is_published(self) -> bool:
        """Whether others may be drawn given its answer."""
        return is_published(self.mark)


@dataclass(frozen=True)
class Publication:
    """What an answer adds to its chain: it was drawn given the answers of these charges, from content of this mark."""

    given: frozenset[int]
    mark: str


@dataclass(frozen=True)
class Charge:
    """A request to pay: who, for what (digests), how much, and under which versions it was certified.

    `key` makes retries safe: one analyst's key pays once per account. Exact releases pay 0 and are recorded too. Where
    an account counts per class of edges, `losses` says what each class lost; without it all of them lost epsilon. In a
    chain `epsilon` is the part of the level that the data had not paid, and `losses` are those of the whole level.
    """

    account: str
    analyst: str
    epsilon: Fraction
    key: str
    request_digest: str
    program_digest: str
    policy_version: int
    domain_version: int
    snapshot: int
    certificate: str
    losses: Mapping[str, Fraction] | None = None
    link: Link | None = None

    def __post_init__(self) -> None:
        for name in ("account", "analyst", "key", "request_digest", "program_digest"):
            check_text(getattr(self, name), name.replace("_", " "))
        check_amount(self.epsilon, "epsilon")
        check_number(self.policy_version, "policy version", 1)
        check_number(self.domain_version, "domain version", 1)
        check_number(self.snapshot, "snapshot", 1)
        check_document(self.certificate, "the certificate")
        if self.link is not None and self.epsilon > self.link.level:
            raise InvalidInput("no answer of a chain costs more than its level")
        if self.losses is not None:
            check_losses(self.losses, self.epsilon if self.link is None else self.link.level)

    @property
    def received(self) -> Fraction:
        """What the analyst pays."""
        return self.epsilon if self.link is None else self.link.received

    def losses_of(self, amount: Fraction) -> Mapping[str, Fraction] | None:
        """What each class loses when this amount is paid: all losses of a chain's levels are proportional."""
        if self.losses is None or self.link is None:
            return self.losses
        return {name: loss * amount / self.link.level for name, loss in self.losses.items()}


def owed(chain: Iterable[PastLink], level: Fraction, analyst: str | None = None) -> Fraction:
    """What the data, or one analyst, has not yet paid of a level of the chain.

    Charges without an answer count: they are finished at their level, given whatever was drawn by then. One whose draw
    failed counts too, because from then on no draw of its chain reads data.
    """
    paid = [past.link for past in chain if analyst in (None, past.analyst)]
    return max(Fraction(0), level - max(paid, key=lambda link: link.parts).level) if paid else level


def check_link(chain: list[PastLink], charge: Charge) -> None:
    """ChainMoved unless data and analyst pay what they owe for the level of the charge."""
    if charge.link is not None:
        due = owed(chain, charge.link.level), owed(chain, charge.link.level, charge.analyst)
        if due != (charge.epsilon, charge.link.received):
            raise ChainMoved


@dataclass(frozen=True)
class Receipt:
    """Proof that a charge is on record: its entry's number and hashes. `is_new` is False for a repeated key."""

    sequence: int
    charge: Charge
    previous_hash: str
    hash: str
    is_new: bool = field(default=True, compare=False)


@dataclass(frozen=True)
class Replay:
    """A stored answer and the receipt that paid for it."""

    receipt: Receipt
    payload: bytes


@dataclass(frozen=True)
class Head:
    """The end of a ledger: its id, the number of entries and the hash of the last one."""

    ledger: str
    sequence: int
    hash: str


@dataclass(frozen=True)
class Spent:
    """What an account had lost, and the digest of the policy and the domain that were in force then."""

    amount: Fraction
    declared: str


Spending = Mapping[str, Spent]
"""The accounts that were ever charged, by id."""


@dataclass(frozen=True)
class Era:
    """The entries of a ledger, from the era before up to a number, while one high-water mark guarded it."""

    guard: str
    end: int


@dataclass(frozen=True)
class Seen:
    """How far a ledger had got, and what was spent by then; no spending where nobody noted it."""

    head: Head
    spending: Spending | None
    eras: tuple[Era, ...] = ()
    """Oldest first. No two copies of a ledger are written to under one mark, so eras tell where two histories part."""


def spending_fields(spending: Spending) -> dict[str, list[str]]:
    """Spending as JSON."""
    return {account: [str(spent.amount), spent.declared] for account, spent in sorted(spending.items())}


def spending_of(fields: Mapping[str, list[str]]) -> dict[str, Spent]:
    """Spending from JSON."""
    return {str(account): Spent(Fraction(amount), str(declared)) for account, (amount, declared) in fields.items()}


def spending_text(seen: Seen) -> str:
    """What was spent when a ledger ended there, with a check sum; "" where that is not known."""
    if seen.spending is None:
        return ""
    eras = [[era.guard, era.end] for era in seen.eras]
    text = json.dumps({"sequence": seen.head.sequence, "spending": spending_fields(seen.spending), "eras": eras})
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


def seen_at(head: Head, text: str) -> Seen:
    """What had been spent at this head, by such a text; no spending where it is torn, or older than the head."""
    check, _, content = text.partition(" ")
    if check == hashlib.sha256(content.encode()).hexdigest():
        fields = json.loads(content)
        if fields["sequence"] >= head.sequence:
            eras = tuple(Era(str(guard), int(end)) for guard, end in fields["eras"])
            return Seen(head, spending_of(fields["spending"]), eras)
    return Seen(head, None)


ENTRY_WORDS = {
    "account": "opened the account",
    "name": "gave the data a name",
    "renewal": "raised what the data may lose",
    "analyst-limit": "limited analysts",
    "version": "put a new version in force",
    "snapshot": "noted refreshed rows",
    "answer": "stored the answer",
    "accounting": "changed how loss is counted",
    "restored": "accepted a restored ledger",
}
"""What an entry other than a charge says happened, by its kind."""
LONGEST_WORDS = 160


def parse_body(body: str) -> dict[str, Any]:
    """The fields of an entry's body; InvalidInput or ValueError where it is no JSON object."""
    parsed = read_json(body)
    if not isinstance(parsed, dict):
        raise InvalidInput("the body of an entry is a JSON object")
    return parsed


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `body` is the canonical JSON that its hash covers."""

    sequence: int
    kind: str
    account: str | None
    body: str
    previous_hash: str
    hash: str

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """The body, parsed."""
        return parse_body(self.body)

    @property
    def who(self) -> str:
        """The name of the curator or the analyst behind it."""
        return str(self.fields.get("by") or self.fields.get("analyst") or "")

    @property
    def words(self) -> str:
        """What happened: the question of a charge, or the change and its reason."""
        if self.kind == "charge":
            return self._question()[:LONGEST_WORDS]
        fields, words = self.fields, [ENTRY_WORDS.get(self.kind, self.kind)]
        if fields.get("limit") is not None:
            words.append(f"limit {fields['limit']}")
        if fields.get("by") and fields.get("analyst"):
            words.append(f"for {fields['analyst']}")
        words += [str(fields[key]) for key in ("reason", "description") if fields.get(key)]
        return ", ".join(words)[:LONGEST_WORDS]

    def _question(self) -> str:
        try:
            document = json.loads(str(self.fields.get("certificate", "{}")))
        except ValueError:
            document = {}
        title = document.get("question") if isinstance(document, dict) else None
        return str(title) if title else "asked a question"


@dataclass(frozen=True)
class VersionChange:
    """What a new policy or domain version would do to past loss; `refusal` says why it cannot be done."""

    account: str
    kind: VersionKind
    current_version: int
    next_version: int
    stretch: Fraction | None
    charges: int
    limit: Fraction
    spent_before: Fraction
    spent_after: Fraction | None
    analysts_after: Mapping[str, Fraction]
    refusal: str | None

    def words(self, number: Callable[[Fraction], str]) -> str:
        """What a change that is not refused does to past loss."""
        if not self.charges:
            return "Nothing was released yet, so no past loss is carried over."
        after = number(self.spent_before if self.spent_after is None else self.spent_after)
        if self.stretch is None or self.stretch == 1:
            return f"What was spent stays as it is: {after}."
        times, before, limit = number(self.stretch), number(self.spent_before), number(self.limit)
        return f"Past loss counts {times} times: epsilon {before} spent becomes {after} of {limit}."


@dataclass(frozen=True)
class Fault:
    """The first thing that is wrong; `sequence` is None when the entries are sound and a balance is not."""

    sequence: int | None
    reason: str


@dataclass(frozen=True)
class Verification:
    """What a full check saw: how many entries were sound, the head reached, and the first fault if any."""

    entries: int
    head: str
    fault: Fault | None

    @property
    def is_sound(self) -> bool:
        """Whether nothing was wrong."""
        return self.fault is None
