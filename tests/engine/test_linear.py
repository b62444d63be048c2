"""Workloads of whole weights over the cells: answered without bias by every mechanism, priced, stored and refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

import blowfishdb as bf
from blowfishdb.engine.combination import CombinedMeasurement
from blowfishdb.engine.compile import compile_query
from blowfishdb.engine.preview import quotes_for
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import accuracy_target, read_query, write_query
from blowfishdb.errors import BlowfishError, Declined, QueryError
from blowfishdb.model import query as queries
from blowfishdb.model.query import Query, query
from blowfishdb.plan.plan import Plan

DOMAIN = bf.domain({"age": bf.integers(0, 11, null=0), "sex": bf.categorical(["f", "m"], null="f", outside="f")})
WEIGHTS = np.random.default_rng(5).integers(-3, 4, (4, 12))
POLICIES = [bf.Policy(), bf.Policy({"age": bf.line(), "sex": bf.public()}), bf.Policy(presence="secret")]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_offer_answers_the_rows_without_bias(policy: bf.Policy) -> None:
    compiled = compile_query(DOMAIN, policy, query("linear", "age", linear=WEIGHTS))
    assert np.array_equal(compiled.problem.workload.dense(), WEIGHTS)
    offers = quotes_for(compiled, accuracy_target(epsilon=1)).offers
    plans = [offer for offer in offers if isinstance(offer.plan, Plan)]
    assert {"direct", "identity"} <= {offer.mechanism for offer in plans}
    for offer in plans:
        # What is measured of each cell, decoded without noise.
        rows, exact = CombinedMeasurement(compiled, offer.candidate, Fraction(1)).over([np.arange(12)], 12)
        answers = offer.strategy.decode(rows, exact, offer.candidate.variances(Fraction(1)))
        assert np.allclose(answers, WEIGHTS, rtol=0.0, atol=1e-6)


def test_intervals_may_lie_below_0_and_are_as_wide_as_quoted() -> None:
    compiled = compile_query(DOMAIN, bf.Policy(), query("linear", "age", linear=-np.eye(12, dtype=int)[:2]))
    best = quotes_for(compiled, accuracy_target(epsilon=1)).best
    answer = PlanRelease(compiled, best).answer(np.full(12, 1000))
    # Noise of scale 4 passes 500 with probability below 10^-50.
    assert np.all(answer.values < -500)
    assert np.all(answer.bounds.high - answer.bounds.low <= 2 * best.alpha)
    assert [row["row"] for row in answer.rows()] == ["0", "1"]
    assert answer.title == "2 weighted sums of age"


@pytest.mark.parametrize("policy", POLICIES[:2])
@pytest.mark.parametrize("weights", [[[0] * 12], [[0] * 12, [1] * 12]])
def test_what_is_known_without_noise_is_free(policy: bf.Policy, weights: list[list[int]]) -> None:
    """Rows of zeros, and the number of records where it is public."""
    compiled = compile_query(DOMAIN, policy, query("linear", "age", linear=weights))
    assert quotes_for(compiled, accuracy_target(alpha=5)).best.epsilon == 0


def test_a_wider_weight_costs_more() -> None:
    def price(weight: int) -> Fraction:
        compiled = compile_query(DOMAIN, bf.Policy(), query("linear", "age", linear=[[weight] + [0] * 11]))
        return quotes_for(compiled, accuracy_target(alpha=50)).best.epsilon

    assert 9 < price(10) / price(1) < 11


def test_matrices_of_all_kinds_are_the_same_query_and_come_back_from_storage() -> None:
    usual = query("linear", "age", linear=WEIGHTS)
    assert query("linear", "age", linear=WEIGHTS.tolist()) == query("linear", "age", linear=csr_array(WEIGHTS)) == usual
    assert read_query(write_query(usual)) == usual
    assert query("linear", "age", linear=[0, 1]).linear == (((1, 1),),)


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ([[0.5, 1]], "whole numbers"),
        ([[1, 2], [3]], "one weight for each cell"),
        (np.zeros((2, 2, 2), dtype=int), "a row for each answer"),
        ("rows", "whole numbers"),
        (np.ones((5000, 2), dtype=int), "at most 4,096 rows"),
        (np.ones((400, 400), dtype=int), "at most 100,000 weights"),
        ([[2**21]], "from -1,048,576"),
        (np.zeros((0, 12), dtype=int), "rows of weights"),
    ],
)
def test_other_matrices_are_refused(matrix: object, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        query("linear", "age", linear=matrix)


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(QueryError, match="pairs"):
        Query("linear", (bf.col("age").bins(1),), linear=(((0, True),),))
    with pytest.raises(QueryError, match="at most"):
        Query("linear", (bf.col("age").bins(1),), linear=(((0, 1),),) * (queries.MOST_LINEAR + 1))
    with pytest.raises(QueryError, match="rows of weights"):
        query("histogram", "age", linear=[[1]])
    with pytest.raises(QueryError, match="cells 0 to 11"):
        compile_query(DOMAIN, bf.Policy(), query("linear", "age", linear=[[0] * 12 + [1]]))
    with pytest.raises(BlowfishError) as refusal:
        compiled = compile_query(DOMAIN, bf.Policy(), query("linear", "age", linear=WEIGHTS))
        quotes_for(compiled, accuracy_target(epsilon=1, mechanism="joint")).best  # noqa: B018
    assert isinstance(refusal.value, Declined)
