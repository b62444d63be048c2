"""Plain entries are read without their JSON: never otherwise than their JSON says, and a ledger is judged the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.ledger import Ledger, verification
from blowfishdb.ledger.plain import plain_answer, plain_price
from blowfishdb.ledger.records import EntryField, LedgerCursor, LedgerValue, canonical, charge_body
from blowfishdb.ledger.state import parts_of
from blowfishdb.ledger.values import AmountParts, Charge, check_document, check_text, parse_body
from tests.ledger.support import charge_of, opened
from tests.ledger.test_verification import DAMAGES, busy_ledger, fault_after, rechained

ACCOUNT = "0123456789abcdef" * 2
HASHES = "ab" * 32, "cd" * 32
SEARCHED = ("ana", "key 1", "request 1")
VERSIONS = (2, 1, 3)
CERTIFICATE = '{"question": "Histogram of \\"age\\"", "axes": [1, null]}'


def plain(**changes: object) -> Charge:
    charge = Charge(ACCOUNT, "ana", Fraction(1, 10), "key 1", "request 1", "program 1", 2, 1, 3, CERTIFICATE)
    return replace(charge, **changes)


def answer_fields(**changes: EntryField) -> dict[str, EntryField]:
    fields: dict[str, EntryField] = {"account": ACCOUNT, "at": "now", "charge": 12, "kind": "answer"}
    return {**fields, "charge_hash": HASHES[0], "payload_digest": HASHES[1], **changes}


def test_what_the_ledger_writes_for_a_plain_charge_is_read() -> None:
    assert plain_price(charge_body(plain(), "now"), ACCOUNT, SEARCHED, VERSIONS) == parts_of("1/10")
    for amount in ("0", "7", "1/3", "1/37", "123456789/1000000"):
        charge = plain(epsilon=Fraction(amount))
        assert plain_price(charge_body(charge, "now"), ACCOUNT, SEARCHED, VERSIONS) == parts_of(amount)


def test_what_the_ledger_writes_for_a_plain_answer_is_read() -> None:
    assert plain_answer(canonical(answer_fields()), ACCOUNT) == (12, *HASHES)


def told_price(
    body: str, account: str, searched: tuple[LedgerValue, ...], versions: tuple[int, ...]
) -> AmountParts | None:
    """What plain_price may tell, by the JSON of the body."""
    fields = parse_body(body)
    names = ("policy_version", "domain_version", "snapshot")
    assert {type(fields[name]) for name in names} == {int}
    assert tuple(fields[name] for name in names) == versions
    assert (fields["account"], fields["kind"]) == (account, "charge")
    assert (fields["analyst"], fields["key"], fields["request_digest"]) == searched
    assert not {"chain", "losses"} & fields.keys()
    for text in (*searched, fields["program_digest"]):
        check_text(text, "a text")
    check_document(fields["certificate"], "the certificate")
    return parts_of(fields["epsilon"])


pieces = st.sampled_from(
    [
        *('"', "\\", '","', '":"', "1", "0", "-", "{", "}", ",", " ", "\n", "\x7f", "é", "/", "e", "[", "]", ":"),
        *('","chain":"c', '"key":"', "null", "2.0", "true", '\\"', "\\n", "\\u0061"),
        *('"epsilon":"9",', '"kind":"charge",'),
    ]
)


@st.composite
def damaged(draw: st.DrawFn, body: str) -> str:
    """A text with a few pieces of it cut out, doubled, or exchanged for others."""
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.integers(0, 12)))
        middle = draw(pieces | st.sampled_from(["", body[start:end] * 2]))
        body = body[:start] + middle + body[end:]
    return body


texts = st.sampled_from(
    ["ana", 'a"b', "a\\b", "a\\n", "é", "", "a b", "x" * 200, "x" * 201, '","at":"', "None", "a\tb"]
)
columns = texts | st.none() | st.binary(max_size=3)


def raw_charge(analyst: object, key: object, request: object, program: str, at: str) -> str:
    """A body that is put together with no regard for JSON, as a forger might."""
    return (
        f'{{"account":"{ACCOUNT}","analyst":"{analyst}","at":"{at}","certificate":"{{}}","domain_version":1'
        f',"epsilon":"1/10","key":"{key}","kind":"charge","policy_version":2,"program_digest":"{program}"'
        f',"request_digest":"{request}","snapshot":3}}'
    )


@given(damaged(charge_body(plain(), "now")))
def test_a_damaged_charge_is_not_read_otherwise_than_its_json(body: str) -> None:
    price = plain_price(body, ACCOUNT, SEARCHED, VERSIONS)
    if price is not None:
        assert price == told_price(body, ACCOUNT, SEARCHED, VERSIONS)


@given(columns, columns, columns, texts, texts)
def test_texts_that_json_would_write_in_another_way_are_left_to_json(
    analyst: LedgerValue, key: LedgerValue, request: LedgerValue, program: str, at: str
) -> None:
    searched = (analyst, key, request)
    for body in (raw_charge(analyst, key, request, program, at), raw_charge("ana", key, "request 1", "p", at)):
        price = plain_price(body, ACCOUNT, searched, VERSIONS)
        if price is not None:
            assert price == told_price(body, ACCOUNT, searched, VERSIONS)


@given(damaged(canonical(answer_fields())))
def test_a_damaged_answer_is_not_read_otherwise_than_its_json(body: str) -> None:
    told = plain_answer(body, ACCOUNT)
    if told is not None:
        fields = parse_body(body)
        assert (fields["charge"], fields["charge_hash"], fields["payload_digest"]) == told
        assert (fields["account"], fields["kind"], type(fields["charge"])) == (ACCOUNT, "answer", int)
        assert "mark" not in fields


TERMS = {
    "losses": plain(losses={"moves age": Fraction(1, 20)}),
    "another version": plain(policy_version=3),
    "another domain": plain(domain_version=2),
    "another snapshot": plain(snapshot=1),
    "another key": plain(key="key 2"),
}


@pytest.mark.parametrize("name", TERMS)
def test_charges_under_other_terms_are_left_to_json(name: str) -> None:
    assert plain_price(charge_body(TERMS[name], "now"), ACCOUNT, SEARCHED, VERSIONS) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("epsilon", amount) for amount in ("1/0", "-1", 1, str(10**10), f"1/{37**40}")],
        *[("domain_version", number) for number in (True, None)],
        *[("certificate", text) for text in ("no json", None)],
    ],
)
def test_terms_that_no_charge_has_are_left_to_json(field: str, value: EntryField) -> None:
    fields = json.loads(charge_body(plain(), "now"))
    assert plain_price(canonical({**fields, field: value}), ACCOUNT, SEARCHED, VERSIONS) is None


MORE = [
    ('"analyst":"ana"', '"analyst":"eve"'),
    ('"at":', '"at":"then","at":'),
    ('"epsilon":"1/5"', '"epsilon":"1/5","epsilon":"0"'),
    ('"epsilon":"1/5"', '"epsilon":"0.2"'),
    ('"epsilon":"1/5"', '"epsilon":" 1/5"'),
    ('"epsilon":"1/5"', '"epsilon":"2/10"'),
    ('"epsilon":"1/5"', '"epsilon":0.2'),
    ('"kind":"charge"', '"kind":"answer"'),
    ('"key":"a"', '"key":"a","losses":"{}"'),
    ('"key":"a"', '"key":"a","chain":null'),
    ('"snapshot":1', '"snapshot":true'),
    ('"snapshot":1}', '"snapshot":1} '),
    ('"program_digest":"program-a"', '"program_digest":"a\\tb"'),
    ('"certificate":"', '"certificate":"}'),
    *[('"charge":3', f'"charge":{number}') for number in ('"3"', "3.0", "03", "9")],
]
"""What a patient forger may do to the body of a charge or of its answer."""


def test_a_ledger_is_judged_as_without_the_short_way(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_ledger(ledger)
    forged: list[Callable[[LedgerCursor], object]] = [
        lambda cursor, old=old, new=new, number=number: rechained(cursor, number, old, new)
        for old, new in [
            *MORE,
            ('"charge":3', '"charge":"3"'),
            ('"charge":3', '"charge":3.0'),
            ('"charge":3', '"charge":9'),
        ]
        for number in (3, 4)
    ]
    damages = [*(damage for damage, _, _ in DAMAGES), *forged]
    short = [fault_after(ledger, damage) for damage in damages]
    monkeypatch.setattr(verification, "plain_price", lambda *_: None)
    monkeypatch.setattr(verification, "plain_answer", lambda *_: None)
    assert short == [fault_after(ledger, damage) for damage in damages]
    assert sum(fault is not None for fault in short) > len(DAMAGES)


def test_the_short_way_is_taken(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    account = opened(ledger, 1)
    ledger.store_answer(ledger.charge(charge_of(account, "1/5", "a")), b"noisy")
    read: list[str] = []
    monkeypatch.setattr(verification, "parse_body", lambda body: read.append(body) or parse_body(body))
    assert ledger.verify().is_sound
    assert len(read) == 2
