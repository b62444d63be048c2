"""Figures 9 to 16 of the partitioning paper: heights, thresholds, α and the number of queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from papers.baselines.spatial import KdThresholds, hierarchical_kdtree, printed_kdtree
from papers.charts import COARSE, legend_below, lines, plain, simple_ticks
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
    matching,
    number,
    one,
    trials_of,
)
from papers.partitioning.census import (
    ALGORITHMS,
    ALPHA,
    CELLS,
    ERRORS,
    HIERARCHICAL,
    OURS,
    PRINTED,
    TREE,
    census,
    errors,
    interactive,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figures 9 and 10: the error of the hierarchical kd-tree by its height, absolute and relative.

PAPER_BEST, HEIGHTS_NEAR = 13, 2
HEIGHTS_CLAIM = (
    "The error of the hierarchical kd-tree is least at a height of about 13, for absolute and relative counts."
)
HEIGHTS_KINDS = {"absolute": "Figure 9: absolute count", "relative": "Figure 10: relative count"}


def heights_cases(settings: Settings) -> list[Case]:
    """Each height, and 0 for our kd-tree, which needs none."""
    heights = settings.pick((2, 6), (2, 4, 6, 8, 10, 11, 12, 13, 14, 15, 16), tuple(range(1, 19)))
    return [(height,) for height in (0, *heights)]


def heights_measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error at one height."""
    height = int(str(case[0]))
    answers = partial(hierarchical_kdtree, height=height) if height else ALGORITHMS[OURS]
    measured = errors(settings, answers, ALPHA, settings.pick(1, 6, 20))
    return [
        {"data": census(settings).label, "algorithm": HIERARCHICAL if height else OURS, "height": height, **measured}
    ]


def heights_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", f"Error of a random rectangle by height, α = {float(ALPHA):g}", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        own, (ours,) = matching(rows, algorithm=HIERARCHICAL), matching(rows, algorithm=OURS)
        for axes, (kind, title) in zip(panels, HEIGHTS_KINDS.items(), strict=True):
            points = [(number(row, "height"), number(row, kind)) for row in own]
            level = number(ours, kind)
            lines(axes, {HIERARCHICAL: points, f"{OURS}, any height": [(points[0][0], level), (points[-1][0], level)]})
            plain(axes, "height of the tree", ERRORS[kind], title, log_y=True)
        legend_below(figure, panels[0])

    title = f"Partitioning, Figures 9 and 10: hierarchical kd-tree, {rows[0]['data']}, α = {float(ALPHA):g}"
    return Result(
        (table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (8.4, 3.8)),), heights_judge(rows)
    )


def heights_judge(rows: Sequence[Row]) -> Verdict:
    """Whether the best height is about the paper's for both kinds."""
    own, (ours,) = matching(rows, algorithm=HIERARCHICAL), matching(rows, algorithm=OURS)
    best = {kind: min(own, key=lambda row: number(row, kind)) for kind in HEIGHTS_KINDS}
    heights = {kind: int(number(row, "height")) for kind, row in best.items()}
    ratio = min(number(best[kind], kind) / number(ours, kind) for kind in HEIGHTS_KINDS)
    why = (
        f"The least error is at height {heights['absolute']} (absolute) and {heights['relative']} (relative): low "
        "trees leave uneven boxes, high ones share the budget among many levels. The best height has "
        f"{ratio:.3g} times the error of a kd-tree that cuts by predicted error and needs no height."
    )
    return Verdict(
        HEIGHTS_CLAIM, how_it_holds([abs(height - PAPER_BEST) <= HEIGHTS_NEAR for height in heights.values()]), why
    )


HEIGHTS_PROCEDURE = Procedure(heights_cases, heights_measure, heights_conclude)


# Figures 11 and 12: the error of the printed kd-tree by its two thresholds, absolute and relative.

NO_LIMIT = "none"
MUCH = 1.5
THRESHOLDS_KINDS = {"absolute": "Figure 11: absolute count", "relative": "Figure 12: relative count"}
THRESHOLDS_CLAIM = "The threshold ξ0 on the records of a box significantly affects the error, absolute and relative."


def thresholds_cases(settings: Settings) -> list[Case]:
    """Each pair of thresholds, and one case for our kd-tree, which needs none."""
    records = settings.pick((1000.0,), (100.0, 1000.0, 4000.0, 16_000.0, 64_000.0), (100.0, 300.0, *_POWERS))
    uneven = settings.pick(("5000",), ("1000", "5000", "20000", NO_LIMIT), ("1000", "2000", "5000", "20000", NO_LIMIT))
    pairs = ((xi_0, xi_1) for xi_0 in records for xi_1 in uneven)
    return [*((PRINTED, xi_0, xi_1) for xi_0, xi_1 in pairs), (OURS, 0.0, NO_LIMIT)]


_POWERS = tuple(1000.0 * 2**power for power in range(7))


def thresholds_measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error for one pair of thresholds."""
    name, xi_0, xi_1 = str(case[0]), float(str(case[1])), str(case[2])
    limits = KdThresholds(xi_0, math.inf if xi_1 == NO_LIMIT else float(xi_1))
    answers = partial(printed_kdtree, thresholds=limits) if name == PRINTED else ALGORITHMS[OURS]
    measured = errors(settings, answers, ALPHA, settings.pick(1, 4, 20))
    return [{"data": census(settings).label, "algorithm": name, "xi_0": xi_0, "xi_1": xi_1, **measured}]


def thresholds_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", f"Error of a random rectangle by thresholds, α = {float(ALPHA):g}", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        own, (ours,) = matching(rows, algorithm=PRINTED), matching(rows, algorithm=OURS)
        for axes, (kind, title) in zip(panels, THRESHOLDS_KINDS.items(), strict=True):
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
    return Result(
        (table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (8.8, 3.9)),), thresholds_judge(rows)
    )


def thresholds_judge(rows: Sequence[Row]) -> Verdict:
    """How far the error moves with each threshold while the other is loosest."""
    own, (ours,) = matching(rows, algorithm=PRINTED), matching(rows, algorithm=OURS)
    loosest = distinct(own, "xi_1")[-1]
    moved = {kind: _spread(matching(own, xi_1=loosest), kind) for kind in THRESHOLDS_KINDS}
    most = max(number(row, "xi_0") for row in own)
    other = max(_spread(matching(own, xi_0=most), kind) for kind in THRESHOLDS_KINDS)
    best = min(min(number(row, kind) for row in own) / number(ours, kind) for kind in THRESHOLDS_KINDS)
    why = (
        f"With ξ1 at its loosest the error moves by a factor of {moved['absolute']:.3g} (absolute) and "
        f"{moved['relative']:.3g} (relative) with ξ0; with ξ0 at its loosest ξ1 moves it {other:.3g} times. "
        f"The best pair, which nobody knows before looking, has {best:.3g} times the error of a kd-tree that cuts by "
        "predicted error."
    )
    return Verdict(THRESHOLDS_CLAIM, how_it_holds([spread >= MUCH for spread in moved.values()]), why)


def _spread(rows: Sequence[Row], kind: str) -> float:
    values = [number(row, kind) for row in rows]
    return max(values) / min(values)


THRESHOLDS_PROCEDURE = Procedure(thresholds_cases, thresholds_measure, thresholds_conclude)


# Figures 13 and 14: the error of every algorithm by the privacy parameter, absolute and relative.

ALPHAS_KINDS = {"absolute": "Figure 13: absolute count", "relative": "Figure 14: relative count"}
RIVALS = (CELLS, HIERARCHICAL)
ALPHAS_CLAIM = (
    "The kd-tree has less error than cells and the hierarchical kd-tree at every α, and by more for relative counts."
)


def alphas_cases(settings: Settings) -> list[Case]:
    """Each algorithm at each alpha."""
    alphas = settings.pick(("0.05",), ("0.01", "0.05", "0.2", "1"), ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"))
    return [(name, alpha) for name in ALGORITHMS for alpha in alphas]


def alphas_measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error."""
    name, alpha = str(case[0]), str(case[1])
    measured = errors(settings, ALGORITHMS[name], Fraction(alpha), settings.pick(1, 6, 20))
    return [{"data": census(settings).label, "algorithm": name, "alpha": float(alpha), **measured}]


def alphas_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", "Error of a random rectangle by algorithm and α", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for axes, (kind, title) in zip(panels, ALPHAS_KINDS.items(), strict=True):
            own = {name: matching(rows, algorithm=name) for name in ALGORITHMS}
            lines(axes, {n: [(number(row, "alpha"), number(row, kind)) for row in each] for n, each in own.items()})
            plain(axes, "α", ERRORS[kind], title, log_x=True, log_y=True)
        legend_below(figure, panels[0], columns=5)

    title = f"Partitioning, Figures 13 and 14: error by α, {rows[0]['data']}, one record more or less"
    return Result(
        (table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (9.0, 4.0)),), alphas_judge(rows)
    )


def alphas_judge(rows: Sequence[Row]) -> Verdict:
    """Whether the printed kd-tree always wins, whether its gain is larger for relative counts, and what ours does."""
    gains = {kind: ratios(rows, kind, PRINTED) for kind in ALPHAS_KINDS}
    wins = {kind: sum(gain > 1 for gain in each) for kind, each in gains.items()}
    worst = {name: max(1 / gain for kind in ALPHAS_KINDS for gain in ratios(rows, kind, name)) for name in (OURS, TREE)}
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
    return Verdict(
        ALPHAS_CLAIM, how_it_holds([wins["absolute"] == number_of, wins["relative"] == number_of, more]), why
    )


def ratios(rows: Sequence[Row], kind: str, name: str) -> list[float]:
    """For each alpha and rival, the rival's error over that of the algorithm."""
    alphas = sorted({number(row, "alpha") for row in rows})
    return [
        one(rows, kind, algorithm=rival, alpha=alpha) / one(rows, kind, algorithm=name, alpha=alpha)
        for rival in RIVALS
        for alpha in alphas
    ]


ALPHAS_PROCEDURE = Procedure(alphas_cases, alphas_measure, alphas_conclude)


# Figures 15 and 16: from how many queries on one release beats answering each query by itself.

INTERACTIVE = "each query by itself"
QUERIES_KINDS = {"absolute": "Figure 15: absolute count", "relative": "Figure 16: relative count"}
PAPER = {"absolute": 3, "relative": 7}
QUERIES_NEAR = 3.0
"""A crossing is about the paper's when it is within this factor of it."""
RELEASES = (CELLS, PRINTED, OURS)
QUERIES_CLAIM = (
    "One kd-tree release beats answering query by query from about 3 queries on (absolute) and about 7 (relative)."
)


def queries_cases(settings: Settings) -> list[Case]:
    """How many queries share the budget, and the releases, which do not care."""
    counts = settings.pick((1, 10), (1, 2, 3, 5, 7, 10, 20, 40, 80), (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 40, 80))
    return [*((INTERACTIVE, count) for count in counts), *((name, 0) for name in RELEASES)]


def queries_measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error."""
    name, queries = str(case[0]), int(str(case[1]))
    if queries:
        releases = max(2, settings.pick(20, 2000, 20_000) // queries)
        measured = errors(settings, interactive, ALPHA, releases, queries)
    else:
        measured = errors(settings, ALGORITHMS[name], ALPHA, settings.pick(1, 8, 20))
    return [{"data": census(settings).label, "algorithm": name, "queries": queries, **measured}]


def queries_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", f"Error of a random rectangle by number of queries, α = {float(ALPHA):g}", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for axes, (kind, title) in zip(panels, QUERIES_KINDS.items(), strict=True):
            points = [(number(row, "queries"), number(row, kind)) for row in matching(rows, algorithm=INTERACTIVE)]
            series = {INTERACTIVE: points}
            for name in distinct(rows, "algorithm")[1:]:
                (row,) = matching(rows, algorithm=name)
                series[name] = [(points[0][0], number(row, kind)), (points[-1][0], number(row, kind))]
            lines(axes, series)
            plain(axes, "number of queries", ERRORS[kind], title, log_x=True, log_y=True)
        legend_below(figure, panels[0])

    title = f"Partitioning, Figures 15 and 16: one release against the interactive model, {rows[0]['data']}"
    return Result(
        (table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (8.8, 3.9)),), queries_judge(rows)
    )


def queries_judge(rows: Sequence[Row]) -> Verdict:
    """Where the curves cross, and whether that is about where the paper saw it."""
    crossings = {name: {kind: crossing(rows, kind, name) for kind in QUERIES_KINDS} for name in (PRINTED, OURS)}
    printed, ours = crossings[PRINTED], crossings[OURS]
    why = (
        f"With α = {float(ALPHA):g} the printed kd-tree wins from {_words(printed['absolute'])} queries (absolute) and "
        f"{_words(printed['relative'])} (relative), one that cuts by predicted error from {_words(ours['absolute'])} "
        f"and {_words(ours['relative'])}; where it lies depends on α and on how the data fill the boxes."
    )
    near = [
        crossed is not None and PAPER[kind] / QUERIES_NEAR <= crossed <= PAPER[kind] * QUERIES_NEAR
        for kind, crossed in printed.items()
    ]
    return Verdict(QUERIES_CLAIM, how_it_holds([all(crossed is not None for crossed in printed.values()), *near]), why)


def crossing(rows: Sequence[Row], kind: str, name: str) -> float | None:
    """From how many queries on the release has less error, between the numbers tried; None if it never has."""
    (row,) = matching(rows, algorithm=name)
    level = number(row, kind)
    points = [(number(each, "queries"), number(each, kind)) for each in matching(rows, algorithm=INTERACTIVE)]
    for (before, low), (after, high) in zip([(0.0, 0.0), *points], points, strict=False):
        if high > level:
            return before + (after - before) * (level - low) / (high - low)
    return None


def _words(crossed: float | None) -> str:
    return "no tried number of" if crossed is None else f"about {crossed:.0f}"


QUERIES_PROCEDURE = Procedure(queries_cases, queries_measure, queries_conclude)
