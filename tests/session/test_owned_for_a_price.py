"""A price given as epsilon buys what the fresh answer promises for it: where own answers tell as much, for less."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import blowfishdb as bf
from tests.session.places import curator, make_fixture, session

AGE = bf.col("age")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path)
    with session(tmp_path) as db:
        db["visits"].histogram(AGE.bins(5)).release(epsilon=1, mechanism="identity")
    return tmp_path


def spent(folder: Path) -> Fraction:
    with curator(folder) as keeper:
        report = keeper.verify()
        assert report.is_sound, report.fault
        return keeper.account("visits").spent


def test_what_an_own_answer_tells_as_closely_is_free(folder: Path) -> None:
    with session(folder) as db:
        for question in (db["visits"].histogram(AGE.bins(10)), db["visits"].where(AGE < 30).count()):
            alone = question.preview(epsilon="0.05", fresh=True)
            preview = question.preview(epsilon="0.05")
            assert (alone.epsilon, preview.epsilon, preview.best.epsilon) == (Fraction(1, 20), 0, 1)
            assert preview.alpha <= alone.alpha
            answer = question.release(epsilon="0.05")
            assert answer.charged == 0
            assert answer.widths.simultaneous <= alone.alpha
            assert answer.caveat.startswith("Read off an earlier release")
        text = "SELECT COUNT(*) FROM visits WHERE age < 45"
        assert db.sql(f"EXPLAIN {text}", epsilon="0.05").epsilon == 0
        assert db.sql(text, epsilon="0.05").charged == 0
    assert spent(folder) == 1


def test_fresh_draws_anew_at_the_whole_price(folder: Path) -> None:
    with session(folder) as db:
        answer = db["visits"].histogram(AGE.bins(10)).release(epsilon="0.05", fresh=True)
        assert (answer.epsilon, answer.caveat) == (Fraction(1, 20), "")
    assert spent(folder) == Fraction(21, 20)


@pytest.mark.parametrize("epsilon", ["0.05", "0.4", "1"])
def test_a_price_and_the_accuracy_that_it_buys_cost_the_same(folder: Path, epsilon: str) -> None:
    with session(folder) as db:
        question = db["visits"].histogram(AGE.bins(10))
        alone = question.preview(epsilon=epsilon, fresh=True)
        preview = question.preview(epsilon=epsilon)
        assert preview.epsilon <= alone.epsilon
        assert preview.alpha <= alone.alpha
        assert preview.epsilon <= question.preview(alpha=alone.alpha).epsilon
        before = spent(folder)
        answer = question.release(epsilon=epsilon)
        assert answer.widths.simultaneous <= alone.alpha
    assert spent(folder) - before == preview.epsilon


def test_what_others_own_or_a_mechanism_that_was_named_leaves_the_price_as_it_is(folder: Path) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        assert ben["visits"].histogram(AGE.bins(10)).preview(epsilon="0.05").epsilon == Fraction(1, 20)
        named = db["visits"].histogram(AGE.bins(10)).preview(epsilon="0.05", mechanism="identity")
        assert named.epsilon == Fraction(1, 20)


def test_a_large_price_buys_more_than_the_accuracy_that_nineteen_draws_of_twenty_have(tmp_path: Path) -> None:
    """Noise of such a level is 0 but in one draw of 10^400; at a level of 4 it promises to be within 0 as well."""
    make_fixture(tmp_path)
    with session(tmp_path) as db:
        db["visits"].histogram("ward").release(epsilon=4)
        preview = db["visits"].where(AGE < 30).count().preview(epsilon=1000)
        assert (preview.alpha, preview.best.epsilon, preview.epsilon) == (0, 1000, 1000)
