"""Thesis on data-dependent histograms, Theorem 5.2: the matching partition when records move."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.errata.exact import TwoSided

MATCHINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


def law(counts: tuple[int, ...], scale: float, reach: int) -> NDArray[np.float64]:
    """The chance of each perfect matching of four cells; noise on every edge, ties to the first matching.

    Leaving cells single costs 1/eps2 more per pair: their chance vanishes as eps2 does, see `chance_of_singles`.
    """
    steps = np.arange(-reach, reach + 1)
    pair = TwoSided(scale).mass(steps)
    both = np.convolve(pair, pair)
    below = np.cumsum(both)
    cost = [sum(abs(counts[i] - counts[j]) for i, j in matching) for matching in MATCHINGS]
    found = []
    for mine in range(3):
        chance = both.copy()
        for other in set(range(3)) - {mine}:
            bound = np.arange(both.size) + cost[other] - cost[mine] - int(other < mine)
            chance *= np.where(bound < 0, 0.0, below[np.clip(bound, 0, both.size - 1)])
        found.append(chance.sum())
    return np.array(found)


def chance_of_singles(largest_gap: int, per_bucket: int, scale: float) -> float:
    """At most the chance that two cells stay single: then z_i + z_j - z_ij exceeds 1/eps2 - |x_i - x_j|."""
    third = (per_bucket - largest_gap) // 3
    return 6 * 3 * 2 * float(TwoSided(scale).at_least(third))


@pytest.mark.parametrize(
    ("epsilon", "counts", "moved", "least"),
    [(2, (5, 0, 15, 20), (4, 0, 16, 20), 1.76), (1, (5, 0, 45, 50), (4, 0, 46, 50), 1.86)],
)
def test_scale_two_over_epsilon_loses_almost_twice_epsilon(
    epsilon: int, counts: tuple[int, ...], moved: tuple[int, ...], least: float
) -> None:
    before, after = (law(table, 2 / epsilon, 400) for table in (counts, moved))
    assert abs(before.sum() - 1) < 1e-9
    negligible = chance_of_singles(50, 1000, 2 / epsilon)
    spent = math.log((before[1] - negligible) / (after[1] + negligible)) / epsilon
    assert least < spent < 2


def test_scale_four_over_epsilon_holds_for_moves_and_two_for_added_records() -> None:
    epsilon = 2
    for scale, changes in (
        (4 / epsilon, [(i, j) for i in range(4) for j in range(4) if i != j]),
        (2 / epsilon, [(None, j) for j in range(4)]),
    ):
        chances: dict[tuple[int, ...], NDArray[np.float64]] = {}
        spent = 0.0
        for table in itertools.product((0, 1, 4), repeat=4):
            for source, target in changes:
                other = list(table)
                other[target] += 1
                if source is not None:
                    other[source] -= 1
                for each in (table, tuple(other)):
                    if each not in chances:
                        chances[each] = law(each, scale, 60)
                ratio = chances[table] / chances[tuple(other)]
                spent = max(spent, float(np.abs(np.log(ratio)).max()) / epsilon)
        assert 0.5 < spent <= 1
