"""Answers that share their noise, end to end: prices, balances, faults, and nothing that tells of other analysts."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine import charge, measure, sharing
from blowfishdb.errors import (
    BlowfishError,
    CatalogError,
    ContentChanged,
    DigestMismatch,
    ReleaseFailed,
    SpendingCapReached,
    TooLarge,
)
from blowfishdb.ledger import verification
from blowfishdb.ledger.values import parse_body
from blowfishdb.model.serialize import LONG
from blowfishdb.session import Session
from blowfishdb.sources.ibis_source import IbisCount
from tests.session.places import curator, make_fixture, session, visits

TENTH, QUARTER = Fraction(1, 10), Fraction(1, 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path)
    return tmp_path


def ages(db: Session) -> bf.Question:
    return db["visits"].histogram(bf.col("age").bins(20))


def spent(folder: Path) -> Fraction:
    with curator(folder) as keeper:
        report = keeper.verify()
        assert report.is_sound, report.fault
        return keeper.account("visits").spent


def test_the_charges_of_usual_questions_are_verified_without_their_json(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(folder) as db:
        table = db["visits"]
        for question in (ages(db), table.where(bf.col("age") >= 30).count(), table.quantiles("age", [0.5])):
            question.release(epsilon="0.05")
    kinds: list[str] = []
    monkeypatch.setattr(
        verification, "parse_body", lambda body: kinds.append(parse_body(body)["kind"]) or parse_body(body)
    )
    assert spent(folder) > 0
    assert kinds == ["account", "name"]


def test_more_accuracy_pays_the_difference(folder: Path) -> None:
    with session(folder) as db:
        first = ages(db).release(mechanism="identity", epsilon="0.1")
        preview = ages(db).preview(mechanism="identity", epsilon="0.25")
        assert preview.epsilon == QUARTER - TENTH
        assert "It costs 0.15 more: 0.1 of it was paid on" in str(preview)
        with pytest.raises(SpendingCapReached):
            ages(db).release(mechanism="identity", epsilon="0.25", spend="0.1")
        second = ages(db).release(mechanism="identity", epsilon="0.25", spend="0.15")
        assert (second.epsilon, second.charged, second.rests_on) == (QUARTER, QUARTER - TENTH, (3,))
        second.certificate.verify()
        assert bf.Answer.from_json(second.to_json()).charged == second.charged
        assert db.budget("visits").spent == QUARTER
        assert [past.epsilon for past in db.history("visits")] == [QUARTER - TENTH, TENTH]
        assert first.charged is None
        # A part of the history tells what its entries rest on as the whole does.
        assert db.history("visits", most=1) == db.history("visits")[:1]
        assert db.history("visits", before=db.history("visits")[0].number) == db.history("visits")[1:]
        assert {past.family for past in db.history("visits")} == {3}
        with pytest.raises(TooLarge):
            db.history("visits", most=1001)
        # The same rows, less accurate or asked in another way, follow from what was paid.
        again = ages(db).release(mechanism="identity", epsilon="0.15")
        assert np.array_equal(again.raw, second.raw)
        assert "It costs nothing" in str(ages(db).preview(mechanism="identity", epsilon="0.2"))
        whole = ages(db).release(mechanism="identity", epsilon="0.25", fresh=True)
        assert whole.epsilon == QUARTER
        assert not np.array_equal(whole.raw, second.raw)
    assert spent(folder) == 2 * QUARTER


def test_an_accuracy_continues_the_chain_that_leaves_least_to_pay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(folder) as db:
        ages(db).release(epsilon="0.2", mechanism="identity")
        preview = ages(db).preview(alpha=30)
        prices = {way.name: way.epsilon for way in preview.ways}
        assert list(prices) == ["upgrade", "supplement", "fresh"]
        assert list(prices.values()) == sorted(prices.values())
        monkeypatch.setattr(sharing, "MOST_TRIED", 0)
        preview = ages(db).preview(alpha=30)
        assert (preview.mechanism, preview.epsilon < preview.best.epsilon) == ("identity", True)
        answer = ages(db).release(alpha=30)
        assert answer.charged == preview.epsilon
        assert answer.mechanism == "identity"
        assert db.budget("visits").spent == answer.epsilon


def test_analysts_share_and_nobody_is_told(folder: Path) -> None:
    with session(folder, "ben") as ben, session(folder, "ana") as ana:
        before = ages(ben).preview(mechanism="identity", epsilon="0.01").to_dict()
        one = ages(ana).release(mechanism="identity", epsilon="0.25")
        after = ages(ben).preview(mechanism="identity", epsilon="0.01").to_dict()
        assert {**after, "left": before["left"]} == before
        # What is left is what everybody sees: that a part of these very rows is paid does not show in it.
        assert Fraction(after["left"]) == ben.budget("visits").remaining
        # The data loses nothing more; what may be spent is compared with what the analyst receives.
        with pytest.raises(SpendingCapReached):
            ages(ben).release(mechanism="identity", epsilon="0.25", spend="0.2")
        questions = [
            (ages(ben), {"epsilon": "0.25", "mechanism": "identity"}),
            (ben["visits"].count(), {"epsilon": "0.1"}),
        ]
        plan = ben.plan(questions)
        cheaper = tuple(replace(one, price=Fraction(1, 5)) for one in plan.questions)
        with pytest.raises(SpendingCapReached):
            replace(plan, questions=cheaper).release()
        assert ben.budget("visits").spent == 0
        less = ages(ben).release(mechanism="identity", epsilon="0.01")
        assert (less.charged, less.rests_on, less.epsilon) == (None, (), Fraction(1, 100))
        # Each of the five counts stays as it was with probability (0.01 / 0.25)^2.
        assert not np.array_equal(less.raw, one.raw)
        same = ages(ben).release(mechanism="identity", epsilon="0.25")
        assert np.array_equal(same.raw, one.raw)
        assert ben.budget("visits").spent == QUARTER
        more = ages(ben).release(mechanism="identity", epsilon="0.5")
        assert more.charged == QUARTER
    assert spent(folder) == Fraction(1, 2)


@pytest.mark.parametrize(("sharing", "paid"), [("own", "9/20"), ("off", "7/10")])
def test_a_curator_may_keep_analysts_apart(tmp_path: Path, sharing: str, paid: str) -> None:
    make_fixture(tmp_path, visits(sharing=sharing))
    with session(tmp_path, "ben") as ben, session(tmp_path, "ana") as ana:
        ages(ana).release(mechanism="identity", epsilon="0.25")
        ages(ana).release(mechanism="identity", epsilon="0.25", beta="0.1")
        ages(ben).release(mechanism="identity", epsilon="0.2")
    assert spent(tmp_path) == Fraction(paid)
    assert f'sharing = "{sharing}"' in (tmp_path / "blowfish.toml").read_text()
    for wrong in ({"sharing": "all"}, {"read_only": "yes"}):
        with pytest.raises(CatalogError):
            bf.Dataset("t", source="t.csv", domain={"age": bf.integers(0, 9)}, **wrong)  # type: ignore[arg-type]


def change(folder: Path) -> None:
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute("DELETE FROM visits WHERE id < 5")
        connection.execute("CHECKPOINT")


def test_over_changed_data_nothing_is_built_on_earlier_answers(folder: Path) -> None:
    with session(folder) as db:
        ages(db).release(mechanism="identity", epsilon="0.1")
        change(folder)
        preview = ages(db).preview(mechanism="identity", epsilon="0.25")
        assert preview.epsilon == QUARTER
        assert "Entry 3 is not made more accurate for the difference: the data was written to since" in str(preview)
        assert ages(db).release(mechanism="identity", epsilon="0.25").charged is None
        # What was published stays published: less of it is still free.
        assert ages(db).preview(mechanism="identity", epsilon="0.05").epsilon == 0
    assert spent(folder) == QUARTER + TENTH


def test_a_new_policy_ends_the_chain(folder: Path) -> None:
    with session(folder) as db:
        ages(db).release(mechanism="identity", epsilon="0.1")
    with curator(folder) as keeper:
        keeper.set_policy("visits", bf.Policy({"age": bf.threshold(4)}), reason="tighter")
    with session(folder) as db:
        assert ages(db).release(mechanism="identity", epsilon="0.25").charged is None
    assert spent(folder) == QUARTER + TENTH


def test_data_that_changes_while_it_is_counted_stops_before_noise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(folder) as db:
        ages(db).release(mechanism="identity", epsilon="0.1")
        run = IbisCount.run

        def changing(self: Any, deadline: float | None = None) -> Any:
            counts = run(self, deadline)
            change(folder)
            return counts

        monkeypatch.setattr(IbisCount, "run", changing)
        monkeypatch.setattr(measure, "draw_between", lambda *values: pytest.fail("noise was drawn"))
        with pytest.raises(ContentChanged, match=r"epsilon 0\.15 stays charged"):
            ages(db).release(mechanism="identity", epsilon="0.25")
        monkeypatch.undo()
        with pytest.raises(ContentChanged):
            ages(db).release(mechanism="identity", epsilon="0.25")
        assert ages(db).release(mechanism="identity", epsilon="0.25", fresh=True).epsilon == QUARTER
    assert spent(folder) == 2 * QUARTER


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    plain = visits()
    declared = {"source": plain.source, "domain": plain.domain, "policy": plain.policy}
    make_fixture(tmp_path, bf.Dataset("visits", **declared, epsilon=10, read_only=True))  # type: ignore[arg-type]
    return tmp_path


def test_a_declared_read_only_source_needs_no_proof(read_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blowfishdb.sources.ibis_source.IbisSource.content", lambda self: None)
    with session(read_only) as db:
        ages(db).release(mechanism="identity", epsilon="0.1")
        assert ages(db).release(mechanism="identity", epsilon="0.25").charged == QUARTER - TENTH


def test_a_release_that_was_charged_and_not_answered_is_finished_at_its_level(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        ages(db).release(mechanism="identity", epsilon="0.1")
        monkeypatch.setattr(IbisCount, "run", lambda self, deadline=None: 1 / 0)
        with pytest.raises(ReleaseFailed):
            ages(db).release(mechanism="identity", epsilon="0.5")
        monkeypatch.undo()
        # Another draw of the same chain in between: paid for by the one that waits.
        assert ages(ben).release(mechanism="identity", epsilon="0.25").epsilon == QUARTER
        assert ages(db).release(mechanism="identity", epsilon="0.25").charged == 0
        finished = ages(db).release(mechanism="identity", epsilon="0.5")
        assert (finished.epsilon, finished.charged) == (Fraction(1, 2), Fraction(2, 5))
    assert spent(folder) == Fraction(1, 2)


def test_an_opener_that_was_not_answered_is_not_built_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        monkeypatch.setattr(IbisCount, "run", lambda self, deadline=None: 1 / 0)
        with pytest.raises(ReleaseFailed):
            ages(db).release(mechanism="identity", epsilon="0.5")
        monkeypatch.undo()
        ages(ben).release(mechanism="identity", epsilon="0.25")
        assert ages(db).release(mechanism="identity", epsilon="0.5").charged is None
    assert spent(folder) == Fraction(3, 4)


def test_levels_are_drawn_given_their_neighbours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Fraction | None, Fraction, Fraction | None]] = []
    between, coarser = measure.draw_between, measure.draw_coarser

    def log_between(fine: Any, finer: Any, coarse: Any, coarse_unit: Any, unit: Any, weights: Any) -> Any:
        drawn.append((finer, unit, coarse_unit))
        return between(fine, finer, coarse, coarse_unit, unit, weights)

    def log_coarser(values: Any, finer: Any, unit: Any, weights: Any) -> Any:
        drawn.append((finer, unit, None))
        return coarser(values, finer, unit, weights)

    monkeypatch.setattr(measure, "draw_between", log_between)
    monkeypatch.setattr(measure, "draw_coarser", log_coarser)
    with session(folder, "ana") as ana, session(folder, "ben") as ben:
        for db, level in ((ana, 20), (ana, 100), (ben, 50), (ben, 70), (ana, 60), (ben, 10)):
            ages(db).release(epsilon=Fraction(level, 1000), mechanism="identity")
    unit = 2
    levels = [
        (None, 100, 20),
        (100, 50, 20),
        (100, 70, 50),
        # Of ana's own at 100 nothing less accurate is drawn, and ben's own at 70 covers 10.
    ]
    expected = [tuple(None if level is None else unit / Fraction(level, 1000) for level in place) for place in levels]
    assert drawn == expected
    assert spent(folder) == TENTH


def test_two_at_once_get_one_draw_each_in_order(read_only: Path) -> None:
    results: dict[str, Any] = {}
    with session(read_only) as db:
        ages(db).release(mechanism="identity", epsilon="0.1")

    def ask(analyst: str, epsilon: str) -> None:
        with session(read_only, analyst) as db:
            try:
                results[analyst] = ages(db).release(mechanism="identity", epsilon=epsilon)
            except BlowfishError as error:
                results[analyst] = error

    threads = [threading.Thread(target=ask, args=(name, level)) for name, level in (("ben", "0.3"), ("cleo", "0.5"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[name].epsilon for name in ("ben", "cleo")] == [Fraction(3, 10), Fraction(1, 2)]
    assert spent(read_only) == Fraction(1, 2)


def test_an_answer_that_does_not_need_another_analysts_counts_takes_their_time_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    run = IbisCount.run

    def counting(self: Any, deadline: float | None = None) -> Any:
        counted.append(1)
        return run(self, deadline)

    monkeypatch.setattr(IbisCount, "run", counting)
    with session(folder) as ana, session(folder, "ben") as ben:
        ages(ana).release(mechanism="identity", epsilon="0.25")
        ages(ana).release(mechanism="identity", epsilon="0.2")
        assert len(counted) == 1
        ages(ben).release(mechanism="identity", epsilon="0.2")
        assert len(counted) == 2


def test_what_was_released_answers_what_it_can(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    age = bf.col("age")
    with session(folder) as db, session(folder, "ben") as ben:
        fine = db["visits"].histogram("age").release(epsilon="1", mechanism="identity")
        coarse = db["visits"].histogram(age.bins(50))
        preview = coarse.preview(alpha=200)
        assert preview.epsilon == 0
        assert "the cells of an earlier answer (Histogram of age)" in str(preview)
        answer = coarse.release(alpha=200)
        # The cells added up, and what both sums together miss of the total, which is public, in equal parts.
        young, old = fine.raw[:50].sum(), fine.raw[50:].sum()
        assert np.allclose(answer.raw, np.array([young, old]) + (3000 - young - old) / 2, rtol=0.0, atol=1e-6)
        assert (answer.charged, answer.epsilon, answer.rests_on) == (0, 1, (3,))
        assert answer.caveat.startswith("Read off an earlier release")
        answer.certificate.verify()
        assert db["visits"].where((age >= 20) & (age < 30)).count().preview(alpha=100).epsilon == 0
        assert coarse.preview(alpha=200, fresh=True).epsilon > 0
        # Nearer than the rows promise, or cells that they do not tell apart, are paid; and so is what others measured.
        assert coarse.preview(alpha=2).epsilon > 0
        assert db["visits"].histogram(age.bins(50), "ward").preview(alpha=500).epsilon > 0
        assert ben["visits"].histogram(age.bins(50)).preview(alpha=200).epsilon > 0
        # A free answer that is killed between its entry and its record is finished under the same entry.
        sixty = db["visits"].where(age >= 60).count()
        monkeypatch.setattr("blowfishdb.ledger.Ledger.store_answer", lambda *parts: 1 / 0)
        with pytest.raises(BlowfishError):
            sixty.release(alpha=100)
        monkeypatch.undo()
        assert sixty.release(alpha=100).charged == 0
    assert spent(folder) == 1


def test_a_supplement_measures_what_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        fresh = ages(db).preview(alpha=40)
        db["visits"].histogram("age").release(epsilon="0.5", mechanism="identity")
        preview = ages(db).preview(alpha=40)
        assert [(way.name, way.entries) for way in preview.ways] == [("supplement", (3,)), ("fresh", ())]
        assert (preview.epsilon, preview.alpha) == (preview.ways[0].epsilon, preview.ways[0].alpha)
        assert preview.epsilon < Fraction(4, 5) * fresh.epsilon
        assert "combined with entry 3" in str(preview)
        # Charged and killed: finished under the same entry, combined as it was quoted.
        monkeypatch.setattr("blowfishdb.ledger.Ledger.store_answer", lambda *parts: 1 / 0)
        with pytest.raises(BlowfishError):
            ages(db).release(alpha=40)
        monkeypatch.undo()
        answer = ages(db).release(alpha=40)
        assert (answer.epsilon, answer.charged, answer.rests_on) == (preview.epsilon, preview.epsilon, (3,))
        assert answer.widths.simultaneous == preview.alpha
        assert answer.caveat.startswith("Combined by least squares with entry 3; together they lose at most")
        answer.certificate.verify()
        assert bf.Answer.from_json(answer.to_json()).rests_on == (3,)
        # What was measured anew is a chain like any other, and takes part in the next supplement.
        again = ages(db).preview(alpha=25)
        assert sorted({way.name: way.entries for way in again.ways}["supplement"]) == [3, 5]
        # Nobody else is offered any of it.
        assert ages(ben).preview(alpha=40).to_dict() | {"left": None} == fresh.to_dict() | {"left": None}
    assert spent(folder) == Fraction(1, 2) + preview.epsilon


def test_a_supplement_whose_earlier_answer_moved_on_is_finished_as_it_was_quoted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(folder) as db:
        fine = db["visits"].histogram("age")
        fine.release(epsilon="0.5", mechanism="identity")
        monkeypatch.setattr("blowfishdb.ledger.Ledger.store_answer", lambda *parts: 1 / 0)
        with pytest.raises(BlowfishError):
            ages(db).release(alpha=40)
        monkeypatch.undo()
        fine.release(epsilon="0.6", mechanism="identity")
        # The earlier rows are published still, beside the finer ones.
        answer = ages(db).release(alpha=40)
        assert answer.rests_on == (3,)
        assert answer.widths.simultaneous <= 40


def test_cells_beside_those_asked_for_are_measured_where_they_cost_no_more(tmp_path: Path) -> None:
    age, folder = bf.col("age"), tmp_path
    # Of records that are there or not, all cells together lose what one does.
    make_fixture(folder, visits(policy=bf.Policy({}, presence="only")))
    with session(folder) as db, session(folder, "ben") as ben:
        young = db["visits"].where(age < 40).histogram(age.bins(20))
        preview = young.preview(alpha=40)
        assert preview.epsilon <= young.preview(alpha=40, fresh=True).epsilon
        assert "measures more for no more (Histogram of age in bins of 20)" in str(preview)
        first = young.release(alpha=40)
        assert (first.title, first.charged) == ("Histogram of age in bins of 20 where age < 40", None)
        assert first.widths.simultaneous <= 40
        first.certificate.verify()
        # The other groups are read off it, and another analyst shares its rows by asking for the others.
        old = db["visits"].where(age >= 60).histogram(age.bins(20))
        assert old.preview(alpha=40).epsilon == 0
        assert old.release(alpha=40).rests_on == (db.history("visits")[-1].number,)
        before = spent(folder)
        assert ben["visits"].where(age >= 60).histogram(age.bins(20)).release(alpha=40).epsilon == first.epsilon
        assert spent(folder) == before == first.epsilon
        # More accuracy of the same groups pays the difference.
        assert young.preview(alpha=30).epsilon < young.preview(alpha=30, fresh=True).epsilon
        # The answer knows the question, beside what was measured for it.
        assert first.question is not None
        assert first.question["where"] is not None


def test_coarser_and_partly_overlapping_measurements_take_part(folder: Path) -> None:
    age = bf.col("age")
    with session(folder) as db:
        db["visits"].histogram(age.bins(10)).release(epsilon="0.4", mechanism="identity")
        finer = db["visits"].histogram(age.bins(5))
        ways = {way.name: way for way in finer.preview(alpha=40).ways}
        assert ways["supplement"].epsilon < Fraction(9, 10) * ways["fresh"].epsilon
        answer = finer.release(alpha=40)
        assert (answer.charged, answer.rests_on) == (ways["supplement"].epsilon, (3,))
        # Marginals of another table share its total along an attribute.
        both = db["visits"].histogram(age.bins(10), "ward")
        assert {way.name for way in both.preview(alpha=60).ways} == {"supplement", "fresh"}
        # Two halves together tell what neither tells.
    with session(folder, "ben") as ben:
        table = ben["visits"]
        table.where(age < 40).count().release(epsilon="0.5", mechanism="identity")
        table.where(age >= 40).count().release(epsilon="0.5", mechanism="identity")
        whole = table.histogram(age.bins(40))
        assert whole.preview(alpha=500).epsilon > 0, "ages from 80 on are in neither"
        total = table.ranges("age", [(0, 40), (40, 100)])
        assert total.preview(alpha=60).epsilon == 0
        released = total.release(alpha=60)
        assert (released.charged, len(released.rests_on)) == (0, 2)
        assert released.caveat.startswith("Combined by least squares with entry")
        released.certificate.verify()
    assert spent(folder) > 0


def test_where_rows_are_not_proven_to_be_the_same_the_next_best_way_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blowfishdb.sources.ibis_source.IbisSource.content", lambda self: None)
    with session(folder) as db:
        first = ages(db).release(alpha=40)
        preview = ages(db).preview(alpha=30)
        assert [way.name for way in preview.ways] == ["supplement", "fresh"]
        assert "this source cannot prove that its rows are still the same" in str(preview)
        second = ages(db).release(alpha=30)
        assert not np.array_equal(first.measured.noisy, second.measured.noisy)  # type: ignore[union-attr]
    assert spent(folder) == first.epsilon + second.epsilon


def test_a_synopsis_that_answers_as_asked_is_offered_by_name(folder: Path) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        ben["visits"].histogram("age").publish(epsilon="1")
        (published,) = db.synopses("visits")
        number = published.number
        preview = ages(db).preview(alpha=200)
        assert [(way.name, way.epsilon, way.entries) for way in preview.ways[1:]] == [("synopsis", 0, (number,))]
        assert f"read off synopsis {number} (Histogram of age)" in str(preview)
        within = preview.ways[1].alpha
        told = db.synopsis("visits", number).histogram(bf.col("age").bins(20))
        assert told.widths.simultaneous == within
        # It is never taken unasked, and only offered where it is near enough and tells the cells apart.
        assert preview.epsilon > 0
        assert ages(db).preview(alpha=5).ways == ()
        assert ages(db).preview(alpha=200, fresh=True).ways == ()
        assert db["visits"].histogram("ward").preview(alpha=500).ways == ()


def test_a_draw_that_failed_after_noise_ends_its_chain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(folder) as db, session(folder, "ben") as ben:
        ages(db).release(mechanism="identity", epsilon="0.25")
        ages(ben).release(mechanism="identity", epsilon="0.1")
        monkeypatch.setattr("blowfishdb.engine.release.PlanRelease.shared_payload", lambda *parts: 1 / 0)
        with pytest.raises(ReleaseFailed):
            ages(db).release(mechanism="identity", epsilon="0.5")
        monkeypatch.undo()
        # A second draw at that level would be one that nobody paid for: it is measured anew, for the whole price.
        whole = ages(db).release(mechanism="identity", epsilon="0.5", beta="0.1")
        assert (whole.charged, whole.epsilon) == (None, Fraction(1, 2))
        # What follows from published answers is drawn as before.
        assert ages(ben).release(mechanism="identity", epsilon="0.2").epsilon == Fraction(1, 5)
    assert spent(folder) == 1


def test_a_part_that_was_paid_never_buys_independent_noise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session(folder) as db:
        ages(db).release(epsilon="0.1", mechanism="identity")
        usual = charge.refreshed

        def ended(*parts: Any) -> Any:
            release = usual(*parts)
            return replace(release, sharing=replace(release.sharing, published=()))

        monkeypatch.setattr(charge, "refreshed", ended)
        monkeypatch.setattr(measure, "sample", lambda *values: pytest.fail("noise was drawn"))
        with pytest.raises(ContentChanged):
            ages(db).release(epsilon="0.25", mechanism="identity")
        monkeypatch.undo()
        # Nor when the curator ends sharing between the charge and its retry.
        file = folder / "blowfish.toml"
        file.write_text(file.read_text().replace('epsilon = "10"', 'epsilon = "10"\nsharing = "off"'))
        with pytest.raises(DigestMismatch):
            ages(db).release(epsilon="0.25", mechanism="identity")


def test_an_earlier_answer_to_another_question_is_made_more_accurate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path
    make_fixture(folder, visits(policy=bf.Policy()))
    with session(folder) as db:
        cells = db["visits"].histogram("age").release(epsilon="0.3", mechanism="identity")
        running = db["visits"].cdf("age")
        preview = running.preview(alpha=50)
        assert (preview.ways[0].name, preview.ways[0].entries) == ("upgrade", (3,))
        assert "0.3 of it was paid on" in str(preview)
        # Never more than what is offered without it, and less than for noise beside the old one.
        with monkeypatch.context() as patched:
            patched.setattr(sharing._Combining, "_upgraded", lambda *search: ())
            assert preview.epsilon < running.preview(alpha=50).epsilon
        # Charged and killed: finished under the same entry, at the level that was quoted.
        monkeypatch.setattr("blowfishdb.ledger.Ledger.store_answer", lambda *parts: 1 / 0)
        with pytest.raises(BlowfishError):
            running.release(alpha=50)
        monkeypatch.undo()
        answer = running.release(alpha=50)
        level = cells.epsilon + preview.epsilon
        assert (answer.epsilon, answer.charged, answer.rests_on) == (level, preview.epsilon, (3,))
        assert answer.widths.simultaneous == preview.alpha <= 50
        answer.certificate.verify()
        # The cells themselves are finer now, and had for nothing at that level.
        finer = db["visits"].histogram("age").release(epsilon=level, mechanism="identity")
        assert finer.charged == 0
        assert not np.array_equal(finer.raw, cells.raw)
        # Rows of several measurements: one is made more accurate, the others are beside it.
        db["visits"].histogram(bf.col("age").bins(25)).release(epsilon="0.4", mechanism="identity")
        nearer = running.preview(alpha=35)
        assert nearer.ways[0].epsilon < running.preview(alpha=35, fresh=True).epsilon - level
        last = running.release(alpha=35)
        assert last.charged == nearer.epsilon
        assert last.widths.simultaneous <= 35
    assert spent(folder) == level + Fraction("0.4") + nearer.epsilon


def test_what_cannot_be_proven_unchanged_is_not_made_more_accurate_for_another_question(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(folder) as db:
        db["visits"].histogram("age").release(epsilon="0.3", mechanism="identity")
        monkeypatch.setattr(sharing, "_write_mark", lambda *handle: "")
        preview = db["visits"].cdf("age").preview(alpha=50)
        assert "upgrade" not in {way.name for way in preview.ways}
        assert preview.epsilon <= preview.best.epsilon


@pytest.mark.parametrize("is_json", [False, True])
def test_long_answers_in_either_form_are_built_upon(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_json: bool
) -> None:
    """Stored as columns, or as JSON as they once were, the rows of a first release are those that a second refines."""
    with duckdb.connect(str(folder / "wide.duckdb")) as connection:
        connection.execute("CREATE TABLE wide AS SELECT i AS x FROM range(3) t(i)")
    with curator(folder) as keeper:
        domain = {"x": bf.integers(0, LONG, null=0)}
        keeper.add(bf.Dataset("wide", source="duckdb:///wide.duckdb#wide", domain=domain, epsilon="9"))
    with session(folder) as db:
        question = db["wide"].histogram("x")
        if is_json:
            monkeypatch.setattr(bf.Answer, "to_bytes", lambda answer: answer.to_json().encode())
        first = question.release(mechanism="identity", epsilon="1")
        monkeypatch.undo()
        second = question.release(mechanism="identity", epsilon="2")
        assert (second.charged, len(second.rests_on)) == (Fraction(1), 1)
        again = question.release(mechanism="identity", epsilon="1")
        assert first.measured is not None
        assert again.measured is not None
        assert np.array_equal(again.measured.noisy, first.measured.noisy)
        assert np.array_equal(again.values, first.values)
        # The same draw of the noise: a second one would differ in nearly all of 20,001 cells.
        assert 0.1 < np.mean(first.raw == second.raw) < 0.9
    with curator(folder) as keeper:
        assert keeper.verify().is_sound


def test_the_digest_of_rows_is_that_of_one_json_document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    plain = hashlib.sha256

    def noted(content: bytes = b"") -> Any:
        written.append(content)
        return plain(content)

    monkeypatch.setattr(sharing, "LONG", 3)
    monkeypatch.setattr(sharing.hashlib, "sha256", noted)
    with session(folder) as db:
        ages(db).preview(epsilon="0.1")
    (document,) = {text for text in written if text.startswith(b'{"analyst": ')}
    content = json.loads(document)
    assert json.dumps(content, sort_keys=True).encode() == document
    assert content["cells"][0] == ["age"]
    assert [*content] == ["analyst", "axes", "cells", "versions", "where"]


def test_tables_of_several_aggregates_share_their_noise(folder: Path) -> None:
    sql = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY ward"
    with session(folder) as ana, session(folder, "ben") as ben:
        ana.sql(sql, epsilon="0.1")
        more = ana.sql(sql, epsilon="0.25")
        assert isinstance(more, bf.Answer)
        assert (more.epsilon, more.charged, more.rests_on) == (QUARTER, QUARTER - TENTH, (3,))
        more.certificate.verify()
        same = ben.sql(sql, epsilon="0.25")
        assert isinstance(same, bf.Answer)
        assert np.array_equal(same.raw, more.raw)
        assert spent(folder) == QUARTER
        # What was measured for a table tells other questions too, and percentages are read off counts.
        assert ana["visits"].histogram("ward").preview(alpha=200).epsilon == 0
        ana["visits"].histogram("ward").release(epsilon=1, mechanism="identity")
        share = "100.0 * COUNT(*) FILTER (WHERE ward = 'A1') / COUNT(*)"
        for text in (
            "ward, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () FROM visits GROUP BY ward",
            f"{share} FROM visits",
        ):
            free = ana.sql(f"SELECT {text}", alpha=10)
            assert isinstance(free, bf.Answer)
            assert free.charged == 0
            # A third of 3,000 records: noise of scale 2 is off by a tenth of them with probability below 10^-60.
            assert np.all(np.abs(free.values - 100 / 3) < 10)
        assert free.caveat.endswith("For a question chosen afterwards there are none.")
    assert spent(folder) == 1 + QUARTER


def test_persons_and_records_of_the_same_cells_have_chains_of_their_own(tmp_path: Path) -> None:
    unit = bf.person("patient", at_most=1, order_by="id")
    make_fixture(tmp_path, visits(policy=bf.Policy(unit=unit, presence="secret")))
    with session(tmp_path) as db:
        table = db["visits"]
        for question in (table.aggregate(bf.Aggregate("count"), by=["ward"]), table.people("ward")):
            question.release(epsilon="0.5")
            assert question.release(epsilon="0.75").charged == QUARTER
        # Persons do not add up: nothing is read off their counts, nor they off others'.
        assert table.people().preview(alpha=500).epsilon > 0
    assert spent(tmp_path) == Fraction(3, 2)
