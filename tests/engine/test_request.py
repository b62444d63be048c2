"""Requests: stored digests never change, questions survive being written, hostile documents get a typed error."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import blowfishdb as bf
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.request import (
    AccuracyTarget,
    accuracy_target,
    make_request,
    read_query,
    read_target,
    write_query,
)
from blowfishdb.errors import AccuracyError, BlowfishError, QueryError
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.predicate import Axis, Both, Comparison, Either, IsNull, IsOutside, Member, Negation, Predicate
from blowfishdb.model.query import Part, Query, synopsis_of
from blowfishdb.sql import parse
from tests.engine.held import Rows

DOMAIN = bf.domain({"x": bf.integers(0, 7), "y": bf.integers(0, 5)})
HANDLE = DatasetHandle("visits", DOMAIN, bf.Policy({"x": bf.line()}), "a" * 32, 3, 2, 5, Rows())  # type: ignore[arg-type]
WHERE = (bf.col("y") >= 2) & ~bf.col("x").isin([1, Fraction(1, 2)]) | bf.col("x").is_null()
POINTS = bf.query("points", ("x", bf.col("y").bins(2)), WHERE, clusters=3, rows=1000)


@pytest.mark.parametrize(
    ("query", "target", "digest"),
    [
        (
            bf.query("cdf", bf.col("x").bins(2), WHERE),
            accuracy_target(alpha="12.5", confidence="0.9"),
            "dc23b93e9c39f30bdb440ce1ffe4823e5a3a53b2c31de91fc4f5cebb34e58a66",
        ),
        (
            bf.query("histogram", "x"),
            accuracy_target(epsilon="0.5", mechanism="dawa"),
            "50b16b71075f2f2424483f804c72b40e37ccf1bbda723f53c469aed4959400f1",
        ),
        (
            synopsis_of(bf.query("histogram2d", ("x", "y"), WHERE)),
            accuracy_target(epsilon="0.3"),
            "a25351440042b5d45b01305033d4d43219f89cb1ca9c4e88a11aa01d1be1d3a0",
        ),
        (
            POINTS,
            accuracy_target(epsilon="0.5"),
            "9c91e1771514cee0fbcff2becc5ab323566d23b4a606a0211e3e095249801688",
        ),
    ],
    ids=["plan", "program", "synopsis", "points"],
)
def test_digests_of_requests_are_those_on_record(query: Query, target: AccuracyTarget, digest: str) -> None:
    assert make_request(HANDLE, query, target).digest == digest


def test_points_and_synopses_are_paid_with_an_epsilon() -> None:
    synopsis = synopsis_of(bf.query("histogram", "x"))
    for query, target in (
        (POINTS, accuracy_target(alpha=5)),
        (POINTS, accuracy_target(epsilon=1, mechanism="identity")),
        (POINTS, accuracy_target(epsilon=1, beta="0.1")),
        (synopsis, accuracy_target(alpha=5)),
    ):
        with pytest.raises(AccuracyError, match="epsilon"):
            prepare(HANDLE, make_request(HANDLE, query, target))


def test_what_is_published_has_no_answer_by_itself() -> None:
    for query in (POINTS, synopsis_of(bf.query("histogram", "x"))):
        with pytest.raises(QueryError, match="published"):
            bf.compile_query(DOMAIN, bf.Policy(), query)
    with pytest.raises(QueryError, match="histogram"):
        synopsis_of(bf.query("cdf", "x"))


NAMES = st.sampled_from(["age", "ward", "cost of stay"])
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.fractions(max_denominator=1000),
    st.dates(),
    st.datetimes(),
)
ATOMS = st.one_of(
    st.builds(Comparison, NAMES, st.sampled_from(["==", "<", "<=", ">", ">="]), VALUES),
    st.builds(lambda name, values: Member(name, tuple(values)), NAMES, st.lists(VALUES, max_size=3)),
    st.builds(IsNull, NAMES),
    st.builds(IsOutside, NAMES),
)
PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    ATOMS,
    lambda inner: st.one_of(st.builds(Both, inner, inner), st.builds(Either, inner, inner), st.builds(Negation, inner)),
    max_leaves=6,
)
AXES = st.one_of(
    st.builds(Axis, NAMES),
    st.builds(lambda name, width: Axis(name, width=width), NAMES, VALUES),
    st.builds(lambda name, edges: Axis(name, edges=tuple(edges)), NAMES, st.lists(VALUES, min_size=2, max_size=4)),
    st.builds(lambda name: Axis(name, unit="month"), NAMES),
    st.builds(lambda name, values: Axis(name, groups=(("one", tuple(values)),)), NAMES, st.lists(VALUES, max_size=2)),
)


@given(AXES, st.none() | PREDICATES)
def test_a_question_survives(axis: Axis, where: Predicate | None) -> None:
    asked = Query("histogram", (axis,), where)
    text = json.dumps(write_query(asked))
    assert write_query(read_query(json.loads(text))) == json.loads(text)


def test_other_kinds_survive() -> None:
    kinds = [
        Query("count"),
        Query("ranges", (Axis("age"), Axis("cost")), boxes=(((0, 3), (1, 2)), ((2, 4), (0, 9)))),
        Query("marginals", (Axis("age"), Axis("cost")), subsets=(("age",), ("age", "cost"))),
        Query("marginals", (Axis("age"), Axis("cost")), ways=2),
        Query("quantiles", (Axis("age"),), levels=(Fraction(1, 4), Fraction(1, 2))),
    ]
    for asked in kinds:
        assert read_query(json.loads(json.dumps(write_query(asked)))) == asked


def test_values_keep_their_types() -> None:
    for value in (True, 1, 1.5, "1", Decimal("1.50"), Fraction(1, 3), datetime.date(2024, 2, 29)):
        found = read_query(write_query(Query("count", (), Comparison("age", "==", value)))).where
        assert isinstance(found, Comparison)
        assert (type(found.value), found.value) == (type(value), value)


def test_plain_values_stand_for_themselves() -> None:
    found = read_query({"kind": "count", "where": ["isin", "age", [1, 2.5, "x", True]]}).where
    assert found == Member("age", (1, 2.5, "x", True))


DEEP: list[object] = ["IsNull", "age"]
for _ in range(5000):
    DEEP = ["Negation", DEEP]


@pytest.mark.parametrize(
    "written",
    [
        None,
        [],
        {},
        {"kind": "rows"},
        {"kind": ["count"]},
        {"kind": "count", "extra": 1},
        {"kind": "histogram", "axes": "age"},
        {"kind": "histogram", "axes": [{"attribute": 3}]},
        {"kind": "histogram", "axes": [{"attribute": "age", "width": ["int", "1e9"]}]},
        {"kind": "histogram", "axes": [{"attribute": "age", "width": ["int", "9" * 5000]}]},
        {"kind": "histogram", "axes": [{"attribute": "age", "width": ["eval", "1"]}]},
        {"kind": "count", "where": ["!=", "age", 1]},
        {"kind": "count", "where": ["Both", ["IsNull", "age"]]},
        {"kind": "count", "where": []},
        {"kind": "count", "where": DEEP},
        {"kind": "count", "where": ["==", "age", ["Fraction", "1/0"]]},
        {"kind": "count", "where": ["==", "age", {"a": 1}]},
        {"kind": "ranges", "axes": [{"attribute": "age"}], "boxes": [[[0, "3"]]]},
        {"kind": "marginals", "axes": [{"attribute": "age"}], "ways": True},
        {"kind": "quantiles", "axes": [{"attribute": "age"}], "levels": ["half"]},
        {"kind": "quantiles", "axes": [{"attribute": "age"}], "levels": [0.5]},
    ],
)
def test_odd_documents_are_refused(written: object) -> None:
    with pytest.raises(QueryError):
        read_query(written)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda x: st.lists(x, max_size=3)))
def test_no_condition_breaks_the_reader(where: object) -> None:
    try:
        read_query({"kind": "count", "where": where})
    except BlowfishError:
        return


def test_a_demand_survives() -> None:
    for wanted in (
        accuracy_target(alpha=50),
        accuracy_target(epsilon="1/3", mechanism="identity"),
        accuracy_target(5, "0.1", per_query=True),
        accuracy_target(epsilon=1.2345678901234567e-7),
    ):
        assert read_target(json.loads(json.dumps(wanted.to_dict()))) == wanted


@pytest.mark.parametrize(
    "written",
    [
        None,
        {"alpha": 1, "extra": 2},
        {"guarantee": "both", "alpha": 1},
        {"alpha": [1]},
        {},
        {"epsilon": "1", "alpha": 1},
        {"alpha": 1e-300},
        {"alpha": Fraction(1, 3**90)},
    ],
)
def test_odd_demands_are_refused(written: object) -> None:
    with pytest.raises(AccuracyError):
        read_target(written)


@pytest.mark.parametrize("name", ["\ud800", "a\0"])
def test_names_that_no_file_can_hold_are_refused_before_anything_is_charged(name: str) -> None:
    declared = bf.domain({"x": bf.integers(0, 9)})
    with pytest.raises(QueryError, match="can be stored"):
        compile_cells(declared, bf.Policy(), bf.col("x").groups({name: [1, 2]}))
    with pytest.raises(QueryError, match="can be stored"):
        Aggregate("mean", ("x",), name=name)
    with pytest.raises(QueryError, match="without NUL"):
        parse(f'SELECT COUNT(*) AS "{name}" FROM made')


def test_rows_are_stored_where_means_are_asked_and_never_beside_parts() -> None:
    table = bf.query("table", "x", aggregates=[Aggregate("mean", ("y",))])
    assert list(write_query(table))[-2:] == ["rows", "aggregates"]
    assert write_query(table)["rows"] is None
    joint = Query("joint", parts=(Part(table, Fraction(5), Fraction(1, 20)),), rows=4)
    assert "rows" not in write_query(joint)
    assert read_query(write_query(joint)).rows is None
