"""Usual charges and answers, read without their JSON where they are letter by letter what the ledger writes.

Most entries are of these two kinds and differ from each other in few places. What is not read here is no fault: then
the JSON of the body tells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from blowfishdb.errors import BlowfishError
from blowfishdb.ledger.amounts import AmountParts
from blowfishdb.ledger.records import LedgerValue, StoredAnswer
from blowfishdb.ledger.state import AccountState, ChainTerms, LedgerState, parts_of
from blowfishdb.ledger.values import LONGEST_NAME, check_document, check_level, check_text, read_json

AS_THEY_ARE = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""The characters that JSON writes as they are."""
LONGEST_TERMS = 4096
"""Longer terms are left to JSON, and are not worth being remembered."""
PlainPrice = tuple[AmountParts, AmountParts, ChainTerms | None]
"""What the data pays, what the analyst pays, and the place in a chain."""


class PlainFrame(NamedTuple):
    """What the bodies of one analyst's charges on one account have in common under the versions in force."""

    account: AccountState
    domain: int
    start: str
    """Up to the time."""
    middle: str
    """Between the level, or the kind of the entry, and the program."""
    end: str
    """Behind the digest of the request."""


@dataclass(eq=False)
class PlainEntries:
    """Adds plain charges and answers to a state; what is no such entry changes nothing."""

    state: LedgerState
    pending: dict[int, str] = field(default_factory=dict)
    """The hashes of the charges that no plain answer has followed yet, by number."""
    _frames: dict[tuple[str, LedgerValue], PlainFrame] = field(default_factory=dict)

    def forget_versions(self) -> None:
        """Other versions may be in force from now on."""
        self._frames.clear()

    def charge(self, sequence: int, name: str, body: str, analyst: str, key: str, request: str) -> bool:
        """Counts a charge whose body holds this account, the searchable columns, the versions in force and no losses.

        False where the body is another, or a column is no text; RuleBroken where the charge breaks a rule.
        """
        frame = self._frames.get((name, analyst)) or self._new_frame(name, analyst)
        if frame is None:
            return False
        account, domain, start, middle, end = frame
        # Each piece ends where the next text begins: they are the body, all of it, if nothing is before or behind them.
        try:
            before, _, rest = body.partition(start)
            time, _, rest = rest.partition('","certificate":"')
            terms, _, rest = rest.partition('","key":"' + key + '","kind":"charge')
            linked, _, rest = rest.partition(middle)
            program, last, rest = rest.partition('","request_digest":"' + request + end)
        except TypeError:
            return False
        if before or rest or not last:
            return False
        level = received = ""
        if linked:
            between, _, level = linked.partition('","level":"')
            program, _, received = program.partition('","received":"')
            if between:
                return False
        is_short = len(key) <= LONGEST_NAME and len(request) <= LONGEST_NAME and len(program) <= LONGEST_NAME
        if not (is_short and key and request and program and len(terms) <= LONGEST_TERMS):
            return False
        if not _is_plain(time + key + level + program + received + request):
            return False
        price = _price(terms, domain, level, received) if linked else _known_price(terms, domain)
        if price is None:
            return False
        epsilon, paid, chain = price
        if chain is not None:
            account.extend_chain(sequence, analyst, chain, epsilon)
        account.count_charge(analyst, epsilon, paid)
        return True

    def answer(self, name: str, body: str, stored: StoredAnswer) -> bool:
        """Counts the answer of a pending charge, if its body tells of that charge and of what is stored."""
        charge, payload_digest = stored
        charge_hash, account = self.pending.get(charge), self.state.accounts.get(name)
        if charge_hash is None or payload_digest is None or account is None:
            return False
        before, _, rest = body.partition(f'{{"account":"{name}","at":"')
        time, _, rest = rest.partition(f'","charge":{charge},"charge_hash":"{charge_hash}","kind":"answer",')
        closing = f'"payload_digest":"{payload_digest}"}}'
        if rest == closing:
            if before or not _is_plain(time):
                return False
        else:
            time, _, chain = time.partition('","chain":"')
            mark = rest[len('"mark":"') : -len(f'",{closing}')]
            if before or not chain or rest != f'"mark":"{mark}",{closing}' or not _is_plain(time + chain + mark):
                return False
            account.publish(chain, charge, mark)
        self.state.answers += 1
        del self.pending[charge]
        return True

    def _new_frame(self, name: str, analyst: LedgerValue) -> PlainFrame | None:
        """The frame of an analyst's charges; None where there is no such account, or for what is no name."""
        account = self.state.accounts.get(name)
        if account is None or not (isinstance(analyst, str) and 0 < len(analyst) <= LONGEST_NAME):
            return None
        if not _is_plain(analyst):
            return None
        policy, domain, snapshot = account.in_force
        frame = self._frames[name, analyst] = PlainFrame(
            account,
            domain,
            start=f'{{"account":"{name}","analyst":"{analyst}","at":"',
            middle=f'","policy_version":{policy},"program_digest":"',
            end=f'","snapshot":{snapshot}}}',
        )
        return frame


def _is_plain(text: str) -> bool:
    """Whether JSON writes a text as it is."""
    return not text.encode().translate(None, AS_THEY_ARE)


def _price(terms: str, domain: int, level: str | None = None, received: str = "") -> PlainPrice | None:
    """What a charge costs by its certificate, this version of the domain, and epsilon.

    In a chain also by the chain, the level, and what the analyst received.
    """
    try:
        fields = read_json(f'{{"certificate":"{terms}"}}')
        number, epsilon = fields["domain_version"], parts_of(fields["epsilon"])
        if type(number) is not int or number != domain or len(fields) != (3 if level is None else 4):
            return None
        check_document(fields["certificate"], "the certificate")
        if level is None:
            return epsilon, epsilon, None
        check_text(fields["chain"], "a chain")
        paid = parts_of(received)
        check_level(parts_of(level), paid, epsilon)
        return epsilon, paid, (fields["chain"], level, received)
    except (BlowfishError, ValueError, KeyError, ArithmeticError, AttributeError, TypeError, RecursionError):
        return None


_known_price = lru_cache(maxsize=1024)(_price)
"""The same, remembered: outside of chains the same terms come again and again."""
