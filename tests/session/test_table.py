"""Every question a table takes: its answer lies where its interval says, and the preview promised it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine import release as release_module
from blowfishdb.engine.postprocess import Selection
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import AccuracyError, BlowfishError, BudgetExceeded, QueryError, UnknownDataset
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.numbers import Floats
from blowfishdb.model.query import Query
from blowfishdb.session import Question, Session
from blowfishdb.session.backend import ReleaseRequest
from blowfishdb.session.table import RelativeBase
from tests.session.places import make_fixture, session, visits

AGE = np.arange(3000) % 100
WARD = np.arange(3000) % 3
COST = (np.arange(3000) * 7) % 500 + 0.5


def loud(question: Question) -> Floats:
    """With this much epsilon the noise is almost surely 0, so answers can be compared with the truth."""
    return question.release(epsilon="9").raw


def near(found: object, truth: object, within: float = 12.0) -> bool:
    return bool(np.all(np.abs(np.asarray(found) - np.asarray(truth)) <= within))


def test_histogram(db: Session) -> None:
    assert near(loud(db["visits"].histogram(bf.col("age").bins(10))), np.full(10, 300))


def test_filters_hold_together(db: Session) -> None:
    table = db["visits"].where(bf.col("ward") == "A2").where(bf.col("age") < 50)
    assert near(loud(table.count()), [np.count_nonzero((WARD == 1) & (AGE < 50))])


def test_cdf_and_ranges(db: Session) -> None:
    running = [30 * (age + 1) for age in range(100)]
    assert near(db["visits"].cdf("age").release(epsilon="5").raw, running)
    ranges = db["visits"].ranges("age", [(0, 10), (95, 100)]).release(epsilon="5")
    assert near(ranges.raw, [300, 150])
    assert ranges.labels == ("0 to 9", "95 to 99")


def test_rectangles(db: Session) -> None:
    question = db["visits"].rectangles(
        ["age", bf.col("cost").bins(100)], [((0, 50), (0, 200)), ((50, 100), (300, 500))]
    )
    truth = [np.count_nonzero((AGE < 50) & (COST < 200)), np.count_nonzero((AGE >= 50) & (COST >= 300))]
    assert near(question.release(epsilon="9").raw, truth, 60)


def test_two_dimensions_and_marginals(db: Session) -> None:
    both = db["visits"].histogram2d("ward", bf.col("age").bins(50)).release(epsilon="2")
    assert near(both.raw, np.full(6, 500), 40)
    assert near(db["visits"].marginal("ward").release(epsilon="2").raw, np.full(3, 1000), 40)
    assert near(db["visits"].marginals("ward", bf.col("age").bins(50), ways=1).release(epsilon="2").raw[:3], 1000, 40)


def test_the_number_of_rows_is_public_and_free(db: Session) -> None:
    answer = db["visits"].count().release(epsilon=1)
    assert (answer.raw.tolist(), answer.epsilon) == ([3000.0], 0)
    assert db.budget("visits").spent == 0


def test_the_same_for_every_way_to_write_a_demand(db: Session) -> None:
    question = db["visits"].cdf("age")
    one = question.preview(alpha=50, beta=0.05)
    two = question.quote(accuracy="50", confidence=0.95)
    assert one.epsilon == two.epsilon
    assert one.accuracy_target == two.accuracy_target
    assert question.preview(epsilon=0.1).accuracy_target.epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"alpha": 1, "epsilon": 1},
        {"alpha": 1, "accuracy": 1},
        {"alpha": 1, "beta": 0.1, "confidence": 0.9},
        {"alpha": -1},
        {"alpha": float("nan")},
        {"alpha": float("inf")},
        {"epsilon": 0},
        {"epsilon": "1e999999999"},
        {"epsilon": "9" * 5000},
        {"epsilon": True},
        {"epsilon": [1]},
        {"alpha": 1, "beta": 0},
        {"alpha": 1, "confidence": 1},
        {"alpha": 1, "mechanism": "magic"},
        {"alpha": 1, "mechanism": 7},
    ],
)
def test_demands_that_make_no_sense(db: Session, wrong: dict[str, object]) -> None:
    with pytest.raises(AccuracyError):
        db["visits"].histogram("age").preview(**wrong)  # type: ignore[arg-type]


def test_a_named_mechanism_runs(db: Session) -> None:
    answer = db["visits"].histogram("ward").release(alpha=100, mechanism="identity")
    assert answer.mechanism == "identity"


def test_answers_say_what_they_are(db: Session) -> None:
    answer = db["visits"].where(bf.col("ward") == "A3").cdf("cost").release(accuracy=100)
    assert answer.title == "CDF of cost where ward = 'A3'"
    assert (answer.dataset, answer.policy_version) == ("visits", 1)
    assert any("hidden" in sentence for sentence in answer.protected)
    assert answer.unprotected
    assert answer.released


def test_unknown_names_are_named(db: Session) -> None:
    with pytest.raises(UnknownDataset, match="visits"):
        db["visit"]
    with pytest.raises(QueryError, match="age"):
        db["visits"].histogram("agee").preview(alpha=10)


@pytest.mark.parametrize("axis", [7, None, ["age"], object()])
def test_axes_are_names(db: Session, axis: object) -> None:
    with pytest.raises(BlowfishError):
        db["visits"].histogram(axis)  # type: ignore[arg-type]


def test_sql_asks_the_same(db: Session) -> None:
    answer = db.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", alpha=100)
    assert isinstance(answer, bf.Answer)
    again = db["visits"].histogram("ward").release(alpha=100)
    assert np.array_equal(answer.raw, again.raw)
    preview = db.sql("EXPLAIN SELECT COUNT(*) FROM visits WHERE age < 10 OPTIONS (alpha = 50)")
    assert isinstance(preview, bf.Preview)
    *_, last = str(preview).split("\n")
    assert last == "Run it with: SELECT COUNT(*) FROM visits WHERE age < 10 OPTIONS (alpha = 50)"
    asked = db["visits"].where(bf.col("age") < 10).count().release(alpha=50)
    assert np.array_equal(db.sql(preview.statement).raw, asked.raw)


def test_a_table_of_aggregates_of_every_group(db: Session) -> None:
    text = "SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM visits GROUP BY ward ORDER BY n DESC"
    answer = db.sql(text, epsilon="3")
    assert isinstance(answer, bf.Answer)
    by_ward = {row["ward"]: row for row in answer.rows()}
    for place, ward in enumerate(("A1", "A2", "A3")):
        low, high = by_ward[ward]["mean_low"], by_ward[ward]["mean_high"]
        assert isinstance(low, float)
        assert isinstance(high, float)
        # Ten times an interval of 95 % is left with probability below 10^-9.
        assert abs(AGE[place == WARD].mean() - (low + high) / 2) <= 5 * (high - low) < 10
    before = db.budget("visits").remaining
    again = db.sql("SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM visits GROUP BY ward LIMIT 1", epsilon="3")
    assert isinstance(again, bf.Answer)
    assert again.row_count == 1
    assert db.budget("visits").remaining == before, "another order of the same answer is free"
    asked = db["visits"].aggregate(
        bf.Aggregate("count", name="n"), bf.Aggregate("mean", ("age",), name="mean"), by=["ward"]
    )
    assert asked.release(epsilon="3").values.tolist() == [by_ward[w]["n"] for w in ("A1", "A2", "A3")] + [
        by_ward[w]["mean"] for w in ("A1", "A2", "A3")
    ]


def test_the_accuracy_of_a_mean_is_in_its_own_units(db: Session) -> None:
    preview = db.sql("EXPLAIN SELECT AVG(age) FROM visits", alpha=1)
    assert isinstance(preview, bf.Preview)
    assert preview.rows == 3000
    assert preview.alpha is not None
    assert preview.alpha <= 1
    assert preview.epsilon < Fraction(1, 10)
    answer = db.sql("SELECT AVG(age) FROM visits", alpha=1)
    assert isinstance(answer, bf.Answer)
    assert answer.bounds.high[0] - answer.bounds.low[0] <= 2
    own = db.sql(
        "EXPLAIN SELECT ward, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY 1 OPTIONS (within_n = 90, within_m = 2)"
    )
    assert isinstance(own, bf.Preview)
    assert dict(own.columns).keys() == {"n", "m"}
    assert own.statement.endswith("OPTIONS (within_n = 90, within_m = 2)")
    with pytest.raises(QueryError, match="within_x"):
        db.sql("SELECT COUNT(*) AS n FROM visits OPTIONS (within_x = 3)")


def _both(outcome: object) -> list[object]:
    assert isinstance(outcome, list)
    return outcome


def test_a_script_is_priced_before_anything_is_charged(db: Session) -> None:
    two = "SELECT COUNT(*) FROM visits WHERE age < 9; SELECT ward, AVG(age) FROM visits GROUP BY ward;"
    first, second = _both(db.sql(two, epsilon="1"))
    assert isinstance(first, bf.Answer)
    assert isinstance(second, bf.Answer)
    before = db.budget("visits").remaining
    with pytest.raises(BudgetExceeded):
        db.sql("SELECT COUNT(*) FROM visits WHERE age < 8; SELECT COUNT(*) FROM visits WHERE age < 7", epsilon="5")
    assert db.budget("visits").remaining == before


def test_representations_are_readable(db: Session) -> None:
    table = db["visits"].where(bf.col("age") >= 18)
    assert repr(db) == "<Session of ana: visits>"
    assert repr(table) == "<Table visits where age >= 18: age, ward, cost>"
    assert repr(table.cdf("cost")).startswith("<CDF of cost where age >= 18 of visits")


def test_a_noisy_count_is_no_size_however_little_it_costs(tmp_path: Path) -> None:
    """Once paid for, a secret number of records costs nothing more, and still is not the number of records."""
    make_fixture(tmp_path, visits(bf.Policy({"age": bf.threshold(5)}, presence="secret")))
    with session(tmp_path) as db:
        db["visits"].count().release(epsilon=1)
        assert db["visits"].count().preview(epsilon=1).epsilon == 0
        for ask in (db["visits"].mean("age").preview, db["visits"].mean("age").release):
            with pytest.raises(QueryError, match="number of records, which is secret here"):
                ask(alpha=5)
        assert db["visits"].mean("age", rows=2000).preview(alpha=5).epsilon > 0


@pytest.mark.parametrize("accuracy", [{"epsilon": "6"}, {"alpha": 5000, "rows": 900}])
def test_a_table_of_many_cells_is_several_plans_with_one_charge(
    db: Session, monkeypatch: pytest.MonkeyPatch, accuracy: dict[str, Any]
) -> None:
    monkeypatch.setattr(release_module, "TOGETHER", 1)
    rows = accuracy.pop("rows", None)
    asked = db["visits"].aggregate(
        bf.Aggregate("mean", ("age",)), bf.Aggregate("sum", ("cost",)), bf.Aggregate("count"), by=["ward"], rows=rows
    )
    preview = asked.preview(**accuracy)
    assert "2 plans in one release" in str(preview)
    assert list(preview.columns) == ["mean_age", "sum_cost", "count"]
    answer = asked.release(**accuracy)
    assert [past.epsilon for past in db.history("visits")] == [preview.epsilon]
    assert sum((stage.epsilon for stage in answer.stages), Fraction(0)) == answer.epsilon == preview.epsilon
    assert answer.protected
    truth = [[of[place == WARD].sum() for place in range(3)] for of in (AGE, COST)]
    counts = [np.count_nonzero(place == WARD) for place in range(3)]
    for place, numbers in enumerate((np.array(truth[0]) / counts, truth[1], counts)):
        column = answer.column(place)
        # Noise falls off exponentially: ten times an interval of 95 % is left with probability below 10^-9.
        assert np.all(np.abs(column.values - numbers) <= 5 * (column.bounds.high - column.bounds.low))


def test_auto_goes_by_the_number_of_records_where_that_is_public(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    with session(tmp_path) as db:
        few, many = db["visits"].histogram("cost").preview(epsilon=1, mechanism="auto"), {"epsilon": 2}
        assert few.mechanism == "dawa-transform", "3,000 records in 500 cells, 6 a cell"
        (counted,) = db.history("visits")
        assert (counted.question, counted.epsilon) == ("Number of records", 0)
        assert db["visits"].histogram("cost").preview(**many, mechanism="auto").mechanism == "identity"
        answer = db["visits"].histogram("cost").release(**many, mechanism="auto")
        assert answer.mechanism == "identity"
        assert db["visits"].histogram("cost").publish(**many, mechanism="auto").artefact.mechanism == "identity"
        assert len(db.history("visits")) == 3, "the count is replayed"
        filtered = db["visits"].where(bf.col("age") < 50).histogram("cost")
        assert filtered.preview(**many, mechanism="auto").mechanism == "gated", "of which nobody knows how many"
        assert len(db.history("visits")) == 3


def test_auto_counts_nothing_that_is_secret(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(bf.Policy(presence="only")))
    with session(tmp_path) as db:
        assert db["visits"].histogram("cost").preview(epsilon=2, mechanism="auto").mechanism == "gated"
        assert db.history("visits") == []
        assert db["visits"].histogram("cost").publish(epsilon=2, mechanism="auto").artefact.mechanism == "gated"


def test_what_a_percentage_is_of_follows_from_what_is_declared() -> None:
    declared = bf.domain({"debt": bf.integers(-10, 3, null=0), "cost": bf.bins(0, 4, width=1, null=0)})
    base = RelativeBase(declared, 100, is_total=False)
    tenth = Fraction(1, 10)
    assert base._tolerance("share", ("debt",), 100, tenth)[0] == 10
    assert base._tolerance("sum", ("debt",), 1, tenth)[0] == 100
    assert base._tolerance("variance", ("cost",), 1, tenth)[0] == Fraction(16, 10)
    assert base._tolerance("mean", ("cost",), 1, tenth)[0] == Fraction(4, 10)


def test_of_several_percentages_the_least_tolerance_holds_for_all() -> None:
    declared = bf.domain({"cost": bf.bins(0, 4, width=1, null=0)})
    columns = (Aggregate("count", relative=Fraction(1, 10)), Aggregate("mean", ("cost",), relative=Fraction(1, 10)))
    for parts in (columns, columns[::-1]):
        query, target = Query("table", (), None, aggregates=parts), accuracy_target(beta=0.05, alpha="10 %")
        request = ReleaseRequest("visits", query, declared, target)
        sized, _ = RelativeBase(declared, 100, is_total=False).resolved(request)
        assert [part.tolerance for part in sized.query.aggregates if part.function == "mean"] == [Fraction(4, 10)]
        assert [part.tolerance for part in sized.query.aggregates if part.function == "count"] == [10]
        assert sized.target.alpha == Fraction(4, 10)


def test_names_alone_are_chosen_without_counts_where_that_costs_less(db: Session) -> None:
    largest = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
    names = db.sql(f"EXPLAIN {largest}", alpha=50)
    counts = db.sql("EXPLAIN SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 1", alpha=50)
    assert isinstance(names, Preview)
    assert isinstance(counts, Preview)
    assert (names.mechanism, counts.mechanism == names.mechanism) == ("group-selection", False)
    assert names.epsilon < counts.epsilon * Fraction(6, 10)
    answer = db.sql(largest, alpha=50, spend=names.epsilon)
    assert (answer.epsilon, answer.is_list, answer.row_count) == (names.epsilon, True, 1)
    # The counts of so few groups promise as good a list above a count, and show more: they are taken.
    above = db.sql("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) >= 20", epsilon="0.1")
    assert above.mechanism != "group-selection"
    assert above.title == "Groups of ward with at least 20 records"
    assert str(names).startswith(f"{answer.title}: 1 answer, as good a list as from counts within 50 (95 %)")
    # Many rounds cost more than all counts; a named mechanism, or counts that are free by now, are taken.
    table = db["visits"]
    for question, more in (
        (table.top(3, "ward", names_only=True), None),
        (table.top(1, "ward", names_only=True), "identity"),
        (table.top(1, "ward"), None),
    ):
        preview = question.preview(alpha=50, mechanism=more)
        assert preview.mechanism != "group-selection"
        assert preview.title == question.title
        assert question.title.endswith("of ward with the most records")
    table.histogram("ward").release(alpha=40)
    assert table.top(1, "ward", names_only=True).preview(alpha=50).epsilon == 0
    young = table.aggregate(Aggregate("count"), by=["ward"]).chosen(Selection(limit=1), names_only=True)
    assert young.listing is None
    assert table.histogram("ward").chosen(Selection(limit=1), names_only=True).listing is None
