"""People by age and income, rectangles and errors of the partitioning experiments; average queries (Figure 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Rectangles
from blowfishdb.plan.plan import Problem
from blowfishdb.present.chart import INK
from papers.baselines.noise import noisy, one_record, release
from papers.baselines.spatial import KdThresholds, hierarchical_kdtree, printed_kdtree
from papers.charts import COLOURS, MARKS, legend_below, plain
from papers.data import Histogram, generator, histogram
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
    how_it_holds,
    matching,
    number,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What the partitioning experiments share: people by age and income, random rectangles, and two kinds of error.

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
    table = histogram(settings, "CENSUS")
    corner = settings.pick(16, max(table.counts.shape), max(table.counts.shape))
    return Histogram(table.name, table.counts[:corner, :corner], table.origin)


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


# Figure 8: the average age of the people with each income, from released counts.

METHODS = {"cells": "cells", "kd-tree (BlowfishDB)": "kdtree"}
LITTLE, MOST = 1.0, 0.9
"""A difference of a year is light; most incomes are nine of ten."""
CLAIM = "Average ages by income from released counts differ only lightly from the true ones."


def cases(settings: Settings) -> list[Case]:
    """Each way to release the counts, at two levels of privacy."""
    return [(name, alpha) for name in METHODS for alpha in settings.pick(("1",), ("0.05", "1"), ("0.05", "1"))]


def measure(settings: Settings, case: Case) -> list[Row]:
    """For each income the true average and the released one."""
    name, alpha = str(case[0]), str(case[1])
    table = census(settings)
    shape = table.counts.shape
    problem = Problem(one_record(*shape), Identity(table.counts.size))
    cells = release(DATA_AWARE[METHODS[name]], problem, Fraction(alpha), table.counts.reshape(-1)).cells
    truth, seen = averages(table.counts.astype(np.float64)), averages(cells.reshape(shape))
    people = table.counts.sum(axis=0)
    return [
        {
            "data": table.label,
            "method": name,
            "alpha": float(alpha),
            "income": income,
            "people": int(people[income]),
            "original": float(truth[income]),
            "released": float(seen[income]),
        }
        for income in np.flatnonzero(people).tolist()
    ]


def averages(counts: Floats) -> Floats:
    """The average age by income; counts below 0 count as none, and nobody at all has the middle age."""
    kept = np.maximum(counts, 0.0)
    ages = FIRST_AGE + np.arange(counts.shape[0])
    people = kept.sum(axis=0)
    return np.asarray(np.where(people > 0, ages @ kept / np.maximum(people, 1e-300), ages.mean()))


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("averages", "Average age by income, original and released", tuple(rows))
    alphas = sorted({number(row, "alpha") for row in rows})

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(alphas), sharey=True, squeeze=False)[0]
        for axes, alpha in zip(panels, alphas, strict=True):
            shown = matching(rows, alpha=alpha)
            truth = matching(shown, method=distinct(shown, "method")[0])
            income = [number(row, "income") for row in truth]
            axes.plot(income, [number(row, "original") for row in truth], color=INK, linewidth=1.4, label="original")
            for look, name in enumerate(distinct(shown, "method")):
                own = [number(row, "released") for row in matching(shown, method=name)]
                axes.plot(income, own, MARKS[look], color=COLOURS[look], markersize=3, label=name)
            plain(axes, "income (class)", "average age (years)" if axes is panels[0] else "", f"α = {alpha:g}")
        legend_below(figure, panels[0])

    title = f"Partitioning, Figure 8: average age by income, {rows[0]['data']}"
    return Result((table,), (Picture("averages", title, "one release each", draw, (9.0, 3.8)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether nine of ten incomes are within a year, for cells at each alpha."""
    shares = {}
    for alpha in sorted({number(row, "alpha") for row in rows}):
        for name in distinct(rows, "method"):
            shares[name, alpha] = share_within(matching(rows, method=name, alpha=alpha))
    shown = ", ".join(f"{share:.0%} ({name}, α = {alpha:g})" for (name, alpha), share in shares.items())
    worst = max(rows, key=_off)
    far, people = _off(worst), number(worst, "people")
    why = (
        f"Within a year of the true average are {shown} of the incomes, and the largest difference is {far:.3g} years, "
        f"at an income that {people:,.0f} people have: every one of its cells carries noise, however few they are."
    )
    cells = [share >= MOST for (name, _), share in shares.items() if name == "cells"]
    return Verdict(CLAIM, how_it_holds(cells), why)


def share_within(rows: Sequence[Row]) -> float:
    """The share of incomes whose average is off by a year at most."""
    return sum(_off(row) <= LITTLE for row in rows) / len(rows)


def _off(row: Row) -> float:
    return abs(number(row, "released") - number(row, "original"))


PROCEDURE = Procedure(cases, measure, conclude)
