"""Plans of quantiles: what they lose on every edge, found again from all outputs of all small tables."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.errors import CannotCertify, PlanError
from blowfishdb.model.graphs import CellGraph, ConstraintMoves, EdgeGraph, GridGraph, Presence, WindowGraph
from blowfishdb.noise.quantile_sampler import SpreadRecords, penalty
from blowfishdb.plan.program import QuantilePlan, certify_quantiles

CELLS, PARTS, MOST = 3, 3, 3
THIRDS = (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
HALVES = (Fraction(1, 2), Fraction(1, 2))
UNEVEN = (Fraction(1, 10), Fraction(9, 10))


def graph(
    reach: list[int], presence: Presence = "public", outside: bool = False, universal: list[int] | None = None
) -> CellGraph:
    axis = WindowGraph(np.array(reach), np.array(universal or [], dtype=np.int64))
    return CellGraph((axis,), "record", np.array([outside]), presence)


GRAPHS = {
    "full": graph([2, 2, 2]),
    "line": graph([1, 2, 2]),
    "presence only": graph([2, 2, 2], "only"),
    "presence secret": graph([1, 2, 2], "secret"),
    "a filter": graph([0, 1, 2], outside=True),
    "NULL": graph([0, 1, 2, 3], universal=[3]),
}


def log_law(counts: tuple[int, ...], plan: QuantilePlan, total: int | None) -> np.ndarray:
    """The log chance of every ordered vector of positions; `total` is the number of records that was published."""
    records = SpreadRecords(np.array(counts[: plan.cells], dtype=np.int64), PARTS)
    gaps = plan.gaps(records.total if total is None else total)
    vectors = np.array(list(itertools.combinations_with_replacement(range(records.positions), plan.levels)))
    ranks = records.ranks(np.arange(records.positions))[vectors] / (2 * PARTS)
    between = np.diff(ranks, axis=1, prepend=0.0, append=float(records.total))
    logs = -np.abs(between - np.array([float(gap) for gap in gaps])).sum(axis=1) / 2 / float(plan.unit)
    assert math.isclose(-logs[-1] * plan.unit, penalty(records, vectors[-1].tolist(), gaps), abs_tol=1e-9)
    return logs - np.logaddexp.reduce(logs)


def worst(plan: QuantilePlan, policy: CellGraph) -> float:
    """The largest log-ratio of an output over all neighbours with up to MOST records, the published number included."""
    totals = (None,) if plan.count_unit is None else (0, 2, 5)
    tables = [t for t in itertools.product(range(MOST + 1), repeat=policy.cells) if sum(t) <= MOST]
    laws = {(table, total): log_law(table, plan, total) for table in tables for total in totals}
    most = 0.0
    for table, (one, two) in itertools.product(tables, policy.edges().tolist()):
        for source, target in ((one, two), (two, one)):
            moved = list(table)
            if source >= 0:
                moved[source] -= 1
            if target >= 0:
                moved[target] += 1
            other = tuple(moved)
            if (other, totals[0]) not in laws:
                continue
            apart = abs(sum(table[:CELLS]) - sum(other[:CELLS]))
            counted = 0.0 if plan.count_unit is None else float(apart / plan.count_unit)
            most = max(most, *(counted + np.max(np.abs(laws[table, t] - laws[other, t])) for t in totals))
    return float(most)


@pytest.mark.parametrize("shares", [HALVES, THIRDS, UNEVEN])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_output_tells_neighbours_apart_by_more(name: str, shares: tuple[Fraction, ...]) -> None:
    plan, policy = QuantilePlan(Fraction(1), shares, CELLS), GRAPHS[name]
    found, loss = worst(plan, policy), plan.loss(policy)
    assert found <= loss + 1e-9
    assert found >= 0.3 * loss
    # The same choice at a quarter of its unit loses more than it would be charged for.
    assert worst(replace(plan, unit=Fraction(1, 4)), policy) > loss


@pytest.mark.parametrize("shares", [HALVES, THIRDS])
@pytest.mark.parametrize("name", ["presence only", "a filter", "presence secret"])
def test_a_published_number_of_records_is_part_of_the_loss(name: str, shares: tuple[Fraction, ...]) -> None:
    plan, policy = QuantilePlan(Fraction(1), shares, CELLS, Fraction(2)), GRAPHS[name]
    found, loss = worst(plan, policy), plan.loss(policy)
    assert 0.5 * loss <= found <= loss + 1e-9
    assert worst(replace(plan, unit=Fraction(1, 4)), policy) > loss


def test_what_the_loss_is() -> None:
    unit = Fraction(1, 2)
    plan, counted = QuantilePlan(unit, THIRDS, CELLS), QuantilePlan(unit, THIRDS, CELLS, Fraction(4))
    assert plan.loss(GRAPHS["full"]) == plan.loss(GRAPHS["line"]) == 4
    assert plan.loss(GRAPHS["presence only"]) == 2 * Fraction(2, 3) / unit
    assert counted.loss(GRAPHS["presence only"]) == 2 + Fraction(1, 4)
    assert counted.loss(GRAPHS["presence secret"]) == 4
    assert QuantilePlan(unit, UNEVEN, CELLS).loss(GRAPHS["presence only"]) == 2 * Fraction(9, 10) / unit
    people = replace(GRAPHS["presence only"], rows_per_person=3)
    assert plan.loss(people) == 3 * plan.loss(GRAPHS["presence only"])


def test_records_that_change_together_count_one_by_one() -> None:
    members, starts = np.arange(CELLS), np.array([0, CELLS])
    moves = ConstraintMoves("atoms", starts, members, np.array([False]), np.array([2]), 2)
    tied = CellGraph(GRAPHS["full"].factors, "record", np.array([False]), "public", 2, moves)
    assert QuantilePlan(Fraction(1), THIRDS, CELLS).loss(tied) == 4


def test_nothing_hidden_is_nothing_to_pay() -> None:
    free = CellGraph((EdgeGraph(CELLS, np.empty((0, 2), dtype=np.int64)),), "record", np.array([False]), "public")
    plan = QuantilePlan(Fraction(1), THIRDS, CELLS)
    assert plan.loss(free) == 0
    with pytest.raises(CannotCertify):
        certify_quantiles(plan, free)


def test_a_certificate_belongs_to_one_plan_and_one_graph() -> None:
    plan, policy = QuantilePlan(Fraction(1), THIRDS, CELLS), GRAPHS["full"]
    certificate = certify_quantiles(plan, policy)
    assert (certificate.epsilon, certificate.witness) == (2, None)
    assert certificate == certify_quantiles(plan, policy)
    others = (
        replace(plan, unit=Fraction(2)),
        replace(plan, shares=HALVES),
        replace(plan, cells=2),
        replace(plan, count_unit=Fraction(1)),
    )
    assert len({one.digest() for one in (plan, *others)}) == 5
    assert certify_quantiles(plan, GRAPHS["line"]).graph_digest != certificate.graph_digest


PARTED = EdgeGraph(2, np.empty((0, 2), dtype=np.int64))
JOINED = EdgeGraph(2, np.array([[0, 1]]))
GROUPED = {
    "everything": (CellGraph((JOINED, EdgeGraph(2, np.array([[0, 1]]))), "record", np.array([False]), "public"), 2),
    "public groups": (CellGraph((PARTED, JOINED), "record", np.array([False]), "public"), 1),
    "groups alone": (CellGraph((JOINED, PARTED), "record", np.array([False]), "public"), 2),
    "one attribute at a time": (CellGraph((JOINED, JOINED), "attribute", np.array([False]), "public"), 2),
    "presence only": (CellGraph((JOINED, JOINED), "record", np.array([False]), "only"), 1),
    "a public group and a filter": (CellGraph((PARTED, JOINED), "record", np.array([True]), "public"), 1),
}
"""Two groups of two values in order, and in how many orders one record may change something."""


@pytest.mark.parametrize("shares", [HALVES, THIRDS, UNEVEN])
@pytest.mark.parametrize("name", GROUPED)
def test_groups_have_choices_of_their_own(name: str, shares: tuple[Fraction, ...]) -> None:
    policy, orders = GROUPED[name]
    plan = QuantilePlan(Fraction(1), shares, 2, None, 2, 1)
    loss, entering = plan.loss(policy), 2 * (1 - min(shares))
    assert worst_of_groups(plan, policy) <= loss + 1e-9
    assert loss == max(2 if policy.has_value_edges else 0, orders * entering if orders == 2 or leaves(policy) else 0)
    # The same choices at an eighth of their unit lose more than they would be charged for.
    assert worst_of_groups(replace(plan, unit=Fraction(1, 8)), policy) > loss


def test_a_move_to_another_group_loses_in_both() -> None:
    plan = QuantilePlan(Fraction(1), UNEVEN, 2, None, 2, 1)
    one, both = (worst_of_groups(plan, GROUPED[name][0]) for name in ("presence only", "groups alone"))
    assert both > 1.4 * one


def worst_of_groups(plan: QuantilePlan, policy: CellGraph) -> float:
    """The largest log-ratio of an output over all neighbours; groups are chosen for independently."""
    tables = [table for table in itertools.product(range(MOST + 1), repeat=4) if sum(table) <= MOST]
    laws = {row: log_law(row, plan, None) for row in itertools.product(range(MOST + 1), repeat=2)}
    most = 0.0
    for table, (one, two) in itertools.product(tables, policy.edges().tolist()):
        moved = tuple(count + (place == two) - (place == one) for place, count in enumerate(table))
        if min(moved) < 0 or sum(moved) > MOST:
            continue
        apart = [laws[table[at : at + 2]] - laws[moved[at : at + 2]] for at in (0, 2)]
        most = max(most, sum(a.max() for a in apart), sum(-a.min() for a in apart))
    return most


def leaves(policy: CellGraph) -> bool:
    return bool(policy.to_zero.any())


def test_groups_are_read_off_the_axes_beside_the_order() -> None:
    policy = CellGraph((JOINED, GRAPHS["NULL"].factors[0]), "record", np.array([False]), "public")
    plan = QuantilePlan(Fraction(1), HALVES, CELLS, None, 2, 1)
    assert plan.by_group(np.arange(8), policy).tolist() == [[0, 1, 2], [4, 5, 6]]
    turned = CellGraph((GRAPHS["NULL"].factors[0], JOINED), "record", np.array([False]), "public")
    assert replace(plan, axis=0).by_group(np.arange(8), turned).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert plan.digest() != replace(plan, axis=0).digest() != QuantilePlan(Fraction(1), HALVES, CELLS).digest()
    places, none = (np.arange(2), np.arange(3)), (np.empty(0, dtype=np.int64),) * 2
    grid = CellGraph((GridGraph(places, places, 1, "l1", none), PARTED), "record", np.array([False]), "public")
    # Groups that move together with the values count as joined.
    assert QuantilePlan(Fraction(1), THIRDS, 3, None, 4, 1).loss(grid) == Fraction(8, 3)
    moves = ConstraintMoves("atoms", np.array([0, 4]), np.arange(4), np.array([False]), np.array([2]), 2)
    tied = CellGraph((PARTED, JOINED), "record", np.array([False]), "public", 2, moves)
    assert QuantilePlan(Fraction(1), THIRDS, 2, None, 2, 1).loss(tied) == 2 * Fraction(8, 3)


def test_shares_follow_the_number_of_records() -> None:
    plan = QuantilePlan(Fraction(1), THIRDS, CELLS)
    assert plan.gaps(7) == (Fraction(7, 3),) * 3
    assert plan.gaps(-4) == (0, 0, 0)
    assert plan.levels == 2


@pytest.mark.parametrize(
    ("unit", "shares", "cells", "count_unit"),
    [
        (Fraction(0), HALVES, 3, None),
        (Fraction(1), HALVES, 3, Fraction(-1)),
        (Fraction(1), (Fraction(1),), 3, None),
        (Fraction(1), (Fraction(1, 2), Fraction(1, 3)), 3, None),
        (Fraction(1), (Fraction(3, 2), Fraction(-1, 2)), 3, None),
        (Fraction(1), HALVES, 0, None),
    ],
)
def test_bad_plans_are_refused(
    unit: Fraction, shares: tuple[Fraction, ...], cells: int, count_unit: Fraction | None
) -> None:
    with pytest.raises(PlanError):
        QuantilePlan(unit, shares, cells, count_unit)


def test_a_graph_of_other_cells_is_refused() -> None:
    axis = GRAPHS["full"].factors[0]
    for wrong in (graph([1, 1]), CellGraph((axis, axis), "record", np.array([False]), "public")):
        for plan in (QuantilePlan(Fraction(1), HALVES, CELLS), QuantilePlan(Fraction(1), HALVES, CELLS, axis=2)):
            with pytest.raises(PlanError):
                plan.loss(wrong)


def test_the_range_is_attained_in_the_limit() -> None:
    """Two records that swap sides of a median: log-odds of two positions move apart by nearly twice one rank."""
    plan = QuantilePlan(Fraction(1), HALVES, CELLS)
    ratios = [
        log_law(table, plan, None) - log_law(moved, plan, None)
        for table, moved in (((3, 0, 1), (2, 0, 2)), ((1, 0, 3), (0, 0, 4)))
    ]
    assert all(float(np.ptp(ratio)) <= 2.0 + 1e-9 for ratio in ratios)
    assert math.isclose(max(float(np.ptp(ratio)) for ratio in ratios), 2.0, rel_tol=0.4)
