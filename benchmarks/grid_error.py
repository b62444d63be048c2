"""Error of random rectangles at epsilon 1: policies on a grid against the best differentially private plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, measure
from blowfishdb.errors import Declined
from blowfishdb.mechanisms import edge_transform, identity, kronecker
from blowfishdb.mechanisms.strategy import Mechanism
from blowfishdb.model.graphs import CellGraph, CliqueGraph, Factor, GridGraph, WindowGraph
from blowfishdb.model.workload import Rectangles
from blowfishdb.noise.distribution import variance
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Problem

SIZES = (64, 256)
THETAS = (1, 4, 16)
BOXES = 2000
SEED = 20_240_601
NONE = np.array([], dtype=np.int64)


def run(data: Path | None) -> Iterator[Row]:
    """Expected RMSE at 64x64 and 256x256; ratio = ours / best DP plan, below 1 where the policy helps.

    Blocks whose cells are all joined are part of the widest threshold: the best plan for them, of which the best found
    is shown, bounds what any plan for the threshold can reach.
    """
    del data
    for size in SIZES:
        boxes = random_boxes(size)
        full = (_window(size, size - 1),) * 2
        best, seconds, name = _best(
            _record(full), boxes, {"identity": identity.propose, "kronecker": kronecker.propose}
        )
        yield Row(f"{size}x{size} full graphs (DP)", best, best, 1.0, seconds, note=name)
        both: dict[str, Mechanism] = {"kronecker": kronecker.propose, "edge-transform": edge_transform.propose}
        for theta in THETAS:
            near = (_window(size, theta),) * 2
            ours, seconds, name = _best(_record(near), boxes, both)
            yield Row(f"{size}x{size} record, theta {theta}", ours, best, ours / best, seconds, note=name)
        blocks = CliqueGraph(np.arange(size) // (THETAS[-1] + 1))
        ours, seconds, name = _best(_record((blocks, blocks)), boxes, {"kronecker": kronecker.propose})
        case = f"{size}x{size} blocks of {THETAS[-1] + 1}"
        yield Row(case, ours, best, ours / best, seconds, note=f"{name}; part of theta {THETAS[-1]}")
        places = np.arange(size)
        grid = GridGraph((places, places), (places, places), 1, "l1", (NONE, NONE))
        for mechanism, propose in both.items():
            ours, seconds, name = _best(_record((grid,)), boxes, {mechanism: propose})
            yield Row(f"{size}x{size} L1 grid, one step", ours, best, ours / best, seconds, note=name)


def random_boxes(size: int) -> Rectangles:
    """Rectangles with uniform corners, none of them empty."""
    rng = np.random.default_rng(SEED)
    corners = np.sort(rng.integers(0, size + 1, (2 * BOXES, 2, 2)), axis=2)
    kept = corners[np.all(corners[:, :, 0] < corners[:, :, 1], axis=1)][:BOXES]
    return Rectangles((size, size), kept[:, :, 0], kept[:, :, 1])


def _best(graph: CellGraph, boxes: Rectangles, mechanisms: dict[str, Mechanism]) -> tuple[float, float, str]:
    """The least expected RMSE among the mechanisms that serve, the seconds its proposal took, and its name."""
    problem, found = Problem(graph, boxes), []
    for name, propose in mechanisms.items():
        try:
            strategy, seconds, _ = measure(partial(propose, problem))
        except Declined:
            continue
        plan = strategy.plan(Fraction(1))
        unit = float(certify(plan, graph).epsilon)
        spread = strategy.answer_variances(variance(unit / plan.weights))
        found.append((math.sqrt(float(spread.mean())), seconds, name))
    return min(found)


def _window(size: int, theta: int) -> WindowGraph:
    return WindowGraph(np.minimum(np.arange(size) + theta, size - 1), NONE)


def _record(factors: tuple[Factor, ...]) -> CellGraph:
    return CellGraph(factors, "record", np.zeros(1, dtype=np.bool_), "public")
