"""Which grid of nodes to measure for k-means: by predicted error, from public numbers alone (docs/kmeans.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import AccuracyError, TooLarge
from blowfishdb.mechanisms.nodes.grids import TOTAL_BITS, Grid, Kind, blocks_of, make_grid
from blowfishdb.model.points import Points
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.node_loss import calibrate_nodes
from blowfishdb.plan.node_plan import NodePlan

PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
"""Spacings that are tried: the longest column over these."""
MOST_NODES = 2**14
LEAST_TOTAL = 2**12
NOISE_COST = 0.3
SPACING_COST: dict[Kind, float] = {"weights": 0.5, "cells": 2.5}
SPACING_POWER = 4.0


@dataclass(frozen=True, eq=False)
class Offer:
    """A certified grid and the excess that is predicted for it: 0.1 means an objective 10 % above the best one."""

    grid: Grid
    plan: NodePlan
    certificate: Certificate
    predicted: float

    @property
    def scale(self) -> float:
        """The scale of the noise on each node, in records."""
        return noise_scale(self.plan)


def offers(points: Points, epsilon: Fraction, rows: int, clusters: int) -> tuple[Offer, ...]:
    """The grids that were considered, the best first; AccuracyError when the noise sampler serves none of them."""
    blocks, span = blocks_of(points), max(float(np.ptp(points.positions(column))) for column in range(len(points.axes)))
    kinds: tuple[Kind, ...] = ("cells", "weights")
    found: list[Offer] = []
    for kind in kinds:
        total = _total(epsilon, points.graph.rows_per_person) if kind == "weights" else 1
        if kind == "weights" and total < LEAST_TOTAL:
            continue
        for parts in PARTS if span > 0.0 else PARTS[:1]:
            try:
                grid = make_grid(points, blocks, kind, span / parts if span > 0.0 else math.inf, total)
            except TooLarge:
                break
            if grid.plan.nodes > MOST_NODES and parts > 1:
                break
            plan, certificate = calibrate_nodes(grid.plan, points.graph, epsilon)
            if plan.unit is not None and not MIN_SCALE <= plan.unit <= MAX_SCALE:
                continue
            noise, spacing = predicted_excess(grid, plan, span, rows, clusters)
            found.append(Offer(grid, plan, certificate, noise + spacing))
            if noise > 2.0 * min(offer.predicted for offer in found):
                break
    if not found:
        raise AccuracyError(f"epsilon {float(epsilon):g} is beyond the noise that can be drawn; use one nearer to 1")
    return tuple(sorted(found, key=lambda offer: offer.predicted))


def predicted_excess(grid: Grid, plan: NodePlan, span: float, rows: int, clusters: int) -> tuple[float, float]:
    """What noise and spacing are expected to add to the objective, as parts of it.

    Noise that survives the cut at 0 acts like nodes x scale stray records among `rows`; a spacing w costs a power of w
    over the width that a cluster would have if all were alike. The constants were fitted once, on the benchmark's sets.
    """
    width = span * clusters ** (-1.0 / len(plan.axes))
    stray = plan.nodes * noise_scale(plan) / rows
    coarse = (grid.spacing / width) ** SPACING_POWER if width > 0.0 else 0.0
    return NOISE_COST * stray, SPACING_COST[grid.kind] * coarse


def noise_scale(plan: NodePlan) -> float:
    """The scale of the noise on each node, in records."""
    return 0.0 if plan.unit is None else float(plan.unit / plan.total)


def _total(epsilon: Fraction, rows_per_person: int) -> int:
    """The finest weights whose noise can still be drawn: twice a record's weight over epsilon is the largest scale."""
    room = MAX_SCALE * epsilon / (4 * rows_per_person)
    return int(min(2**TOTAL_BITS, 2 ** math.floor(math.log2(room)))) if room >= 1 else 0
