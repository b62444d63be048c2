"""The answer as one piece of SVG with values under the pointer: no scripts, fonts or other files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from blowfishdb.model.numbers import Floats
from blowfishdb.present.released import Released
from blowfishdb.present.table import (
    BAND,
    BAR,
    GRID,
    INK,
    MARK,
    PAPER,
    QUIET,
    largest,
    pooled,
    regular,
    row_labels,
    runs,
    shade,
    shape_of,
    shortened,
    tallest,
    whose,
)
from blowfishdb.present.words import ABOVE_ZERO, accuracy_words, digits_of, epsilon_words, printable


def element(name: str, attributes: Mapping[str, object], *children: str) -> str:
    """One element; the children are markup already, the values of attributes are escaped here."""
    written = "".join(f' {key}="{words(_short(value))}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>"


def words(text: str) -> str:
    """Text as markup: nothing in it can open an element, close an attribute or steer the reader's screen."""
    return escape(printable(text), quote=True)


def _short(value: object) -> str:
    """Positions to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between low and high, about so many."""
    span = high - low
    if not (math.isfinite(span) and span > 0.0):
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(part * power for part in (1, 2, 5, 10) if part * power >= rough)
    return [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]


LETTER = 6.6
"""About the width of a letter, in pixels."""
NAME = 16
TILTED = 32
"""Up to so many names are tilted rather than left out."""


@dataclass(frozen=True)
class Frame:
    """A sheet of the given size in pixels, with room for axes around the plot."""

    width: float = 720.0
    height: float = 340.0
    left: float = 72.0
    right: float = 16.0
    top: float = 14.0
    bottom: float = 58.0

    @property
    def across(self) -> float:
        """The width of the plot itself."""
        return self.width - self.left - self.right

    @property
    def down(self) -> float:
        """The height of the plot itself."""
        return self.height - self.top - self.bottom

    @property
    def floor(self) -> float:
        """Where the plot ends below."""
        return self.height - self.bottom

    def tip(self, area: tuple[float, float, float, float], lines: Sequence[str]) -> str:
        """An area (x, y, width, height) that shows a few words while the pointer is over it."""
        x, y, wide, high = area
        shown = [shortened(line, 60) for line in lines]
        box = LETTER * max(map(len, shown)) + 16.0
        tall = 17.0 * len(shown) + 8.0
        at = min(max(x + wide / 2 - box / 2, 2.0), self.width - box - 2.0)
        above = min(max(y - tall - 6.0, 2.0), self.height - tall - 2.0)
        spans = [
            element(
                "text", {"x": at + 8.0, "y": above + 16.0 + 17.0 * row, "class": "b" if row == 0 else "t"}, words(line)
            )
            for row, line in enumerate(shown)
        ]
        back = element("rect", {"x": at, "y": above, "width": box, "height": tall, "rx": 4, "class": "k"})
        target = element("rect", {"x": x, "y": y, "width": wide, "height": high, "class": "a"})
        return element("g", {"class": "h"}, target, element("g", {"class": "w"}, back, *spans))

    def height_axis(self, low: float, high: float, name: str) -> str:
        """Lines across the plot at round values, with the values on the left."""
        parts = []
        for tick in round_ticks(low, high):
            y = self.floor - self.down * (tick - low) / (high - low)
            line = {"x1": self.left, "x2": self.width - self.right, "y1": y, "y2": y, "stroke": GRID}
            parts.append(element("line", line))
            parts.append(label(self.left - 7.0, y + 4.0, f"{tick:,.10g}", "end"))
        middle = self.top + self.down / 2
        turned = {
            "transform": f"rotate(-90 14 {middle:.1f})",
            "x": 14,
            "y": middle,
            "text-anchor": "middle",
            "class": "q",
        }
        return "".join(parts) + element("text", turned, words(name))

    def with_room_for(self, labels: Sequence[str]) -> Frame:
        """The same sheet, taller where names have to be tilted."""
        more = 0.6 * LETTER * self._longest(labels) if self._tilts(labels) else 0.0
        return replace(self, height=self.height + more, bottom=self.bottom + more)

    def _longest(self, labels: Sequence[str]) -> int:
        return min(max((len(text) for text in labels), default=1), NAME)

    def _fit(self, labels: Sequence[str]) -> int:
        """How many names fit side by side."""
        return max(int(self.across / (LETTER * self._longest(labels) + 10.0)), 2)

    def _tilts(self, labels: Sequence[str]) -> bool:
        """Whether the names do not fit side by side, but are few enough to stand tilted."""
        return self._fit(labels) < len(labels) <= TILTED

    def name_axis(self, labels: Sequence[str], name: str) -> str:
        """Names below the plot, as many as fit, and the attribute's name below them."""
        tilts = self._tilts(labels)
        parts = []
        for place in regular(labels, len(labels) if tilts else self._fit(labels)):
            x, y = self.left + self.across * (place + 0.5) / len(labels), self.floor + 18.0
            about: dict[str, object] = {"x": x, "y": y, "text-anchor": "middle"}
            if tilts:
                x, y = x + 4.0, y - 4.0
                about = {"x": x, "y": y, "text-anchor": "end", "transform": f"rotate(-38 {x:.1f} {y:.1f})"}
            parts.append(element("text", about, words(shortened(labels[place], NAME))))
        return "".join(parts) + self._below(name)

    def number_axis(self, low: float, high: float, name: str) -> str:
        """Round numbers below the plot, and the attribute's name below them."""
        parts = [
            label(self.left + self.across * (tick - low) / (high - low), self.floor + 18.0, f"{tick:,.10g}", "middle")
            for tick in round_ticks(low, high, 8)
        ]
        return "".join(parts) + self._below(name)

    def _below(self, name: str) -> str:
        line = {"x1": self.left, "x2": self.width - self.right, "y1": self.floor, "y2": self.floor, "stroke": QUIET}
        middle = {"x": self.left + self.across / 2, "y": self.height - 16.0, "text-anchor": "middle", "class": "q"}
        return element("line", line) + element("text", middle, words(shortened(name)))

    def sheet(self, mark: str, title: str, description: str, *parts: str) -> str:
        """The whole picture, with a title and a description for those who do not see it."""
        own = f"#{mark}"
        style = (
            f"{own} text{{font:12px system-ui,sans-serif;fill:{INK}}}{own} .q{{fill:{QUIET}}}"
            f"{own} .a{{fill:transparent}}{own} .h:hover .a{{fill:{INK};fill-opacity:.08}}"
            f"{own} .w{{visibility:hidden;pointer-events:none}}{own} .h:hover .w{{visibility:visible}}"
            f"{own} .k{{fill:{INK};fill-opacity:.94}}{own} .w text{{fill:{PAPER}}}{own} .b{{font-weight:600}}"
        )
        # In a group of their own the words name the picture without popping up over it.
        title_words = element("title", {"id": f"{mark}-t"}, words(title))
        head = element("g", {}, title_words, element("desc", {"id": f"{mark}-d"}, words(description)))
        paper = element("rect", {"width": self.width, "height": self.height, "fill": PAPER})
        about = {
            "xmlns": "http://www.w3.org/2000/svg",
            "id": mark,
            "viewBox": f"0 0 {self.width:.0f} {self.height:.0f}",
            "width": "100%",
            "style": f"max-width:{self.width:.0f}px;height:auto;display:block",
            "role": "img",
            "aria-labelledby": f"{mark}-t {mark}-d",
        }
        return element("svg", about, head, f"<style>{style}</style>", paper, *parts)


def label(x: float, y: float, text: str, anchor: str) -> str:
    """A few words at a place."""
    return element("text", {"x": x, "y": y, "text-anchor": anchor}, words(text))


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


def picture(answer: Released) -> str:
    """The answer as SVG."""
    drawn = hashlib.sha256(answer.title.encode() + answer.raw.tobytes()).hexdigest()
    frame, parts = chart(answer)
    return frame.sheet(f"bf{drawn[:10]}", answer.title, description(answer), *parts)


def description(answer: Released) -> str:
    """What the picture shows, for those who do not see it."""
    size = answer.raw.size
    said = f"{size:,} {'value' if size == 1 else 'values'}, epsilon {epsilon_words(answer.epsilon)}{whose(answer)}, "
    said += f"{accuracy_words(answer)}."
    if size == 0:
        return said
    place, digits = int(answer.values.argmax()), digits_of(answer)
    return f"{said} The largest is {digits.value(float(answer.values[place]))}. The values are in the table."
