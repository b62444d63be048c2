"""Plans of several questions: cheaper together, shown before, charged once or not at all."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import UNREAD
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.joint_release import joint_release
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import (
    AccuracyError,
    BudgetExceeded,
    CatalogError,
    DeadlinePassed,
    Declined,
    InvalidInput,
    KeyReused,
    QueryError,
    ReleaseFailed,
    SpendingCapReached,
    TooLarge,
)
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.query import Part, Query
from blowfishdb.session import Question, QuestionPlan, Session
from blowfishdb.sources.ibis_source import IbisCount
from tests.session.places import curator, make_fixture, session, visits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path)
    return tmp_path


def views(db: Session) -> list[Question]:
    table, age = db["visits"], bf.col("age")
    return [table.cdf("age"), table.histogram(age.bins(20)), table.where(age >= 60).count(), table.histogram("ward")]


def spent(folder: Path) -> Fraction:
    with curator(folder) as keeper:
        report = keeper.verify()
        assert report.is_sound, report.fault
        return keeper.account("visits").spent


def test_a_plan_is_cheaper_than_one_by_one_and_charged_once(folder: Path) -> None:
    with session(folder) as db:
        plan = db.plan(views(db), alpha=50)
        assert plan.total < plan.one_by_one
        assert plan.one_by_one == sum(question.preview(alpha=50).epsilon for question in views(db))
        assert plan.total == sum(one.price for one in plan.questions)
        assert "one by one" in str(plan)
        assert "Nothing is charged unless all of it fits." in repr(plan)
        assert plan.to_dict()["total"] == str(plan.total)
        assert spent(folder) == 0
        answers = plan.release(spend=plan.total)
        assert spent(folder) == plan.total == db.budget("visits").spent
        assert [answer.title for answer in answers] == [one.title for one in plan.questions]
        for answer, question in zip(answers, views(db), strict=True):
            assert answer.widths.simultaneous <= 50
            assert answer.dataset == "visits"
            assert answer.kind == question.query.kind
            answer.certificate.verify()
        assert [answer.values.tolist() for answer in plan.release()] == [answer.values.tolist() for answer in answers]
        number = db.history("visits")[0].number
        whole = db.reopen("visits", number)
        assert isinstance(whole, bf.Answer)
        assert [part.title for part in whole.parts] == [answer.title for answer in answers]
        assert whole.labels
        assert len(whole.rows()) == whole.raw.size
        assert bf.Answer.from_json(whole.to_json()).to_json() == whole.to_json()
        # What is read off the rows of a plan later costs nothing more.
        assert db["visits"].cdf("age").preview(alpha=50).epsilon == 0
        coarse = db["visits"].where(bf.col("age") < 20).count()
        assert coarse.preview(alpha=50).epsilon == 0
        assert coarse.release(alpha=50).rests_on == (number,)
    assert spent(folder) == plan.total


def test_questions_keep_their_own_accuracies(folder: Path) -> None:
    with session(folder) as db:
        cdf, ages, old, _ = views(db)
        plan = db.plan([(cdf, 80), (ages, {"accuracy": 60, "confidence": 0.99}), (old, {"epsilon": "0.01"})])
        assert [one.accuracy for one in plan.questions] == ["within 80 (95 %)", "within 60 (99 %)", "for epsilon 0.01"]
        assert [one.together for one in plan.questions] == [0, 0, None]
        assert plan.questions[2].price == Fraction(1, 100)
        first, second, _ = plan.release(key="monday")
        assert first.widths.simultaneous <= 80
        assert (second.widths.simultaneous <= 60, second.beta) == (True, 0.01)
        assert spent(folder) == plan.total
        plan.release(key="monday")
    assert spent(folder) == plan.total


def test_what_was_paid_before_is_not_paid_again(folder: Path) -> None:
    with session(folder) as db:
        cdf, ages, old, wards = views(db)
        cdf.release(alpha=50)
        plan = db.plan([cdf, ages, old], alpha=50)
        assert plan.questions[0].alone == 0
        before = spent(folder)
        assert plan.total <= plan.one_by_one
        plan.release()
        assert spent(folder) == before + plan.total
        alone = db.plan([wards], alpha=50)
        assert "released by itself" not in str(alone)
        assert alone.total == alone.one_by_one
        assert db.plan([wards, (ages, 30)], alpha=50, fresh=True).total > 0


def test_nothing_is_charged_where_the_whole_does_not_fit(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(epsilon="0.3"))
    with session(tmp_path) as db:
        plan = db.plan(views(db), alpha=50)
        assert not plan.is_affordable
        with pytest.raises(BudgetExceeded):
            plan.release()
        with pytest.raises(SpendingCapReached):
            plan.release(spend="0.01")
        apart = db.plan([(question, {"epsilon": "0.2"}) for question in views(db)])
        with pytest.raises(BudgetExceeded):
            apart.release()
    assert spent(tmp_path) == 0


def test_nothing_is_charged_after_the_deadline_of_a_plan(folder: Path) -> None:
    with session(folder) as db:
        apart = db.plan([(question, {"epsilon": "0.05"}) for question in views(db)[2:]])
        with pytest.raises(DeadlinePassed):
            apart.release(deadline=1e-9)
        assert spent(folder) == 0
        assert len(apart.release(deadline=600)) == 2


def test_several_releases_are_charged_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fixture(tmp_path, visits(epsilon="0.5"))
    with session(tmp_path) as db:
        apart = db.plan([(question, {"epsilon": "0.2"}) for question in views(db)[:3]])
        assert apart.joint == ()
        # Somebody spends the rest after the whole was seen to fit: the ledger refuses all of it, and speaks of the sum.
        monkeypatch.setattr(QuestionPlan, "check_budget", lambda self, key: None)
        with pytest.raises(BudgetExceeded) as refusal:
            apart.release()
        assert (refusal.value.requested, refusal.value.remaining_dataset) == (Fraction(3, 5), Fraction(1, 2))
        assert spent(tmp_path) == 0
        with pytest.raises(SpendingCapReached):
            two = db.plan([(question, {"epsilon": "0.2"}) for question in views(db)[:2]])
            replace(two, questions=tuple(replace(one, price=Fraction(1, 10)) for one in two.questions)).release()
        assert spent(tmp_path) == 0
        answers = two.release()
        assert spent(tmp_path) == Fraction(2, 5)
        # Nothing is charged again, and what measures the rows of another question rests on its answer.
        assert [answer.released for answer in two.release()] == [answer.released for answer in answers]
        wards = db["visits"].histogram("ward")
        levels = db.plan([(wards, {"epsilon": level, "mechanism": "identity"}) for level in ("0.04", "0.09")])
        first, second = levels.release()
        assert (first.epsilon, second.epsilon) == (Fraction(1, 25), Fraction(9, 100))
    assert spent(tmp_path) == Fraction(2, 5) + Fraction(9, 100)


def test_a_second_try_under_the_key_repeats_the_plan_and_finishes_what_was_charged(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(epsilon="0.7"))
    with session(tmp_path) as db:
        cdf, ages, old, wards = views(db)
        items = [(cdf, 60), (wards, {"epsilon": "0.2"}), (ages, 60), (old, 60)]
        plan = db.plan(items)
        assert [one.together for one in plan.questions] == [0, None, 0, 0]
        real, calls = IbisCount.run, list[float]()

        def fails_once(self: IbisCount[Any, Any], seconds: float) -> Any:
            calls.append(seconds)
            if len(calls) == 2:
                raise OSError
            return real(self, seconds)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IbisCount, "run", fails_once)
            with pytest.raises(ReleaseFailed):
                plan.release(key="twice")
        charged = spent(tmp_path)
        assert (charged, len(calls)) == (plan.total, 2)
        # Planned anew, what was answered is free; the rest was paid, and would no longer fit.
        again = db.plan(items)
        assert db.budget("visits").remaining < Fraction(1, 5) == again.total
        with pytest.raises(BudgetExceeded):
            again.release()
        assert again.to_pay("twice") == 0
        answers = again.release(key="twice", spend=0)
        assert [answer.title for answer in answers] == [one.title for one in plan.questions]
        assert answers[0].caveat == ""
        first = [answer.to_json() for answer in answers]
        assert [answer.to_json() for answer in db.plan(items).release(key="twice", spend=0)] == first
        with pytest.raises(KeyReused):
            db.plan(items[:2]).release(key="twice")
        with pytest.raises(KeyReused):
            db.plan([(ages, 60), *items[1:3], (cdf, 60)]).release(key="twice")
    assert spent(tmp_path) == charged


def test_sharing_that_is_off_still_plans(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(sharing="off"))
    with session(tmp_path) as db:
        plan = db.plan(views(db), alpha=50)
        answers = plan.release()
        assert len(answers) == 4
        assert db["visits"].cdf("age").preview(alpha=50).epsilon > 0
    assert spent(tmp_path) == plan.total


def test_columns_of_a_report_are_measured_together(folder: Path) -> None:
    with session(folder) as db:
        table = db["visits"]
        total, mean = (table.aggregate(bf.Aggregate(name, ("age",)), by=["ward"], rows=900) for name in ("sum", "mean"))
        plan = db.plan([(table.histogram("ward"), 50), (total, 5000), (mean, 5)])
        assert plan.total < plan.one_by_one
        counts, sums, means = plan.release()
        assert [counts.kind, sums.kind, means.kind] == ["histogram", "table", "table"]
        assert sums.columns[0].function == "sum"
        # Ten times an interval of 95 % is left with probability below 10^-9.
        assert np.all(np.abs(sums.values - 49.5 * 1000) <= 5 * (sums.bounds.high - sums.bounds.low))


def test_plans_that_make_no_sense_are_refused(folder: Path) -> None:
    with curator(folder) as keeper:
        keeper.add(visits(name="others"))
    with session(folder) as db:
        cdf = db["visits"].cdf("age")
        with pytest.raises(QueryError, match="at least one question"):
            db.plan([], alpha=50)
        with pytest.raises(AccuracyError, match="say either"):
            db.plan([(cdf, {"alpha": 5, "epsilon": 1})])
        with pytest.raises(AccuracyError, match="say either"):
            db.plan([cdf])
        with pytest.raises(AccuracyError, match="and nothing else"):
            db.plan([(cdf, {"beta": 0.1, "speed": 1})], alpha=5)
        with pytest.raises(QueryError, match="plan each"):
            db.plan([cdf, db["others"].cdf("age")], alpha=50)
        with pytest.raises(TooLarge):
            db.plan([cdf] * 65, alpha=50)
        wrong: Any = "SELECT 1"
        with pytest.raises(InvalidInput, match="questions of plan"):
            db.plan([wrong], alpha=50)
        with pytest.raises(CatalogError):
            db["nowhere"]
    assert spent(folder) == 0


def test_several_statements_are_planned_together(folder: Path) -> None:
    wards_by = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    young_ones = "SELECT COUNT(*) FROM visits WHERE age < 18 OPTIONS (alpha = 20)"
    text = f"SELECT CDF(age) FROM visits; {young_ones}; EXPLAIN {wards_by}; {wards_by} LIMIT 1"
    with session(folder) as db:
        outcome = db.sql(text, alpha=50)
        assert isinstance(outcome, list)
        cdf, young, preview, wards = outcome
        assert isinstance(preview, bf.Preview)
        assert isinstance(young, bf.Answer)
        assert young.widths.simultaneous <= 20
        assert isinstance(wards, bf.Answer)
        assert wards.row_count == 1
        assert isinstance(cdf, bf.Answer)
        assert cdf.epsilon == young.epsilon == spent(folder)
        with pytest.raises(SpendingCapReached):
            db.sql(text, alpha=5, spend="0.0001")
        plan = db.sql("EXPLAIN SELECT CDF(cost) FROM visits; EXPLAIN SELECT AVG(cost) FROM visits;", alpha=50)
        assert isinstance(plan, QuestionPlan)
        assert len(plan.questions) == 2
    assert cdf.epsilon == spent(folder)


def test_plans_over_other_records_share_no_rows(folder: Path) -> None:
    """Questions of one filter are planned over the records that meet it; a plan of another filter counts others."""
    age, chains = bf.col("age"), []
    with session(folder) as db:
        for ward in ("A1", "A2"):
            table = db["visits"].where(bf.col("ward") == ward)
            plan = db.plan([table.cdf("age"), table.histogram(age.bins(20))], alpha=60)
            assert [part.members for part in plan.joint] == [(0, 1)]
            plan.release()
    with curator(folder) as keeper:
        chains = [entry.fields["chain"] for entry in keeper.ledger.entries() if entry.kind == "charge"]
    (first, *shape), (second, *other) = (chain.split(".") for chain in chains)
    assert shape == other, "the same rows of the same cells"
    assert first != second


def test_persons_are_planned_by_themselves(tmp_path: Path) -> None:
    """A plan counts records; a person may have several of them, and a count of persons loses less."""
    unit = bf.person("patient", at_most=5, order_by="id")
    make_fixture(tmp_path, visits(policy=bf.Policy(unit=unit, presence="secret"), epsilon="1000"))
    with session(tmp_path) as db:
        table = db["visits"]
        mixed = table.aggregate(Aggregate("people", ("patient",), name="people"), Aggregate("count"), by=["ward"])
        questions = [(table.people(), 5), (table.people(), 3), (mixed, 200), (table.cdf("age"), 200)]
        plan = db.plan([*questions, (table.histogram("age"), 200)])
        assert [part.members for part in plan.joint] == [(3, 4)]
        fine = plan.release()[1]
        # 600 persons with 5 rows each. Noise of a scale below 1 passes 50 with probability below 10^-21.
        assert abs(fine.values[0] - 600) < 50
    parts = tuple(Part(question.query, Fraction(alpha), Fraction(1, 20)) for question, alpha in questions[:2])
    handle = DatasetHandle("visits", table.domain, bf.Policy(unit=unit), "visits", 1, 1, 1, UNREAD)
    with pytest.raises(Declined, match="persons are counted over cells of their own"):
        joint_release(handle, Query("joint", parts=parts), accuracy_target(alpha=3))


def test_books_per_edge_pay_the_whole_of_a_plan(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(policy=bf.Policy(composition="attribute")))
    with curator(tmp_path) as keeper:
        keeper.set_accounting("visits", "per-edge", reason="tighter")
    with session(tmp_path) as db:
        young = db["visits"].where(bf.col("age") < 40).count()
        plan = db.plan([(young, 50), (young, 30)])
        assert [part.members for part in plan.joint] == [(0, 1)]
        plan.release()
        assert db.budget("visits").spent == plan.total > 0
    assert spent(tmp_path) == plan.total


def test_analysts_with_one_plan_share_its_rows(folder: Path) -> None:
    with session(folder) as ana, session(folder, "ben") as ben:
        plans = [db.plan(views(db), alpha=50) for db in (ana, ben)]
        first, second = (plan.release() for plan in plans)
        assert [db.budget("visits").spent for db in (ana, ben)] == [plan.total for plan in plans]
        assert all(np.array_equal(one.raw, two.raw) for one, two in zip(first, second, strict=True))
        assert all(one.rests_on == () for one in second)
        for answer in second:
            answer.certificate.verify()
    assert spent(folder) == plans[0].total
