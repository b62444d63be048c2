"""Plain entries are read without their JSON: never otherwise than their JSON says, and a ledger is judged the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.ledger import Ledger, verification
from blowfishdb.ledger.plain import PlainEntries
from blowfishdb.ledger.records import EntryField, LedgerCursor, LedgerValue, canonical, charge_body
from blowfishdb.ledger.state import AccountState, LedgerState, RuleBroken, apply_entry, parts_of
from blowfishdb.ledger.values import BROKEN, LARGEST_DOCUMENT, Charge, Link, parse_body, read_json
from tests.ledger.support import charge_of, opened
from tests.ledger.test_chains import linked, published
from tests.ledger.test_verification import DAMAGES, busy_ledger, fault_after, rechained

ACCOUNT = "0123456789abcdef" * 2
HASHES = "ab" * 32, "cd" * 32
SEARCHED = ("ana", "key 1", "request 1")
CERTIFICATE = (
    '{"question": "Sum of x", "alpha": 713.0, "beta": 0.05, "witness": [0, 12], "is_tight": true, "together": "", '
    '"rests_on": [], "measured": {"axes": [{"attribute": "x", "width": null, "edges": [10, "a"]}, [2]], "boxes": {}}, '
    '"plan": "2:ab"}'
)
CHAIN = "rows.identity.shape.1"


def plain(**changes: object) -> Charge:
    charge = Charge(ACCOUNT, "ana", Fraction(1, 10), "key 1", "request 1", "program 1", 2, 1, 3, CERTIFICATE)
    return replace(charge, **changes)


def in_chain(**changes: object) -> Charge:
    """A charge that raises the level of a chain from 1/20 to 1/4."""
    return plain(epsilon=Fraction(1, 5), link=Link(CHAIN, Fraction(1, 4), Fraction(1, 5)), **changes)


def answer_fields(**changes: EntryField) -> dict[str, EntryField]:
    fields: dict[str, EntryField] = {"account": ACCOUNT, "at": "now", "charge": 12, "kind": "answer"}
    return {**fields, "charge_hash": HASHES[0], "payload_digest": HASHES[1], **changes}


def state_before() -> LedgerState:
    """An account with policy 2, domain 1 and snapshot 3, and a chain with one charge, number 12."""
    account = AccountState("people", Fraction(1000), None, {}, snapshot=3, versions={"policy": 2, "domain": 1})
    account.extend_chain(12, "ana", (CHAIN, "1/20", "1/20"), parts_of("1/20"))
    return LedgerState({ACCOUNT: account})


Judgement = LedgerState | str | None


def judged(apply: Callable[[LedgerState], bool]) -> Judgement:
    """The state after an entry, or the rule that it breaks; None where it was not applied."""
    state = state_before()
    try:
        return state if apply(state) else None
    except RuleBroken as problem:
        return str(problem)


def plain_charge(body: str, searched: tuple[Any, ...] = SEARCHED) -> Judgement:
    return judged(lambda state: PlainEntries(state).charge(15, body, ACCOUNT, *searched))


def plain_answer(body: str, digest: str | None = HASHES[1], charge: int = 12) -> Judgement:
    """What becomes of the answer of charge 12, the only one pending; digest and charge are those of what is stored."""

    def apply(state: LedgerState) -> bool:
        entries = PlainEntries(state, {12: HASHES[0]})
        is_applied = entries.answer(ACCOUNT, body, (charge, digest))
        assert (12 in entries.pending) is not is_applied
        return is_applied

    return judged(apply)


def by_json(body: str, sequence: int, kind: str, searched: tuple[LedgerValue, ...] = SEARCHED) -> Judgement:
    """What becomes of an entry by the JSON of its body, which must not contradict its columns."""
    fields = parse_body(body)
    assert (fields["account"], fields["kind"]) == (ACCOUNT, kind)
    if kind == "charge":
        assert (fields["analyst"], fields["key"], fields["request_digest"]) == searched
    else:
        assert (fields["charge"], type(fields["charge"])) == (12, int)
        assert (fields["charge_hash"], fields["payload_digest"]) == HASHES
    return judged(lambda state: apply_entry(state, sequence, kind, ACCOUNT, fields) is None)


def test_what_the_ledger_writes_for_a_charge_is_read() -> None:
    for amount in ("1/10", "0", "7", "1/3", "1/37", "123456789/1000000"):
        body = charge_body(plain(epsilon=Fraction(amount)), "now")
        state = plain_charge(body)
        assert isinstance(state, LedgerState)
        assert state == by_json(body, 15, "charge")
        assert state.accounts[ACCOUNT].losses.losses.worst == Fraction(amount)


def test_what_the_ledger_writes_for_a_charge_of_a_chain_is_read() -> None:
    body = charge_body(in_chain(), "now")
    state = plain_charge(body)
    assert isinstance(state, LedgerState)
    assert state == by_json(body, 15, "charge")
    chain = state.accounts[ACCOUNT].chains[CHAIN]
    assert chain.links[15] == (15, "ana", CHAIN, "1/4", "1/5", None)
    other = charge_body(in_chain(analyst="ben"), "now")
    rule = "it pays another part of its level than its chain leaves to pay"
    assert plain_charge(other, ("ben", "key 1", "request 1")) == rule


def test_what_the_ledger_writes_for_an_answer_is_read() -> None:
    for chained in (
        {},
        {"chain": CHAIN, "mark": "content"},
        {"chain": CHAIN, "mark": BROKEN},
        {"chain": CHAIN, "mark": ""},
    ):
        body = canonical(answer_fields(**chained))
        assert isinstance(plain_answer(body), LedgerState)
        assert plain_answer(body) == by_json(body, 16, "answer")
    body = canonical(answer_fields(chain="another", mark="content"))
    assert (
        plain_answer(body)
        == by_json(body, 16, "answer")
        == "it joins a chain that its charge does not name, or that has ended"
    )


def test_an_answer_that_is_not_stored_as_it_says_is_left_to_json() -> None:
    for chained in ({}, {"chain": CHAIN, "mark": "content"}):
        body = canonical(answer_fields(**chained))
        assert plain_answer(body, digest=HASHES[0]) is None
        for charge in (0, 11, 13):
            assert plain_answer(body, charge=charge) is None
        assert plain_answer(body.replace(HASHES[1], "None"), digest=None) is None
        unpaid = canonical(answer_fields(charge=0, charge_hash="None", payload_digest=None, **chained))
        assert plain_answer(unpaid.replace("null", '"None"'), digest=None, charge=0) is None


pieces = st.sampled_from(
    [
        *('"', "\\", '","', '":"', "1", "0", "-", "{", "}", ",", " ", "\n", "\x7f", "é", "/", "e", "[", "]", ":"),
        *('","chain":"c', '"key":"', "null", "2.0", "true", '\\"', "\\n", "\\u0061", ", ", ": ", '\\"a\\": ', "."),
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


@given(damaged(charge_body(plain(), "now")) | damaged(charge_body(in_chain(), "now")))
def test_a_damaged_charge_is_not_read_otherwise_than_its_json(body: str) -> None:
    judgement = plain_charge(body)
    if judgement is not None:
        assert judgement == by_json(body, 15, "charge")


@given(columns, columns, columns, texts, texts)
def test_texts_that_json_would_write_in_another_way_are_left_to_json(
    analyst: LedgerValue, key: LedgerValue, request: LedgerValue, program: str, at: str
) -> None:
    searched = (analyst, key, request)
    for body in (raw_charge(analyst, key, request, program, at), raw_charge("ana", key, "request 1", "p", at)):
        judgement = plain_charge(body, searched)
        if judgement is not None:
            assert judgement == by_json(body, 15, "charge", searched)


@given(
    damaged(canonical(answer_fields())) | damaged(canonical(answer_fields(chain=CHAIN, mark="content"))),
)
def test_a_damaged_answer_is_not_read_otherwise_than_its_json(body: str) -> None:
    judgement = plain_answer(body)
    if judgement is not None:
        assert judgement == by_json(body, 16, "answer")


WHITE = st.sampled_from(["", "", "", " ", "\n", "\t", "\ufeff", "\x0b"])


@given(
    st.builds("{}{}{}".format, WHITE, damaged(canonical(answer_fields())), WHITE)
    | st.builds("{}{}{}".format, WHITE, damaged('[{"a": [0, -1.5e3, null, true]}, "b", NaN, {}]'), WHITE)
    | st.sampled_from(["", "-", "{", "[", '"', '{"a"', '{"a":', "[1,", "tru", "1 2", "[" * 10**5])
)
def test_json_is_read_as_the_standard_library_reads_it(text: str) -> None:
    try:
        expected = repr(json.loads(text))
    except (ValueError, RecursionError) as problem:
        with pytest.raises(type(problem)):
            read_json(text)
    else:
        assert repr(read_json(text)) == expected


CUT = [charge_body(plain(), "now"), charge_body(in_chain(), "now")]


@pytest.mark.parametrize("body", CUT)
def test_no_part_of_a_charge_may_be_missing(body: str) -> None:
    for start in range(len(body)):
        for end in range(start + 1, min(len(body), start + 40) + 1):
            judgement = plain_charge(body[:start] + body[end:])
            if judgement is not None:
                assert judgement == by_json(body[:start] + body[end:], 15, "charge")


def certified(certificate: str) -> bool:
    """Whether a charge with this text as its certificate is read."""
    body = charge_body(plain(), "now")
    return plain_charge(body.replace(json.dumps(CERTIFICATE), json.dumps(certificate))) is not None


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


MORSELS = [*'[]{},:"0123.-e \\', ", ", ": ", "[]", "{}", '""', '"a": ', "null", "tru", "NaN", "\x1f", "é", "[0, 1], "]


def test_nothing_but_json_is_read_as_a_certificate() -> None:
    assert certified(CERTIFICATE)
    read = 0
    for place in range(len(CERTIFICATE) + 1):
        for morsel in MORSELS:
            for skipped in (0, 1, 2):
                text = CERTIFICATE[:place] + morsel + CERTIFICATE[place + skipped :]
                if certified(text):
                    assert is_json(text), text
                    read += 1
    assert read > 1000


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=12,
)


@given(JSON_VALUES.map(json.dumps).flatmap(damaged))
def test_what_is_read_as_a_certificate_is_json(text: str) -> None:
    assert is_json(text) or not certified(text)


@pytest.mark.parametrize(
    "text",
    [
        "[, 0]",
        '{"a": [, 0]}',
        '{, "a": 0}',
        '{"a": 0, }',
        '{"a": [0, ]}',
        '{"a": 01}',
        '{"a": 1.}',
        '{"a": }',
        f'{{"a": {10**4299}0}}',
        f'{{"a": {"[" * 2000}{"]" * 2000}}}',
    ],
)
def test_a_certificate_that_python_cannot_read_is_left_to_json(text: str) -> None:
    assert not is_json(text)
    assert not certified(text)


def test_a_certificate_of_an_unbearable_size_is_left_to_json() -> None:
    assert certified(f'{{"a": "{"x" * (LARGEST_DOCUMENT - 1000)}"}}')
    assert not certified(f'{{"a": "{"x" * LARGEST_DOCUMENT}"}}')


TERMS = {
    "losses": plain(losses={"moves age": Fraction(1, 20)}),
    "losses in a chain": in_chain(losses={"moves age": Fraction(1, 20)}),
    "another version": plain(policy_version=3),
    "another domain": plain(domain_version=2),
    "another snapshot": plain(snapshot=1),
    "another key": plain(key="key 2"),
}


@pytest.mark.parametrize("name", TERMS)
def test_charges_under_other_terms_are_left_to_json(name: str) -> None:
    assert plain_charge(charge_body(TERMS[name], "now")) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("epsilon", amount) for amount in ("1/0", "-1", 1, str(10**10), f"1/{37**40}")],
        *[("domain_version", number) for number in (True, None)],
        *[("certificate", text) for text in ("no json", None)],
        ("program_digest", ""),
        ("program_digest", "x" * 201),
    ],
)
def test_terms_that_no_charge_has_are_left_to_json(field: str, value: EntryField) -> None:
    for charge in (plain(), in_chain()):
        fields = json.loads(charge_body(charge, "now"))
        assert plain_charge(canonical({**fields, field: value})) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("level", amount) for amount in ("0", "1/6", "-1", "", "x", "1/0", 1, None)],
        *[("received", amount) for amount in ("1/3", "-1", "", "x", 1, None)],
        *[("chain", text) for text in ("", "x" * 201, "a\tb", 1, None)],
    ],
)
def test_terms_that_no_chain_has_are_left_to_json(field: str, value: EntryField) -> None:
    fields = json.loads(charge_body(in_chain(), "now"))
    assert plain_charge(canonical({**fields, field: value})) is None
    del fields[field]
    assert plain_charge(canonical(fields)) is None


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


CHAINED = [
    ('"level":"1/4"', '"level":"1/2"'),
    ('"received":"3/20"', '"received":"1/20"'),
    ('"chain":"rows', '"chain":"none'),
    ('"mark":"m"', '"mark":"n"'),
    ('"mark":"m"', '"mark":"-"'),
    (',"mark":"m"', ""),
    ('"level":"1/4",', ""),
    ('"epsilon":"3/20"', '"epsilon":"1/4"'),
    ('"level":"1/4"', '"level":"0"'),
]
"""The same to those of a chain."""


def chained_ledger(ledger: Ledger) -> None:
    """Entries: 1 account, 2 name, 3 charge, 4 answer, 5 charge, 6 answer; both of one chain."""
    account = opened(ledger, 1)
    first = published(ledger, linked(account, "1/10", "1/10", "1/10", "a"))
    published(ledger, linked(account, "1/4", "3/20", "3/20", "b"), first.sequence)


def forged(changes: list[tuple[str, str]], numbers: range) -> list[Callable[[LedgerCursor], object]]:
    return [
        lambda cursor, old=old, new=new, number=number: rechained(cursor, number, old, new)
        for old, new in changes
        for number in numbers
    ]


BUSY = [*(damage for damage, _, _ in DAMAGES), *forged([*MORE, ('"charge":3', '"charge":"3"')], range(3, 5))]


@pytest.mark.parametrize(
    ("fill", "damages", "least"),
    [(busy_ledger, BUSY, len(DAMAGES)), (chained_ledger, forged(CHAINED, range(3, 7)), len(CHAINED))],
)
def test_a_ledger_is_judged_as_without_the_short_way(
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    fill: Callable[[Ledger], object],
    damages: list[Callable[[LedgerCursor], object]],
    least: int,
) -> None:
    fill(ledger)
    short = [fault_after(ledger, damage) for damage in damages]
    monkeypatch.setattr(PlainEntries, "charge", lambda *_: False)
    monkeypatch.setattr(PlainEntries, "answer", lambda *_: False)
    assert short == [fault_after(ledger, damage) for damage in damages]
    assert sum(fault is not None for fault in short) >= least


def test_the_short_way_is_taken(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    account = opened(ledger, 1)
    ledger.store_answer(ledger.charge(charge_of(account, "1/5", "a")), b"noisy")
    published(ledger, linked(account, "1/10", "1/10", "1/10", "b"))
    read: list[str] = []
    monkeypatch.setattr(verification, "parse_body", lambda body: read.append(body) or parse_body(body))
    assert ledger.verify().is_sound
    assert len(read) == 2
