"""Comparison of answers: one truth only for the same question of the same rows, else differences with own intervals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.accuracy.intervals import HalfWidths
from blowfishdb.engine.answer import Answer
from blowfishdb.errors import QueryError
from blowfishdb.session import Session
from tests.present.cases import constructed
from tests.session.places import configuration, curator, make_fixture, session, visits

WARD = bf.col("ward")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("compared")
    return bf.connect(make_fixture(folder, visits(epsilon="100000")), analyst="ana")


SURELY = "0.00000000001"
"""How rarely intervals fail that are held against the truth."""


def ages(db: Session, ward: str | None, epsilon: str, beta: str = "0.05") -> Answer:
    table = db["visits"] if ward is None else db["visits"].where(ward == WARD)
    return table.histogram(bf.col("age").bins(25)).release(epsilon=epsilon, beta=beta)


def test_the_same_question_has_one_truth(db: Session) -> None:
    one, two = ages(db, "A1", "0.5", SURELY), ages(db, "A1", "0.7", "0.06")
    both = bf.compare(one, two)
    assert both.is_one_truth
    assert both.pooled is not None
    assert (both.difference, both.ratio, both.beta) == (None, None, pytest.approx(0.06))
    assert np.all(both.pooled.bounds.low == np.maximum(one.bounds.low, two.bounds.low))
    assert np.all(both.pooled.bounds.high == np.minimum(one.bounds.high, two.bounds.high))
    assert "same question" in repr(both)
    assert "with 93.999999999 % confidence" in repr(both)


def test_different_filters_are_two_groups(db: Session) -> None:
    one, two = ages(db, "A1", "0.5", SURELY), ages(db, None, "0.5", SURELY)
    groups = bf.compare(one, two)
    assert not groups.is_one_truth
    assert groups.difference is not None
    assert groups.ratio is not None
    # Every age has as many visits in each of the three wards.
    assert np.all(groups.difference.bounds.low <= 500)
    assert np.all(groups.difference.bounds.high >= 500)
    assert np.all(groups.ratio.bounds.low <= 3)
    assert np.all(groups.ratio.bounds.high >= 3)
    assert "both intervals" not in repr(groups)
    assert "Two groups" in groups._repr_html_()
    assert {"difference_low", "ratio_high"} <= set(groups.to_pandas())


def test_refreshed_rows_are_another_group(tmp_path: Path) -> None:
    make_fixture(tmp_path)
    before = session(tmp_path)["visits"].histogram("ward").release(epsilon=1)
    with curator(tmp_path) as keeper:
        keeper.refreshed("visits", "the rows of March")
    after = bf.connect(configuration(tmp_path), analyst="ana")["visits"].histogram("ward").release(epsilon=1)
    change = bf.compare(before, after)
    assert not change.is_one_truth
    assert "may have changed" in change.words()[0]


def test_a_synopsis_cut_in_two_is_compared_with_its_caveat(db: Session) -> None:
    made = db["visits"].histogram(bf.col("age").bins(10), "ward").publish(epsilon="5")
    cut = [made.where((bf.col("age") < 15) & (ward == WARD)).count() for ward in ("A1", "A2")]
    assert "spread evenly" in bf.compare(*cut).caveat
    assert not bf.compare(cut[0], cut[0]).is_one_truth


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda db: db["visits"].cdf(bf.col("age").bins(25)).release(epsilon=1), "different things"),
        (lambda db: db["visits"].histogram(bf.col("age").bins(50)).release(epsilon=1), "different things"),
        (
            lambda db: replace(ages(db, "A2", "0.5"), counted="at most 2 rows per patient are counted"),
            "in the other at most 2 rows",
        ),
        (lambda db: replace(ages(db, "A2", "0.5"), evidence=None), "what was asked"),
        (lambda db: db["visits"].histogram("ward").publish(epsilon=1), "second of compare is an Answer"),
    ],
)
def test_anything_else_is_refused_with_its_reason(db: Session, other: object, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        bf.compare(ages(db, "A1", "0.5"), other(db))  # type: ignore[operator]


def test_quantiles_of_two_attributes_are_not_compared(db: Session) -> None:
    one, two = (db["visits"].quantiles(name, [0.5]).release(epsilon=1) for name in ("age", "cost"))
    assert one.tables == two.tables
    with pytest.raises(QueryError, match="different things"):
        bf.compare(one, two)


def test_aggregates_are_compared_one_by_one(db: Session) -> None:
    statement = "SELECT ward, COUNT(*), AVG(age) FROM visits WHERE age < {} GROUP BY ward"
    one, two = (db.sql(statement.format(end), epsilon=2) for end in (50, 100))
    assert isinstance(one, Answer)
    assert isinstance(two, Answer)
    with pytest.raises(QueryError, match="one by one"):
        bf.compare(one, two)
    with pytest.raises(QueryError, match="different things"):
        bf.compare(one.column(0), two.column(1))
    groups = bf.compare(one.column(0), two.column(0))
    assert not groups.is_one_truth
    assert bf.compare(one.column(1), one.column(1)).is_one_truth


def test_one_question_answered_by_buckets_is_not_put_together(db: Session) -> None:
    one = db["visits"].histogram("cost").release(epsilon=1, mechanism="dawa")
    with pytest.raises(QueryError, match="Intervals cover the noise"):
        bf.compare(one, replace(one, beta=0.01))


def test_an_exact_answer_never_fails(db: Session) -> None:
    one = ages(db, "A1", "0.5")
    exact = replace(one, certificate=replace(one.certificate, epsilon=Fraction(0)), subject="")
    assert bf.compare(one, exact).beta == 0.05


numbers = st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=3)

sizes = st.integers(0, 10**6)


@given(numbers, numbers, st.tuples(sizes, sizes), st.sampled_from(["histogram", "sum"]), st.integers(0, 3))
def test_no_truth_inside_both_intervals_is_left_out(
    one: list[int], two: list[int], widths: tuple[int, int], kind: str, corner: int
) -> None:
    """All corners of both boxes, and so everything between them."""
    answers = [
        replace(
            constructed(["a", "b", "c"], list(map(float, values))),
            widths=HalfWidths(np.full(3, float(size)), float(size)),
            kind=kind,  # type: ignore[arg-type]
            question={"kind": kind},
        )
        for values, size in zip((one, two), widths, strict=True)
    ]
    compared = bf.compare(*answers)
    first, second = (
        answer.bounds.low if corner & bit else answer.bounds.high for answer, bit in zip(answers, (1, 2), strict=True)
    )
    assert compared.difference is not None
    assert compared.ratio is not None
    difference, slack = second - first, 1e-6
    assert np.all(compared.difference.bounds.low - slack <= difference)
    assert np.all(difference <= compared.difference.bounds.high + slack)
    known = answers[0].bounds.low > 0
    assert np.array_equal(known, ~np.isnan(compared.ratio.bounds.low))
    ratio = second[known] / first[known]
    assert np.all(compared.ratio.bounds.low[known] <= ratio + slack * abs(ratio))
    assert np.all(ratio <= compared.ratio.bounds.high[known] + slack * abs(ratio))


TWO = WARD.groups({"A1": ["A1"], "others": ["A2", "A3"]})


def test_the_two_groups_of_one_answer_are_compared_under_its_one_guarantee(db: Session) -> None:
    # Epsilon 50: noise beyond the true difference has odds far below 10^-9.
    answer = db["visits"].histogram(TWO, bf.col("age").bins(25)).release(epsilon="50")
    groups = bf.compare(answer)
    assert groups.beta == answer.beta, "one release fails once, not twice"
    assert groups.difference is not None
    assert groups.ratio is not None
    plane = answer.values.reshape(answer.tables[0].shape)
    assert np.array_equal(groups.first.values, plane[0])
    assert np.array_equal(groups.difference.values, plane[1] - plane[0])
    ends = [end.reshape(plane.shape) for end in (answer.bounds.low, answer.bounds.high)]
    assert np.array_equal(groups.difference.bounds.low, ends[0][1] - ends[1][0])
    assert np.array_equal(groups.difference.bounds.high, ends[1][1] - ends[0][0])
    assert np.all(np.abs(groups.ratio.values - 2.0) < 0.1), "twice as many visits in two wards as in one"
    assert "ward A1, and ward others" in repr(groups)


def test_two_numbers_say_which_is_larger_where_their_intervals_tell(db: Session) -> None:
    sure = bf.compare(db["visits"].histogram(TWO).release(epsilon="50"))
    assert (sure.first.kind, sure.first.raw.size) == ("count", 1)
    assert "The second is larger" in " ".join(sure.words())
    turned = WARD.groups({"others": ["A2", "A3"], "A1": ["A1"]})
    assert "The first is larger" in " ".join(bf.compare(db["visits"].histogram(turned).release(epsilon="50")).words())
    alike = WARD.groups({"A1": ["A1"], "A2": ["A2"]})
    same = bf.compare(db["visits"].where(WARD != "A3").histogram(alike).release(epsilon="0.01", beta=SURELY))
    assert "not known" in " ".join(same.words())


def test_means_of_two_groups_are_compared(db: Session) -> None:
    mean = bf.Aggregate("mean", ("age",))
    answer = db["visits"].aggregate(mean, by=[TWO]).release(epsilon="50", beta=SURELY)
    groups = bf.compare(answer)
    assert groups.first.columns == answer.columns
    assert groups.difference is not None
    assert groups.difference.bounds.low[0] <= 0.0 <= groups.difference.bounds.high[0], "ages are the same everywhere"
    with pytest.raises(QueryError, match="one by one"):
        bf.compare(db["visits"].aggregate(mean, bf.Aggregate("count"), by=[TWO]).release(epsilon="50"))


def test_an_answer_without_two_groups_is_compared_with_another_only(db: Session) -> None:
    for question in (db["visits"].histogram("ward"), db["visits"].cdf("age"), db["visits"].marginals("ward", "age")):
        with pytest.raises(QueryError, match="two groups"):
            bf.compare(question.release(epsilon="1"))
