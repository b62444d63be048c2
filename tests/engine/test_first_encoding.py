"""What earlier versions stored with digests in the first encoding: answers still verify, receipts still pay."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import blowfishdb as bf
from blowfishdb.audit.cases import Case, prepared
from blowfishdb.audit.scratch import scratch
from blowfishdb.engine.answer import worked_out
from blowfishdb.engine.charge import check_receipt
from blowfishdb.errors import DigestMismatch
from blowfishdb.ledger import Charge, Receipt
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, line, threshold
from blowfishdb.model.query import query
from blowfishdb.present.answer_values import Evidence

HERE = Path(__file__).parent.parent
ANSWERS: dict[str, Any] = json.loads((HERE / "plan" / "version_1.json").read_text(encoding="utf-8"))["answers"]
WHOLE = (HERE / "present" / "answer_1.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ANSWERS)
def test_certificates_of_earlier_answers_are_worked_out_again(name: str) -> None:
    kept = ANSWERS[name]
    stored = kept["certificate"]
    found = worked_out(Evidence(**kept["evidence"]), kept["mechanism"], Fraction(kept["epsilon"]), 1)
    assert (found.plan_digest, found.graph_digest) == (stored["plan_digest"], stored["graph_digest"])
    assert str(found.epsilon) == stored["epsilon"]
    now = worked_out(Evidence(**kept["evidence"]), kept["mechanism"], Fraction(kept["epsilon"]))
    assert now.plan_digest.startswith("2:") and now.graph_digest.startswith("2:")
    assert replace(now, plan_digest="", graph_digest="") == replace(found, plan_digest="", graph_digest="")


def test_an_earlier_answer_verifies_and_a_changed_one_does_not() -> None:
    bf.Answer.from_json(WHOLE).certificate.verify()
    for field in ("plan_digest", "graph_digest"):
        changed = json.loads(WHOLE)
        changed["certificate"][field] = "0" * 64
        with pytest.raises(DigestMismatch):
            bf.Answer.from_json(json.dumps(changed)).certificate.verify()
    # Which NULL is public is the one thing that the old digest of this graph does not tell.
    changed = json.loads(WHOLE)
    changed["evidence"]["declared"]["domain"]["x"]["null_public"] = True
    with pytest.raises(DigestMismatch):
        bf.Answer.from_json(json.dumps(changed)).certificate.verify()


DECLARED = domain({"x": integers(0, 7), "y": integers(0, 5)})
POLICY = Policy({"x": line(), "y": threshold(2)})
CASES = [
    Case("a plan", DECLARED, POLICY, query("cdf", "x"), "ordered", Fraction(1, 2)),
    Case("a program", DECLARED, POLICY, query("histogram", "x"), "dawa", Fraction(1, 2)),
    Case("a synopsis", DECLARED, POLICY, query("histogram", "x"), epsilon=Fraction(1, 2), as_synopsis=True),
    Case("points", DECLARED, POLICY, query("points", ("x", "y"), clusters=3, rows=1000), epsilon=Fraction(1, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_receipt_in_either_encoding_pays_for_its_own_and_nothing_else(case: Case) -> None:
    with scratch(DECLARED, POLICY) as world:
        ready = prepared(case, world.handle, case.query)
        other = prepared(replace(case, epsilon=Fraction(1)), world.handle, case.query)
    for paid in (ready.digest, ready.digest_1()):
        check_receipt(receipt(paid, ready.epsilon), ready)
        with pytest.raises(DigestMismatch):
            check_receipt(receipt(paid, ready.epsilon), other)
        with pytest.raises(DigestMismatch):
            check_receipt(receipt(paid, ready.epsilon / 2), ready)
    assert ready.digest.startswith("2:") and len(ready.digest_1()) == 64


def receipt(paid: str, epsilon: Fraction) -> Receipt:
    charge = Charge(
        account="a" * 32,
        analyst="ana",
        epsilon=epsilon,
        key="one",
        request_digest="b" * 64,
        program_digest=paid,
        policy_version=1,
        domain_version=1,
        snapshot=1,
        certificate="{}",
    )
    return Receipt(1, charge, "", "")
