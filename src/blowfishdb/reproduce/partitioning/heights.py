"""Figures 9 and 10: the error of the hierarchical kd-tree by its height, absolute and relative."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from blowfishdb.reproduce.baselines.hierarchical_kdtree import hierarchical_kdtree
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.partitioning.census import ALGORITHMS, ALPHA, ERRORS, OURS, census, errors
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import matching, number, trials_of
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TREE = "hierarchical kd-tree"
PAPER_BEST, NEAR = 13, 2
CLAIM = "The error of the hierarchical kd-tree is least at a height of about 13, for absolute and relative counts."
KINDS = {"absolute": "Figure 9: absolute count", "relative": "Figure 10: relative count"}


def cases(settings: Settings) -> list[Case]:
    """Each height, and 0 for our kd-tree, which needs none."""
    heights = settings.pick((2, 6), (2, 4, 6, 8, 10, 11, 12, 13, 14, 15, 16), tuple(range(1, 19)))
    return [(height,) for height in (0, *heights)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error at one height."""
    height = int(str(case[0]))
    answers = partial(hierarchical_kdtree, height=height) if height else ALGORITHMS[OURS]
    found = errors(settings, answers, ALPHA, settings.pick(1, 6, 20))
    return [{"data": census(settings).label, "algorithm": TREE if height else OURS, "height": height, **found}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", f"Error of a random rectangle by height, α = {float(ALPHA):g}", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        own, (ours,) = matching(rows, algorithm=TREE), matching(rows, algorithm=OURS)
        for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
            points = [(number(row, "height"), number(row, kind)) for row in own]
            level = number(ours, kind)
            lines(axes, {TREE: points, f"{OURS}, any height": [(points[0][0], level), (points[-1][0], level)]})
            plain(axes, "height of the tree", ERRORS[kind], title, log_y=True)
        legend_below(figure, panels[0])

    title = f"Partitioning, Figures 9 and 10: hierarchical kd-tree, {rows[0]['data']}, α = {float(ALPHA):g}"
    return Result((table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (8.4, 3.8)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether the best height is about the paper's for both kinds."""
    own, (ours,) = matching(rows, algorithm=TREE), matching(rows, algorithm=OURS)
    best = {kind: min(own, key=lambda row: number(row, kind)) for kind in KINDS}
    heights = {kind: int(number(row, "height")) for kind, row in best.items()}
    ratio = min(number(best[kind], kind) / number(ours, kind) for kind in KINDS)
    why = (
        f"The least error is at height {heights['absolute']} (absolute) and {heights['relative']} (relative): low "
        "trees leave uneven boxes, high ones share the budget among many levels. The best height has "
        f"{ratio:.3g} times the error of a kd-tree that cuts by predicted error and needs no height."
    )
    return Verdict(CLAIM, how_it_holds([abs(height - PAPER_BEST) <= NEAR for height in heights.values()]), why)


PROCEDURE = Procedure(cases, measure, conclude)
