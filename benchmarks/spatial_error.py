"""Error of random rectangles on real grids: every mechanism for two axes against the published code's figures.

Epsilon 0.1, presence `only`, 2000 rectangles with uniform corners, a new workload for each trial, the same for
everybody. `other` is the mean absolute error of the published code on 256 x 256 cells, measured once with three trials;
for trees and `dawa` that is the published DAWA, which is not private at its stated epsilon. On made-up tables of
persons, from another seed than those that constants were chosen on, it runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, read_histograms
from benchmarks.synthetic import GRID_RECORDS, SEED, TABLE_KINDS, grids
from blowfishdb.mechanisms.data_aware import DataAware, gated
from blowfishdb.mechanisms.data_aware.kdtree import KdTree
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.plan.plan import Problem
from papers.baselines.noise import one_record, release
from papers.baselines.spatial import (
    AGRID,
    QUADTREE,
    UGRID,
    AdaptiveGrid,
    KdThresholds,
    Quadtree,
    UniformGrid,
    hierarchical_kdtree,
)
from papers.dawa import inputs
from papers.dawa.rectangles import along_the_curve

EPSILON = Fraction(1, 10)
MECHANISMS: Mapping[str, DataAware] = {
    **DATA_AWARE,
    AGRID: AdaptiveGrid(),
    UGRID: UniformGrid(),
    QUADTREE: Quadtree(),
}
"""Ours, and those that are only compared with."""
RECTANGLES = 2000
TRIALS = 50
SLOW_TRIALS = 15
RESAMPLES = 1000
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "dawa": {"TWITTER": 200, "GOWALLA": 219, "STROKE": 179},
    "adaptive-tree": {"TWITTER": 200, "GOWALLA": 219, "STROKE": 179},
    "gated": {"TWITTER": 200, "GOWALLA": 219, "STROKE": 179},
    "agrid": {"TWITTER": 272, "GOWALLA": 353, "STROKE": 170},
    "ugrid": {"TWITTER": 584, "GOWALLA": 902, "STROKE": 187},
    "quadtree": {"TWITTER": 613, "GOWALLA": 613, "STROKE": 613},
    "cells": {"TWITTER": 902, "GOWALLA": 902, "STROKE": 902},
    "kdtree": {"TWITTER": 1310, "GOWALLA": 46398, "STROKE": 299},
}
"""Mean absolute errors of the published code; its kd-tree is DPCube, its cells are called Identity."""
HELD_TO = {"dawa", "adaptive-tree"}
MADE_UP_DRAWS, MADE_UP_TRIALS = 3, 8
"""Tables of each kind and size, and releases of each."""

Answers = Callable[[Ints, Fraction, Rectangles], Floats]


def run(data: Path | None) -> Iterator[Row]:
    """A row for each mechanism and grid, then geometric means over the grids with a published figure."""
    tables = read_histograms(data, "histograms_2d")
    for name, published in PUBLISHED.items():
        ratios = []
        for table, counts in tables.items():
            errors = trials(released(MECHANISMS[name]), counts, TRIALS if name in HELD_TO else SLOW_TRIALS)
            other = published.get(table) if counts.shape == (256, 256) else None
            ratio = None if other is None else float(errors.mean()) / other
            ratios += [] if ratio is None else [ratio]
            yield Row(f"{name} {table}", float(errors.mean()), other, ratio, note=f"95 % {bounds(errors)}")
        if ratios:
            yield Row(f"{name} geomean", ratio=float(np.exp(np.mean(np.log(ratios)))), note="ours / published code")
    yield from kd_trees(tables)


def headline(data: Path | None) -> Iterator[Row]:
    """What `auto` takes for boxes, on made-up tables and on each grid with a published figure; it is to be no worse."""
    yield from made_up()
    tables = read_histograms(data, "histograms_2d")
    for table, other in PUBLISHED[gated.NAME].items():
        if table in tables:
            ours = float(trials(released(MECHANISMS[gated.NAME]), tables[table], TRIALS).mean())
            yield Row(f"{gated.NAME} {table}", ours, other, ours / other, aim=1.0)


def made_up() -> Iterator[Row]:
    """A row for each kind of table of persons and number of records: the mean over some tables of each."""
    rivals: list[Answers] = [released(MECHANISMS[gated.NAME]), partial(along_the_curve, inputs.published)]
    drawn = [grids(kinds=TABLE_KINDS, seed=SEED + 1 + draw) for draw in range(MADE_UP_DRAWS)]
    for place, alike in enumerate(zip(*drawn, strict=True)):
        errors = [[float(trials(rival, grid.counts, MADE_UP_TRIALS).mean()) for grid in alike] for rival in rivals]
        ours, other = (float(np.exp(np.mean(np.log(each)))) for each in errors)
        records = GRID_RECORDS[place % len(GRID_RECORDS)]
        yield Row(f"{alike[0].kind}, {records:.0e} records, of the published code", ours, other, ours / other, aim=1.0)


def kd_trees(tables: Mapping[str, Ints]) -> Iterator[Row]:
    """The partitioning paper's comparison: cuts by predicted error, by thresholds, and a median for each level."""
    noise = float(2 / EPSILON)
    rivals: dict[str, Answers] = {
        "kdtree, thresholds": released(KdTree(choose=KdThresholds(records=20 * noise, unevenness=np.inf).choose)),
        "hierarchical kd-tree": hierarchical_kdtree,
    }
    for table, counts in tables.items():
        ours = float(trials(released(DATA_AWARE["kdtree"]), counts, SLOW_TRIALS).mean())
        for name, rival in rivals.items():
            other = float(trials(rival, counts, SLOW_TRIALS).mean())
            yield Row(f"kdtree {table} over {name}", ours, other, ours / other)


def trials(answers: Answers, counts: Ints, count: int) -> Floats:
    """The mean absolute error of each trial."""
    found = np.empty(count)
    flat = np.ascontiguousarray(counts.reshape(-1))
    for seed in range(count):
        boxes = rectangles((counts.shape[0], counts.shape[1]), RECTANGLES, seed)
        found[seed] = np.abs(answers(flat, EPSILON, boxes) - boxes.dot(flat)).mean()
    return found


def released(mechanism: DataAware) -> Answers:
    """How one release answers the boxes."""

    def answers(counts: Ints, epsilon: Fraction, boxes: Rectangles) -> Floats:
        return release(mechanism, Problem(one_record(*boxes.grid), boxes), epsilon, counts).answers

    return answers


def rectangles(shape: tuple[int, int], count: int, seed: int) -> Rectangles:
    """Rectangles whose first and last row and column are uniform."""
    generator = np.random.default_rng(seed)
    ends = np.stack([np.sort(generator.integers(0, size, (count, 2)), axis=1) for size in shape], axis=1)
    return Rectangles(shape, ends[:, :, 0], ends[:, :, 1] + 1)


def bounds(errors: Floats) -> str:
    """The bootstrap interval of the mean."""
    means = np.mean(np.random.default_rng(0).choice(errors, (RESAMPLES, errors.size)), axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{low:.4g}..{high:.4g}"
