"""Digests of different things differ; certificates and receipts in the first encoding are still recognised by it."""

from __future__ import annotations

import itertools
import json
import pickle
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from blowfishdb.errors import DigestMismatch, InfiniteLoss
from blowfishdb.model.graphs import CellGraph, ConstraintMoves
from blowfishdb.model.serialize import VERSION, version_of
from blowfishdb.model.workload import Identity, Prefix, Sparse
from blowfishdb.plan.certificate import CertifiedPlan, CertifiedPlans, certify
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan, Problem, _factor_1, _rows_1, graph_digest_1, plan_digest_1
from blowfishdb.plan.program import certify_program
from tests.plan.digest_cases import EXACT_NODES, GRAPHS, NODES, PLANS, POINTS, PROGRAM, TIED

FROZEN: dict[str, Any] = json.loads(Path(__file__).with_name("version_1.json").read_text(encoding="utf-8"))
"""What the code before the second encoding wrote."""
ONE = np.ones(1, dtype=np.int64)
X_HIDDEN, Y_HIDDEN = (GRAPHS[f"a joint threshold, {which} NULL hidden"] for which in ("first", "second"))


def test_the_first_encoding_gives_what_it_gave() -> None:
    assert {name: graph_digest_1(graph) for name, graph in GRAPHS.items()} == FROZEN["graphs"]
    assert {name: plan_digest_1(plan) for name, plan in PLANS.items()} == FROZEN["plans"]
    assert PROGRAM.digest_1() == FROZEN["program"]
    assert NODES.digest_1() == FROZEN["nodes"]
    assert EXACT_NODES.digest_1() == FROZEN["exact nodes"]


def test_programs_are_certified_with_digests_of_either_encoding() -> None:
    (graph, *_), now = GRAPHS.values(), certify_program(PROGRAM, next(iter(GRAPHS.values())))
    then = certify_program(PROGRAM, graph, version=1)
    assert (now.epsilon, now.plan_digest, now.graph_digest) == (PROGRAM.epsilon, PROGRAM.digest(), graph.digest())
    assert (then.plan_digest, then.graph_digest) == (FROZEN["program"], graph_digest_1(graph))
    assert (now.witness, now.is_tight) == (None, False)


def test_all_things_have_a_digest_of_their_own() -> None:
    things = [*GRAPHS.values(), *PLANS.values(), PROGRAM, POINTS, NODES, EXACT_NODES]
    digests = [thing.digest() for thing in things]
    assert len(set(digests)) == len(things)
    assert {version_of(digest) for digest in digests} == {VERSION}


def test_two_joint_thresholds_shared_a_digest_in_the_first_encoding_only() -> None:
    assert graph_digest_1(X_HIDDEN) == graph_digest_1(Y_HIDDEN)
    assert X_HIDDEN.digest() != Y_HIDDEN.digest()
    problems = [Problem(graph, Identity(16)) for graph in (X_HIDDEN, Y_HIDDEN)]
    assert problems[0].fingerprint() != problems[1].fingerprint()
    assert problems[0].digest() != problems[1].digest()


@pytest.mark.parametrize(("one", "two"), list(itertools.combinations(PLANS, 2)))
def test_plans_differ_in_both_encodings(one: str, two: str) -> None:
    assert PLANS[one].digest() != PLANS[two].digest()
    assert plan_digest_1(PLANS[one]) != plan_digest_1(PLANS[two])


def test_entries_of_another_width_are_the_same_plan() -> None:
    plan = PLANS["noise on edges"]
    assert isinstance(plan, EdgePlan)
    short = replace(plan, strategy=plan.strategy.astype(np.int32), decoder=plan.decoder.astype(np.int8))
    assert short.digest() == plan.digest()


@pytest.mark.parametrize("name", GRAPHS)
def test_a_certificate_in_the_first_encoding_verifies_for_its_own(name: str) -> None:
    graph = GRAPHS[name]
    plan = _cell_counts(graph)
    old = certify(plan, graph, version=1)
    assert old.graph_digest == FROZEN["graphs"][name]
    old.verify(plan, graph)
    for other in (
        replace(old, epsilon=old.epsilon / 2),
        replace(old, plan_digest="0" * 64),
        replace(old, witness=None),
    ):
        with pytest.raises(DigestMismatch):
            other.verify(plan, graph)
    with pytest.raises(DigestMismatch):
        old.verify(plan.with_unit(Fraction(3)), graph)
    # Half of it in each encoding is neither.
    with pytest.raises(DigestMismatch):
        replace(old, graph_digest=graph.digest()).verify(plan, graph)


def test_an_earlier_larger_bound_still_verifies_and_a_smaller_one_does_not() -> None:
    graph = next(graph for graph in GRAPHS.values() if certify(_cell_counts(graph), graph).is_tight)
    certificate = certify(_cell_counts(graph), graph)
    twice = replace(certificate, epsilon=certificate.epsilon * 2)
    for bound in (replace(twice, is_tight=False), replace(certificate, witness=None, is_tight=False)):
        bound.verify(_cell_counts(graph), graph)
    for claim in (twice, replace(certificate, witness=None), replace(certificate, epsilon=certificate.epsilon / 2)):
        with pytest.raises(DigestMismatch):
            claim.verify(_cell_counts(graph), graph)


def _cell_counts(graph: CellGraph) -> Plan:
    return Plan(Fraction(2), (Measurement(Identity(graph.cells), ONE),))


def test_where_the_first_encoding_confuses_graphs_the_loss_does_not() -> None:
    """How many have no x is no secret where x's NULL is public, and one where it is hidden."""
    exact = Plan(Fraction(2), (Measurement(Identity(16), ONE),), exact=_null_of_first())
    claimed = certify(exact, Y_HIDDEN, version=1)
    claimed.verify(exact, Y_HIDDEN)
    with pytest.raises(InfiniteLoss):
        claimed.verify(exact, X_HIDDEN)


def _null_of_first() -> Sparse:
    """How many records have no value on the first axis."""
    return Sparse(csr_array((np.arange(16) // 4 == 3).astype(np.int64)[None, :]))


def test_a_plan_is_certified_on_the_very_graph_it_will_be_measured_under() -> None:
    plan = Plan(Fraction(2), (Measurement(Identity(16), ONE),), exact=_null_of_first())
    proof = certify(plan, Y_HIDDEN)
    found = CertifiedPlans(Y_HIDDEN).as_charged(plan, proof)
    assert found.graph is Y_HIDDEN and found.certificate == proof
    with pytest.raises(InfiniteLoss):
        CertifiedPlan(plan, X_HIDDEN)
    with pytest.raises(InfiniteLoss):
        CertifiedPlans(X_HIDDEN).as_charged(plan, proof)
    with pytest.raises(DigestMismatch):
        CertifiedPlans(Y_HIDDEN).as_charged(plan.with_unit(Fraction(1)), proof)


def test_a_plan_that_was_certified_is_known_by_all_that_it_is() -> None:
    plans, plan = CertifiedPlans(Y_HIDDEN, most=2), _cell_counts(Y_HIDDEN)
    proof = certify(plan, Y_HIDDEN)
    certified = plans.as_charged(plan, proof)
    same = _cell_counts(Y_HIDDEN)
    assert plans.as_charged(same, proof) is certified
    for charged in (replace(proof, epsilon=proof.epsilon / 2), replace(proof, graph_digest=X_HIDDEN.digest())):
        with pytest.raises(DigestMismatch):
            plans.as_charged(same, charged)
    heavier = Plan(Fraction(2), (Measurement(Identity(16), np.full(16, 2)),))
    others = [plan.with_unit(Fraction(1)), heavier]
    for other in others:
        with pytest.raises(DigestMismatch):
            plans.as_charged(other, proof)
        assert plans.as_charged(other, certify(other, Y_HIDDEN)).plan is other
    assert plans.as_charged(plan, proof) is not certified, "the oldest gives way"
    (moved,) = pickle.loads(pickle.dumps([plans]))
    assert moved.as_charged(plan, proof).graph is moved.graph, "another process certifies by itself"


@dataclass(frozen=True, eq=False)
class _Odd:
    """What no earlier version had."""

    cells: int = 6

    @property
    def shape(self) -> tuple[int, int]:
        return 6, 6


def test_the_first_encoding_has_nothing_new() -> None:
    with pytest.raises(TypeError, match="no rows"):
        _rows_1(_Odd())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no graph"):
        _factor_1(Prefix(4))  # type: ignore[arg-type]


def test_constraints_are_told_apart_by_every_part() -> None:
    others = [
        replace(TIED, case="general"),
        replace(TIED, most=2),
        replace(TIED, members=np.array([0, 1, 2, 4, 3])),
        replace(TIED, with_zero=np.array([True, True])),
        replace(TIED, times=np.array([2, 1])),
        ConstraintMoves("atoms", np.array([0, 3, 5]), TIED.members, TIED.with_zero, TIED.times, 3),
    ]
    assert len({constraints.fingerprint() for constraints in (TIED, *others)}) == 1 + len(others)
