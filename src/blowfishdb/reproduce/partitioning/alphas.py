"""Figures 13 and 14: the error of every algorithm by the privacy parameter, absolute and relative."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.partitioning.census import (
    ALGORITHMS,
    CELLS,
    ERRORS,
    HIERARCHICAL,
    OURS,
    PRINTED,
    TREE,
    census,
    errors,
)
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import geometric_mean, matching, number, one, trials_of
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {"absolute": "Figure 13: absolute count", "relative": "Figure 14: relative count"}
RIVALS = (CELLS, HIERARCHICAL)
CLAIM = (
    "The kd-tree has less error than cells and the hierarchical kd-tree at every α, and by more for relative counts."
)


def cases(settings: Settings) -> list[Case]:
    """Each algorithm at each alpha."""
    alphas = settings.pick(("0.05",), ("0.01", "0.05", "0.2", "1"), ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"))
    return [(name, alpha) for name in ALGORITHMS for alpha in alphas]


def measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error."""
    name, alpha = str(case[0]), str(case[1])
    found = errors(settings, ALGORITHMS[name], Fraction(alpha), settings.pick(1, 6, 20))
    return [{"data": census(settings).label, "algorithm": name, "alpha": float(alpha), **found}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", "Error of a random rectangle by algorithm and α", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
            own = {name: matching(rows, algorithm=name) for name in ALGORITHMS}
            lines(axes, {n: [(number(row, "alpha"), number(row, kind)) for row in each] for n, each in own.items()})
            plain(axes, "α", ERRORS[kind], title, log_x=True, log_y=True)
        legend_below(figure, panels[0], columns=5)

    title = f"Partitioning, Figures 13 and 14: error by α, {rows[0]['data']}, one record more or less"
    return Result((table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (9.0, 4.0)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether the printed kd-tree always wins, whether its gain is larger for relative counts, and what ours does."""
    gains = {kind: ratios(rows, kind, PRINTED) for kind in KINDS}
    wins = {kind: sum(gain > 1 for gain in each) for kind, each in gains.items()}
    worst = {name: max(1 / gain for kind in KINDS for gain in ratios(rows, kind, name)) for name in (OURS, TREE)}
    number_of = len(gains["absolute"])
    largest = max(number(row, "alpha") for row in rows)
    is_lost = one(rows, "absolute", algorithm=PRINTED, alpha=largest) > one(
        rows, "absolute", algorithm=CELLS, alpha=largest
    )
    lost = ": where α is large its uneven boxes cost more than the noise they save" if is_lost else ""
    why = (
        f"As printed, with fixed thresholds, the kd-tree beats its two rivals in {wins['absolute']} of {number_of} "
        f"cases (absolute) and {wins['relative']} (relative){lost}. A kd-tree that cuts by predicted error is never "
        f"worse than {worst[OURS]:.3g} times the better rival, and an adaptive tree never worse than "
        f"{worst[TREE]:.3g} times."
    )
    more = geometric_mean(gains["relative"]) > geometric_mean(gains["absolute"])
    return Verdict(CLAIM, how_it_holds([wins["absolute"] == number_of, wins["relative"] == number_of, more]), why)


def ratios(rows: Sequence[Row], kind: str, name: str) -> list[float]:
    """For each alpha and rival, the rival's error over that of the algorithm."""
    alphas = sorted({number(row, "alpha") for row in rows})
    return [
        one(rows, kind, algorithm=rival, alpha=alpha) / one(rows, kind, algorithm=name, alpha=alpha)
        for rival in RIVALS
        for alpha in alphas
    ]


PROCEDURE = Procedure(cases, measure, conclude)
