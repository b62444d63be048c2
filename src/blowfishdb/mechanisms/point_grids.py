"""Grids on which records spread their weight, and the choice among them by predicted error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from blowfishdb.errors import AccuracyError, TooLarge
from blowfishdb.model.cells import Points
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.points import PointAxis, PointPlan, calibrate_points, components_of

GridKind = Literal["cells", "weights"]
STEP_BITS, TOTAL_BITS = 16, 20
PRODUCT_BITS = 56
"""Steps between nodes are powers of two whose product over the columns stays below this."""
MOST_BLOCKS, MOST_RUNS = 2**14, 2**10


@dataclass(frozen=True, eq=False)
class PointGrid:
    """A plan whose noise level is still to be set, where its nodes lie by column, and which block each belongs to.

    `spacing` is how far apart its nodes really are, at most; a block with one node counts with its length.
    """

    kind: GridKind
    spacing: float
    plan: PointPlan
    positions: tuple[Floats, ...]
    point_blocks: tuple[Ints, ...]


def make_grid(points: Points, blocks: tuple[Ints, ...], kind: GridKind, spacing: float, total: int) -> PointGrid:
    """The grid with nodes about `spacing` apart; a block that is shorter has one node, and none lies between blocks."""
    columns = len(points.axes)
    steps = 1 if kind == "cells" else 2 ** min(STEP_BITS, PRODUCT_BITS // columns)
    made = [_make_axis(points.positions(column), labels, kind, spacing, steps) for column, labels in enumerate(blocks)]
    axes, positions, owners, spacings = zip(*made, strict=True)
    total = 1 if kind == "cells" else min(total, steps**columns)
    exact = () if points.graph.can_vanish else blocks
    return PointGrid(kind, max(spacings), PointPlan(Fraction(1), axes, total, exact), positions, owners)


def _make_axis(
    values: Floats, labels: Ints, kind: GridKind, spacing: float, steps: int
) -> tuple[PointAxis, Floats, Ints, float]:
    """One column: the place of each value, the position and the block of each node, and their real spacing."""
    places = np.empty(values.size, dtype=np.int64)
    positions, owners, offset, widest = [], [], 0, 0.0
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], values.size], strict=True):
        block = values[start:stop]
        length = float(block[-1] - block[0])
        count = node_count(length, kind, spacing)
        part = (block - block[0]) / length if length > 0.0 else np.zeros(block.size)
        if kind == "cells":
            places[start:stop] = offset + np.minimum(np.floor(part * count), count - 1).astype(np.int64)
            where = block[0] + (np.arange(count) + 0.5) * (length / count)
        else:
            gaps = count - 1
            places[start:stop] = offset * steps + np.floor(part * (gaps * steps) + 0.5).astype(np.int64)
            where = np.linspace(block[0], block[-1], count) if gaps else np.array([(block[0] + block[-1]) / 2])
        positions.append(where)
        owners.append(np.full(count, labels[start]))
        offset += count
        widest = max(widest, length / (count if kind == "cells" else max(1, count - 1)))
    return PointAxis(steps, places), np.concatenate(positions), np.concatenate(owners), widest


def node_count(length: float, kind: GridKind, spacing: float) -> int:
    """How many nodes serve a block of this length: cells are at most about the spacing wide, nodes so far apart."""
    parts = round(length / spacing) if math.isfinite(spacing) else 0
    return max(1, parts) if kind == "cells" else parts + 1


def blocks_of(points: Points) -> tuple[Ints, ...]:
    """Runs of values that no hidden move leaves, by column; one run where they are no runs.

    Neighbouring runs are put together where there are too many: no hidden move leaves two runs together either.
    """
    blocks = []
    for labels in components_of(points.graph):
        is_run = bool(np.all(np.diff(labels) >= 0)) and not points.graph.can_vanish
        blocks.append(labels - labels[0] if is_run else np.zeros(labels.size, dtype=np.int64))
    while (
        math.prod(int(labels[-1]) + 1 for labels in blocks) > MOST_BLOCKS or max(int(x[-1]) for x in blocks) > MOST_RUNS
    ):
        widest = max(range(len(blocks)), key=lambda column: int(blocks[column][-1]))
        blocks[widest] = blocks[widest] // 2
    return tuple(blocks)


PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
"""Spacings that are tried: the longest column over these."""
MOST_POINTS = 2**14
LEAST_TOTAL = 2**12
NOISE_COST = 0.3
SPACING_COST: dict[GridKind, float] = {"weights": 0.5, "cells": 2.5}
SPACING_POWER = 4.0


@dataclass(frozen=True, eq=False)
class GridOffer:
    """A certified grid and the excess that is predicted for it: 0.1 means an objective 10 % above the best one."""

    grid: PointGrid
    plan: PointPlan
    certificate: Certificate
    predicted: float

    @property
    def scale(self) -> float:
        """The scale of the noise on each node, in records."""
        return noise_scale(self.plan)


def offers(points: Points, epsilon: Fraction, rows: int, clusters: int) -> tuple[GridOffer, ...]:
    """The grids that were considered, the best first; AccuracyError when the noise sampler serves none of them."""
    blocks, span = blocks_of(points), max(float(np.ptp(points.positions(column))) for column in range(len(points.axes)))
    kinds: tuple[GridKind, ...] = ("cells", "weights")
    listed: list[GridOffer] = []
    for kind in kinds:
        total = _total(epsilon, points.graph.rows_per_person) if kind == "weights" else 1
        if kind == "weights" and total < LEAST_TOTAL:
            continue
        for parts in PARTS if span > 0.0 else PARTS[:1]:
            try:
                grid = make_grid(points, blocks, kind, span / parts if span > 0.0 else math.inf, total)
            except TooLarge:
                break
            if grid.plan.grid_points > MOST_POINTS and parts > 1:
                break
            plan, certificate = calibrate_points(grid.plan, points.graph, epsilon)
            if plan.unit is not None and not MIN_SCALE <= plan.unit <= MAX_SCALE:
                continue
            noise, spacing = predicted_excess(grid, plan, span, rows, clusters)
            listed.append(GridOffer(grid, plan, certificate, noise + spacing))
            if noise > 2.0 * min(offer.predicted for offer in listed):
                break
    if not listed:
        raise AccuracyError(f"epsilon {float(epsilon):g} is beyond the noise that can be drawn; use one closer to 1")
    return tuple(sorted(listed, key=lambda offer: offer.predicted))


def predicted_excess(grid: PointGrid, plan: PointPlan, span: float, rows: int, clusters: int) -> tuple[float, float]:
    """What noise and spacing are expected to add to the objective, as parts of it.

    Noise that survives the cut at 0 acts like nodes x scale stray records among `rows`; a spacing w costs a power of w
    over the width that a cluster would have if all were alike. The constants were fitted once, on the benchmark's sets.
    """
    width = span * clusters ** (-1.0 / len(plan.axes))
    stray = plan.grid_points * noise_scale(plan) / rows
    coarse = (grid.spacing / width) ** SPACING_POWER if width > 0.0 else 0.0
    return NOISE_COST * stray, SPACING_COST[grid.kind] * coarse


def noise_scale(plan: PointPlan) -> float:
    """The scale of the noise on each node, in records."""
    return 0.0 if plan.unit is None else float(plan.unit / plan.total)


def _total(epsilon: Fraction, rows_per_person: int) -> int:
    """The finest weights whose noise can still be drawn: twice a record's weight over epsilon is the largest scale."""
    room = MAX_SCALE * epsilon / (4 * rows_per_person)
    return int(min(2**TOTAL_BITS, 2 ** math.floor(math.log2(room)))) if room >= 1 else 0
