"""What the partitioning experiments share: people by age and income, random rectangles, and two kinds of error."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.mechanisms.spatial.kd_cuts import KdThresholds
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Rectangles
from blowfishdb.plan.problem import Problem
from blowfishdb.reproduce.baselines.drawing import noisy
from blowfishdb.reproduce.baselines.hierarchical_kdtree import hierarchical_kdtree
from blowfishdb.reproduce.baselines.printed_kdtree import printed_kdtree
from blowfishdb.reproduce.data import Histogram, histogram
from blowfishdb.reproduce.random_inputs import generator
from blowfishdb.reproduce.releasing import one_record, release
from blowfishdb.reproduce.settings import Settings

FIRST_AGE = 17
RARE = 0.001
"""A relative error is taken of at least this share of all records: the paper does not say what it does at 0.

Its own relative count divides by the number of all records, a constant, which would only rescale the absolute error.
"""
ALPHA = Fraction(1, 20)
HEIGHT = 12
XI_0, XI_1 = 1000.0, 5000.0
"""The height and the thresholds of the figures that hold them fixed."""

ERRORS = {"absolute": "mean absolute error of a rectangle (people)", "relative": "mean relative error of a rectangle"}
"""What the axes of both kinds of figures are called."""

Boxed = Callable[[Ints, Fraction, Rectangles], Floats]


@lru_cache(maxsize=4)
def census(settings: Settings) -> Histogram:
    """Counts of people, 79 ages by 100 incomes; a tiny run has a corner of it."""
    found = histogram(settings, "CENSUS")
    corner = settings.pick(16, max(found.counts.shape), max(found.counts.shape))
    return Histogram(found.name, found.counts[:corner, :corner], found.origin)


def released(mechanism: DataAware, counts: Ints, epsilon: Fraction, boxes: Rectangles) -> Floats:
    """The answers of one release by the engine's own path, for one record more or less."""
    return release(mechanism, Problem(one_record(*boxes.grid), boxes), epsilon, counts).answers


def interactive(counts: Ints, epsilon: Fraction, boxes: Rectangles) -> Floats:
    """Each box with noise of its own, epsilon being shared among all of them."""
    return noisy(np.asarray(boxes.dot(counts)), boxes.shape[0] / epsilon)


CELLS, HIERARCHICAL, PRINTED = "cells", "hierarchical kd-tree", "kd-tree as printed"
OURS, TREE = "kd-tree (BlowfishDB)", "adaptive tree (BlowfishDB)"
ALGORITHMS: dict[str, Boxed] = {
    CELLS: partial(released, DATA_AWARE["cells"]),
    HIERARCHICAL: partial(hierarchical_kdtree, height=HEIGHT),
    PRINTED: partial(printed_kdtree, thresholds=KdThresholds(XI_0, XI_1)),
    OURS: partial(released, DATA_AWARE["kdtree"]),
    TREE: partial(released, DATA_AWARE["adaptive-tree"]),
}


def rectangles(settings: Settings, shape: tuple[int, ...], count: int, trial: int) -> Rectangles:
    """Boxes whose first and last cell on each axis are uniform; a new set for each trial, the same for everybody."""
    draw = generator(settings.seed, "rectangles", trial)
    ends = np.stack([np.sort(draw.integers(0, size, (count, 2)), axis=1) for size in shape], axis=1)
    return Rectangles(shape, ends[:, :, 0], ends[:, :, 1] + 1)


def errors(settings: Settings, answers: Boxed, epsilon: Fraction, trials: int, queries: int = 500) -> dict[str, float]:
    """The mean absolute error of a rectangle, and the mean error relative to its true count, over several releases."""
    counts = census(settings).counts
    flat = np.ascontiguousarray(counts.reshape(-1))
    absolute, relative = [], []
    for trial in range(trials):
        boxes = rectangles(settings, counts.shape, queries, trial)
        truth = np.asarray(boxes.dot(flat))
        off = np.abs(answers(flat, epsilon, boxes) - truth)
        absolute.append(float(off.mean()))
        relative.append(float((off / np.maximum(truth, RARE * flat.sum())).mean()))
    return {"absolute": float(np.mean(absolute)), "relative": float(np.mean(relative)), "trials": trials}
