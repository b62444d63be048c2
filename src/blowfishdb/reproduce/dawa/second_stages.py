"""Figure 6: other ways to measure the buckets, on four workloads."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.reproduce.baselines.printed_dawa import PrintedDawa
from blowfishdb.reproduce.charts import dots, legend_below, plain, width_for
from blowfishdb.reproduce.dawa.algorithms import answers_of
from blowfishdb.reproduce.dawa.histograms import paper_histogram
from blowfishdb.reproduce.dawa.workloads import KINDS, Kind, workload
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.given_data import others
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, mean_and_error, one, trials_of
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON = Fraction(1, 10)
HISTOGRAMS = ("NETTRACE", "SEARCHLOGS", "HEPTH")
"""The paper shows three, from easy to hard."""
GREEDY, UNIFORM, GEOMETRIC = "DAWA as printed, sound", "partition + uniform", "partition + geometric"
LAPLACE, OURS = "partition + Laplace", "dawa (BlowfishDB)"
MECHANISMS: dict[str, DataAware] = {
    GREEDY: PrintedDawa(),
    UNIFORM: PrintedDawa(second="uniform"),
    GEOMETRIC: PrintedDawa(second="geometric"),
    LAPLACE: PrintedDawa(second="laplace"),
    OURS: Dawa(),
}
NEAR_BEST = 1.15
SAME = 0.15
"""Errors of few trials that differ by less are called the same."""


def cases(settings: Settings) -> list[Case]:
    """One per algorithm, workload and histogram."""
    data = (*HISTOGRAMS, *others(settings, axes=1))
    return [(name, kind, each) for name in MECHANISMS for kind in KINDS for each in data]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The error of one workload."""
    name, data = str(case[0]), str(case[2])
    kind: Kind = next(kind for kind in KINDS if kind == case[1])
    found = paper_histogram(settings, data)

    def trial(place: int) -> float:
        asked = workload(settings, kind, found.counts.size, place % 5)
        answers = answers_of(MECHANISMS[name], found.counts, EPSILON, asked)
        return float(np.abs(answers - asked.dot(found.counts)).mean())

    trials = settings.pick(1, 5, 15)
    return [{"workload": kind, "data": found.label, "algorithm": name, **mean_and_error(trial, trials)}]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether the paper's weights are near the best, beat the geometric ones, and are Laplace on the identity."""
    del settings
    data = distinct(rows, "data")

    def error(name: str, kind: str, each: str) -> float:
        return one(rows, "error", workload=kind, data=each, algorithm=name)

    others = (UNIFORM, GEOMETRIC, LAPLACE)
    behind = max(
        error(GREEDY, kind, each) / min(error(name, kind, each) for name in others) for kind in KINDS for each in data
    )
    geometric = min(
        error(GEOMETRIC, "uniform intervals", each) / error(GREEDY, "uniform intervals", each) for each in data
    )
    laplace = max(abs(error(GREEDY, "identity", each) / error(LAPLACE, "identity", each) - 1) for each in data)
    ours = max(error(OURS, kind, each) / error(GREEDY, kind, each) for kind in KINDS for each in data)
    verdict = Verdict(
        "DAWA's weights do very well in all cases, beat geometric ones on uniform intervals, and are those of the "
        "Laplace mechanism on the identity workload.",
        how_it_holds([behind <= NEAR_BEST, geometric > 1, laplace <= SAME]),
        f"At worst DAWA's weights have {behind:.2f} times the error of the best alternative; geometric ones have at "
        f"least {geometric:.2f} times theirs on uniform intervals, and on the identity they differ from Laplace by at "
        f"most {100 * laplace:.0f} %; our dawa has at most {ours:.2f} times the printed form's error.",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 2).flat
        for axes, kind in zip(panels, KINDS, strict=True):
            plain(axes, "", "mean absolute error (records)", kind, log_y=True)
            dots(axes, data, {name: [error(name, kind, each) for each in data] for name in MECHANISMS})
        legend_below(figure, axes, 3)

    title = "DAWA Figure 6: ways to measure the buckets, epsilon 0.1"
    return Result(
        (Table("errors", "Error of four workloads, epsilon 0.1", tuple(rows)),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (width_for(data, 9.0), 7.0)),),
        verdict,
    )


PROCEDURE = Procedure(cases, measure, conclude)
