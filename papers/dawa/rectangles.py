"""Figure 7: rectangles on a map, against algorithms made for two dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.data_aware.regions import HilbertCurve
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Intervals, Rectangles
from blowfishdb.plan.plan import Problem
from papers.baselines.histograms import mwem
from papers.baselines.noise import one_record, release
from papers.baselines.printed_dawa import PrintedDawa
from papers.baselines.spatial import AdaptiveGrid, Quadtree, hierarchical_kdtree
from papers.charts import legend_below, lines, plain
from papers.data import Histogram, generator, histogram, others
from papers.dawa.inputs import Answers, answers_of, published
from papers.experiment import (
    Case,
    Picture,
    Procedure,
    Result,
    Row,
    Settings,
    Table,
    Verdict,
    distinct,
    geometric_mean,
    how_it_holds,
    mean_and_error,
    number,
    one,
    trials_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAPS = ("ROADS", "TWITTER")
DEGREES = (21.8, 17.7)
"""Width and height of the paper's map of road intersections."""
SHAPES = ((1.0, 1.0), (5.0, 5.0), (10.0, 10.0), (15.0, 0.2))
EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
PRINTED, PUBLISHED = "DAWA as printed, sound", "DAWA, published noise (not private)"
OURS, TREE = "dawa (BlowfishDB)", "adaptive-tree (BlowfishDB)"
RIVALS = ("QuadTree", "kd-tree (DPCube)", "hierarchical kd-tree", "MWEM")
"""Those of the paper, with a hierarchical kd-tree for its HybridTree; AGrid is younger."""
SLOW = (PRINTED, PUBLISHED)
AS_GOOD = 1.1

Boxed = Callable[[Ints, Fraction, Rectangles], Floats]


def along_the_curve(answers: Answers, counts: Ints, epsilon: Fraction, boxes: Rectangles) -> Floats:
    """An algorithm for intervals on the cells in Hilbert order: each rectangle is a sum of intervals."""
    curve = _curve(boxes.grid[0], boxes.grid[1])
    query, low, high = curve.runs(boxes)
    runs = answers(counts[curve.cell_at], epsilon, Intervals(counts.size, low, high))
    return np.bincount(query, runs, boxes.shape[0]).astype(np.float64)


@lru_cache(maxsize=2)
def _curve(first: int, second: int) -> HilbertCurve:
    return HilbertCurve((first, second))


def on_the_map(mechanism: DataAware, counts: Ints, epsilon: Fraction, boxes: Rectangles) -> Floats:
    """The answers of one release, for one record more or less."""
    return release(mechanism, Problem(one_record(*boxes.grid), boxes), epsilon, counts).answers


ALGORITHMS: dict[str, Boxed] = {
    "QuadTree": partial(on_the_map, Quadtree()),
    "kd-tree (DPCube)": partial(on_the_map, DATA_AWARE["kdtree"]),
    "hierarchical kd-tree": hierarchical_kdtree,
    "MWEM": mwem,
    "AGrid": partial(on_the_map, AdaptiveGrid()),
    PRINTED: partial(along_the_curve, partial(answers_of, PrintedDawa())),
    PUBLISHED: partial(along_the_curve, published),
    OURS: partial(on_the_map, DATA_AWARE["dawa"]),
    TREE: partial(on_the_map, DATA_AWARE["adaptive-tree"]),
}


def cases(settings: Settings) -> list[Case]:
    """One per algorithm and map, slow ones first."""
    maps = (*settings.pick(MAPS[:1], MAPS, MAPS), *others(settings, axes=2))
    return [(name, data) for name in sorted(ALGORITHMS, key=lambda each: each != "MWEM") for data in maps]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The error for every shape and epsilon."""
    name, data = str(case[0]), str(case[1])
    table = map_of(settings, data)
    sides = (table.counts.shape[0], table.counts.shape[1])
    flat = np.ascontiguousarray(table.counts.reshape(-1))
    rows: list[Row] = []
    for shape in SHAPES:
        for epsilon in EPSILONS:

            def trial(place: int, shape: tuple[float, float] = shape, epsilon: Fraction = epsilon) -> float:
                boxes = random_boxes(settings, sides, shape, place)
                return float(np.abs(ALGORITHMS[name](flat, epsilon, boxes) - boxes.dot(flat)).mean())

            head: Row = {
                "data": table.label,
                "cells": table.counts.size,
                "rectangle": f"{shape[0]:g} x {shape[1]:g} degrees",
                "epsilon": float(epsilon),
                "algorithm": name,
            }
            rows.append({**head, **mean_and_error(trial, settings.pick(1, 1, 3 if name in SLOW else 5))})
    return rows


def map_of(settings: Settings, name: str) -> Histogram:
    """The map; a quick run joins cells until no side is longer than 128."""
    table = histogram(settings, name, axes=2)
    most = settings.pick(16, 128, 1024)
    step = -(-max(table.counts.shape) // most)
    kept = table.counts[: table.counts.shape[0] // step * step, : table.counts.shape[1] // step * step]
    coarse = kept.reshape(kept.shape[0] // step, step, kept.shape[1] // step, step).sum(axis=(1, 3))
    return Histogram(name, coarse, table.origin)


def random_boxes(settings: Settings, sides: tuple[int, int], shape: tuple[float, float], trial: int) -> Rectangles:
    """Rectangles of one shape anywhere on the map."""
    draw = generator(settings.seed, "rectangles", str(shape), trial)
    size = [max(1, round(side * part / whole)) for side, part, whole in zip(sides, shape, DEGREES, strict=True)]
    count = settings.pick(10, 200, 600)
    low = np.stack([draw.integers(0, side - own + 1, count) for side, own in zip(sides, size, strict=True)], axis=1)
    return Rectangles(sides, low, low + size)


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether DAWA is as good as the best algorithm for two dimensions, and more so for small epsilon."""
    del settings
    epsilons = sorted(dict.fromkeys(number(row, "epsilon") for row in rows))
    over = {
        base: [
            geometric_mean(
                min(_error(rows, data, shape, epsilon, rival) for rival in RIVALS)
                / _error(rows, data, shape, epsilon, base)
                for data in distinct(rows, "data")
                for shape in distinct(rows, "rectangle")
            )
            for epsilon in epsilons
        ]
        for base in (PRINTED, PUBLISHED, OURS, TREE)
    }
    verdict = Verdict(
        "On maps DAWA does as well as or better than algorithms made for two dimensions, and the gap grows as epsilon "
        "falls.",
        how_it_holds([all(gain >= 1 / AS_GOOD for gain in over[PRINTED]), over[PRINTED][0] > over[PRINTED][-1]]),
        "The best rival's error over DAWA's, from the smallest epsilon to the largest: "
        + "; ".join(f"{_SHORT[base]} {', '.join(f'{gain:.2f}' for gain in gains)}" for base, gains in over.items())
        + ".",
    )
    pictures = tuple(
        Picture(
            f"errors-{place + 1}",
            f"DAWA Figure 7: error of rectangles, {data}",
            f"mean of {trials_of(rows)}",
            partial(_draw, rows, data),
            (9.0, 7.6),
        )
        for place, data in enumerate(distinct(rows, "data"))
    )
    return Result((Table("errors", "Mean absolute error of a rectangle", tuple(rows)),), pictures, verdict)


_SHORT = {
    PRINTED: "as printed with sound noise",
    PUBLISHED: "with the published code's noise (not private)",
    OURS: "our dawa",
    TREE: "our adaptive-tree",
}


def _error(rows: Sequence[Row], data: str, shape: str, epsilon: float, name: str) -> float:
    return one(rows, "error", data=data, rectangle=shape, epsilon=epsilon, algorithm=name)


def _draw(rows: Sequence[Row], data: str, figure: Figure) -> None:
    panels = figure.subplots(2, 2).flat
    for axes, shape in zip(panels, distinct(rows, "rectangle"), strict=True):
        plain(axes, "epsilon", "mean absolute error (records)", shape, log_x=True, log_y=True)
        lines(
            axes,
            {
                name: [(float(epsilon), _error(rows, data, shape, float(epsilon), name)) for epsilon in EPSILONS]
                for name in ALGORITHMS
            },
        )
    legend_below(figure, axes, 3)


PROCEDURE = Procedure(cases, measure, conclude)
