"""Figure 8: the average age of the people with each income, from released counts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.engine.present.colours import INK
from blowfishdb.mechanisms.data_aware.table import DATA_AWARE
from blowfishdb.model.arrays import Floats
from blowfishdb.model.workload import Identity
from blowfishdb.plan.problem import Problem
from blowfishdb.reproduce.charts import COLOURS, MARKS, legend_below, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.partitioning.census import FIRST_AGE, census
from blowfishdb.reproduce.releasing import one_record, release
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    found = census(settings)
    shape = found.counts.shape
    problem = Problem(one_record(*shape), Identity(found.counts.size))
    cells = release(DATA_AWARE[METHODS[name]], problem, Fraction(alpha), found.counts.reshape(-1)).cells
    truth, seen = averages(found.counts.astype(np.float64)), averages(cells.reshape(shape))
    people = found.counts.sum(axis=0)
    return [
        {
            "data": found.label,
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
    said = ", ".join(f"{share:.0%} ({name}, α = {alpha:g})" for (name, alpha), share in shares.items())
    worst = max(rows, key=_off)
    far, people = _off(worst), number(worst, "people")
    why = (
        f"Within a year of the true average are {said} of the incomes, and the largest difference is {far:.3g} years, "
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
