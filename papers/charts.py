"""Looks of the figures: one set of colours and marks, axes that say what they show, legends beside the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.present.chart import GRID, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How the figures look: one set of colours and marks, axes that say what they show, legends beside the data.

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#5f6c7b", "#1f2933", "#8a5a2b")
"""Okabe and Ito's colours and two more, which people with any kind of colour vision can tell apart."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo", "++", "**")

WIDE = 11
"""Letters of a group's name on one line."""

Points = Sequence[tuple[float, float]]


def plain(axes: Axes, x: str, y: str, title: str = "", *, log_x: bool = False, log_y: bool = False) -> None:
    """Names the axes, sets their scales, and takes away what is not data."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    if title:
        axes.set_title(title, fontsize=9, color=INK)
    from matplotlib.ticker import FuncFormatter, LogFormatter

    # Where an axis spans few powers of ten the numbers between them are written out too.
    for axis, is_log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
        if is_log:
            (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
            axis.set_major_formatter(FuncFormatter(_written))
            axis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.4)))
    axes.grid(color=GRID, linewidth=0.8, which="major")
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, labelcolor=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _written(value: float, place: int | None = None) -> str:
    """A power of ten as people write it: 100, not 10 to the 2, but no long rows of zeros."""
    del place
    return f"{value:,g}" if 1e-3 <= value < 1e5 else f"$10^{{{round(math.log10(value))}}}$"


def lines(axes: Axes, series: Mapping[str, Points]) -> None:
    """A line with its own colour and mark for each series; the order gives the look."""
    for place, (name, points) in enumerate(series.items()):
        x, y = zip(*points, strict=True)
        look = place % len(COLOURS)
        axes.plot(x, y, color=COLOURS[look], marker=MARKS[look], markersize=4.5, linewidth=1.4, label=name)


def bars(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> None:
    """Bars side by side in each group, one for each series; None leaves a gap."""
    width = 0.8 / len(series)
    places = np.arange(len(groups))
    for place, (name, values) in enumerate(series.items()):
        heights = [np.nan if value is None else value for value in values]
        look = place % len(COLOURS)
        shift = (place - (len(series) - 1) / 2) * width
        axes.bar(
            places + shift,
            heights,
            width * 0.94,
            color=COLOURS[look],
            hatch=HATCHES[look],
            edgecolor="white",
            linewidth=0.4,
            label=name,
        )
    axes.set_xticks(places, [_folded(group) for group in groups])
    axes.set_xlim(-0.6, len(groups) - 0.4)


def dots(axes: Axes, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> None:
    """A mark for each series in each group, side by side; None leaves a gap."""
    places = np.arange(len(groups))
    for place, (name, values) in enumerate(series.items()):
        heights = [np.nan if value is None else value for value in values]
        look = place % len(COLOURS)
        shift = (place - (len(series) - 1) / 2) * 0.72 / len(series)
        axes.plot(places + shift, heights, MARKS[look], color=COLOURS[look], markersize=5, label=name)
    for between in places[1:] - 0.5:
        axes.axvline(between, color=GRID, linewidth=0.8)
    axes.set_xticks(places, [_folded(group) for group in groups])
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.grid(visible=False, axis="x")


def _folded(name: str) -> str:
    """A name on as many lines as it needs to stay clear of its neighbours."""
    return "\n".join(wrap(name.replace("_", " "), WIDE))


USUAL_GROUPS = 7


def width_for(groups: Sequence[object], usual: float) -> float:
    """Inches for a figure of so many groups: the usual width, or more where the user has added groups."""
    return usual * max(1.0, len(groups) / USUAL_GROUPS)


def legend_below(figure: Figure, axes: Axes, columns: int = 4) -> None:
    """One legend for the whole figure, under it, clear of the data."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), frameon=False)


# Plain numbers on logarithmic axes that span few powers of ten.

FINE, COARSE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0)


def simple_ticks(axes: Axes, steps: tuple[float, ...] = FINE) -> None:
    """Ticks of the vertical axis at these steps of each power of ten, written without powers."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
