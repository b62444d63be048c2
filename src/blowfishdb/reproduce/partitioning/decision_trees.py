"""Section 4.4: a decision tree learnt from released counts of the Adult table, tested on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.engine.present.colours import INK, QUIET
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.plan.problem import Problem
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.releasing import one_record, release
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number, trials_of
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTH = 4
AGES = tuple(range(20, 70, 5))
"""Ages are grouped by these cut points."""
MARRIED = ("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent", "Separated", "Divorced", "Widowed")
METHODS = {"cells": "cells", "kd-tree (BlowfishDB)": "kdtree"}
EXACT, MAJORITY = "exact counts", "most frequent answer"
NEAR = 0.01
CLAIM = "Released counts serve for learning tasks such as decision trees."


@lru_cache(maxsize=1)
def adult() -> tuple[Ints, Ints]:
    """Counts of the training rows and of the test rows: education, marital status, age, sex, and income above 50K."""
    import pyarrow.parquet as parquet

    names = ["education_num", "marital_status", "age", "sex", "income", "split"]
    with as_file(files("blowfishdb") / "data" / "adult.parquet") as path:
        table = parquet.read_table(path, columns=names).to_pydict()
    place = {status: number + 1 for number, status in enumerate(MARRIED)}
    columns = np.stack(
        [
            np.array(table["education_num"]) - 1,
            [place.get(status, 0) for status in table["marital_status"]],
            np.digitize(table["age"], AGES),
            [sex == "Male" for sex in table["sex"]],
            [income.startswith(">50K") for income in table["income"]],
        ]
    )
    shape = (16, len(MARRIED) + 1, len(AGES) + 1, 2, 2)
    cells = np.ravel_multi_index(tuple(columns.astype(np.int64)), shape)
    is_test = np.array([split != "train" for split in table["split"]])
    size = int(np.prod(shape))
    train, test = (np.bincount(cells[part], minlength=size).astype(np.int64) for part in (~is_test, is_test))
    return train.reshape(shape), test.reshape(shape)


def cases(settings: Settings) -> list[Case]:
    """Each way to release, at each alpha."""
    alphas = settings.pick(
        ("1",), ("0.01", "0.03", "0.1", "0.3", "1"), ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")
    )
    return [(EXACT, "0"), (MAJORITY, "0"), *((name, alpha) for name in METHODS for alpha in alphas)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The share of test rows that the tree puts right, over several releases."""
    name, alpha = str(case[0]), str(case[1])
    train, test = adult()
    if name in (EXACT, MAJORITY):
        found = [share_right(tree_labels(train.astype(np.float64), DEPTH if name == EXACT else 0), test)]
    else:
        problem = Problem(one_record(*train.shape), Identity(train.size))
        found = []
        for _ in range(settings.pick(1, 5, 20)):
            cells = release(DATA_AWARE[METHODS[name]], problem, Fraction(alpha), train.reshape(-1)).cells
            found.append(share_right(tree_labels(np.maximum(cells, 0.0).reshape(train.shape), DEPTH), test))
    return [{"method": name, "alpha": float(alpha), "right": float(np.mean(found)), "trials": len(found)}]


def tree_labels(counts: Floats, depth: int) -> Ints:
    """The answer for every cell of a tree that cuts by the attribute that tells most about the label (ID3).

    The last axis is the label. An attribute that was cut has one value left and is not cut again.
    """
    majority = int(np.argmax(counts.sum(axis=tuple(range(counts.ndim - 1)))))
    open_axes = [axis for axis in range(counts.ndim - 1) if counts.shape[axis] > 1]
    if depth == 0 or not open_axes or counts.sum() <= 0:
        return np.full(counts.shape[:-1], majority)
    axis = min(open_axes, key=lambda each: _uncertainty(counts, each))
    parts = [tree_labels(counts.take([value], axis), depth - 1) for value in range(counts.shape[axis])]
    return np.concatenate(parts, axis=axis)


def _uncertainty(counts: Floats, axis: int) -> float:
    """The entropy of the label that is left when the axis is known, times the number of records."""
    others = tuple(each for each in range(counts.ndim - 1) if each != axis)
    table = counts.sum(axis=others)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
    return float(-np.sum(table * np.log(np.maximum(shares, 1e-300))))


def share_right(labels: Ints, test: Ints) -> float:
    """The share of records whose label is the one given to their cell."""
    return float(np.take_along_axis(test, labels[..., None], axis=-1).sum() / test.sum())


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("right", "Share of test rows that the tree puts right", tuple(rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        own = {name: matching(rows, method=name) for name in distinct(rows, "method") if name in METHODS}
        lines(
            axes, {name: [(number(row, "alpha"), number(row, "right")) for row in each] for name, each in own.items()}
        )
        for name, colour, style in ((EXACT, INK, "--"), (MAJORITY, QUIET, ":")):
            axes.axhline(number(matching(rows, method=name)[0], "right"), color=colour, linestyle=style, label=name)
        plain(axes, "α", "share of test rows put right", log_x=True)
        legend_below(figure, axes)

    title = "Partitioning, Section 4.4: a decision tree from released counts, Adult"
    trials = f"mean of {trials_of(row for row in rows if row['method'] in METHODS)}"
    return Result((table,), (Picture("right", title, trials, draw, (7.0, 4.0)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether trees from released counts are nearly as good as from exact ones, at the largest and smallest alpha."""
    exact, majority = (number(matching(rows, method=name)[0], "right") for name in (EXACT, MAJORITY))
    alphas = sorted({number(row, "alpha") for row in rows if row["method"] in METHODS})
    best = {a: max(number(row, "right") for row in matching(rows, alpha=a)) for a in alphas}
    enough = next((alpha for alpha in alphas if best[alpha] >= exact - NEAR), None)
    said = f"from α = {enough:g} on" if enough is not None else "at no α tried"
    why = (
        f"A tree of depth {DEPTH} puts {exact:.1%} of the test rows right from exact counts and {majority:.1%} without "
        f"any; from released counts it comes within a point of that {said}, and at α = {alphas[0]:g} it reaches "
        f"{best[alphas[0]]:.1%}."
    )
    return Verdict(CLAIM, how_it_holds([best[alphas[-1]] >= exact - NEAR, best[alphas[0]] > majority]), why)


PROCEDURE = Procedure(cases, measure, conclude)
