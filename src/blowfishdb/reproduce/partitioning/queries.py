"""Figures 15 and 16: from how many queries on one release beats answering each query by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.partitioning.census import (
    ALGORITHMS,
    ALPHA,
    CELLS,
    ERRORS,
    OURS,
    PRINTED,
    census,
    errors,
    interactive,
)
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number, trials_of
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTERACTIVE = "each query by itself"
KINDS = {"absolute": "Figure 15: absolute count", "relative": "Figure 16: relative count"}
PAPER = {"absolute": 3, "relative": 7}
NEAR = 3.0
"""A crossing is about the paper's when it is within this factor of it."""
RELEASES = (CELLS, PRINTED, OURS)
CLAIM = "One kd-tree release beats answering query by query from about 3 queries on (absolute) and about 7 (relative)."


def cases(settings: Settings) -> list[Case]:
    """How many queries share the budget, and the releases, which do not care."""
    counts = settings.pick((1, 10), (1, 2, 3, 5, 7, 10, 20, 40, 80), (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 40, 80))
    return [*((INTERACTIVE, count) for count in counts), *((name, 0) for name in RELEASES)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """Both kinds of error."""
    name, queries = str(case[0]), int(str(case[1]))
    if queries:
        releases = max(2, settings.pick(20, 2000, 20_000) // queries)
        found = errors(settings, interactive, ALPHA, releases, queries)
    else:
        found = errors(settings, ALGORITHMS[name], ALPHA, settings.pick(1, 8, 20))
    return [{"data": census(settings).label, "algorithm": name, "queries": queries, **found}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    table = Table("errors", f"Error of a random rectangle by number of queries, α = {float(ALPHA):g}", tuple(rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
            asked = [(number(row, "queries"), number(row, kind)) for row in matching(rows, algorithm=INTERACTIVE)]
            series = {INTERACTIVE: asked}
            for name in distinct(rows, "algorithm")[1:]:
                (row,) = matching(rows, algorithm=name)
                series[name] = [(asked[0][0], number(row, kind)), (asked[-1][0], number(row, kind))]
            lines(axes, series)
            plain(axes, "number of queries", ERRORS[kind], title, log_x=True, log_y=True)
        legend_below(figure, panels[0])

    title = f"Partitioning, Figures 15 and 16: one release against the interactive model, {rows[0]['data']}"
    return Result((table,), (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (8.8, 3.9)),), judge(rows))


def judge(rows: Sequence[Row]) -> Verdict:
    """Where the curves cross, and whether that is about where the paper saw it."""
    crossings = {name: {kind: crossing(rows, kind, name) for kind in KINDS} for name in (PRINTED, OURS)}
    printed, ours = crossings[PRINTED], crossings[OURS]
    why = (
        f"With α = {float(ALPHA):g} the printed kd-tree wins from {_words(printed['absolute'])} queries (absolute) and "
        f"{_words(printed['relative'])} (relative), one that cuts by predicted error from {_words(ours['absolute'])} "
        f"and {_words(ours['relative'])}; where it lies depends on α and on how the data fill the boxes."
    )
    near = [found is not None and PAPER[kind] / NEAR <= found <= PAPER[kind] * NEAR for kind, found in printed.items()]
    return Verdict(CLAIM, how_it_holds([all(found is not None for found in printed.values()), *near]), why)


def crossing(rows: Sequence[Row], kind: str, name: str) -> float | None:
    """From how many queries on the release has less error, between the numbers tried; None if it never has."""
    (row,) = matching(rows, algorithm=name)
    level = number(row, kind)
    asked = [(number(each, "queries"), number(each, kind)) for each in matching(rows, algorithm=INTERACTIVE)]
    for (before, low), (after, high) in zip([(0.0, 0.0), *asked], asked, strict=False):
        if high > level:
            return before + (after - before) * (level - low) / (high - low)
    return None


def _words(found: float | None) -> str:
    return "no tried number of" if found is None else f"about {found:.0f}"


PROCEDURE = Procedure(cases, measure, conclude)
