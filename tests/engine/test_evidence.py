"""Anybody can work an answer's certificate out again from the answer alone; what was changed is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import blowfishdb as bf
from blowfishdb.engine import answer as stored
from blowfishdb.errors import BlowfishError, DigestMismatch, DocumentError
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.session import Question, Session
from tests.session.places import make_fixture, session, visits

FEW = bf.col("cost").bins(20)


@pytest.fixture
def db(tmp_path: Path) -> Session:
    policy = bf.Policy(
        {"age": bf.threshold(5), "ward": bf.public()}, unit=bf.person("patient", at_most=2, order_by="id")
    )
    make_fixture(tmp_path, visits(policy, epsilon="100"))
    return session(tmp_path)


def questions(db: Session) -> list[Question]:
    table = db["visits"]
    some = table.where((bf.col("ward") == "A3") & (bf.col("age") >= 18))
    return [
        table.histogram("age"),
        some.cdf(FEW),
        some.histogram("ward", bf.col("age").bins(10)),
        table.ranges("age", [(0, 18), (18, 65)]),
        table.marginals("ward", bf.col("age").bins(10), ways=1),
        table.quantiles("age", [0.5]),
        table.mean("age"),
        table.count(),
    ]


def test_every_kind_of_answer_can_be_checked(db: Session) -> None:
    for question in questions(db):
        answer = question.release(epsilon="0.2")
        answer.certificate.verify()
        bf.Answer.from_json(answer.to_json(indent=1)).certificate.verify()


@pytest.mark.no_cover
def test_every_mechanism_that_serves_can_be_checked(db: Session) -> None:
    checked = set()
    for name in (*bf.MECHANISMS, *DATA_AWARE):
        for question in (db["visits"].histogram("age"), db["visits"].histogram2d(bf.col("age").bins(10), FEW)):
            try:
                answer = question.release(epsilon="0.2", mechanism=name)
            except BlowfishError:
                continue
            answer.certificate.verify()
            checked.add(name)
            break
    assert len(checked) >= 12


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept["evidence"]["declared"]["policy"]["attributes"]["age"].update(theta=50),
        lambda kept: kept["evidence"]["declared"]["policy"]["unit"].update(at_most=1),
        lambda kept: kept["evidence"]["question"]["axes"][0].update(width=["int", "10"]),
        lambda kept: kept.update(mechanism="hierarchy"),
        lambda kept: kept.update(mechanism="none of ours"),
        lambda kept: kept["evidence"]["declared"].update(version=99),
        lambda kept: kept["certificate"].update(plan_digest="00" * 32),
        lambda kept: (kept.update(epsilon="1/50"), kept["certificate"].update(epsilon="1/50")),
        lambda kept: kept.update(evidence=None),
    ],
)
def test_what_was_changed_is_noticed(db: Session, change: object) -> None:
    kept = json.loads(db["visits"].histogram("age").release(epsilon="0.2", mechanism="identity").to_json())
    change(kept)  # type: ignore[operator]
    with pytest.raises(DigestMismatch):
        bf.Answer.from_json(json.dumps(kept)).certificate.verify()


def test_odd_evidence_is_no_answer(db: Session) -> None:
    kept = json.loads(db["visits"].count().release(epsilon="0.2").to_json())
    for odd in ("x", 5, {"declared": 1, "question": {}}, {"declared": {}}):
        with pytest.raises(DocumentError):
            bf.Answer.from_json(json.dumps({**kept, "evidence": odd}))


def test_declarations_that_are_too_large_stay_with_the_curator(db: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "LARGEST", 10)
    answer = db["visits"].count().release(epsilon="0.2")
    assert answer.evidence is None
    with pytest.raises(DigestMismatch, match="give the plan"):
        answer.certificate.verify()
