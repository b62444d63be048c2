"""Requests: their digests are on record in ledgers, so they never change."""

from __future__ import annotations

from fractions import Fraction

import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import AccuracyTarget, accuracy_target
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.model.query import Query, synopsis_of
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
