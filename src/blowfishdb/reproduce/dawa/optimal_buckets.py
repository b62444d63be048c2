"""Table 1: how many buckets the optimal partition of each histogram has."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from blowfishdb.reproduce.charts import dots, legend_below, plain, width_for
from blowfishdb.reproduce.dawa.histograms import all_names, paper_histogram
from blowfishdb.reproduce.dawa.partitions import optimal_starts, partition_cost
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import number
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED = {
    "NETTRACE": 22,
    "ADULT": 29,
    "MEDCOST": 20,
    "SEARCHLOGS": 500,
    "INCOME": 1537,
    "PATENT": 1870,
    "HEPTH": 2168,
}
"""Table 1 of the paper."""
COUNTING = Fraction(1, 20)
"""The part of epsilon 0.1 that a bucket's cost assumes for its count: half, although the text says three quarters."""
NEAR = 2.0
"""A count within this factor of the printed one is called the same."""


def cases(settings: Settings) -> list[Case]:
    """One per histogram."""
    return [(name,) for name in all_names(settings)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """Buckets and cost of the optimal partition."""
    name = str(case[0])
    found = paper_histogram(settings, name)
    starts = optimal_starts(found.counts, COUNTING)
    return [
        {
            "data": found.label,
            "cells": found.counts.size,
            "records": int(found.counts.sum()),
            "buckets": starts.size,
            "printed": PRINTED.get(name),
            "cost": partition_cost(found.counts, starts, COUNTING),
        }
    ]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """The table, the bars, and whether the counts are near the printed ones."""
    del settings
    known = [row for row in rows if row["printed"] is not None]
    ratios = [number(row, "buckets") / number(row, "printed") for row in known]
    near = [1 / NEAR <= ratio <= NEAR for ratio in ratios]
    off = [f"{row['data']} has {row['buckets']}" for row, same in zip(known, near, strict=True) if not same]
    why = (
        f"{sum(near)} of {len(known)} counts are within a factor of {NEAR:g} of the printed ones, with 1/0.05 "
        "per bucket (half of epsilon 0.1; the text says three quarters)."
    )
    if off:
        why = f"{why[:-1]}; {', '.join(off)}."
    verdict = Verdict(
        "The optimal partition has tens of buckets on easy histograms and thousands on hard ones.",
        how_it_holds(near),
        why,
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        groups = [str(row["data"]) for row in rows]
        plain(axes, "", "buckets of the optimal partition", log_y=True)
        printed = [None if row["printed"] is None else number(row, "printed") for row in rows]
        dots(axes, groups, {"here": [number(row, "buckets") for row in rows], "the paper's Table 1": printed})
        legend_below(figure, axes)

    return Result(
        (Table("buckets", "Buckets of the optimal partition", tuple(rows)),),
        (
            Picture(
                "buckets",
                "DAWA Table 1: buckets of the optimal partition",
                "without noise",
                draw,
                (width_for(rows, 7.2), 4.2),
            ),
        ),
        verdict,
    )


PROCEDURE = Procedure(cases, measure, conclude)
