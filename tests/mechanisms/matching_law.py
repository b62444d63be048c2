"""Exact output probabilities of small matchings with one-sided noise, from the costs and scales alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.errata.exact import Noise

TRIPLES = ((0, 1, 2), (0, 2, 1), (1, 2, 0))
"""The pair that is joined, and the cell that stays single."""
FOURS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


def three_cells(
    counts: Sequence[int], saving: int, single: Noise, pair: Noise, reach: tuple[int, int]
) -> NDArray[np.float64]:
    """Of all singles, 01|2, 02|1 and 12|0; noise is `cost + Z`, ties go to the first of these.

    Noise beyond `reach` (of single cells, of pairs) is left out. Pairs are compared given the noise of the cells.
    """
    steps = np.arange(-reach[0], reach[0] + 1)
    mass = single.mass(steps)
    kept = np.flatnonzero(mass > 0)
    grid = np.stack(np.meshgrid(*[steps[kept]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.prod([mass[grid[:, cell] + reach[0]] for cell in range(3)], axis=0)
    alone = grid.sum(axis=1)
    # Score of each joint candidate without the noise of its pair, given the noise of the cells.
    base = [abs(counts[i] - counts[j]) - saving + grid[:, k] for i, j, k in TRIPLES]
    found = [float(weight @ np.prod([pair.at_least(alone - own) for own in base], axis=0))]
    noises = np.arange(-reach[1], reach[1] + 1)
    chances = pair.mass(noises)
    for mine in range(3):
        total = 0.0
        for noise, chance in zip(noises[chances > 0], chances[chances > 0], strict=True):
            score = base[mine] + noise
            wins = (score < alone).astype(np.float64)
            for other in range(3):
                if other != mine:
                    wins *= pair.at_least(score - base[other] + int(other < mine))
            total += chance * float(weight @ wins)
        found.append(total)
    return np.array(found)


def four_cells(counts: Sequence[int], pair: Noise, reach: int) -> NDArray[np.float64]:
    """Of the three perfect matchings, where joining is worth so much that nothing stays single."""
    steps = np.arange(-reach, reach + 1)
    both = np.convolve(pair.mass(steps), pair.mass(steps))
    cost = [sum(abs(counts[i] - counts[j]) for i, j in matching) for matching in FOURS]
    # at_least[k]: the chance that a sum of two noises is at least k - 2 reach.
    at_least = np.append(np.cumsum(both[::-1])[::-1], 0.0)
    place = np.arange(both.size)
    found = []
    for mine in range(3):
        chance = both.copy()
        for other in set(range(3)) - {mine}:
            bound = place + cost[mine] - cost[other] + int(other < mine)
            chance *= at_least[np.clip(bound, 0, both.size)]
        found.append(float(chance.sum()))
    return np.array(found)
