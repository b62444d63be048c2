"""Figures 11 and 12: the error of the printed kd-tree by its two thresholds, absolute and relative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from blowfishdb.mechanisms.spatial.kd_cuts import KdThresholds
from blowfishdb.reproduce.baselines.printed_kdtree import printed_kdtree
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.partitioning.census import ALGORITHMS, ALPHA, ERRORS, OURS, census, errors
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number, trials_of
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.ticks import COARSE, simple_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED = "kd-tree as printed"
NO_LIMIT = "none"
MUCH = 1.5
KINDS = {"absolute": "Figure 11: absolute count", "relative": "Figure 12: relative count"}
CLAIM = "The threshold ξ0 on the records of a box significantly affects the error, absolute and relative."


def cases(settings: Settings) -> list[Case]:
    """Each pair of thresholds, and one case for our kd-tree, which needs none."""
    records = settings.pick((1000.0,), (100.0, 1000.0, 4000.0, 16_000.0, 64_000.0), (100.0, 300.0, *_POWERS))
    uneven = settings.pick(("5000",), ("1000", "5000", "20000", NO_LIMIT), ("1000", "2000", "5000", "20000", NO_LIMIT))
    pairs = ((xi_0, xi_1) for xi_0 in records for xi_1 in uneven)
    return [*((PRINTED, xi_0, xi_1) for xi_0, xi_1 in pairs), (OURS, 0.0, NO_LIMIT)]


_POWERS = tuple(1000.0 * 2**power for power in range(7))


def measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error for one pair of thresholds."""
    name, xi_0, xi_1 = str(case[0]), float(str(case[1])), str(case[2])
    limits = KdThresholds(xi_0, math.inf if xi_1 == NO_LIMIT else float(xi_1))
    answers = partial(printed_kdtree, thresholds=limits) if name == PRINTED else ALGORITHMS[OURS]
    found = errors(settings, answers, ALPHA, settings.pick(1, 4, 20))
    return [{"data": census(settings).label, "algorithm": name, "xi_0": xi_0, "xi_1": xi_1, **found}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", f"Error of a random rectangle by thresholds, α = {float(ALPHA):g}", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        own, (ours,) = matching(rows, algorithm=PRINTED), matching(rows, algorithm=OURS)
        for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
            series = {
                f"ξ1 = {xi_1}": [(number(row, "xi_0"), number(row, kind)) for row in matching(own, xi_1=xi_1)]
                for xi_1 in distinct(own, "xi_1")
            }
            ends = [number(own[0], "xi_0"), number(own[-1], "xi_0")]
            lines(axes, {**series, f"{OURS}, no thresholds": [(end, number(ours, kind)) for end in ends]})
            plain(axes, "ξ0, records of a box", ERRORS[kind], title, log_x=True, log_y=True)
            simple_ticks(axes, COARSE)
        legend_below(figure, panels[0], columns=5)

    title = (
        f"Partitioning, Figures 11 and 12: thresholds of the printed kd-tree, {rows[0]['data']}, α = {float(ALPHA):g}"
    )
    return Result((table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (8.8, 3.9)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """How far the error moves with each threshold while the other is loosest."""
    own, (ours,) = matching(rows, algorithm=PRINTED), matching(rows, algorithm=OURS)
    loosest = distinct(own, "xi_1")[-1]
    moved = {kind: _spread(matching(own, xi_1=loosest), kind) for kind in KINDS}
    most = max(number(row, "xi_0") for row in own)
    other = max(_spread(matching(own, xi_0=most), kind) for kind in KINDS)
    best = min(min(number(row, kind) for row in own) / number(ours, kind) for kind in KINDS)
    why = (
        f"With ξ1 at its loosest the error moves by a factor of {moved['absolute']:.3g} (absolute) and "
        f"{moved['relative']:.3g} (relative) with ξ0; with ξ0 at its loosest ξ1 moves it {other:.3g} times. "
        f"The best pair, which nobody knows before looking, has {best:.3g} times the error of a kd-tree that cuts by "
        "predicted error."
    )
    return Verdict(CLAIM, how_it_holds([spread >= MUCH for spread in moved.values()]), why)


def _spread(rows: Sequence[Row], kind: str) -> float:
    found = [number(row, kind) for row in rows]
    return max(found) / min(found)


PROCEDURE = Procedure(cases, measure, conclude)
