"""Selections of groups: what they lose on every edge, found again from their law on all small tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.errors import CannotCertify, PlanError
from blowfishdb.model.graphs import CellGraph, ConstraintMoves, EdgeGraph, Presence
from blowfishdb.plan.program import GroupSelection, certify_selection

GROUPS, MOST, TAIL = 3, 3, 60
ALL = np.array([[0, 1], [0, 2], [1, 2]])
NONE = np.empty((0, 2), dtype=np.int64)


def graph(pairs: np.ndarray, presence: Presence = "public", outside: bool = False) -> CellGraph:
    return CellGraph((EdgeGraph(GROUPS, pairs),), "record", np.array([outside]), presence)


GRAPHS = {
    "every two": (graph(ALL), 2),
    "a line": (graph(ALL[[0, 2]]), 2),
    "presence only": (graph(ALL, "only"), 1),
    "presence too": (graph(ALL, "secret"), 2),
    "a filter": (graph(NONE, outside=True), 1),
}
TABLES = [table for table in itertools.product(range(MOST + 1), repeat=GROUPS) if sum(table) <= MOST]


def first_chances(counts: tuple[int, ...], left: tuple[int, ...], unit: float) -> dict[int, float]:
    """The chance of each group that is left to have the largest noisy count, ties to the first."""
    q = math.exp(-1.0 / unit)
    chance = dict.fromkeys(left, 0.0)
    for level in range(TAIL * max(1, int(unit))):
        for winner in left:
            mine = level - counts[winner]
            if mine < 0:
                continue
            # Others stay below the level, those declared before strictly so.
            below = 1.0
            for other in left:
                if other != winner:
                    room = level - counts[other] - (1 if other < winner else 0)
                    below *= 1.0 - q ** (room + 1) if room >= 0 else 0.0
            chance[winner] += (1.0 - q) * q**mine * below
    return chance


def law(plan: GroupSelection, counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The chance of each list."""
    unit = float(plan.unit)
    if plan.above is not None:
        q = math.exp(-1.0 / unit)
        ways: dict[tuple[int, ...], float] = {}
        for listed in itertools.product((False, True), repeat=GROUPS):
            chance = 1.0
            for count, is_in in zip(counts, listed, strict=True):
                short = plan.above - count
                upper = q**short / (1 + q) if short > 0 else 1 - q ** (1 - short) / (1 + q)
                chance *= upper if is_in else 1 - upper
            ways[tuple(np.flatnonzero(listed).tolist())] = chance
        return ways
    ways = {(): 1.0}
    for _ in range(plan.most or 0):
        longer = {}
        for chosen, chance in ways.items():
            left = tuple(group for group in range(GROUPS) if group not in chosen)
            for group, part in first_chances(counts, left, unit).items():
                longer[*chosen, group] = chance * part
        ways = longer
    return ways


def neighbours(policy: CellGraph) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for table, (one, two) in itertools.product(TABLES, policy.edges().tolist()):
        moved = tuple(count + (place == two) - (place == one) for place, count in enumerate(table))
        if min(moved) >= 0:
            yield table, moved


def worst(plan: GroupSelection, policy: CellGraph) -> float:
    laws = {table: law(plan, table) for table in {one for pair in neighbours(policy) for one in pair}}
    return max(
        abs(math.log(laws[one][listed] / laws[two][listed])) for one, two in neighbours(policy) for listed in laws[one]
    )


@pytest.mark.parametrize("plan", [GroupSelection(Fraction(2), GROUPS, 1), GroupSelection(Fraction(2), GROUPS, 2)])
@pytest.mark.parametrize("name", GRAPHS)
def test_no_list_tells_neighbours_apart_by_more(plan: GroupSelection, name: str) -> None:
    policy, changes = GRAPHS[name]
    loss = plan.loss(policy)
    assert loss == Fraction(changes * (plan.most or 1), 2)
    assert 0.5 * loss <= worst(plan, policy) <= loss + 1e-9
    # At a third of its scale the same choice loses more than it would be charged for.
    assert worst(replace(plan, unit=plan.unit / 3), policy) > loss


@pytest.mark.parametrize("name", GRAPHS)
def test_no_list_above_a_count_tells_neighbours_apart_by_more(name: str) -> None:
    policy, changes = GRAPHS[name]
    plan = GroupSelection(Fraction(2), GROUPS, above=2)
    assert plan.loss(policy) == Fraction(changes, 2)
    assert 0.9 * plan.loss(policy) <= worst(plan, policy) <= plan.loss(policy) + 1e-9
    assert worst(replace(plan, unit=Fraction(1)), policy) > plan.loss(policy)


def test_what_is_chosen() -> None:
    counts = np.array([5, 7, 7])
    noise = np.array([[0, 0, 0], [9, 9, 0]])
    assert GroupSelection(Fraction(1), 3, 2).choose(counts, noise.reshape(-1)).tolist() == [1, 0]
    assert GroupSelection(Fraction(1), 3, above=7).choose(counts, np.array([2, -1, 0])).tolist() == [0, 2]
    assert GroupSelection(Fraction(1), 3, above=70).choose(counts, np.zeros(3, dtype=np.int64)).size == 0
    ranked, listed = (GroupSelection(Fraction(1), 3, 2).noise, GroupSelection(Fraction(1), 3, above=1).noise)
    assert [(one.law, one.size) for one in (*ranked, *listed)] == [("geometric", 6), ("laplace", 3)]


NUMBERS = st.lists(st.integers(-30, 30), min_size=4, max_size=4)


@given(NUMBERS, st.lists(NUMBERS, min_size=3, max_size=3))
def test_a_choice_follows_from_the_sums_of_counts_and_noise(counts: list[int], noise: list[list[int]]) -> None:
    held, draws = np.array(counts), np.array(noise)
    for plan, drawn in (
        (GroupSelection(Fraction(1), 4, 3), draws),
        (GroupSelection(Fraction(1), 4, above=5), draws[0]),
    ):
        rest = np.zeros_like(held)
        assert plan.choose(held, drawn.reshape(-1)).tolist() == plan.choose(rest, (drawn + held).reshape(-1)).tolist()


def test_persons_and_constraints_count_move_by_move() -> None:
    plan = GroupSelection(Fraction(1), GROUPS, 1)
    assert plan.loss(replace(GRAPHS["presence only"][0], rows_per_person=3)) == 3
    moves = ConstraintMoves("atoms", np.array([0, GROUPS]), np.arange(GROUPS), np.array([False]), np.array([2]), 2)
    tied = CellGraph(GRAPHS["every two"][0].factors, "record", np.array([False]), "public", 2, moves)
    assert plan.loss(tied) == 4
    certificate = certify_selection(plan, GRAPHS["every two"][0])
    assert (certificate.epsilon, certificate.witness) == (2, None)
    with pytest.raises(CannotCertify):
        certify_selection(plan, graph(NONE))
    with pytest.raises(PlanError):
        GroupSelection(Fraction(1), 2, 1).loss(GRAPHS["every two"][0])
    digests = {plan.digest(), replace(plan, most=2).digest(), GroupSelection(Fraction(1), GROUPS, above=1).digest()}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("unit", "groups", "most", "above"),
    [(0, 3, 1, None), (1, 3, None, None), (1, 3, 1, 1), (1, 0, None, 1), (1, 3, 4, None), (1, 3, 0, None)],
)
def test_bad_selections_are_refused(unit: int, groups: int, most: int | None, above: int | None) -> None:
    with pytest.raises(PlanError):
        GroupSelection(Fraction(unit), groups, most, above)
