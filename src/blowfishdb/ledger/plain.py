"""Bodies of plain charges and answers, read without their JSON where they are letter by letter what the ledger writes.

Most entries are of these two kinds and differ from each other in few places. What is not read here is no fault: then
the JSON of the body tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from blowfishdb.errors import BlowfishError
from blowfishdb.ledger.records import LedgerValue, canonical
from blowfishdb.ledger.state import parts_of
from blowfishdb.ledger.values import LONGEST_NAME, AmountParts, check_document, read_json

AS_THEY_ARE = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""The characters that JSON writes as they are."""
LONGEST_TERMS = 4096
"""Terms that are longer seldom come again, and are not worth being remembered."""
QUOTES = 7
"""Those behind the program of a plain charge: what a charge of a chain received would stand there too."""


def _is_plain(text: str) -> bool:
    return text.isascii() and not text.encode().translate(None, AS_THEY_ARE)


def plain_price(
    body: str, account: str, searched: Sequence[LedgerValue], versions: tuple[int, int, int]
) -> AmountParts | None:
    """What a charge costs whose body holds this account, the searchable columns, these versions and no chain."""
    analyst, key, request = searched
    start, _, rest = body.partition('","certificate":"')
    rest, _, end = rest.rpartition(',"program_digest":"')
    if end.count('"') != QUOTES or not (isinstance(analyst, str) and isinstance(key, str) and isinstance(request, str)):
        return None
    policy, domain, snapshot = versions
    at, terms, program = start.rpartition('"')[2], rest.rpartition('","key":"')[0], end.partition('"')[0]
    is_told = body == (
        f'{{"account":"{account}","analyst":"{analyst}","at":"{at}","certificate":"{terms}","key":"{key}"'
        f',"kind":"charge","policy_version":{policy},"program_digest":"{program}","request_digest":"{request}"'
        f',"snapshot":{snapshot}}}'
    )
    if not (is_told and _is_plain(f"{account}{analyst}{at}{key}{program}{request}") and len(terms) <= LONGEST_TERMS):
        return None
    is_short = len(analyst) <= LONGEST_NAME >= len(key) and len(program) <= LONGEST_NAME >= len(request)
    return _price(terms, domain) if is_short and analyst and key and program and request else None


@lru_cache(maxsize=1024)
def _price(terms: str, domain: int) -> AmountParts | None:
    """What a charge costs by its certificate, this version of the domain, and epsilon, as its body holds them."""
    text = f'{{"certificate":"{terms}"}}'
    try:
        fields = read_json(text)
        number, epsilon = fields["domain_version"], fields["epsilon"]
        if len(fields) != 3 or canonical(fields) != text or type(number) is not int or number != domain:
            return None
        check_document(fields["certificate"], "the certificate")
        return parts_of(epsilon)
    except (BlowfishError, ValueError, KeyError, ArithmeticError, AttributeError, TypeError, RecursionError):
        return None


def plain_answer(body: str, account: str) -> tuple[int, str, str] | None:
    """Charge, its hash and the payload's digest, by the body of an answer on this account that is in no chain."""
    start, _, rest = body.partition('","charge":')
    at = start.rpartition('"')[2]
    charge, _, rest = rest.partition(",")
    charge_hash, payload_digest = rest[15:79], rest[-66:-2]
    is_told = body == (
        f'{{"account":"{account}","at":"{at}","charge":{charge},"charge_hash":"{charge_hash}"'
        f',"kind":"answer","payload_digest":"{payload_digest}"}}'
    )
    is_number = charge.isdecimal() and charge[0] != "0" and len(charge) < 19
    if not (is_told and is_number and _is_plain(f"{account}{at}{charge}{charge_hash}{payload_digest}")):
        return None
    return int(charge), charge_hash, payload_digest
