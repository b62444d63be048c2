"""What goes into a ledger and what comes out: accounts, charges, receipts, entries and reports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from blowfishdb.errors import InvalidInput
from blowfishdb.ledger.amounts import check_amount
from blowfishdb.ledger.edge_books import SUM, check_accounting, check_losses

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


def check_document(document: str, what: str) -> None:
    """Refuses what is not JSON text of a bearable size."""
    if not isinstance(document, str) or len(document) > LARGEST_DOCUMENT:
        raise InvalidInput(f"{what} is JSON text of at most {LARGEST_DOCUMENT:,} characters")
    try:
        document.encode()
        json.loads(document)
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
    """On what terms data gets its account: whose it is, what it may lose, and its first policy and domain (JSON)."""

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
class Charge:
    """A request to pay: who, for what (digests), how much, and under which versions it was certified.

    `key` makes retries safe: one analyst's key pays once per account. Exact releases pay 0 and are recorded too. Where
    an account counts per class of edges, `losses` says what each class lost; without it all of them lost epsilon.
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

    def __post_init__(self) -> None:
        for name in ("account", "analyst", "key", "request_digest", "program_digest"):
            check_text(getattr(self, name), name.replace("_", " "))
        check_amount(self.epsilon, "epsilon")
        check_number(self.policy_version, "policy version", 1)
        check_number(self.domain_version, "domain version", 1)
        check_number(self.snapshot, "snapshot", 1)
        check_document(self.certificate, "the certificate")
        if self.losses is not None:
            check_losses(self.losses, self.epsilon)


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
    """Where a ledger ends: its own id, the number of entries and the hash of the last one."""

    ledger: str
    sequence: int
    hash: str


@dataclass(frozen=True)
class Entry:
    """One line of the ledger. `body` is the canonical JSON that its hash covers."""

    sequence: int
    kind: str
    account: str | None
    body: str
    previous_hash: str
    hash: str

    @property
    def fields(self) -> Mapping[str, object]:
        """The body, parsed."""
        parsed = json.loads(self.body)
        if not isinstance(parsed, dict):
            raise InvalidInput("the body of an entry is a JSON object")
        return parsed


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
