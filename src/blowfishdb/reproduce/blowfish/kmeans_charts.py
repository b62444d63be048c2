"""What the k-means figures share: rows by point set and policy, and a pair of panels, as printed and certified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blowfishdb.engine.present.colours import INK
from blowfishdb.reproduce.charts import COLOURS, MARKS, plain
from blowfishdb.reproduce.result import Row
from blowfishdb.reproduce.rows import distinct, matching, number, trials_of
from blowfishdb.reproduce.ticks import simple_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OBJECTIVE = "objective / non-private"
FULL = "full graph"


def data_of(rows: Sequence[Row]) -> list[str]:
    """The point sets, in the order of the rows."""
    return distinct(rows, "data")


def trials(rows: Sequence[Row]) -> str:
    """How often each was run, for the figure's head."""
    return f"mean of {trials_of(rows)} as printed, {trials_of(rows, 'our_trials')} certified"


def policies_of(rows: Sequence[Row], data: str) -> list[str]:
    """The policies that were tried on a point set."""
    return distinct(matching(rows, data=data), "policy")


def values(rows: Sequence[Row], data: str, policy: str, column: str) -> dict[float, float]:
    """One column by epsilon."""
    return {number(row, "epsilon"): number(row, column) for row in matching(rows, data=data, policy=policy)}


def gain(rows: Sequence[Row], data: str, policy: str, column: str, over: str = "") -> dict[float, float]:
    """By epsilon, how many times smaller the objective is under the policy than under the full graph.

    `over` names the column of the full graph, where it is another one.
    """
    full, own = values(rows, data, FULL, over or column), values(rows, data, policy, column)
    return {epsilon: full[epsilon] / own[epsilon] for epsilon in own}


def draw_pairs(figure: Figure, rows: Sequence[Row]) -> None:
    """A column of panels for each point set: the paper's way above, one certified release below."""
    names = data_of(rows)
    panels = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    for place, data in enumerate(names):
        above, below = panels[:, place]
        start = values(rows, data, FULL, "noiseless")
        above.plot(list(start), list(start.values()), color=INK, linestyle=":", label="as printed, without noise")
        _draw_policies(above, rows, data, "printed")
        _draw_policies(below, rows, data, "ours")
        plain(
            above,
            "",
            OBJECTIVE if place == 0 else "",
            f"{data}, as printed\n(private for the full graph only)",
            log_y=True,
        )
        plain(below, "ε", OBJECTIVE if place == 0 else "", f"{data}, certified")
        simple_ticks(above)
        handles, labels = above.get_legend_handles_labels()
        below.legend(
            handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=7.5
        )


def _draw_policies(axes: Axes, rows: Sequence[Row], data: str, column: str) -> None:
    for look, policy in enumerate(policies_of(rows, data)):
        own = values(rows, data, policy, column)
        low, high = (list(values(rows, data, policy, f"{column}_{end}").values()) for end in ("low", "high"))
        axes.plot(list(own), list(own.values()), color=COLOURS[look], marker=MARKS[look], markersize=4, label=policy)
        axes.fill_between(list(own), low, high, color=COLOURS[look], alpha=0.12, linewidth=0)
