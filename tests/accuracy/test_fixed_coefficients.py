"""Bounds that are made once and used at every level are, bit for bit, those made anew."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.accuracy.candidates import CertifiedCandidate
from blowfishdb.accuracy.tails import Bound, LaplaceSums, tails_of
from blowfishdb.engine.compile import compile_query
from blowfishdb.mechanisms import edge_transform, identity, kronecker, marginals
from blowfishdb.mechanisms.edge_transform import EdgeStrategy, propose
from blowfishdb.mechanisms.kronecker import KroneckerStrategy, LevelTableStrategy
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.policy import Policy, full, threshold
from blowfishdb.model.predicate import Axis
from blowfishdb.model.query import query
from blowfishdb.model.workload import Identity
from blowfishdb.plan.plan import Problem
from tests.accuracy.cases import certified, on_threshold

EPSILONS = [Fraction(1, 1000), Fraction(1, 3), Fraction(4)]
TABLE = domain({"x": integers(0, 11), "y": integers(0, 6), "z": integers(0, 3)})
X, Y, Z = Axis("x"), Axis("y"), Axis("z")


def histogram() -> Problem:
    return compile_query(TABLE, Policy({"x": threshold(2), "y": full()}), query("histogram", (X, Y))).problem


def boxes() -> Problem:
    asked = [((low, high), (low % 3, 6)) for low in range(11) for high in range(low + 1, 12)]
    policy = Policy({"x": threshold(2), "y": threshold(2)}, composition="attribute")
    return compile_query(TABLE, policy, query("ranges", (X, Y), boxes=asked)).problem


def one_way_and_two_way() -> Problem:
    asked = query("marginals", (X, Y, Z), subsets=[["x"], ["x", "y"], ["y", "z"]])
    return compile_query(TABLE, Policy({}), asked).problem


FIXED: list[tuple[Problem, Mechanism]] = [
    (histogram(), identity.propose),
    (histogram(), kronecker.propose),
    (histogram(), marginals.propose),
    (histogram(), edge_transform.propose_spanning_tree),
    (boxes(), kronecker.propose),
]


def coefficients(candidate: CertifiedCandidate, epsilon: Fraction) -> list[bytes]:
    """Everything that answers make of the noise, to the last bit."""
    size, answers = candidate.weights.size, candidate.problem.workload.shape[0]
    nothing = np.zeros((candidate.exact_rows, size))
    variances = candidate.variances(epsilon)
    decoded = candidate.strategy.decode(np.eye(size), nothing, variances)
    listed = candidate.strategy.coefficients(np.arange(answers), variances)
    return [np.ascontiguousarray(found).tobytes() for found in (decoded, listed)]


def test_the_cases_are_of_every_kind() -> None:
    kinds = {type(propose(problem)) for problem, propose in FIXED}
    assert {KroneckerStrategy, LevelTableStrategy} < kinds and len(kinds) == 5


@pytest.mark.parametrize(("problem", "propose"), FIXED)
def test_the_kept_bounds_are_those_made_anew(problem: Problem, propose: Mechanism) -> None:
    candidate = certified(problem, propose)
    assert candidate.strategy.has_fixed_coefficients
    bound = Bound(candidate, together=True)
    for epsilon in EPSILONS:
        assert coefficients(candidate, epsilon) == coefficients(candidate, EPSILONS[0])
        kept, anew = bound._tails_at(epsilon), tails_of(candidate, candidate.variances(epsilon))[0]
        assert type(kept) is type(anew)
        if isinstance(kept, LaplaceSums):
            assert kept is bound._coarse[0]
            for field in fields(LaplaceSums):
                assert getattr(kept, field.name).tobytes() == getattr(anew, field.name).tobytes()


def test_several_marginals_are_weighed_by_their_variances_so_their_bounds_are_made_anew() -> None:
    candidate = certified(one_way_and_two_way(), marginals.propose)
    assert len(candidate.strategy.measured) > 1
    assert not candidate.strategy.has_fixed_coefficients
    assert coefficients(candidate, EPSILONS[0]) != coefficients(candidate, EPSILONS[-1])
    bound = Bound(candidate, together=True)
    assert bound._tails_at(EPSILONS[-1]) is not bound._coarse[0]


EDGE_EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(9)]


def edge_candidate() -> CertifiedCandidate:
    found = certified(on_threshold(Identity(20), 4), propose)
    assert isinstance(found.strategy, EdgeStrategy)
    return found


def same(one: object, two: object) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(two, field.name)) for field in fields(LaplaceSums))


@pytest.mark.parametrize("epsilon", EDGE_EPSILONS)
def test_the_kept_bounds_are_those_made_anew_at_every_level(epsilon: Fraction) -> None:
    candidate = edge_candidate()
    kept = Bound(candidate, together=True)._tails_at(epsilon)
    anew, _ = tails_of(candidate, candidate.variances(epsilon))
    assert isinstance(kept, LaplaceSums) and same(kept, anew)
    assert not same(kept, anew.inflated(1.01))


@pytest.mark.parametrize("epsilon", EDGE_EPSILONS)
def test_the_answers_themselves_do_not_look_at_the_level(epsilon: Fraction) -> None:
    candidate = edge_candidate()
    noise, nothing = np.arange(candidate.weights.size, dtype=np.float64) ** 2, np.empty(0)
    there = candidate.strategy.decode(noise, nothing, candidate.variances(epsilon))
    assert np.array_equal(there, candidate.strategy.decode(noise, nothing, candidate.coarse_variances))
