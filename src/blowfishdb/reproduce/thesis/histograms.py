"""Figure 4: the squared error of a cell under the line policy, seven histograms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from blowfishdb.reproduce.charts import dots, legend_below, plain, width_for
from blowfishdb.reproduce.dawa.histograms import names, paper_histogram
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, geometric_mean, mean_and_error, number, one, trials_of
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.thesis.algorithms import (
    ALGORITHMS,
    BOTH,
    BOTH_PUBLISHED,
    DAWA,
    DAWA_PUBLISHED,
    OURS,
    OURS_DAWA,
    SUMS,
    squared_error,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))


def cases(settings: Settings) -> list[Case]:
    """One per algorithm and histogram."""
    return [(name, data) for name in ALGORITHMS for data in names(settings)]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The error at every epsilon."""
    name, data = str(case[0]), str(case[1])
    found = paper_histogram(settings, data)
    rows: list[Row] = []
    for epsilon in EPSILONS:

        def trial(place: int, epsilon: Fraction = epsilon) -> float:
            del place
            return squared_error(ALGORITHMS[name], found.counts, epsilon)

        head: Row = {"epsilon": float(epsilon), "data": found.label, "algorithm": name}
        rows.append({**head, **mean_and_error(trial, settings.pick(1, 2, 15))})
    return rows


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether DAWA + Transformed beats DAWA everywhere, and does well against the transform alone."""
    del settings
    data = distinct(rows, "data")
    epsilons = list(dict.fromkeys(number(row, "epsilon") for row in rows))

    def ratios(above: str, below: str) -> list[float]:
        return [
            one(rows, "error", data=each, epsilon=epsilon, algorithm=above)
            / one(rows, "error", data=each, epsilon=epsilon, algorithm=below)
            for each in data
            for epsilon in epsilons
        ]

    gains, published, ours = ratios(DAWA, BOTH), ratios(DAWA_PUBLISHED, BOTH_PUBLISHED), ratios(OURS_DAWA, OURS)
    alone = geometric_mean(ratios(SUMS, BOTH))
    verdict = Verdict(
        "DAWA + Transformed performs very well on histograms and always has a lower error than DAWA.",
        how_it_holds([all(gain > 1 for gain in gains), alone > 1]),
        f"In sound form it beats DAWA in {_wins(gains)} cases (geometric mean {geometric_mean(gains):.2f} times less "
        f"error) and has {1 / alone:.2f} times the error of the transform alone; with the published code's noise, "
        f"which is not private, it beats DAWA in {_wins(published)}, and our dawa-transform beats our dawa in "
        f"{_wins(ours)} ({geometric_mean(ours):.1f} times less error).",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(epsilons), 1, sharex=True)
        for axes, epsilon in zip(panels, epsilons, strict=True):
            plain(axes, "", "mean squared error", f"epsilon = {epsilon:g}", log_y=True)
            series = {
                name: [one(rows, "error", data=each, epsilon=epsilon, algorithm=name) for each in data]
                for name in ALGORITHMS
            }
            dots(axes, data, series)
        legend_below(figure, axes, 3)

    title = "Thesis Figure 4: squared error of a cell, line policy"
    return Result(
        (Table("errors", "Mean squared error of a cell, line policy", tuple(rows)),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (width_for(data, 9.0), 9.6)),),
        verdict,
    )


def _wins(gains: Sequence[float]) -> str:
    return f"{sum(gain > 1 for gain in gains)} of {len(gains)}"


PROCEDURE = Procedure(cases, measure, conclude)
