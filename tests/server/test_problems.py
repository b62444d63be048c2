"""Errors as problems: every code is on the page with its status, and nothing unexpected is told."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import httpx

from blowfishdb.errors import (
    BlowfishError,
    BudgetExceeded,
    InvalidInput,
    ReleaseFailed,
    ServerUnreachable,
    SignInRefused,
    error_types,
)
from blowfishdb.server.app import fault_page
from blowfishdb.server.problems import ASTRAY, problem, status_of
from blowfishdb.session.remote import error_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "rest.md").read_text()
AT_CLIENTS = {BlowfishError, ServerUnreachable}
"""Errors that no server sends."""


def kinds() -> list[type[BlowfishError]]:
    return list(error_types().values())


def test_every_code_is_on_the_page_with_its_status() -> None:
    listed = {(code, int(status)) for code, status in re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", PAGE, re.MULTILINE)}
    ours = {(kind.code, status_of(kind.__new__(kind))) for kind in kinds() if kind not in AT_CLIENTS}
    assert listed == ours | {(code, status) for status, (code, _) in ASTRAY.items()}


def test_every_error_can_be_told() -> None:
    for kind in kinds():
        error = kind.__new__(kind)
        BlowfishError.__init__(error, "words")
        error.__dict__.setdefault("wait", 1)
        written = problem(error)
        told = json.loads(bytes(written.body))
        assert (written.status_code, told["status"], told["code"]) == (status_of(error), status_of(error), kind.code)
        assert told["title"]


def test_codes_are_of_one_error_each() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(codes) == len(set(codes))


def test_errors_travel_there_and_back() -> None:
    sent = [
        BudgetExceeded(Fraction(1, 3), Fraction(2, 7), None, ("within 9",)),
        ReleaseFailed("ab12", Fraction(1, 10), "key", can_retry=True),
        SignInRefused(7),
    ]
    for error in sent:
        written = problem(error)
        back = error_of(httpx.Response(written.status_code, content=bytes(written.body)))
        assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_odd_answers_are_no_errors_of_ours() -> None:
    for content in (b"", b"[]", b'{"code": "x"}', json.dumps({"code": [], "detail": "", "fields": {}}).encode()):
        assert isinstance(error_of(httpx.Response(500, content=content)), ServerUnreachable)


def test_an_answer_that_plays_tricks_stays_an_error() -> None:
    fields = {"requested": "9" * 9999, "__class__": "x", "code": "y", "args": "z", "instead": ["a"]}
    odd = {"code": "budget-exceeded", "detail": "x", "fields": fields}
    found = error_of(httpx.Response(402, content=json.dumps(odd).encode()))
    assert isinstance(found, BudgetExceeded)
    assert (found.code, found.args, found.instead) == ("budget-exceeded", ("x",), ("a",))


def test_a_page_that_fails_tells_an_incident_alone() -> None:
    page = fault_page(RuntimeError("Ada Lovelace"))
    assert page.status_code == 500
    assert b"incident" in page.body and b"Lovelace" not in page.body
    ours = fault_page(InvalidInput("<b>not this</b>"))
    assert (ours.status_code, b"&lt;b&gt;not this" in ours.body) == (422, True)
