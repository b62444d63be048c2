"""Weights on nodes under public constraints against every neighbouring table of up to four records."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.audit.definitions import records
from blowfishdb.errors import CannotCertify, InfiniteLoss, QueryError
from blowfishdb.model.cells import Points, compile_points
from blowfishdb.model.constraint_graph import moves_at_once
from blowfishdb.model.domain import Integers
from blowfishdb.model.numbers import Ints
from blowfishdb.model.predicate import Axis
from blowfishdb.plan.points import PointAxis, PointPlan, certify_points, components_of, point_loss
from tests.constraints import brute
from tests.constraints.cases import Case, Drawn
from tests.constraints.test_against_brute_force import most_records

DOMAINS = 40


def contributions(case: Case, points: Points, plan: PointPlan) -> tuple[Ints, Ints]:
    """What one record of each vertex adds to the nodes, and to the blocks."""
    everyone = list(records(case.policy.applied(case.domain)))
    values, counts = points.place({name: np.array([record[name] for record in everyone]) for name in points.attributes})
    size = len(everyone) + (case.policy.presence != "public")
    grid_points = np.zeros((size, plan.grid_points), dtype=np.int64)
    blocks = np.zeros((size, int(np.prod(plan.block_shape))), dtype=np.int64)
    for vertex in np.flatnonzero(counts):
        where, weights = plan.rows_at(values[vertex : vertex + 1])
        np.add.at(grid_points[vertex], where[0], weights[0])
        blocks[vertex, plan.blocks_at(values[vertex : vertex + 1])[0]] = 1
    return grid_points, blocks


def drawn_plan(drawn: Drawn, points: Points) -> PointPlan:
    axes = []
    for size in points.graph.plain:
        places = np.cumsum(drawn.random.integers(0, 4, size))
        axes.append(PointAxis(int(drawn.random.integers(1, 4)), places))
    whole = int(np.prod([axis.steps for axis in axes]))
    total = int(drawn.pick(1, whole))  # type: ignore[call-overload]
    return PointPlan(Fraction(1), tuple(axes), total, components_of(points.graph))


@pytest.mark.parametrize("seed", [0, 2, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_neighbouring_table_loses_more_than_the_bound(seed: int) -> None:
    drawn, seen = Drawn(100 + seed), Counter[str]()
    for _ in range(DOMAINS):
        case = drawn.case()
        names = [name for name in case.domain if isinstance(case.domain[name], Integers)]
        if not names:
            continue
        try:
            points = compile_points(case.domain, case.policy, tuple(Axis(name) for name in names), case.where)
        except (CannotCertify, QueryError):
            continue
        plan = drawn_plan(drawn, points)
        grid_points, blocks = contributions(case, points, plan)
        applied, most = case.policy.applied(case.domain), most_records(case)
        ones = np.ones(max(grid_points.shape[1], blocks.shape[1]), dtype=np.int64)
        real = brute.true_loss(
            applied, case.policy, case.policy.constraints, grid_points, ones[: grid_points.shape[1]], most
        )
        assert point_loss(plan, points.graph) * points.graph.rows_per_person >= real, case
        changed = brute.true_loss(applied, case.policy, case.policy.constraints, blocks, ones[: blocks.shape[1]], most)
        try:
            certify_points(plan, points.graph)
            assert changed == 0, case
            seen["exact blocks"] += 1
        except InfiniteLoss:
            pass
        seen["bound" if moves_at_once(case.domain, case.policy) else "unbound"] += 1
    assert min(seen[kind] for kind in ("bound", "unbound", "exact blocks")) >= 1
