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
from blowfishdb.ledger.records import AnswerDigest, LedgerValue
from blowfishdb.ledger.state import AccountState, ChainTerms, LedgerState, parts_of
from blowfishdb.ledger.values import LONGEST_NAME, check_document, check_level, check_text, read_json

AS_THEY_ARE = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""The characters that JSON writes as they are."""
LONGEST_TERMS = 4096
"""Longer terms are left to JSON, and are not worth being remembered."""
CHARGE_QUOTES, LINK_QUOTES, ANSWER_QUOTES, MARK_QUOTES = 36, 8, 22, 8
"""The quotes of a charge beside its terms, those of a level and what was received, of an answer, of chain and mark."""

PaidCharge = tuple[str, AnswerDigest]
"""The hash of a charge, and what is stored as its answer."""
NO_ANSWER: AnswerDigest = (0, None)
UNPAID: PaidCharge = ("", NO_ANSWER)
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
    pending: dict[str, PaidCharge] = field(default_factory=dict)
    """The charges that no entry has answered yet, by number."""
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
        # Each piece ends where the next text begins: they are the body, all of it, if the last text is at its end.
        try:
            _, _, rest = body[len(start) :].partition('","certificate":"')
            terms, _, rest = rest.partition('","key":"' + key + '","kind":"charge')
            linked, _, rest = rest.partition(middle)
            program, last, rest = rest.partition('","request_digest":"' + request + end)
        except TypeError:
            return False
        if rest or not last or not body.startswith(start):
            return False
        received, quotes = "", CHARGE_QUOTES
        if linked:
            program, _, received = program.partition('","received":"')
            quotes += LINK_QUOTES
        is_short = len(key) <= LONGEST_NAME and len(request) <= LONGEST_NAME and len(program) <= LONGEST_NAME
        if not (is_short and key and request and program and len(terms) <= LONGEST_TERMS):
            return False
        price, specials = _price(terms, domain, linked, received) if linked else _known_price(terms, domain)
        if price is None or _specials(body) != quotes + specials:
            return False
        epsilon, paid, chain = price
        if chain is not None:
            account.extend_chain(sequence, analyst, chain, epsilon)
        account.count_charge(analyst, epsilon, paid)
        return True

    def answer(self, sequence: int, name: str, body: str) -> bool:
        """Counts the answer of a pending charge, if its body tells of that charge and of what is stored."""
        account = self.state.accounts.get(name)
        start = f'{{"account":"{name}","at":"'
        at, _, rest = body[len(start) :].partition('","charge":')
        number = rest.partition(",")[0]
        charge_hash, (entry, payload_digest) = self.pending.get(number, UNPAID)
        if account is None or entry != sequence or payload_digest is None or not body.startswith(start):
            return False
        opening = f'{number},"charge_hash":"{charge_hash}","kind":"answer",'
        closing = f'"payload_digest":"{payload_digest}"}}'
        if rest == opening + closing:
            if _specials(body) != ANSWER_QUOTES:
                return False
        else:
            chain, mark = at.partition('","chain":"')[2], rest[len(opening) + 8 : -len(closing) - 2]
            is_told = rest == f'{opening}"mark":"{mark}",{closing}'
            if not is_told or not chain or _specials(body) != ANSWER_QUOTES + MARK_QUOTES:
                return False
            account.publish(chain, int(number), mark)
        self.state.answers += 1
        del self.pending[number]
        return True

    def _new_frame(self, name: str, analyst: LedgerValue) -> PlainFrame | None:
        """The frame of an analyst's charges; None where there is no such account, or for what is no name."""
        account = self.state.accounts.get(name)
        if account is None or not (isinstance(analyst, str) and 0 < len(analyst) <= LONGEST_NAME):
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


def _specials(text: str) -> int:
    """How many characters a text has that end a JSON text, or that JSON may write in another way."""
    return len(text.encode().translate(None, AS_THEY_ARE))


def _price(terms: str, domain: int, linked: str = "", received: str = "") -> tuple[PlainPrice | None, int]:
    """What a charge costs by its certificate, this version of the domain, and epsilon; the special characters there.

    In a chain also by the chain, the level as it stands behind the kind of the entry, and what the analyst received.
    """
    try:
        fields = read_json(f'{{"certificate":"{terms}"}}')
        number, epsilon = fields["domain_version"], parts_of(fields["epsilon"])
        if type(number) is not int or number != domain:
            return None, 0
        check_document(fields["certificate"], "the certificate")
        if not linked:
            return (epsilon, epsilon, None) if len(fields) == 3 else None, _specials(terms)
        level = linked.removeprefix('","level":"')
        if level == linked or len(fields) != 4:
            return None, 0
        check_text(fields["chain"], "a chain")
        check_level(parts_of(level), parts_of(received), epsilon)
        return (epsilon, parts_of(received), (fields["chain"], level, received)), _specials(terms)
    except (BlowfishError, ValueError, KeyError, ArithmeticError, AttributeError, TypeError, RecursionError):
        return None, 0


_known_price = lru_cache(maxsize=1024)(_price)
"""The same, remembered: outside of chains the same terms come again and again."""
