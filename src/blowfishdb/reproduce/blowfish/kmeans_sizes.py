"""Figure 1(d): what a threshold of 128 gains over the Laplace mechanism, for three sizes of the pixel set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from blowfishdb.reproduce.blowfish import kmeans_runs
from blowfishdb.reproduce.blowfish.kmeans_charts import data_of, gain, policies_of, trials
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.rows import distinct, matching, number
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.ticks import simple_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS = ("skin", "skin10", "skin01")
THETA = "128"
WORTH_IT = 1.01
CLAIM = "A threshold of 128 improves on the Laplace mechanism for every size of the set, and most for the smallest."
GAINS = {
    "printed": "as printed: Laplace / θ (not private)",
    "certified": "certified: full graph / θ",
    "both": "Laplace as printed / certified θ",
}


def cases(settings: Settings) -> list[Case]:
    """The full graph and one threshold, for each size."""
    names = settings.pick(SETS[2:], SETS, SETS)
    return kmeans_runs.cases(settings, names, kmeans_runs.thetas(names, dict.fromkeys(SETS, (THETA,))))


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings
    gains = gains_of(rows)
    tables = (
        Table("gains", "How many times smaller the objective is under the threshold", tuple(gains)),
        Table("objectives", "Objective over the non-private one", tuple(rows)),
    )

    def draw(figure: Figure) -> None:
        names = data_of(rows)
        panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
        for axes, data in zip(panels, names, strict=True):
            own = matching(gains, data=data)
            lines(
                axes,
                {words: [(number(row, "epsilon"), number(row, name)) for row in own] for name, words in GAINS.items()},
            )
            plain(axes, "ε", "times smaller objective" if axes is panels[0] else "", data, log_y=True)
            simple_ticks(axes)
        legend_below(figure, panels[0], columns=3)

    title = "Blowfish, Figure 1(d): what θ = 128 gains, by size of the set"
    return Result(tables, (Picture("gains", title, trials(rows), draw, (9.0, 3.6)),), judge(gains))


def gains_of(rows: Sequence[Row]) -> list[Row]:
    """By set and epsilon: the gain as printed, of the certified release, and of that over the Laplace mechanism."""
    found: list[Row] = []
    for data in data_of(rows):
        theta = policies_of(rows, data)[1]
        columns = {
            "printed": gain(rows, data, theta, "printed"),
            "certified": gain(rows, data, theta, "ours"),
            "both": gain(rows, data, theta, "ours", over="printed"),
        }
        for epsilon in columns["printed"]:
            found.append({"data": data, "epsilon": epsilon, **{name: each[epsilon] for name, each in columns.items()}})
    return found


def judge(gains: Sequence[Row]) -> Verdict:
    """Whether every size gains from the threshold, beats the Laplace mechanism, and small sets more than large."""
    least = {name: min(number(row, name) for row in gains) for name in GAINS}
    sizes = distinct(gains, "data")
    by_size = [max(number(row, "both") for row in matching(gains, data=data)) for data in sizes]
    grows = all(a <= b for a, b in pairwise(by_size))
    why = (
        f"The printed noise, too small to be private, gains a factor of {least['printed']:.3g} or more; the certified "
        f"release is {least['both']:.3g} to {max(by_size):.3g} times better than the Laplace mechanism, but of that "
        f"the threshold itself gives a factor of {least['certified']:.3g} to "
        f"{max(number(row, 'certified') for row in gains):.3g} only."
    )
    return Verdict(CLAIM, how_it_holds([least["certified"] >= WORTH_IT, least["both"] >= WORTH_IT, grows]), why)


PROCEDURE = Procedure(cases, kmeans_runs.measure, conclude)
