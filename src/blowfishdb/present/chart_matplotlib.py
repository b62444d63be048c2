"""The answer drawn with matplotlib: bars with error bars, a step curve in its band, a heat map."""

from __future__ import annotations

import textwrap
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.model.numbers import Floats
from blowfishdb.present.released import AnswerAxis, AnswerTable, Released
from blowfishdb.present.table import (
    BAND,
    BAR,
    GRID,
    INK,
    MARK,
    QUIET,
    STOPS,
    largest,
    needed,
    regular,
    row_labels,
    runs,
    shape_of,
    shortened,
    tallest,
    whose,
)
from blowfishdb.present.words import ABOVE_ZERO, accuracy_words, digits_of, epsilon_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NAMED_BARS = 40
"""More bars than this stand on a number line, where there is one, instead of over their names."""
CAPS = 150
"""More error bars than this become a band."""
PIXELS = 600
"""Of more bars than this, the tallest of neighbours is drawn."""
TICKS = 24
USUAL_WIDTH = 6.2
"""Inches across the axes of a figure of our own."""
SIGNS_ACROSS = 80
"""So many signs fit side by side into the squares of one row; with more, numbers would overlap."""
DOTS = 100
"""Of more dots than this, the largest are drawn."""
SKIPPED = 0.5
"""A curve that begins above this part of its height is drawn without the empty space below."""
LABEL = 28


def plot(answer: Released, ax: Axes | None = None) -> Axes:
    """Draws the answer on the given axes, or on new ones of pyplot."""
    if ax is None:
        pyplot = needed("matplotlib.pyplot", "plot")
        figure = pyplot.figure(figsize=_size(answer), layout="constrained")
        ax = figure.add_subplot()
    return _drawn(answer, ax)


def save_plot(answer: Released, path: str | PathLike[str], dpi: int = 160) -> None:
    """Writes the picture to a file; the ending chooses the format (png, svg, pdf)."""
    figure: Figure = needed("matplotlib.figure", "plot").Figure(figsize=_size(answer), layout="constrained")
    _drawn(answer, figure.add_subplot())
    figure.savefig(path, dpi=dpi)


def _size(answer: Released) -> tuple[float, float]:
    if shape_of(answer) == "dots":
        return 8.0, min(max(2.0 + 0.17 * min(answer.raw.size, DOTS), 3.0), 18.0)
    return (8.0, 6.2) if shape_of(answer) == "heat" else (8.0, 4.6)


def _drawn(answer: Released, ax: Axes) -> Axes:
    {"bars": _bars, "steps": _steps, "heat": _heat, "dots": _dots}[shape_of(answer)](answer, ax)
    _captions(answer, ax)
    return ax


def _plain(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def _captions(answer: Released, ax: Axes) -> None:
    """The question as title, and below it in small print what it cost, how, and how sure it is."""
    figure = ax.get_figure(root=True)
    ratio = figure.get_figwidth() * ax.get_position().width / USUAL_WIDTH if figure is not None else 1.0
    cost = f"epsilon {epsilon_words(answer.epsilon)}{whose(answer)} · {answer.mechanism} · {accuracy_words(answer)}"
    small = textwrap.wrap(shortened(cost, 400), max(int(104 * ratio), 20))
    title = textwrap.wrap(shortened(answer.title, 300), max(int(66 * ratio), 20))
    ax.set_title(
        _plain("\n".join(title)), loc="left", color=INK, fontsize=12, fontweight="bold", pad=10 + 12 * len(small)
    )
    ax.annotate(
        _plain("\n".join(small)),
        (0, 1),
        (0, 7),
        "axes fraction",
        "offset points",
        color=QUIET,
        fontsize=8.5,
        va="bottom",
    )


def _style(ax: Axes, along: str) -> None:
    for side in ("top", "right", *(["left"] if along == "y" else [])):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(QUIET)
    ax.tick_params(colors=INK, labelsize=9, length=3)
    ax.set_axisbelow(True)
    ax.grid(axis="y" if along == "y" else "x", color=GRID, linewidth=0.8)


def _thousands(ax: Axes, along: str) -> None:
    ticker = needed("matplotlib.ticker", "plot")
    axis = ax.yaxis if along == "y" else ax.xaxis
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _on_line(axis: AnswerAxis) -> bool:
    """Whether the groups are drawn on a number line: they lie on one, are many, and equally wide."""
    if not axis.edges or axis.plain < len(axis.labels) or axis.plain <= NAMED_BARS:
        return False
    steps = np.diff(axis.edges)
    return bool(np.all(np.abs(steps - steps[0]) <= 1e-6 * abs(steps[0])))


def _name_ticks(ax: Axes, axis: AnswerAxis, along: str, most: int = TICKS) -> None:
    """Names at the places 0, 1, 2, ...: all of them, or some evenly spread."""
    places = regular(axis.labels, most)
    labels = [_plain(shortened(axis.labels[place], LABEL)) for place in places]
    if along == "y":
        ax.set_yticks(places, labels)
        return
    tilted = sum(map(len, labels)) > 70
    ax.set_xticks(places, labels, rotation=40 if tilted else 0, ha="right" if tilted else "center")
    if tilted:
        for label in ax.get_xticklabels():
            label.set_rotation_mode("anchor")


def _date_ticks(ax: Axes) -> None:
    dates = needed("matplotlib.dates", "plot")
    locator = dates.AutoDateLocator()
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def _number_ticks(ax: Axes, axis: AnswerAxis) -> None:
    if axis.in_days:
        _date_ticks(ax)
    else:
        _thousands(ax, "x")


def _errors(answer: Released) -> Floats:
    """How far each interval reaches below and above its value."""
    values, bounds = answer.values, answer.bounds
    return np.maximum(np.stack([values - bounds.low, bounds.high - values]), 0.0)


def _bars(answer: Released, ax: Axes) -> None:
    axis = answer.tables[0].axes[0]
    on_line, size = _on_line(axis), len(axis.labels)
    edges = np.array(axis.edges) if on_line else np.arange(size + 1) - 0.5
    if size <= CAPS:
        middles, wide, crowd = (edges[1:] + edges[:-1]) / 2, float(edges[1] - edges[0]), size > 25
        ax.bar(middles, answer.values, width=wide * 0.86, color=BAR, linewidth=0)
        thick, caps = (1.0, 0.0) if crowd else (1.2, 3.0)
        ax.errorbar(middles, answer.values, _errors(answer), fmt="none", ecolor=MARK, elinewidth=thick, capsize=caps)
    else:
        places = tallest(answer.values, PIXELS)
        ends = edges[[*runs(size, PIXELS), size]]
        low, high = answer.bounds.low[places], answer.bounds.high[places]
        ax.stairs(answer.values[places], ends, fill=True, color=BAR, linewidth=0)
        ax.stairs(high, ends, baseline=low, fill=True, color=MARK, alpha=0.28, linewidth=0, label="interval")
    ax.set_xlim(float(edges[0]) - 0.02 * float(np.ptp(edges)), float(edges[-1]) + 0.02 * float(np.ptp(edges)))
    _count_limits(answer, ax)
    if on_line:
        _number_ticks(ax, axis)
    else:
        _name_ticks(ax, axis, "x")
    _style(ax, "y")
    _thousands(ax, "y")
    ax.set_xlabel(_plain(shortened(axis.name)), color=INK)
    ax.set_ylabel(answer.value_name, color=INK)


def _count_limits(answer: Released, ax: Axes) -> None:
    top = float(answer.bounds.high.max(initial=1.0))
    if answer.consistent.feasible:
        ax.set_ylim(0.0, 1.06 * max(top, 1.0))


def _steps(answer: Released, ax: Axes) -> None:
    axis = answer.tables[0].axes[0]
    plain = axis.plain
    edges = np.array(axis.edges) if axis.edges else np.arange(plain + 1) - 0.5
    low, high, values = answer.bounds.low[:plain], answer.bounds.high[:plain], answer.values[:plain]

    top, first = float(high.max()), float(low[0])
    skips = first > SKIPPED * top
    start = (first, float(high[0]), float(values[0])) if skips else (0.0, 0.0, 0.0)
    low, high, values = (np.append(begin, column) for begin, column in zip(start, (low, high, values), strict=True))
    ax.fill_between(edges, low, high, step="post", color=BAND, alpha=0.75, linewidth=0, label="interval")
    ax.step(edges, values, where="post", color=MARK, linewidth=1.6)
    ax.set_xlim(float(edges[0]), float(edges[-1]))
    _count_limits(answer, ax)
    if skips:
        ax.set_ylim(first - 0.08 * (top - first), top + 0.08 * (top - first))
    if axis.edges:
        _number_ticks(ax, axis)
    else:
        _name_ticks(ax, AnswerAxis(axis.name, axis.labels[:plain], plain), "x")
    _style(ax, "y")
    _thousands(ax, "y")
    ax.set_xlabel(_plain(shortened(axis.name)), color=INK)
    ax.set_ylabel(f"records up to here{ABOVE_ZERO if skips else ''}", color=INK)
    if plain < len(axis.labels):
        digits = digits_of(answer)
        beside = [
            f"{axis.labels[place]}: {digits.value(float(answer.values[place]))}"
            for place in range(plain, len(axis.labels))
        ]
        ax.annotate(
            _plain(f"beside the order: {', '.join(beside)}"),
            (0.99, 0.04),
            xycoords="axes fraction",
            ha="right",
            fontsize=8.5,
            color=QUIET,
        )


def _heat(answer: Released, ax: Axes) -> None:
    table = answer.tables[0]
    down, across = table.axes
    plane = answer.values.reshape(table.shape)
    colours = needed("matplotlib.colors", "plot")
    scale = colours.LinearSegmentedColormap.from_list("blowfish", [tuple(c / 255 for c in stop) for stop in STOPS])
    shown = ax.imshow(
        plane, aspect="auto", cmap=scale, origin="lower", interpolation="nearest", vmin=min(plane.min(), 0.0)
    )
    bar = ax.figure.colorbar(shown, ax=ax, pad=0.02)
    width = digits_of(answer).high(answer.widths.simultaneous)
    marked = " (the orange length)" if _mark_width(answer, bar.ax) else ""
    said = f"{answer.value_name}, each ± {width}{marked}" if answer.together is None else answer.value_name
    bar.set_label(said, color=INK)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(
        needed("matplotlib.ticker", "plot").FuncFormatter(lambda value, _: f"{value:,.10g}")
    )
    bar.ax.tick_params(colors=INK, labelsize=9, length=3)
    _name_ticks(ax, across, "x")
    _name_ticks(ax, down, "y")
    for side in ax.spines.values():
        side.set_visible(False)
    ax.tick_params(colors=INK, labelsize=9, length=3)
    ax.set_xlabel(_plain(shortened(across.name)), color=INK)
    ax.set_ylabel(_plain(shortened(down.name)), color=INK)
    longest = max(len(digits_of(answer).value(value)) for value in answer.values.tolist()) if plane.size <= 150 else 0
    if 0 < longest * table.shape[1] <= SIGNS_ACROSS:
        _write_values(answer, table, ax)


def _mark_width(answer: Released, ax: Axes) -> bool:
    """Whether the colour bar got a line as long as an interval, which shows what colours mean different counts."""
    wide = 2 * answer.widths.simultaneous
    low, high = ax.get_ylim()
    fits = answer.together is None and 0 < wide < high - low
    if fits:
        ax.plot([0.5, 0.5], [low, low + wide], color="#d1603d", linewidth=2.5, solid_capstyle="butt")
    return fits


def _write_values(answer: Released, table: AnswerTable, ax: Axes) -> None:
    """The numbers in the squares, dark on light and light on dark."""
    digits, top = digits_of(answer), max(float(answer.values.max()), 1e-12)
    for place, value in enumerate(answer.values.tolist()):
        row, column = divmod(place, table.shape[1])
        ink = "white" if value > 0.5 * top else INK
        ax.text(column, row, digits.value(value), ha="center", va="center", fontsize=8, color=ink)


def _dots(answer: Released, ax: Axes) -> None:
    size = answer.raw.size
    places = list(range(size)) if size <= DOTS else largest(answer.values, DOTS)
    ax.errorbar(
        answer.values[places],
        np.arange(len(places)),
        xerr=_errors(answer)[:, places],
        fmt="o",
        markersize=4.5,
        color=MARK,
        ecolor=BAR,
        elinewidth=1.8,
        capsize=2.5,
    )
    labels = tuple(" × ".join(part for part in row if part) for row in row_labels(answer, places))
    _name_ticks(ax, AnswerAxis("", labels, len(labels)), "y", DOTS)
    ax.set_ylim(len(places) - 0.4, -0.6)
    if len(answer.tables) > 1 and size <= DOTS:
        _name_tables(answer, ax)
    _style(ax, "x")
    _thousands(ax, "x")
    if len(places) > 30:
        ax.tick_params(axis="y", labelsize=7.5)
    if answer.is_counts and answer.consistent.feasible:
        ax.set_xlim(0.0, 1.04 * max(float(answer.bounds.high.max(initial=1.0)), 1.0))
    chosen = f" (the {DOTS} largest of {size:,})" if size > DOTS else ""
    ax.set_xlabel(f"{answer.value_name}{chosen}", color=INK)
    if len(answer.tables) == 1 and answer.is_counts:
        ax.set_ylabel(_plain(shortened(" × ".join(answer.tables[0].names))), color=INK)


def _name_tables(answer: Released, ax: Axes) -> None:
    """A line above each marginal, with its attributes on the right."""
    start = 0
    for table in answer.tables:
        if start:
            ax.axhline(start - 0.5, color=QUIET, linewidth=0.6)
        name = _plain(shortened(" × ".join(table.names)))
        ax.annotate(
            name,
            (1, start - 0.45),
            (-4, -2),
            ax.get_yaxis_transform(),
            "offset points",
            ha="right",
            va="top",
            fontsize=8.5,
            style="italic",
            color=QUIET,
        )
        start += table.size
