"""Previews, notes, stored answers and data-aware programs under public constraints."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import prepare
from blowfishdb.engine.compile import DatasetHandle, compile_query
from blowfishdb.engine.preview import Preview
from blowfishdb.engine.release import PlanRelease
from blowfishdb.engine.request import AccuracyTarget, accuracy_target, make_request
from blowfishdb.errors import CannotCertify
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import col
from blowfishdb.model.query import Query
from tests.engine.held import Rows

VISITS = bf.domain(
    {
        "cost": bf.integers(0, 9, null=0),
        "ward": bf.categorical(["A", "B", "C"], null="A", outside="A"),
        "town": bf.integers(0, 40, null=0),
    }
)
COSTS = bf.query("histogram", "cost")


def prepared(
    policy: Policy, asked: Query = COSTS, wanted: AccuracyTarget | None = None, domain: Domain = VISITS
) -> PlanRelease:
    handle = DatasetHandle("visits", domain, policy, "account", 1, 1, 1, Rows())
    return prepare(handle, make_request(handle, asked, wanted or accuracy_target(epsilon=1)))


def preview(policy: Policy, asked: Query = COSTS) -> Preview:
    handle = DatasetHandle("visits", VISITS, policy, "account", 1, 1, 1, Rows())
    return prepared(policy, asked).preview(handle)


def test_a_preview_says_which_case_applies_and_includes_the_price() -> None:
    free, atoms = preview(Policy()), preview(Policy(constraints=["marginal(ward)"]))
    overlap = preview(Policy(constraints=["count(ward = 'A')", "count(cost < 3)"]))
    assert free.constraint_note == "" and "Public constraints" not in str(free)
    assert "up to 3 records change together" in atoms.constraint_note and "atoms" in str(atoms)
    assert "Graver bound" in str(overlap) and "summed over these records" in str(overlap)
    assert atoms.to_dict()["constraint_note"] == atoms.constraint_note
    assert free.alpha < atoms.alpha < overlap.alpha
    assert any("marginal(ward)" in said for said in atoms.unprotected)
    assert any("atoms" in said for said in atoms.protected)


def test_constraints_that_no_edge_changes_leave_the_price_as_it_was() -> None:
    policy = Policy({"ward": bf.public()})
    with_constraint = Policy({"ward": bf.public()}, constraints=["marginal(ward)"])
    assert preview(with_constraint).alpha == preview(policy).alpha
    assert any("cost nothing" in said for said in preview(with_constraint).protected)


def test_what_the_constraints_tell_is_free_and_said_to_be() -> None:
    told = preview(Policy(constraints=["marginal(ward)"]), bf.query("histogram", "ward"))
    assert told.epsilon == 0 and "follow from what is public" in str(told)
    left_out = preview(Policy(constraints=["marginal(ward)"]), bf.query("histogram", "cost", col("ward") == "A"))
    assert left_out.epsilon == 1
    hidden = preview(Policy(presence="secret", constraints=["count(ward = 'A')"]), bf.query("count", ()))
    assert hidden.worst_pair == "a record that counts <-> one that does not count or is not there"


def test_questions_under_constraints_without_a_bound_are_refused_before_anything_is_read() -> None:
    with pytest.raises(CannotCertify, match=r"marginal\(ward, town\)"):
        prepared(Policy(constraints=["marginal(ward)", "marginal(town)"]))


def test_what_the_ledger_and_the_stored_answer_keep() -> None:
    policy = Policy(constraints=["marginal(ward)", "rows = 30"])
    ready = prepared(policy)
    assert "3 records change together" in str(ready.document()["together"])
    answer = PlanRelease(ready.compiled, ready.best).answer(np.full(10, 3))
    assert answer.certificate.constraint_note == ready.best.certificate.constraint_note
    assert json.loads(json.dumps(ready.document()))["epsilon"] == "1"


def test_sums_and_means_are_priced_with_the_constraints() -> None:
    for kind in ("sum", "mean"):
        asked = bf.query(kind, "cost")  # type: ignore[arg-type]
        plain = bf.accuracy_at(compile_query(VISITS, Policy(), asked).problem, Fraction(1), 0.05).best
        bound = Policy(constraints=["marginal(ward)"])
        tied = bf.accuracy_at(compile_query(VISITS, bound, asked).problem, Fraction(1), 0.05).best
        assert 2.5 < tied.alpha / plain.alpha < 3.5
