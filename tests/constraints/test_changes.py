"""Past loss when public constraints come, stay, go or get other numbers, against brute force."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.catalog.dataset import Dataset
from blowfishdb.catalog.policy_change import policy_stretch
from blowfishdb.errors import BlowfishError, CannotCertify
from blowfishdb.model import constraint_graph
from blowfishdb.model.cells import compile_cells
from blowfishdb.model.constraint_graph import most_changes
from blowfishdb.model.constraints import RowsConstraint
from blowfishdb.model.domain import Domain
from blowfishdb.model.policy import Policy
from blowfishdb.model.workload import Identity, Prefix
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan
from tests.constraints import brute
from tests.constraints.cases import Case, Drawn

ONE = Fraction(1)
LINE = bf.domain({"v": bf.integers(0, 4, null=0)})
PEOPLE = bf.domain({"s": bf.integers(0, 1, null=0), "v": bf.integers(0, 2, null=0)})


def factor(old: Policy, new: Policy, domain: Domain = PEOPLE) -> Fraction | None:
    return policy_stretch(domain, old, new).factor


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], ["rows"], 1),
        ([], ["marginal(s)"], 2),
        (["rows"], ["marginal(s)"], 2),
        (["marginal(s)"], ["marginal(s)"], 1),
        (["marginal(s)"], ["marginal(s)", "rows = 9"], None),
        (["marginal(s)"], [], None),
        (["marginal(s)"], ["marginal(v)"], None),
        (["count(v < 1) = 4"], ["count(v < 1)"], 1),
        (["marginal(s)", "rows = 1"], ["marginal(s)", "rows = 2"], 2),
    ],
)
def test_how_past_loss_is_carried_over(old: list[str], new: list[str], expected: int | None) -> None:
    found = policy_stretch(PEOPLE, Policy(constraints=old), Policy(constraints=new))
    assert found.factor == expected, found.why


def test_the_old_graph_decides_what_new_constraints_cost() -> None:
    lines = {"s": bf.line(), "v": bf.line()}
    assert factor(Policy(lines), Policy(lines, constraints=["marginal(s)"])) == 2 * 2
    assert factor(Policy(lines, "attribute"), Policy(lines, constraints=["marginal(s)"])) == 2 * 3
    apart = {"v": bf.partition(cuts=[1])}
    assert factor(Policy(apart), Policy(apart, constraints=["marginal(s)"])) is None
    # A constraint that no edge changed begins to bind when the graph grows.
    quiet = Policy({"s": bf.public()}, constraints=["marginal(s)"])
    assert factor(quiet, Policy(constraints=["marginal(s)"])) is None
    assert factor(Policy(constraints=["marginal(s)"]), quiet) == 1
    assert factor(Policy(presence="secret"), Policy(presence="secret", constraints=["marginal(s)"])) == 2
    assert factor(Policy(constraints=["marginal(s)"]), Policy(constraints=["marginal(s)"], presence="secret")) is None
    assert factor(Policy(constraints=["rows"], presence="secret"), Policy(constraints=["rows"])) == 1


def test_no_neighbour_under_new_constraints_lost_more_than_what_is_carried_over() -> None:
    drawn = Drawn(77)
    checked = 0
    for _ in range(150):
        case = drawn.case()
        old, new = Policy(case.policy.attributes, case.policy.composition, joint=case.policy.joint), case.policy
        if new.presence != "public":
            continue
        try:
            stretch = policy_stretch(case.domain, old, new).factor
        except CannotCertify:
            continue
        if stretch is None:
            continue
        checked += 1
        cells = compile_cells(case.domain, old, case.domain.names)
        for rows in (Identity(cells.graph.cells), Prefix(cells.graph.cells)):
            weights = np.ones(rows.shape[0], dtype=np.int64)
            charged = certify(Plan(ONE, (Measurement(rows, weights),)), cells.graph).epsilon
            applied = new.applied(case.domain)
            found = brute.columns(applied, new, cells, rows.dense())
            assert brute.true_loss(applied, new, new.constraints, found, weights, 4) <= stretch * charged
    assert checked >= 30


def test_a_dataset_with_constraints_that_have_no_bound_is_refused_when_declared() -> None:
    wide = {"a": bf.integers(0, 50, null=0), "b": bf.integers(0, 50, null=0)}
    with pytest.raises(CannotCertify, match=r"marginal\(a, b\)"):
        Dataset(
            "x",
            source="duckdb:///x.duckdb#t",
            domain=wide,
            policy=Policy(constraints=["marginal(a)", "marginal(b)"]),
            epsilon=1,
        )


def histogram_epsilon(domain: Domain, policy: Policy) -> Fraction:
    cells = compile_cells(domain, policy, domain.names)
    return certify(Plan(ONE, (Measurement(Identity(cells.graph.cells), np.array(1)),)), cells.graph).epsilon


def test_the_papers_counterexamples_are_priced_as_they_really_are() -> None:
    """Corollary 8.3: 4, not 2. Theorem 8.5: 8, not 4. Theorem 8.6: 6, not 4."""
    four = bf.domain({"v": bf.integers(0, 3, null=0)})
    assert histogram_epsilon(four, Policy(constraints=["range(v, 0, 1)", "rows = 2"])) == 4
    bits = bf.domain({name: bf.integers(0, 1, null=0) for name in "abc"})
    margins = Policy(composition="attribute", constraints=["marginal(a)", "marginal(b)", "rows = 4"])
    assert histogram_epsilon(bits, margins) == 8
    eight = bf.domain({"v": bf.integers(0, 7, null=0)})
    ranges = Policy({"v": bf.line()}, constraints=["range(v, 0, 1)", "range(v, 5, 6)", "rows = 3"])
    assert histogram_epsilon(eight, ranges) == 6


@pytest.mark.parametrize("parts", list(itertools.product((1, 2, 3), repeat=3)))
def test_the_histogram_of_a_partition_costs_twice_the_atoms_of_two_cells_or_more(parts: tuple[int, int, int]) -> None:
    ends = np.cumsum(parts)
    domain = bf.domain({"v": bf.integers(0, int(ends[-1]) - 1, null=0)})
    constraints = [f"range(v, {start}, {end - 1})" for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    atoms = sum(part >= 2 for part in parts)
    policy = Policy({"v": bf.line()}, constraints=constraints)
    assert histogram_epsilon(domain, policy) == 2 * atoms
    cells = compile_cells(domain, policy, ["v"])
    found = brute.columns(domain, policy, cells, Identity(int(ends[-1])).dense())
    weights = np.ones(int(ends[-1]), dtype=np.int64)
    if found.shape[0] <= 5:
        assert brute.true_loss(domain, policy, policy.constraints, found, weights, 4) == 2 * atoms


def with_rows(case: Case, rows: int) -> Policy:
    return replace(
        case.policy,
        constraints=[
            *(f for f in case.policy.constraints if not isinstance(f, RowsConstraint)),
            f"rows = {rows}",
        ],
    )


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
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
