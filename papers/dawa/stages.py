"""Figures 4 and 6 of the DAWA paper: each stage on its own, and other ways to measure the buckets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.data_aware.dawa import SELECT_SHARE, Dawa
from papers.baselines.printed_dawa import PrintedDawa
from papers.charts import dots, legend_below, plain, width_for
from papers.data import others
from papers.dawa.comparison import average_error, intervals
from papers.dawa.inputs import (
    EASY,
    HARD,
    KINDS,
    PUBLISHED,
    Answers,
    Kind,
    all_names,
    answers_of,
    paper_histogram,
    published,
    workload,
)
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
    mean_and_error,
    mean_ratio,
    one,
    trials_of,
    without,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figure 4: what each of DAWA's two stages brings on its own.

ISOLATED_EPSILON = Fraction(1, 10)
BOTH, ISOLATED_LAPLACE, ISOLATED_GREEDY = (
    "DAWA as printed, sound",
    "partition + Laplace",
    "greedy scaling without partition",
)
ISOLATED_OURS, OURS_LAPLACE, OURS_ALONE = (
    "dawa (BlowfishDB)",
    "its partition + Laplace",
    "its measurement without partition",
)
ISOLATED_MECHANISMS: dict[str, DataAware] = {
    BOTH: PrintedDawa(),
    ISOLATED_LAPLACE: PrintedDawa(second="laplace"),
    ISOLATED_GREEDY: PrintedDawa(first="cells"),
    ISOLATED_OURS: Dawa(),
    OURS_LAPLACE: PrintedDawa(first="ours", second="laplace", select_share=SELECT_SHARE),
    OURS_ALONE: PrintedDawa(first="cells", second="ours"),
}
ALGORITHMS: dict[str, Answers] = {
    **{name: partial(answers_of, mechanism) for name, mechanism in ISOLATED_MECHANISMS.items()},
    PUBLISHED: published,
}
MUCH_LOWER = 1.5
ALMOST = 1.25


def isolated_cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram."""
    return [(name, data) for name in ALGORITHMS for data in all_names(settings)]


def isolated_measure(settings: Settings, case: Case) -> list[Row]:
    """The error of uniform intervals."""
    name, data = str(case[0]), str(case[1])
    table = paper_histogram(settings, data)

    def trial(place: int) -> float:
        return average_error(
            ALGORITHMS[name], table.counts, ISOLATED_EPSILON, intervals(settings, table.counts.size, place)
        )

    return [
        {"data": table.label, "set": data, "algorithm": name, **mean_and_error(trial, settings.pick(1, 6, 15))},
    ]


def isolated_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether the partition helps on easy data and hardly hurts on hard data, and the weights help on hard data."""
    del settings
    ratio = partial(mean_ratio, rows, "error")
    easy, hard, weights = (
        (ratio(ISOLATED_GREEDY, BOTH, EASY), ratio(OURS_ALONE, ISOLATED_OURS, EASY)),
        (ratio(BOTH, ISOLATED_GREEDY, HARD), ratio(ISOLATED_OURS, OURS_ALONE, HARD)),
        (ratio(ISOLATED_LAPLACE, BOTH, HARD), ratio(OURS_LAPLACE, ISOLATED_OURS, HARD)),
    )
    verdict = Verdict(
        "The partition makes DAWA much better on easy histograms and costs it little on hard ones, where the second "
        "stage makes it much better than partition + Laplace.",
        how_it_holds([easy[0] >= MUCH_LOWER, hard[0] <= ALMOST, weights[0] >= MUCH_LOWER]),
        f"As printed with sound noise: without the partition {easy[0]:.2f} times its error on easy histograms, with it "
        f"{hard[0]:.2f} times the error on hard ones, where Laplace has {weights[0]:.2f} times; for our dawa "
        f"{easy[1]:.2f}, {hard[1]:.2f} and {weights[1]:.2f}; with the published code's noise, which is not private, "
        f"the first two are {ratio(ISOLATED_GREEDY, PUBLISHED, EASY):.2f} and "
        f"{ratio(PUBLISHED, ISOLATED_GREEDY, HARD):.2f}.",
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        data = distinct(rows, "data")
        plain(axes, "", "mean absolute error (records)", log_y=True)
        dots(
            axes, data, {name: [one(rows, "error", data=each, algorithm=name) for each in data] for name in ALGORITHMS}
        )
        legend_below(figure, axes, 3)

    title = "DAWA Figure 4: isolated stages, uniform intervals, epsilon 0.1"
    return Result(
        (Table("errors", "Error of uniform intervals, epsilon 0.1", without(rows, "set")),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (width_for(distinct(rows, "data"), 9.0), 4.8)),),
        verdict,
    )


ISOLATED_PROCEDURE = Procedure(isolated_cases, isolated_measure, isolated_conclude)


# Figure 6: other ways to measure the buckets, on four workloads.

SECOND_EPSILON = Fraction(1, 10)
HISTOGRAMS = ("NETTRACE", "SEARCHLOGS", "HEPTH")
"""The paper shows three, from easy to hard."""
SECOND_GREEDY, UNIFORM, GEOMETRIC = "DAWA as printed, sound", "partition + uniform", "partition + geometric"
SECOND_LAPLACE, SECOND_OURS = "partition + Laplace", "dawa (BlowfishDB)"
SECOND_MECHANISMS: dict[str, DataAware] = {
    SECOND_GREEDY: PrintedDawa(),
    UNIFORM: PrintedDawa(second="uniform"),
    GEOMETRIC: PrintedDawa(second="geometric"),
    SECOND_LAPLACE: PrintedDawa(second="laplace"),
    SECOND_OURS: Dawa(),
}
NEAR_BEST = 1.15
SAME = 0.15
"""Errors of few trials that differ by less are called the same."""


def second_cases(settings: Settings) -> list[Case]:
    """One per algorithm, workload and histogram."""
    data = (*HISTOGRAMS, *others(settings, axes=1))
    return [(name, kind, each) for name in SECOND_MECHANISMS for kind in KINDS for each in data]


def second_measure(settings: Settings, case: Case) -> list[Row]:
    """The error of one workload."""
    name, data = str(case[0]), str(case[2])
    kind: Kind = next(kind for kind in KINDS if kind == case[1])
    table = paper_histogram(settings, data)

    def trial(place: int) -> float:
        ranges = workload(settings, kind, table.counts.size, place % 5)
        answers = answers_of(SECOND_MECHANISMS[name], table.counts, SECOND_EPSILON, ranges)
        return float(np.abs(answers - ranges.dot(table.counts)).mean())

    trials = settings.pick(1, 5, 15)
    return [{"workload": kind, "data": table.label, "algorithm": name, **mean_and_error(trial, trials)}]


def second_conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether the paper's weights are near the best, beat the geometric ones, and are Laplace on the identity."""
    del settings
    data = distinct(rows, "data")

    def error(name: str, kind: str, each: str) -> float:
        return one(rows, "error", workload=kind, data=each, algorithm=name)

    others = (UNIFORM, GEOMETRIC, SECOND_LAPLACE)
    behind = max(
        error(SECOND_GREEDY, kind, each) / min(error(name, kind, each) for name in others)
        for kind in KINDS
        for each in data
    )
    geometric = min(
        error(GEOMETRIC, "uniform intervals", each) / error(SECOND_GREEDY, "uniform intervals", each) for each in data
    )
    laplace = max(
        abs(error(SECOND_GREEDY, "identity", each) / error(SECOND_LAPLACE, "identity", each) - 1) for each in data
    )
    ours = max(error(SECOND_OURS, kind, each) / error(SECOND_GREEDY, kind, each) for kind in KINDS for each in data)
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
            dots(axes, data, {name: [error(name, kind, each) for each in data] for name in SECOND_MECHANISMS})
        legend_below(figure, axes, 3)

    title = "DAWA Figure 6: ways to measure the buckets, epsilon 0.1"
    return Result(
        (Table("errors", "Error of four workloads, epsilon 0.1", tuple(rows)),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (width_for(data, 9.0), 7.0)),),
        verdict,
    )


SECOND_PROCEDURE = Procedure(second_cases, second_measure, second_conclude)
