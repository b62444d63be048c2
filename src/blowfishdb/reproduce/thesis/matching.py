"""Figure 5: matching against the other algorithms, on half of Income and on counts that jump from cell to cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from blowfishdb.model.arrays import Ints
from blowfishdb.reproduce.charts import dots, legend_below, plain
from blowfishdb.reproduce.data import histogram
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.random_inputs import generator
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, geometric_mean, mean_and_error, number, one, trials_of, without
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.thesis.algorithms import (
    ALGORITHMS,
    BOTH,
    DAWA,
    LAPLACE,
    MATCHING,
    MATCHING_PRINTED,
    MATCHINGS,
    OURS_MATCHING,
    SUMS,
    squared_error,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILONS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))
INCOME, JUMPING = "INCOME", "jumping counts (simulated)"
CELLS = 2048
HIGHEST = 10_000
SHOWN = {name: ALGORITHMS[name] for name in (LAPLACE, DAWA, SUMS, BOTH)} | MATCHINGS


def cases(settings: Settings) -> list[Case]:
    """One per algorithm, histogram and epsilon, slow ones first."""
    del settings
    names = sorted(SHOWN, key=lambda name: name not in MATCHINGS)
    return [(name, data, str(epsilon)) for name in names for data in (INCOME, JUMPING) for epsilon in EPSILONS]


def measure(settings: Settings, case: Case) -> list[Row]:
    """The squared error of a cell."""
    name, data, epsilon = str(case[0]), str(case[1]), Fraction(str(case[2]))
    label, counts = half_domain(settings, data)

    def trial(place: int) -> float:
        del place
        return squared_error(SHOWN[name], counts, epsilon)

    head: Row = {"epsilon": float(epsilon), "data": label, "set": data, "algorithm": name}
    return [{**head, **mean_and_error(trial, settings.pick(1, 3, 15))}]


def half_domain(settings: Settings, data: str) -> tuple[str, Ints]:
    """The label and the counts: the lower half of Income, or counts that know nothing of their neighbours."""
    cells = settings.pick(64, CELLS, CELLS)
    if data == INCOME:
        found = histogram(settings, INCOME)
        return f"half of {found.label}", found.counts[: min(cells, found.counts.size // 2)].copy()
    return JUMPING, generator(settings.seed, JUMPING).integers(0, HIGHEST, cells)


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    """Whether matching beats Laplace alone on Income, and all but the plain transform on jumping counts."""
    del settings
    epsilons = list(dict.fromkeys(number(row, "epsilon") for row in rows))

    def ratio(data: str, other: str) -> float:
        return geometric_mean(
            one(rows, "error", set=data, epsilon=epsilon, algorithm=other)
            / one(rows, "error", set=data, epsilon=epsilon, algorithm=MATCHING)
            for epsilon in epsilons
        )

    income = {name: ratio(INCOME, name) for name in (LAPLACE, DAWA, SUMS, BOTH)}
    jumping = {name: ratio(JUMPING, name) for name in (LAPLACE, DAWA, SUMS, BOTH)}
    printed, ours = ([ratio(data, name) for data in (INCOME, JUMPING)] for name in (MATCHING_PRINTED, OURS_MATCHING))
    verdict = Verdict(
        "Matching + Transformed is only better than Laplace on real data; on simulated jumping counts it beats all but "
        "Transformed + Laplace.",
        how_it_holds(
            [
                income[LAPLACE] > 1 and max(income[DAWA], income[SUMS], income[BOTH]) < 1,
                min(jumping[LAPLACE], jumping[DAWA], jumping[BOTH]) > 1 and jumping[SUMS] < 1,
            ]
        ),
        f"Error of {_list(income)} over that of Matching + Transformed with the noise that moves need, geometric means "
        f"over epsilon, on Income: {_figures(income)}; on jumping counts: {_figures(jumping)}; with the thesis' noise, "
        f"half of that and not private, it has {printed[0]:.2f} and {printed[1]:.2f} times its error, our "
        f"matching-transform {ours[0]:.2f} and {ours[1]:.2f}.",
    )

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        groups = [f"{epsilon:g}" for epsilon in epsilons]
        for place, (axes, data) in enumerate(zip(panels, distinct(rows, "data"), strict=True)):
            plain(axes, "epsilon", "" if place else "mean squared error of a cell", data, log_y=True)
            series = {
                name: [one(rows, "error", data=data, epsilon=epsilon, algorithm=name) for epsilon in epsilons]
                for name in SHOWN
            }
            dots(axes, groups, series)
        legend_below(figure, axes, 3)

    title = "Thesis Figure 5: matching, squared error of a cell, line policy"
    return Result(
        (Table("errors", "Mean squared error of a cell, line policy", without(rows, "set")),),
        (Picture("errors", title, f"mean of {trials_of(rows)}", draw, (9.0, 4.8)),),
        verdict,
    )


def _list(found: dict[str, float]) -> str:
    return "; ".join(found)


def _figures(found: dict[str, float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in found.values())


PROCEDURE = Procedure(cases, measure, conclude)
