"""Selects buckets by cutting blocks of cells, from the top down, where their counts deviate most from their median."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.errors import PlanError
from blowfishdb.model.arrays import Bools, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.encoding import digest
from blowfishdb.plan.refinement import RefinementNoise

FAN_OUT = 4
"""Parts a block is cut into."""

LARGE_SCALE = 8.0
"""From this noise scale on the whole-number thresholds cost what real-valued ones would."""

LEAST_STEP = 1.001
"""While the loss is above what is allowed, the noise scale grows at least by this ratio."""

CLOSE, TIGHTENINGS = 0.99, 8
"""A loss of this part of what is allowed is close enough; so many steps are made towards it at most."""


@dataclass(frozen=True)
class CutRule:
    """Where thresholds start, how much they rise a level and how far below them scores count, in noise scales."""

    first: float
    spacing: float
    clip: float

    def __post_init__(self) -> None:
        if self.spacing <= 0 or self.clip < 0:
            raise PlanError("thresholds rise from level to level, and the clip is not negative")


CUT_RULE = CutRule(first=1.0, spacing=3.0, clip=2.0)
"""Found by `python -m benchmarks tune-dawa` on synthetic tables; the noise is scaled to what it costs."""


@dataclass(frozen=True, eq=False)
class L1Refinement:
    """Blocks of 4, 16, 64, ... cells; a block is cut in four where its deviation clearly exceeds what is usual.

    The score of a block is the least sum of |count - c| over all c: it moves by at most 1 with one record, and a part
    of a block never scores more than the block. Publishes the first cell of each block that was kept.
    """

    cells: int
    noise: RefinementNoise

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """How many cells the blocks of each level have, largest first."""
        return block_sizes(self.cells)

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of publishing the buckets."""
        return self.noise.epsilon(graph)

    def digest(self) -> str:
        """A hash of everything the loss and the noise depend on."""
        return digest(("l1 refinement", self.cells, self.noise.digest()))

    def choose(self, counts: Ints, draws: Ints) -> Ints:
        """The first cell of each bucket, in increasing order."""
        is_start = np.zeros(self.cells, dtype=np.bool_)
        is_start[:: self.blocks[0]] = True
        drawn = np.split(draws, np.cumsum(self.noise.levels)[:-1])
        reached: Bools = np.ones(int(self.noise.levels[0]), dtype=np.bool_)
        for level, size in enumerate(self.blocks):
            reached = reached & self.noise.cut(level, deviations(counts, size), drawn[level])
            part = size // FAN_OUT
            starts = np.flatnonzero(np.repeat(reached, FAN_OUT)) * part
            is_start[starts[starts < self.cells]] = True
            reached = np.repeat(reached, FAN_OUT)[: -(-self.cells // part)]
        return np.flatnonzero(is_start)


def l1_refinement(cells: int, graph: CellGraph, epsilon: Fraction, rule: CutRule = CUT_RULE) -> L1Refinement:
    """The refinement that costs at most epsilon, with as little noise as the search finds."""
    levels = np.array([-(-cells // block) for block in block_sizes(cells)])
    people = (2 if graph.has_value_edges else 1) * graph.rows_per_person
    scale = float(people / epsilon)
    if scale >= LARGE_SCALE:
        scale *= expected_loss(levels.size, rule)
    while True:
        spacing, clip = max(1, math.ceil(rule.spacing * scale)), math.floor(rule.clip * scale)
        noise = RefinementNoise(_short(scale), levels, math.floor(rule.first * scale), spacing, clip)
        loss = noise.epsilon(graph)
        if loss <= epsilon:
            return L1Refinement(cells, _tightened(noise, graph, epsilon))
        scale *= max(float(loss / epsilon), LEAST_STEP)


def _tightened(noise: RefinementNoise, graph: CellGraph, epsilon: Fraction) -> RefinementNoise:
    """The same thresholds with less noise, where rounding them to whole numbers left something of epsilon.

    Noise smaller by the unused part costs no more than epsilon, since every term of the loss but the first shrinks.
    """
    for _ in range(TIGHTENINGS):
        used = float(noise.epsilon(graph) / epsilon)
        closer = replace(noise, unit=_short(used * float(noise.unit)))
        if used > CLOSE or closer.epsilon(graph) > epsilon:
            return noise
        noise = closer
    return noise


def expected_loss(levels: int, rule: CutRule) -> float:
    """What a refinement costs for large noise scales, in units of one comparison."""
    gaps = np.maximum(rule.spacing * np.arange(1, levels) - rule.clip, 0.0)
    return 1.0 + float(np.sum(np.exp(-gaps) / (2 - np.exp(-gaps))))


def _short(scale: float) -> Fraction:
    """The scale as a fraction of few digits."""
    return Fraction(scale).limit_denominator(10**6)


def block_sizes(cells: int) -> tuple[int, ...]:
    """Powers of the fan-out from the largest below the number of cells down to the fan-out itself."""
    sizes = [FAN_OUT]
    while sizes[-1] * FAN_OUT < cells:
        sizes.append(sizes[-1] * FAN_OUT)
    return tuple(reversed(sizes))


def deviations(counts: Ints, size: int) -> Ints:
    """For each block of `size` cells (the last may be shorter) the least sum of |count - c| over all c."""
    whole = counts.size // size * size
    parts = [counts[:whole].reshape(-1, size)] if whole else []
    if whole < counts.size:
        parts.append(counts[whole:].reshape(1, -1))
    found = []
    for part in parts:
        ordered = np.sort(part, axis=1)
        half = part.shape[1] // 2
        upper = ordered[:, part.shape[1] - half :].sum(axis=1)
        found.append(upper - ordered[:, :half].sum(axis=1))
    return np.concatenate(found)
