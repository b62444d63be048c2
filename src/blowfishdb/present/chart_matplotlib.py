"""Charts drawn with matplotlib: bars with error bars, a step curve in its band, a heat map, dots, lines."""

from __future__ import annotations

import textwrap
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Floats
from blowfishdb.present.answer_values import AnswerValues
from blowfishdb.present.chart import (
    BAND,
    BAR,
    GRID,
    INK,
    INTERVAL,
    MARK,
    PAPER,
    QUIET,
    STOPS,
    Chart,
    ChartAxis,
    Detail,
    chart_of,
    regular,
)
from blowfishdb.present.export import needed
from blowfishdb.present.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

DETAIL = Detail(bars=600, points=2_000, dots=100, rows=200, squares=(600, 600))
CAPS = 150
"""More error bars than this become a band."""
TICKS = 24
LABEL = 28
USUAL_WIDTH = 6.2
"""Inches across the axes of a figure of our own."""
WRITTEN, SIGNS_ACROSS = 150, 80
"""Squares up to which each holds its number, and signs that must fit side by side into the squares of one row."""


def plot(answer: AnswerValues, ax: Axes | None = None) -> Axes:
    """Draws the answer on the given axes, or on new ones of pyplot."""
    chart = chart_of(answer, DETAIL)
    return draw(chart, new_axes(figure_size(chart)) if ax is None else ax)


LEAST_DPI, MOST_DPI = 10, 2_400


def save_plot(answer: AnswerValues, path: str | PathLike[str], dpi: int = 160) -> None:
    """Writes the picture to a file; the ending chooses the format (png, svg, pdf)."""
    chart = chart_of(answer, DETAIL)
    figure: Figure = needed("matplotlib.figure", "plot").Figure(figsize=figure_size(chart), layout="constrained")
    draw(chart, figure.add_subplot())
    formats = figure.canvas.get_supported_filetypes()
    if Path(path).suffix.lower().removeprefix(".") not in ("", *formats):
        raise InvalidInput(
            f"a picture is saved as one of {', '.join(sorted(formats))}; the ending of the name says which"
        )
    if not LEAST_DPI <= dpi <= MOST_DPI:
        raise InvalidInput(f"dpi is a number of dots per inch, from {LEAST_DPI} to {MOST_DPI:,}")
    figure.savefig(path, dpi=int(dpi))


def new_axes(size: tuple[float, float]) -> Axes:
    """Axes on a new figure of pyplot."""
    axes: Axes = needed("matplotlib.pyplot", "plot").figure(figsize=size, layout="constrained").add_subplot()
    return axes


def figure_size(chart: Chart) -> tuple[float, float]:
    """Width and height in inches."""
    if chart.kind in ("dots", "rows"):
        return 8.0, min(max(2.0 + 0.17 * len(chart.marks), 3.0), 36.0)
    if chart.kind == "number":
        return 8.0, 2.6
    return (8.0, 6.2) if chart.kind == "heat" else (8.0, 4.6)


def draw(chart: Chart, ax: Axes) -> Axes:
    """Draws the chart on the axes."""
    ax.tick_params(colors=INK, labelsize=9, length=3)
    kinds = {"number": _number, "bars": _bars, "rows": _dots, "steps": _steps, "heat": _heat, "dots": _dots}
    {**kinds, "lines": _lines}[chart.kind](chart, ax)
    down, across = chart.rows if chart.kind == "heat" else chart.measure, chart.groups
    if chart.kind in ("dots", "rows"):
        down, across = across, down
    ax.set_xlabel(_plain(shortened(across.name, 60)), color=INK)
    ax.set_ylabel(_plain(shortened(down.name, 60)), color=INK)
    _captions(chart, ax)
    return ax


def _plain(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def _captions(chart: Chart, ax: Axes) -> None:
    """The title, and below it the caption in small print."""
    figure = ax.get_figure(root=True)
    ratio = figure.get_figwidth() * ax.get_position().width / USUAL_WIDTH if figure is not None else 1.0
    small = textwrap.wrap(shortened(chart.caption, 400), max(int(104 * ratio), 20))
    title = "\n".join(textwrap.wrap(shortened(chart.title, 300), max(int(66 * ratio), 20)))
    ax.set_title(_plain(title), loc="left", color=INK, fontsize=12, fontweight="bold", pad=10 + 12 * len(small))
    if small:
        _note(ax, "\n".join(small), (0, 1), (0, 7), va="bottom")


def _note(
    ax: Axes,
    text: str,
    where: tuple[float, float],
    shift: tuple[float, float] = (0, 0),
    ha: str = "left",
    va: str = "baseline",
) -> None:
    """Small print at a part of the plot's width and height, shifted by points."""
    ax.annotate(_plain(text), where, shift, "axes fraction", "offset points", ha=ha, va=va, fontsize=8.5, color=QUIET)


def _style(ax: Axes, values: Literal["x", "y", "both"]) -> None:
    """Quiet spines, and lines at the ticks of the axis that has the values."""
    for side in ("top", "right", *(["left"] if values == "y" else [])):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(QUIET)
    ax.set_axisbelow(True)
    ax.grid(axis=values, color=GRID, linewidth=0.8)


def _number_ticks(axis: Axis, described: ChartAxis) -> None:
    """Numbers with separators; dates and shares as such."""
    ticker = needed("matplotlib.ticker", "plot")
    if described.unit == "days":
        dates = needed("matplotlib.dates", "plot")
        locator = dates.AutoDateLocator()
        axis.set_major_locator(locator)
        axis.set_major_formatter(dates.ConciseDateFormatter(locator))
    elif described.unit == "share":
        axis.set_major_formatter(ticker.PercentFormatter(1.0, 0, " %"))
    else:
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _name_ticks(ax: Axes, names: tuple[str, ...], along: str, most: int = TICKS) -> None:
    """Names at the places 0, 1, 2, ...: all of them, or some evenly spread."""
    places = regular(names, most)
    labels = [_plain(shortened(names[place], LABEL)) for place in places]
    if along == "y":
        ax.set_yticks(places, labels)
        return
    tilted = sum(map(len, labels)) > 70
    ax.set_xticks(places, labels, rotation=40 if tilted else 0, ha="right" if tilted else "center")
    if tilted:
        for label in ax.get_xticklabels():
            label.set_rotation_mode("anchor")


def _group_ticks(chart: Chart, ax: Axes) -> None:
    if chart.groups.edges:
        _number_ticks(ax.xaxis, chart.groups)
    else:
        _name_ticks(ax, chart.groups.labels, "x")
    _number_ticks(ax.yaxis, chart.measure)
    _style(ax, "y")
    ax.set_ylim(chart.ends)


def _edges(chart: Chart) -> Floats:
    """Where the marks begin along the groups, and where the last one ends."""
    size = len(chart.groups.labels)
    edges = np.array(chart.groups.edges or [place - 0.5 for place in range(size + 1)], dtype=np.float64)
    return edges[[*chart.starts, size]]


def _errors(chart: Chart) -> Floats:
    """How far the interval of each mark reaches below and above its value."""
    return np.maximum([chart.values - chart.low, chart.high - chart.values], 0.0)


def _bars(chart: Chart, ax: Axes) -> None:
    edges = _edges(chart)
    if len(chart.marks) <= CAPS:
        middles, wide, crowd = (edges[1:] + edges[:-1]) / 2, float(edges[1] - edges[0]), len(chart.marks) > 25
        ax.bar(middles, chart.values, width=wide * 0.86, color=BAR, linewidth=0)
        thick, caps = (1.0, 0.0) if crowd else (1.2, 3.0)
        ax.errorbar(middles, chart.values, _errors(chart), fmt="none", ecolor=MARK, elinewidth=thick, capsize=caps)
    else:
        ax.stairs(chart.values, edges, fill=True, color=BAR, linewidth=0)
        ax.stairs(chart.high, edges, baseline=chart.low, fill=True, color=MARK, alpha=0.28, linewidth=0)
    spare = 0.02 * float(np.ptp(edges))
    ax.set_xlim(float(edges[0]) - spare, float(edges[-1]) + spare)
    _group_ticks(chart, ax)


def _steps(chart: Chart, ax: Axes) -> None:
    edges = _edges(chart)
    low, high, values = (
        np.append(column[0] if chart.begins_above_zero else 0.0, column)
        for column in (chart.low, chart.high, chart.values)
    )
    ax.fill_between(edges, low, high, step="post", color=BAND, alpha=0.75, linewidth=0)
    ax.step(edges, values, where="post", color=MARK, linewidth=1.6)
    ax.set_xlim(float(edges[0]), float(edges[-1]))
    _group_ticks(chart, ax)
    if chart.beside:
        _note(ax, chart.beside, (0.99, 0.04), ha="right")


def _heat(chart: Chart, ax: Axes) -> None:
    colours = needed("matplotlib.colors", "plot")
    scale = colours.LinearSegmentedColormap.from_list("blowfish", [tuple(c / 255 for c in stop) for stop in STOPS])
    low, high = chart.ends
    image = ax.imshow(
        chart.values, aspect="auto", cmap=scale, origin="lower", interpolation="nearest", vmin=low, vmax=high
    )
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02)
    words = [chart.measure.name]
    if chart.interval_words:
        if chart.interval_part < 1:
            # A line as long as an interval shows which colours mean different counts.
            ends = [low, low + chart.interval_part * (high - low)]
            bar.ax.plot([0.5, 0.5], ends, color=INTERVAL, linewidth=2.5, solid_capstyle="butt")
        words.append(f"{chart.interval_words}{' (the orange length)' if chart.interval_part < 1 else ''}")
    if chart.in_noise.any():
        rows, columns = np.nonzero(chart.in_noise)
        ax.plot(columns, rows + (0.3 if chart.rows.listed else -0.3), ".", markersize=2.5, color=QUIET)
        words.append("dotted: within the noise")
    bar.set_label(", ".join([*words, chart.remark] if chart.remark else words), color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=9, length=3)
    _number_ticks(bar.ax.yaxis, chart.measure)
    _name_ticks(ax, chart.groups.labels, "x")
    _name_ticks(ax, chart.rows.labels, "y")
    if chart.rows.listed:
        ax.invert_yaxis()
    for side in ax.spines.values():
        side.set_visible(False)
    if chart.values.size <= WRITTEN:
        texts = [[chart.digits.value(value) for value in row] for row in chart.values.tolist()]
        if max(len(text) for row in texts for text in row) * len(texts[0]) <= SIGNS_ACROSS:
            for (row, column), value in np.ndenumerate(chart.values):
                ink = "white" if value > (low + high) / 2 else INK
                ax.text(column, row, texts[row][column], ha="center", va="center", fontsize=8, color=ink)


def _number(chart: Chart, ax: Axes) -> None:
    """The number in large letters, and its interval in words."""
    ax.set_axis_off()
    ax.text(0, 0.62, chart.value(0), fontsize=32, fontweight="bold", color=INK, va="center", transform=ax.transAxes)
    ax.text(0, 0.2, chart.number_words, fontsize=11, color=QUIET, va="center", transform=ax.transAxes)


def _dots(chart: Chart, ax: Axes) -> None:
    """A line for each mark: a dot in its interval, or a bar that ends in its interval."""
    places, size = np.arange(len(chart.marks)), len(chart.marks)
    if chart.kind == "rows":
        ax.barh(places, chart.values, height=0.72, color=BAR, linewidth=0)
        ax.errorbar(chart.values, places, xerr=_errors(chart), fmt="none", ecolor=MARK, elinewidth=1.1, capsize=2.0)
    else:
        ax.errorbar(
            chart.values,
            places,
            xerr=_errors(chart),
            fmt="o",
            ms=4.5,
            color=MARK,
            ecolor=BAR,
            elinewidth=1.8,
            capsize=2.5,
        )
    _name_ticks(ax, chart.marks, "y", size)
    ax.set_ylim(size - 0.4, -0.6)
    ax.set_xlim(chart.ends)
    for first, name in chart.sections.items():
        if first:
            ax.axhline(first - 0.5, color=QUIET, linewidth=0.6)
        _note(ax, shortened(name), (1, (size - first + 0.05) / (size + 0.2)), (-4, -2), ha="right", va="top")
    _style(ax, "x")
    _number_ticks(ax.xaxis, chart.measure)
    if size > 30:
        ax.tick_params(axis="y", labelsize=7.5)


def _lines(chart: Chart, ax: Axes) -> None:
    """A line for each series: in its band where it has one, dashed and quiet where it is only there to compare."""
    x = chart.groups.edges or range(len(chart.groups.labels))
    for series in chart.series:
        if series.low is not None and series.high is not None:
            ax.fill_between(x, series.low, series.high, color=BAND, alpha=0.8, linewidth=0)
        colour, width, style = (QUIET, 0.8, "dashed") if series.dashed else (MARK, 1.6, "solid")
        ax.plot(x, series.values, label=series.name, color=colour, linewidth=width, linestyle=style)
        for place, words in series.flags.items():
            point = (x[place], float(series.values[place]))
            ax.plot(*point, "o", color=MARK, markersize=4)
            paper = {"facecolor": PAPER, "alpha": 0.75, "linewidth": 0, "pad": 1.5}
            ax.annotate(words, point, (10, -12), textcoords="offset points", color=INK, fontsize=9, bbox=paper)
    _style(ax, "both")
    _number_ticks(ax.xaxis, chart.groups)
    _number_ticks(ax.yaxis, chart.measure)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(chart.limits)
