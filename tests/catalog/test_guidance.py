"""Profiles propose declarations that can be read, from names and types alone; what guidance says is so."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import blowfishdb as bf
from blowfishdb.catalog import curate
from blowfishdb.catalog.dataset import read_attribute, read_family
from blowfishdb.catalog.guidance import (
    CONCEPTS,
    PROFILES,
    USUAL_TARGET,
    Belief,
    Concept,
    beliefs_of,
    budget_words,
    propose,
    read_profile,
    saves_little,
    typical_questions,
    what_if,
)
from blowfishdb.errors import CatalogError, ChangeRefused
from blowfishdb.model.domain import domain
from blowfishdb.model.policy import Person
from blowfishdb.sources.base import ColumnKind, ColumnType

TODAY = datetime.date(2026, 5, 1)
VISITS = {
    "visitId": ColumnKind.INTEGER,
    "patient_no": ColumnKind.TEXT,
    "age": ColumnKind.REAL,
    "ward": ColumnKind.TEXT,
    "admitted": ColumnKind.TEXT,
    "birth_date": ColumnKind.DATE,
    "cost": ColumnKind.DECIMAL,
    "smoker": ColumnKind.BOOLEAN,
    "seen_at": ColumnKind.INSTANT,
    "weight": ColumnKind.INTEGER,
    "doctor_note": ColumnKind.TEXT,
}
DOMAIN = domain({"age": bf.integers(0, 99), "ward": ["a", "b"], "cost": bf.bins(0, 1000, width=10)})
HALF = Fraction(1, 2)


def columns(kinds: dict[str, ColumnKind]) -> dict[str, ColumnType]:
    return {name: ColumnType(kind, kind.value) for name, kind in kinds.items()}


def test_names_and_types_give_bounds_and_the_person() -> None:
    proposal = propose(PROFILES["patients"], columns(VISITS), TODAY)
    assert (proposal.person, proposal.row_key) == ("patient_no", "visitId")
    assert proposal.unit == Person("patient_no", 5, "visitId")
    assert {name: one.domain for name, one in proposal.columns.items() if one.is_used} == {
        "age": "0..110 step 1",
        "ward": "",
        "admitted": "2021-01-01..2026-12-31 by day",
        "birth_date": "1910-01-01..2026-12-31 by year",
        "cost": "0..50000 step 100",
        "smoker": "false, true",
        "seen_at": "2021-01-01T00:00..2026-12-31T00:00 by day",
    }
    nobody = propose(PROFILES["census"], columns({"patientAge": ColumnKind.INTEGER}), TODAY)
    assert (nobody.person, nobody.unit) == (None, None)
    assert nobody.columns["patientAge"].domain == "0..110"


@pytest.mark.parametrize("concept", CONCEPTS, ids=lambda concept: (concept.names or concept.kinds)[0])
def test_each_proposal_can_be_declared(concept: Concept) -> None:
    name = concept.names[0] if concept.names else "x"
    for kind in concept.kinds:
        one = propose(PROFILES["other"], columns({name: kind}), TODAY).columns[name]
        attribute = read_attribute(one.domain, kind)
        assert attribute.size > 1
        assert bool(one.looser) == bool(one.gives_up)
        if one.looser:
            bf.Policy({name: read_family(one.looser, attribute)}).check(domain({name: attribute}))


def test_there_is_no_other_profile() -> None:
    assert read_profile("patients").title == "Patients and visits"
    with pytest.raises(CatalogError, match="patients"):
        read_profile("patient")


def believed(epsilon: Fraction, steps: int) -> float:
    """1 % after odds that changed by e^(epsilon steps)."""
    factor = math.exp(float(epsilon) * steps)
    return 0.01 * factor / (0.99 + 0.01 * factor)


def test_beliefs_follow_from_the_steps_between_values() -> None:
    declared = bf.Dataset("d", source="x.csv", domain=DOMAIN, policy=bf.Policy({"ward": bf.public()}))
    (far,) = beliefs_of(declared, "age", Fraction(1, 10), HALF)
    assert (far.one, far.two) == ("80", "20")
    assert far.after_one == pytest.approx(believed(Fraction(1, 10), 1))
    assert far.after_all == pytest.approx(believed(HALF, 1))
    (ward,) = beliefs_of(declared, "ward", Fraction(1, 10), HALF)
    assert ward == Belief("b", "a", None, None)
    assert ward.words == "b rather than a: not hidden, answers may tell it"
    ages = domain({"age": bf.integers(0, 99, null=0)})
    near = bf.Dataset("d", source="x.csv", domain=ages, policy=bf.Policy({"age": bf.threshold(20)}))
    far, close = beliefs_of(near, "age", Fraction(1, 10), HALF)
    assert far.after_all == pytest.approx(believed(HALF, 3))
    assert close.after_all == pytest.approx(believed(HALF, 1))
    exact = Decimal(100) * Decimal(far.after_all or 0)
    assert f"{exact.quantize(Decimal('0.1'), ROUND_CEILING)} % after all of them" in far.words
    tied = bf.Policy(constraints=["count(ward = 'a')"])
    assert beliefs_of(bf.Dataset("d", source="x.csv", domain=DOMAIN, policy=tied), "age", HALF, HALF) == ()


def test_typical_questions_are_priced_as_they_would_be(tmp_path: Path) -> None:
    policy = bf.Policy({"cost": bf.threshold(50)}, presence="secret", unit=Person("who", 2, "row"))
    dataset = bf.Dataset("d", source="x.csv", domain=DOMAIN, policy=policy, epsilon=2)
    with curate(tmp_path / "blowfish.toml", by="cora") as curator:
        guidance = curator.guidance(dataset)
    assert [one.words for one in guidance.questions] == ["Histogram of ward", "CDF of age", "Histogram of ward × age"]
    for question, priced in zip(typical_questions(DOMAIN), guidance.questions, strict=True):
        (quote,) = what_if(DOMAIN, {"": policy}, question, USUAL_TARGET)
        assert priced.epsilon == quote.epsilon
        assert priced.epsilon is not None
        assert priced.times(guidance.budget) == math.floor(2 / priced.epsilon)
    assert [(one.name, one.hidden) for one in guidance.columns] == [
        ("age", "everything secret"),
        ("ward", "everything secret"),
        ("cost", "within 50"),
    ]
    assert guidance.unit == "All rows of a person are protected together; at most 2 rows of each count."
    assert guidance.presence == "Nobody learns whether somebody is in the table."
    assert "whether somebody is in the table is hidden" in saves_little(dataset, "cost")
    assert "everything about ward is hidden" in saves_little(dataset, "cost", "ward")
    assert "everything about" not in saves_little(dataset, "ward", "cost"), "of the cost not everything is hidden"
    shared = replace(guidance, share=Fraction(1, 2))
    assert shared.heads == ["times within the budget", "by one analyst"]
    for one in guidance.questions:
        assert guidance.times(one) == [str(one.times(Fraction(2)))]
        assert shared.times(one)[1] == str(one.times(Fraction(1, 2)))
    assert guidance.advice == ""
    cheapest = min(one.epsilon or 0 for one in guidance.questions)
    assert replace(guidance, share=cheapest).advice == ""
    assert "pays for none of these" in replace(guidance, share=cheapest * Fraction(99, 100)).advice
    with curate(tmp_path / "blowfish.toml", by="cora") as curator:
        rows = curator.guidance(bf.Dataset("d", source="x.csv", domain=DOMAIN))
        exact = curator.guidance(
            bf.Dataset(
                "d", source="x.csv", domain=domain({"ward": ["a", "b"]}), policy=bf.Policy({"ward": bf.public()})
            )
        )
    five = 100 * believed(Fraction(1), 5)
    assert f"with 5 rows, a suspicion of 1 % could become {math.ceil(10 * five) / 10:.1f} %" in rows.unit
    assert [(one.epsilon, one.times(Fraction(1))) for one in exact.questions] == [(0, None)]
    assert exact.unit == "Each row is protected on its own, and somebody with several rows less."


def test_a_larger_budget_is_told_in_the_same_words() -> None:
    declared = bf.Dataset("d", source="x.csv", domain=DOMAIN)
    words = budget_words(declared, Fraction(1), Fraction(2))
    before, after = (math.ceil(1000 * believed(Fraction(amount), 1)) / 10 for amount in (1, 2))
    assert f"become {after:.1f} %; with the budget before it was {before:.1f} %" in words


def test_what_is_said_to_be_final_is(tmp_path: Path) -> None:
    """Each of the sentences in PERMANENT, tried after an answer."""
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.sql(
            "create table t as select i % 100 as age, 'a' as ward, i % 9 as who, i as row from range(500) r(i)"
        )
    declared = {"age": bf.integers(0, 99, null=0), "ward": ["a", "b"]}
    config = tmp_path / "blowfish.toml"
    near = bf.Policy({"age": bf.threshold(10)})
    with curate(config, by="cora") as curator:
        curator.add(bf.Dataset("t", source="duckdb:///d.duckdb#t", domain=declared, policy=near, epsilon=9))
    with bf.connect(config, analyst="ana") as session:
        session["t"].histogram("age").release(epsilon=1)
    with curate(config, by="cora") as curator:
        with pytest.raises(ChangeRefused):
            curator.set_domain("t", declared | {"age": bf.integers(0, 120, null=0)}, reason="wider")
        curator.set_domain("t", {"age": declared["age"]}, reason="ward goes")
        curator.set_domain("t", declared, reason="and comes back")
        for refused in (
            bf.Policy(near.attributes, presence="secret"),
            bf.Policy(near.attributes, unit=Person("who", 5, "row")),
        ):
            with pytest.raises(ChangeRefused):
                curator.set_policy("t", refused, reason="hide more")
        change = curator.set_policy("t", bf.Policy({"age": bf.threshold(20)}), reason="hide more")
        assert change.spent_after == 2 * change.spent_before
        assert curator.account("t").spent == change.spent_after
