"""The pictures with words under the pointer, one function for each shape of answer."""

from __future__ import annotations

import numpy as np

from blowfishdb.engine.present.colours import BAND, BAR, INK, MARK, shade
from blowfishdb.engine.present.frame import Frame, label
from blowfishdb.engine.present.numbers import ABOVE_ZERO, digits_of
from blowfishdb.engine.present.pooling import largest, pooled, runs, tallest
from blowfishdb.engine.present.shape import shape_of
from blowfishdb.engine.present.svg import element, words
from blowfishdb.engine.present.text import row_labels, shortened
from blowfishdb.engine.released import Released
from blowfishdb.model.arrays import Floats

TARGETS = 160
"""More answers than this share areas under the pointer."""
PIXELS = 600
SQUARES = (36, 48)
LISTED = 40
ROW = 22.0


def chart(answer: Released) -> tuple[Frame, list[str]]:
    """The sheet and what is drawn on it."""
    draw = {"bars": _bars, "heat": _heat, "steps": _steps, "dots": _dots}[shape_of(answer)]
    return draw(answer)


def _tip_lines(answer: Released, place: int) -> list[str]:
    """The label, the value and its interval."""
    digits = digits_of(answer)
    running = "up to " if place < answer.running else ""
    low, high = digits.low(float(answer.bounds.low[place])), digits.high(float(answer.bounds.high[place]))
    value = digits.value(float(answer.values[place]))
    return [
        running + " × ".join(part for part in row_labels(answer, [place])[0] if part),
        f"{value}  ({low} to {high})",
    ]


def _ceiling(answer: Released) -> float:
    return 1.05 * max(float(answer.bounds.high.max(initial=0.0)), 1.0)


def _targets(answer: Released, frame: Frame, size: int) -> list[str]:
    """Areas side by side across the plot; one that stands for several answers tells of the tallest, or of the last."""
    starts = runs(size, TARGETS)
    parts = []
    for start, stop in zip(starts, [*starts[1:], size], strict=True):
        place = stop - 1 if answer.kind == "cdf" else start + int(answer.values[start:stop].argmax())
        lines = _tip_lines(answer, place)
        if stop - start > 1:
            lines.append(f"{'last' if answer.kind == 'cdf' else 'largest'} of {stop - start} here")
        x, wide = frame.left + frame.across * start / size, frame.across * (stop - start) / size
        parts.append(frame.tip((x, frame.top, wide, frame.down), lines))
    return parts


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _bars(answer: Released) -> tuple[Frame, list[str]]:
    """One bar per answer; of more than there are pixels, the tallest of those that share one."""
    axis, top = answer.tables[0].axes[0], _ceiling(answer)
    frame = Frame().with_room_for(axis.labels)
    places = tallest(answer.values, PIXELS)
    step = frame.across / len(places)
    gap = 0.07 * step if len(places) <= TARGETS else 0.0

    def height(value: float) -> float:
        return frame.floor - frame.down * max(value, 0.0) / top

    columns, whiskers = [], []
    for column, place in enumerate(places):
        x, value = frame.left + step * column, height(float(answer.values[place]))
        low, high = height(float(answer.bounds.low[place])), height(float(answer.bounds.high[place]))
        columns.append(f"M{x + gap:.1f} {frame.floor:.1f}V{value:.1f}H{x + step - gap:.1f}V{frame.floor:.1f}Z")
        whiskers.append(f"M{x + step / 2:.1f} {low:.1f}V{high:.1f}")
    thick = 1.4 if len(places) <= TARGETS else 0.5
    return frame, [
        frame.height_axis(0.0, top, answer.value_name),
        element("path", {"d": "".join(columns), "fill": BAR}),
        element("path", {"d": "".join(whiskers), "stroke": MARK, "stroke-width": thick}),
        frame.name_axis(axis.labels, axis.name),
        *_targets(answer, frame, answer.raw.size),
    ]


def _steps(answer: Released) -> tuple[Frame, list[str]]:
    axis, plain = answer.tables[0].axes[0], answer.running
    frame = Frame().with_room_for(axis.labels[:plain])
    low, high, values = answer.bounds.low[:plain], answer.bounds.high[:plain], answer.values[:plain]
    top, floor = _ceiling(answer), 0.0
    if plain and float(low[0]) > 0.5 * top:
        top, floor = float(high.max()), float(low[0])
        top, floor = top + 0.08 * (top - floor), floor - 0.08 * (top - floor)

    def curve(column: Floats) -> list[tuple[float, float]]:
        x = np.linspace(frame.left, frame.left + frame.across, plain + 1)
        y = frame.floor - frame.down * (np.maximum(column, floor) - floor) / (top - floor)
        y = np.round(y, 1)
        changes = np.flatnonzero(np.diff(y, prepend=np.nan, append=np.nan) != 0.0)
        points: list[tuple[float, float]] = []
        for begin, end in zip(changes[:-1].tolist(), changes[1:].tolist(), strict=True):
            points += [(float(x[begin]), float(y[begin])), (float(x[end]), float(y[begin]))]
        return points

    band = _path(curve(high) + curve(low)[::-1]) + "Z"
    beside = [
        label(frame.width - frame.right - 4, frame.floor - 10 - 16 * row, ": ".join(_tip_lines(answer, place)), "end")
        for row, place in enumerate(range(plain, answer.raw.size))
    ]
    return frame, [
        frame.height_axis(floor, top, f"records up to here{ABOVE_ZERO if floor > 0.0 else ''}"),
        element("path", {"d": band, "fill": BAND, "fill-opacity": 0.8}),
        element("path", {"d": _path(curve(values)), "fill": "none", "stroke": MARK, "stroke-width": 1.6}),
        frame.name_axis(axis.labels[:plain], axis.name),
        *beside,
        *_targets(answer, frame, plain),
    ]


def _heat(answer: Released) -> tuple[Frame, list[str]]:
    table = answer.tables[0]
    plane = pooled(answer.values, table, SQUARES)
    rows, columns = plane.values.shape
    frame = Frame(height=min(max(ROW * rows + 90.0, 260.0), 620.0), left=130.0, right=100.0)
    frame = frame.with_room_for(plane.columns)
    top, digits = max(float(plane.values.max(initial=0.0)), 1e-12), digits_of(answer)
    high, wide = frame.down / rows, frame.across / columns
    squares = []
    for row in range(rows):
        y = frame.floor - high * (row + 1)
        for column in range(columns):
            value = float(plane.values[row, column])
            where = {"x": frame.left + wide * column, "y": y, "width": wide, "height": high, "fill": shade(value / top)}
            said = f"{plane.rows[row]} × {plane.columns[column]}: {digits.value(value)}"
            squares.append(element("rect", where, element("title", {}, words(said))))
    every = max(int(np.ceil(14.0 / high)), 1)
    names = [
        label(frame.left - 7.0, frame.floor - high * (row + 0.5) + 4.0, shortened(plane.rows[row], 16), "end")
        for row in range(0, rows, every)
    ]
    down = label(frame.left - 7.0, frame.top - 2.0, shortened(table.names[0], 18), "end")
    return frame, [
        *squares,
        *names,
        down,
        frame.name_axis(plane.columns, table.names[1]),
        *_colour_bar(answer, frame, top, plane.factor),
    ]


def _colour_bar(answer: Released, frame: Frame, top: float, factor: int) -> list[str]:
    x, digits = frame.width - frame.right + 16.0, digits_of(answer)
    step = frame.down / 40
    parts = [
        element(
            "rect",
            {"x": x, "y": frame.floor - step * (k + 1), "width": 14, "height": step + 0.5, "fill": shade(k / 39)},
        )
        for k in range(40)
    ]
    parts += [label(x + 20, frame.floor, "0", "start"), label(x + 20, frame.top + 10.0, digits.value(top), "start")]
    said = f"± {digits.high(answer.widths.simultaneous)}" if factor == 1 and answer.together is None else ""
    if factor > 1:
        said = f"sums of {factor:,}"
    return [*parts, label(x, frame.floor + 18.0, said, "start")]


def _dots(answer: Released) -> tuple[Frame, list[str]]:
    size = answer.raw.size
    places = list(range(size)) if size <= LISTED else largest(answer.values, LISTED)
    frame = Frame(height=ROW * len(places) + 76.0, left=230.0)
    low, high = float(answer.bounds.low[places].min()), float(answer.bounds.high[places].max())
    low = min(low, 0.0) if answer.is_counts else low
    spare = 0.05 * ((high - low) or 1.0)
    low, high = low if answer.is_counts else low - spare, high + spare

    def across(value: float) -> float:
        return frame.left + frame.across * (value - low) / (high - low)

    parts = [frame.number_axis(low, high, answer.value_name)]
    tips = []
    for row, place in enumerate(places):
        y = frame.top + ROW * (row + 0.5)
        ends = {"x1": across(float(answer.bounds.low[place])), "x2": across(float(answer.bounds.high[place]))}
        lines = _tip_lines(answer, place)
        parts.append(label(frame.left - 9.0, y + 4.0, shortened(lines[0], 32), "end"))
        parts.append(element("line", {**ends, "y1": y, "y2": y, "stroke": BAND, "stroke-width": 8}))
        parts.append(element("circle", {"cx": across(float(answer.values[place])), "cy": y, "r": 3, "fill": MARK}))
        tips.append(frame.tip((frame.left, y - ROW / 2, frame.across, ROW), lines))
    if size > LISTED:
        said = {"x": 4, "y": frame.height - 6.0, "fill": INK, "class": "q"}
        parts.append(element("text", said, words(f"the {LISTED} largest of {size:,}")))
    return frame, [*parts, *tips]
