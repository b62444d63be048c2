"""Figure 4: what each of DAWA's two stages brings on its own."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from blowfishdb.mechanisms.data_aware.dawa import SELECT_SHARE, Dawa
from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.reproduce.baselines.printed_dawa import PrintedDawa
from blowfishdb.reproduce.charts import dots, legend_below, plain, width_for
from blowfishdb.reproduce.dawa.algorithms import PUBLISHED, Answers, answers_of, published
from blowfishdb.reproduce.dawa.comparison import average_error, intervals
from blowfishdb.reproduce.dawa.histograms import EASY, HARD, all_names, paper_histogram
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, mean_and_error, mean_ratio, one, trials_of, without
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON = Fraction(1, 10)
BOTH, LAPLACE, GREEDY = "DAWA as printed, sound", "partition + Laplace", "greedy scaling without partition"
OURS, OURS_LAPLACE, OURS_ALONE = "dawa (BlowfishDB)", "its partition + Laplace", "its measurement without partition"
MECHANISMS: dict[str, DataAware] = {
    BOTH: PrintedDawa(),
    LAPLACE: PrintedDawa(second="laplace"),
    GREEDY: PrintedDawa(first="cells"),
    OURS: Dawa(),
    OURS_LAPLACE: PrintedDawa(first="ours", second="laplace", select_share=SELECT_SHARE),
    OURS_ALONE: PrintedDawa(first="cells", second="ours"),
}
ALGORITHMS: dict[str, Answers] = {
    **{name: partial(answers_of, mechanism) for name, mechanism in MECHANISMS.items()},
    PUBLISHED: published,
}
MUCH_LOWER = 1.5
ALMOST = 1.25


def cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram."""
    return [(name, data) for name in ALGORITHMS for data in all_names(settings)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The error of uniform intervals."""
    name, data = str(case[0]), str(case[1])
    found = paper_histogram(settings, data)

    def trial(place: int) -> float:
        return average_error(ALGORITHMS[name], found.counts, EPSILON, intervals(settings, found.counts.size, place))

    return [
        {"data": found.label, "set": data, "algorithm": name, **mean_and_error(trial, settings.pick(1, 6, 15))},
    ]


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether the partition helps on easy data and hardly hurts on hard data, and the weights help on hard data."""
    del settings
    ratio = partial(mean_ratio, rows, "error")
    easy, hard, weights = (
        (ratio(GREEDY, BOTH, EASY), ratio(OURS_ALONE, OURS, EASY)),
        (ratio(BOTH, GREEDY, HARD), ratio(OURS, OURS_ALONE, HARD)),
        (ratio(LAPLACE, BOTH, HARD), ratio(OURS_LAPLACE, OURS, HARD)),
    )
    verdict = Verdict(
        "The partition makes DAWA much better on easy histograms and costs it little on hard ones, where the second "
        "stage makes it much better than partition + Laplace.",
        how_it_holds([easy[0] >= MUCH_LOWER, hard[0] <= ALMOST, weights[0] >= MUCH_LOWER]),
        f"As printed with sound noise: without the partition {easy[0]:.2f} times its error on easy histograms, with it "
        f"{hard[0]:.2f} times the error on hard ones, where Laplace has {weights[0]:.2f} times; for our dawa "
        f"{easy[1]:.2f}, {hard[1]:.2f} and {weights[1]:.2f}; with the published code's noise, which is not private, "
        f"the first two are {ratio(GREEDY, PUBLISHED, EASY):.2f} and {ratio(PUBLISHED, GREEDY, HARD):.2f}.",
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


PROCEDURE = Procedure(cases, measure, conclude)
