"""Usual charges and answers, read without their JSON where they are letter by letter what the ledger writes.

Most entries are of these two kinds. What is not read here is no fault: then the JSON of the body tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from blowfishdb.errors import BlowfishError
from blowfishdb.ledger.records import LedgerValue, StoredAnswer
from blowfishdb.ledger.state import LedgerState, parts_of
from blowfishdb.ledger.values import LARGEST_DOCUMENT, LONGEST_NAME, check_level

PLAIN = r"[ !#-\[\]-~]"
"""A character that JSON writes as it is."""
# Single characters are repeated without a way back, groups are not: Python before 3.11.5 matches such groups wrongly.
ANY, SHORT, DIGITS = f"{PLAIN}*+", f"{PLAIN}{{1,{LONGEST_NAME}}}+", "[0-9]++"


@cache
def charge_pattern() -> re.Pattern[str]:
    """The body of a charge without losses."""
    return re.compile(
        rf'\{{"account":"({ANY})","analyst":"({SHORT})","at":"{ANY}","certificate":"{_certificate()}",'
        rf'(?:"chain":"(?P<chain>{SHORT})",)?"domain_version":({DIGITS}),"epsilon":"({ANY})","key":"({SHORT})",'
        rf'"kind":"charge",(?(chain)"level":"({ANY})",)"policy_version":({DIGITS}),"program_digest":"{SHORT}",'
        rf'(?(chain)"received":"({ANY})",)"request_digest":"({SHORT})","snapshot":({DIGITS})\}}'
    )


def _certificate() -> str:
    """JSON objects as they are written inside of JSON text, as deep as the certificates of usual questions."""
    text = rf'\\"{ANY}\\"'
    # Python reads no whole number of some thousand digits.
    number = r"[1-9][0-9]{0,99}+(?:\.[0-9]++)?|0(?:\.[0-9]++)?|-[1-9][0-9]{0,99}+"
    single = f"{text}|{number}|true|false|null"

    def array(*kinds: str) -> str:
        return rf"\[(?:(?:{'|'.join(kinds)})(?:, (?!\])|(?=\])))*\]"

    def mapping(*kinds: str) -> str:
        return rf"\{{(?:{text}: (?:{'|'.join(kinds)})(?:, (?!\}})|(?=\}})))*\}}"

    row = array(single)
    flat = mapping(single, row)
    rows = array(single, array(single, row), flat)
    return mapping(single, rows, mapping(single, rows, flat))


@cache
def answer_pattern() -> re.Pattern[str]:
    """The body of an answer."""
    return re.compile(
        rf'\{{"account":"({ANY})","at":"{ANY}",(?:"chain":"(?P<chain>{ANY})",)?"charge":({DIGITS}),'
        rf'"charge_hash":"({ANY})","kind":"answer",(?(chain)"mark":"({ANY})",)"payload_digest":"({ANY})"\}}'
    )


@dataclass(eq=False)
class PlainEntries:
    """Adds plain charges and answers to a state; what is no such entry changes nothing."""

    state: LedgerState
    pending: dict[int, str] = field(default_factory=dict)
    """The hashes of the charges that no plain answer has followed yet, by number."""
    _in_force: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The versions in force on an account, as its charges write them."""

    def forget_versions(self) -> None:
        """Other versions may be in force from now on."""
        self._in_force.clear()

    def charge(self, sequence: int, body: str, *columns: LedgerValue) -> bool:
        """Counts a charge whose body holds these columns, the versions in force and no losses.

        The columns are the account and those that are searched. False where the body is another; RuleBroken where the
        charge breaks a rule.
        """
        match = charge_pattern().fullmatch(body) if len(body) <= LARGEST_DOCUMENT else None
        if match is None:
            return False
        name, analyst, chain, domain, epsilon, key, level, policy, received, request, snapshot = match.groups()
        account = self.state.accounts.get(name)
        if account is None or (name, analyst, key, request) != columns:
            return False
        in_force = self._in_force.get(name)
        if in_force is None:
            in_force = self._in_force[name] = tuple(map(str, account.in_force))
        if (policy, domain, snapshot) != in_force:
            return False
        try:
            price = paid = parts_of(epsilon)
            if chain is not None:
                paid = parts_of(received)
                check_level(parts_of(level), paid, price)
        except (BlowfishError, ValueError, ArithmeticError):
            return False
        if chain is not None:
            account.extend_chain(sequence, analyst, (chain, level, received), price)
        account.count_charge(analyst, price, paid)
        return True

    def answer(self, name: LedgerValue, body: str, stored: StoredAnswer) -> bool:
        """Counts the answer of a pending charge, if its body tells of that charge and of what is stored."""
        match = answer_pattern().fullmatch(body)
        if match is None:
            return False
        named, chain, number, charge_hash, mark, digest = match.groups()
        charge, payload_digest = stored
        account = self.state.accounts.get(named)
        if account is None or named != name or number != str(charge):
            return False
        if digest != payload_digest or charge_hash != self.pending.get(charge):
            return False
        if chain is not None:
            account.publish(chain, charge, mark)
        self.state.count_answer(charge)
        del self.pending[charge]
        return True
