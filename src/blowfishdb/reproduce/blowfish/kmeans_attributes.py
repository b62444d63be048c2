"""Figure 1(e): k-means when one attribute is hidden at a time, over the Laplace mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blowfishdb.reproduce.blowfish import kmeans_runs
from blowfishdb.reproduce.blowfish.kmeans_charts import FULL, data_of, gain, policies_of, trials, values
from blowfishdb.reproduce.charts import legend_below, lines, plain
from blowfishdb.reproduce.experiment import Case, Procedure
from blowfishdb.reproduce.result import Picture, Result, Row, Table, Verdict, how_it_holds
from blowfishdb.reproduce.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL, LARGE = ("skin01", "synthetic"), "tweets"
MUCH, LITTLE = 5.0, 1.5
"""About an order of magnitude, and little."""
CLAIM = (
    "When one attribute is hidden at a time the objective falls by an order of magnitude for the small sets of 3 and 4 "
    "dimensions, and hardly for the large one of 2."
)


def cases(settings: Settings) -> list[Case]:
    """The full graphs, moved together and one at a time, for each set."""
    names = settings.pick(("synthetic", LARGE), (*SMALL, LARGE), (*SMALL, LARGE))
    return kmeans_runs.cases(settings, names, dict.fromkeys(names, (("full", ""), ("attribute", ""))))


def conclude(settings: Settings, rows: Sequence[Row]) -> Result:
    del settings

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        words = ("as printed (not private)", "certified")
        for axes, column, title in zip(panels, ("printed", "ours"), words, strict=True):
            lines(axes, {data: list(_gain(rows, data, column).items()) for data in data_of(rows)})
            axes.axhline(1.0, color="#5f6c7b", linewidth=0.8, linestyle=":")
            plain(axes, "ε", "full graph / one attribute" if axes is panels[0] else "", title)
        legend_below(figure, panels[0])

    table = Table("objectives", "Objective over the non-private one, by point set, policy and epsilon", tuple(rows))
    title = "Blowfish, Figure 1(e): how many times smaller the objective is when one attribute is hidden at a time"
    return Result((table,), (Picture("gains", title, trials(rows), draw, (8.0, 3.6)),), judge(rows))


def _gain(rows: Sequence[Row], data: str, column: str) -> dict[float, float]:
    return gain(rows, data, policies_of(rows, data)[1], column)


def judge(rows: Sequence[Row]) -> Verdict:
    """Whether the policy gains much on small sets and little on the large one, as printed and when certified."""
    most = {
        column: {data: max(_gain(rows, data, column).values()) for data in data_of(rows)}
        for column in ("printed", "ours")
    }
    small = {column: max(g for data, g in each.items() if not data.startswith(LARGE)) for column, each in most.items()}
    large = {column: max(g for data, g in each.items() if data.startswith(LARGE)) for column, each in most.items()}
    worst = max(value for data in data_of(rows) for value in values(rows, data, FULL, "ours").values())
    why = (
        f"As printed, with noise too small to be private, the small sets gain up to {small['printed']:.3g} times and "
        f"the large one {large['printed']:.3g}; the certified release gains {small['ours']:.3g} and "
        f"{large['ours']:.3g} times at most, being within {worst:.3g} times the non-private objective under the full "
        "graph already, and a record that changes in d attributes is left with d times the loss."
    )
    return Verdict(CLAIM, how_it_holds([small["ours"] >= MUCH, small["printed"] >= MUCH, large["ours"] <= LITTLE]), why)


PROCEDURE = Procedure(cases, kmeans_runs.measure, conclude)
