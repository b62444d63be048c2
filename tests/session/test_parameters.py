"""Parameters of a mechanism from the question to the ledger: recorded, replayed, verified, and refused uncharged."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request, read_settings, read_target
from blowfishdb.engine.synopsis import Synopsis
from blowfishdb.errors import AccuracyError, Declined, DigestMismatch, ParameterError, QueryError
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.query import Query
from blowfishdb.session import Session
from tests.engine.held import HISTOGRAM, bench
from tests.session.places import curator, make_fixture, session, visits

SPLIT = Fraction(3, 10)
DAWA: dict[str, Any] = {"epsilon": "0.2", "mechanism": "dawa", "parameters": {"split": "0.3"}}
TREE: dict[str, Any] = {"epsilon": "0.2", "mechanism": "hierarchy", "parameters": {"fan_out": 4}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path)
    return tmp_path


@pytest.fixture
def db(folder: Path) -> Session:
    return session(folder)


def certificates(folder: Path) -> list[dict[str, Any]]:
    """What the ledger keeps of each charge, the newest last; its chain is verified."""
    with curator(folder) as keeper:
        report = keeper.verify()
        assert report.is_sound, report.fault
        entries = [keeper.ledger.receipt(entry.sequence) for entry in keeper.ledger.entries()]
        return [json.loads(one.charge.certificate) for one in entries if one is not None]


@pytest.mark.parametrize("options", [DAWA, TREE], ids=["program", "plan"])
def test_parameters_are_recorded_and_their_certificate_is_worked_out_again(
    folder: Path, db: Session, options: dict[str, Any]
) -> None:
    question = db["visits"].histogram("age")
    ((name, value),) = options["parameters"].items()
    assert f"was asked for with {name}={value}" in question.preview(**options).why
    answer = question.release(**options)
    assert answer.parameters == ((name, Fraction(value)),)
    assert f"({name}={value})" in answer.note()
    again = bf.Answer.from_json(answer.to_json())
    assert again.parameters == answer.parameters
    again.certificate.verify()
    assert certificates(folder)[-1]["parameters"] == {name: str(Fraction(value))}
    changed = json.loads(answer.to_json())
    for other in ({name: "5" if name == "fan_out" else "1/3"}, {}, {"rounds": "2"}):
        with pytest.raises(DigestMismatch):
            bf.Answer.from_json(json.dumps({**changed, "parameters": other})).certificate.verify()


def test_a_parameter_that_shapes_no_stage_is_certified_too(db: Session) -> None:
    answer = (
        db["visits"].histogram("age").release(epsilon="0.2", mechanism="matching-transform", parameters={"caution": 2})
    )
    changed = {**json.loads(answer.to_json()), "parameters": {"caution": "1"}}
    with pytest.raises(DigestMismatch):
        bf.Answer.from_json(json.dumps(changed)).certificate.verify()


def test_other_parameters_are_another_request_and_the_same_ones_are_replayed(folder: Path, db: Session) -> None:
    question = db["visits"].histogram("age")
    first = question.release(**DAWA)
    assert np.array_equal(question.release(**{**DAWA, "parameters": {"split": 0.30}}).values, first.values)
    assert len(certificates(folder)) == 1
    plain = question.release(epsilon="0.2", mechanism="dawa")
    other = question.release(**{**DAWA, "parameters": {"split": "0.4"}})
    splits = [{one.stage: one.epsilon for one in each.stages}["partition"] for each in (plain, first, other)]
    assert splits == [Fraction(1, 5) * Fraction(part) for part in ("0.2", "0.3", "0.4")]
    assert [one.get("parameters") for one in certificates(folder)] == [{"split": "3/10"}, None, {"split": "2/5"}]


def test_answers_with_the_same_parameters_share_their_noise_and_others_do_not(folder: Path, db: Session) -> None:
    question = db["visits"].histogram("age")
    first = question.release(**TREE)
    finer = {**TREE, "epsilon": "0.3"}
    assert question.preview(**finer).epsilon == Fraction(1, 10)
    assert question.preview(**{**finer, "parameters": {"fan_out": 5}}).epsilon == Fraction(3, 10)
    more = question.release(**finer)
    assert more.parameters == first.parameters
    assert more.charged == Fraction(1, 10)
    assert certificates(folder)[-1]["parameters"] == {"fan_out": "4"}
    # The plan of the other fan-out begins a chain of its own, and the coarser level of this one is free.
    question.release(**{**finer, "parameters": {"fan_out": 5}})
    assert question.preview(**{**TREE, "epsilon": "0.25"}).epsilon == 0


def test_a_synopsis_names_its_parameters(folder: Path, db: Session) -> None:
    question = db["visits"].histogram("age")
    assert question.publish_preview(**DAWA).epsilon == Fraction(1, 5)
    synopsis = question.publish(**DAWA)
    assert isinstance(synopsis, Synopsis)
    synopsis.save(folder / "ages.parquet")
    again = bf.open_synopsis(folder / "ages.parquet")
    assert again.artefact.parameters == (("split", SPLIT),)
    assert again.artefact.stages[1].epsilon == SPLIT / 5
    assert certificates(folder)[-1]["parameters"] == {"split": "3/10"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parameters": {"split": "0.3"}}, "name the mechanism"),
        ({"mechanism": "auto", "parameters": {"split": "0.3"}}, "auto takes none"),
        ({"mechanism": "dawa", "parameters": {"rounds": 2}}, "a parameter of matching-transform"),
        ({"mechanism": "dawa", "parameters": {"split": "0.95"}}, "from 0.01 to 0.8"),
        ({"mechanism": "dawa", "parameters": {"split": "much"}}, "the parameter split is a number"),
        ({"mechanism": "dawa", "parameters": {"split": "None"}}, "the parameter split is a number"),
        ({"mechanism": "dawa", "parameters": [("split", 1)]}, "parameters are an object"),
        ({"mechanism": "dawa", "parameters": "split"}, "name=value"),
        ({"mechanism": "dawa", "parameters": "split=0.3, split=0.4"}, "set once"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_charged(
    folder: Path, db: Session, options: dict[str, Any], words: str
) -> None:
    question = db["visits"].histogram("age")
    for work in (question.preview, question.release, question.publish):
        with pytest.raises(ParameterError, match=words):
            work(epsilon="0.2", **options)
    assert certificates(folder) == []


def test_parameters_that_leave_a_stage_too_little_are_refused_uncharged(tmp_path: Path) -> None:
    """Its noise would be more than the sampler serves, which would be known only after the charge."""
    held = bench(tmp_path)

    def target(epsilon: str, split: str) -> AccuracyTarget:
        return accuracy_target(epsilon=epsilon, mechanism="gated", parameters={"split": split})

    with pytest.raises(Declined, match="leave stage records too little"):
        held.release(HISTOGRAM, target("0.009", "0.001"))
    assert held.spent == 0
    held.release(HISTOGRAM, target("0.01", "0.001"))


def test_points_and_lists_of_groups_take_none(tmp_path: Path) -> None:
    held = bench(tmp_path)
    target = accuracy_target(epsilon=1, mechanism="dawa", parameters={"split": "0.3"})
    query = Query("selection", as_axes("age"), most=3)
    with pytest.raises(ParameterError, match="by one mechanism"):
        held.release(query, target)
    assert held.spent == 0


def test_a_request_without_parameters_is_written_as_before(tmp_path: Path) -> None:
    handle = bench(tmp_path).handle
    plain = accuracy_target(epsilon="0.2", mechanism="dawa")
    assert set(plain.to_dict()) == {"alpha", "beta", "epsilon", "guarantee", "mechanism"}
    texts = {
        make_request(handle, HISTOGRAM, accuracy_target(epsilon="0.2", mechanism="dawa", parameters=given)).text
        for given in ({"split": "0.3"}, "split = 3/10", (("split", SPLIT),), {"split": 0.3})
    }
    assert len(texts) == 1
    assert '"parameters": {"split": "3/10"}' in texts.pop()
    target = accuracy_target(**DAWA)
    assert read_target(target.to_dict()) == target


def test_a_target_by_another_mechanism_has_none_of_the_parameters() -> None:
    target = accuracy_target(**DAWA)
    assert target.by("dawa") is target
    assert target.by(None) == AccuracyTarget(None, Fraction(1, 5))
    with pytest.raises(AccuracyError):
        AccuracyTarget(None, Fraction(1, 5), parameters=(("split", SPLIT),))


def test_parameters_are_read_in_any_order() -> None:
    assert read_settings("split=0.3, rounds = 2,") == read_settings({"rounds": 2, "split": "0.3"})


def test_sql_states_them(folder: Path, db: Session) -> None:
    text = "SELECT age, COUNT(*) FROM visits GROUP BY age OPTIONS (epsilon = 0.2, mechanism = 'dawa'{})"
    chosen = text.format(", parameters = 'split=0.3'")
    preview = db.sql(f"EXPLAIN {chosen}")
    assert isinstance(preview, bf.Preview)
    assert "parameters = 'split=0.3'" in str(preview)
    answer = db.sql(chosen)
    assert isinstance(answer, bf.Answer)
    assert answer.parameters == (("split", SPLIT),)
    assert db.sql(text.format(""), parameters={"split": "0.3"}).to_json() == answer.to_json()  # type: ignore[union-attr]
    with pytest.raises(AccuracyError, match=r"split=0\.3 in OPTIONS and split=0\.4 outside"):
        db.sql(chosen, parameters={"split": "0.4"})
    for wrong in (", parameters = 0.3", ", parameters = 'rounds=2'", ", parameters = 'split=2'"):
        with pytest.raises((ParameterError, QueryError)):
            db.sql(text.format(wrong))
    assert len(certificates(folder)) == 1


def test_the_largest_epsilon_of_a_data_aware_mechanism_works_and_more_is_refused_uncharged(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(bf.Policy(), epsilon="100000"))
    db = session(tmp_path)
    table = db["visits"]
    for mechanism in DATA_AWARE:
        question = table.histogram("age", bf.col("cost").bins(50)) if "tree" in mechanism else table.histogram("age")
        before = db.budget("visits").spent
        with pytest.raises(AccuracyError, match="at most 1000 here"):
            question.release(epsilon="1000.1", mechanism=mechanism)
        assert db.budget("visits").spent == before
        question.release(epsilon=1000, mechanism=mechanism)
