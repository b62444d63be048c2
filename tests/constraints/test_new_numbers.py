"""Other numbers of the same constraints: past loss is carried over by as much as more records can change together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

import blowfishdb as bf
from blowfishdb.catalog.stretch import policy_stretch
from blowfishdb.errors import BlowfishError
from blowfishdb.model import constraint_graph
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraint_graph import most_changes
from blowfishdb.model.constraints import RowsConstraint
from blowfishdb.model.policy import Policy
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.constraints.cases import Case, Drawn


def with_rows(case: Case, rows: int) -> Policy:
    return replace(
        case.policy,
        constraints=[
            *(f for f in case.policy.constraints if not isinstance(f, RowsConstraint)),
            f"rows = {rows}",
        ],
    )


@pytest.mark.parametrize("seed", range(2))
def test_more_rows_cost_past_releases_no_more_than_their_stretch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_graph, "most_changes", lambda differences: most_changes(differences, 10**6))
    drawn, seen = Drawn(seed), Counter[str]()
    for _ in range(150):
        case = drawn.case()
        fewer, more = sorted(int(n) for n in drawn.random.integers(1, 7, 2))
        old, new = with_rows(case, fewer), with_rows(case, more)
        try:
            before, after = (compile_cells(case.domain, policy, case.axes, case.where).graph for policy in (old, new))
        except BlowfishError:
            continue
        factor = policy_stretch(case.domain, old, new).factor
        assert factor is not None and factor <= Fraction(more, fewer)
        rows, weights = drawn.rows(before.cells)
        plan = Plan(Fraction(1), (Measurement(rows, weights),))
        assert certify(plan, after).epsilon <= factor * certify(plan, before).epsilon, case
        seen["more" if factor > 1 else "same"] += 1
    assert seen["more"] >= 10, seen


def test_new_numbers_after_a_refresh_are_affordable() -> None:
    people = bf.domain({"state": bf.integers(0, 299, null=0), "zip": bf.integers(0, 399, null=0)})
    old, new = (Policy(constraints=["marginal(state, zip)", f"rows = {rows}"]) for rows in (32_561, 32_600))
    assert policy_stretch(people, old, new).factor == Fraction(32_600, 32_561)
    assert policy_stretch(people, new, old).factor == 1
