"""Charts as one piece of SVG with values under the pointer: no scripts, fonts or other files."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

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
    Chart,
    Detail,
    chart_of,
    regular,
    runs,
    shade,
)
from blowfishdb.present.words import printable, shortened


def element(name: str, attributes: Mapping[str, object], *children: str) -> str:
    """One element; the children are markup already, the values of attributes are escaped here."""
    pairs = "".join(f' {key}="{escaped(_short(value))}"' for key, value in attributes.items())
    return f"<{name}{pairs}>{''.join(children)}</{name}>"


def escaped(text: str) -> str:
    """Text as markup: nothing in it can open an element, close an attribute or steer the reader's screen."""
    return escape(printable(text), quote=True)


def _short(value: object) -> str:
    """Positions to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About the wanted number of round numbers between low and high."""
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
"""Names up to which they are tilted rather than left out."""


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
        spans = []
        for row, line in enumerate(shown):
            place = {"x": at + 8.0, "y": above + 16.0 + 17.0 * row, "class": "t" if row else "b"}
            spans.append(element("text", place, escaped(line)))
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
        turned = {"transform": f"rotate(-90 14 {middle:.1f})", "x": 14, "y": middle}
        return "".join(parts) + element("text", {**turned, "text-anchor": "middle", "class": "q"}, escaped(name))

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
            x = self.left + self.across * (place + 0.5) / len(labels)
            parts.append(name_label(x, self.floor + 18.0, shortened(labels[place], NAME), tilts=tilts))
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
        return element("line", line) + element("text", middle, escaped(shortened(name)))

    def sheet(self, mark: str, title: str, description: str, *parts: str) -> str:
        """The whole picture, with a title and a description for those who do not see it."""
        at = f"#{mark}"
        style = (
            f"{at} text{{font:12px system-ui,sans-serif;fill:{INK}}}{at} .q{{fill:{QUIET}}}"
            f"{at} .a{{fill:transparent}}{at} .h:hover .a{{fill:{INK};fill-opacity:.08}}"
            f"{at} .w{{visibility:hidden;pointer-events:none}}{at} .h:hover .w{{visibility:visible}}"
            f"{at} .k{{fill:{INK};fill-opacity:.94}}{at} .w text{{fill:{PAPER}}}{at} .b{{font-weight:600}}"
        )
        # In a group of their own the words name the picture without popping up over it.
        title_words = element("title", {"id": f"{mark}-t"}, escaped(title))
        head = element("g", {}, title_words, element("desc", {"id": f"{mark}-d"}, escaped(description)))
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
    return element("text", {"x": x, "y": y, "text-anchor": anchor}, escaped(text))


def name_label(x: float, y: float, text: str, *, tilts: bool) -> str:
    """A name with its middle at a place, or tilted with its end there."""
    if not tilts:
        return label(x, y, text, "middle")
    x, y = x + 4.0, y - 4.0
    turned = {"x": x, "y": y, "text-anchor": "end", "transform": f"rotate(-38 {x:.1f} {y:.1f})"}
    return element("text", turned, escaped(text))


DETAIL = Detail(bars=600, points=1_500, dots=40, rows=200, squares=(36, 48))
TARGETS = 160
"""More marks than this share areas under the pointer."""
ROW = 22.0
CLOSE = 60
"""More lines than this stand closer."""
BELOW = 20.0
"""The height of a line of words below a picture."""


def picture(answer: AnswerValues) -> str:
    """The answer as SVG."""
    return draw(chart_of(answer, DETAIL))


def draw(chart: Chart) -> str:
    """The chart of an answer as SVG."""
    digest = hashlib.sha256(chart.title.encode() + chart.values.tobytes()).hexdigest()
    kinds = {"number": _number, "bars": _bars, "rows": _dots, "heat": _heat, "steps": _steps, "dots": _dots}
    frame, parts = kinds[chart.kind](chart)
    heat_words = (chart.remark, chart.noise_words) if chart.kind == "heat" else ()
    below = "; ".join(filter(None, (*heat_words, chart.counted)))
    if below:
        frame = replace(frame, height=frame.height + BELOW)
        parts.append(element("text", {"x": 4, "y": frame.height - 8.0, "fill": INK, "class": "q"}, escaped(below)))
    return frame.sheet(f"bf{digest[:10]}", chart.title, chart.description, *parts)


def _targets(chart: Chart, frame: Frame) -> list[str]:
    """Areas side by side across the plot; one for several marks names the largest, or the last running count."""
    size, marks = len(chart.groups.labels), len(chart.marks)
    firsts = runs(marks, TARGETS)
    parts = []
    for first, end in zip(firsts, [*firsts[1:], marks], strict=True):
        mark = end - 1 if chart.kind == "steps" else first + int(chart.values[first:end].argmax())
        start, stop = chart.starts[first], chart.starts[end] if end < marks else size
        lines = _tip_lines(chart, mark)
        if stop - start > 1:
            lines.append(f"{'last' if chart.kind == 'steps' else 'largest'} of {stop - start} here")
        x, wide = frame.left + frame.across * start / size, frame.across * (stop - start) / size
        parts.append(frame.tip((x, frame.top, wide, frame.down), lines))
    return parts


def _tip_lines(chart: Chart, mark: int) -> list[str]:
    """The label, the value and its interval."""
    return [chart.label(mark), f"{chart.value(mark)}  ({chart.interval(mark)})"]


def _heights(chart: Chart, frame: Frame, values: Floats) -> Floats:
    """How far down the sheet values lie, to a tenth of a pixel."""
    low, high = chart.ends
    return np.round(frame.floor - frame.down * (np.clip(values, low, high) - low) / (high - low), 1)


def _edges(chart: Chart, frame: Frame) -> Floats:
    """How far across the sheet the marks begin, and where the last one ends."""
    size = len(chart.groups.labels)
    return frame.left + frame.across * np.array([*chart.starts, size]) / size


def _bars(chart: Chart) -> tuple[Frame, list[str]]:
    frame = Frame().with_room_for(chart.groups.labels)
    few = len(chart.marks) <= TARGETS
    edges, zero = _edges(chart, frame), float(_heights(chart, frame, np.zeros(1))[0])
    tops, lows, highs = (_heights(chart, frame, column) for column in (chart.values, chart.low, chart.high))
    columns, whiskers = [], []
    for left, right, top, low, high in zip(edges[:-1], edges[1:], tops, lows, highs, strict=True):
        gap = 0.07 * (right - left) if few else 0.0
        columns.append(f"M{left + gap:.1f} {zero:.1f}V{top:.1f}H{right - gap:.1f}V{zero:.1f}Z")
        whiskers.append(f"M{(left + right) / 2:.1f} {low:.1f}V{high:.1f}")
    return frame, [
        frame.height_axis(*chart.ends, chart.measure.name),
        element("path", {"d": "".join(columns), "fill": BAR}),
        element("path", {"d": "".join(whiskers), "stroke": MARK, "stroke-width": 1.4 if few else 0.5}),
        frame.name_axis(chart.groups.labels, chart.groups.name),
        *_targets(chart, frame),
    ]


def _steps(chart: Chart) -> tuple[Frame, list[str]]:
    frame = Frame().with_room_for(chart.groups.labels)
    x = _edges(chart, frame)

    def curve(column: Floats) -> list[tuple[float, float]]:
        y = _heights(chart, frame, column)
        changes = np.flatnonzero(np.diff(y, prepend=np.nan, append=np.nan) != 0.0).tolist()
        pairs = itertools.pairwise(changes)
        return [(float(x[end]), float(y[begin])) for begin, stop in pairs for end in (begin, stop)]

    band = _path(curve(chart.high) + curve(chart.low)[::-1]) + "Z"
    return frame, [
        frame.height_axis(*chart.ends, chart.measure.name),
        element("path", {"d": band, "fill": BAND, "fill-opacity": 0.8}),
        element("path", {"d": _path(curve(chart.values)), "fill": "none", "stroke": MARK, "stroke-width": 1.6}),
        frame.name_axis(chart.groups.labels, chart.groups.name),
        label(frame.width - frame.right - 4, frame.floor - 10, chart.beside, "end"),
        *_targets(chart, frame),
    ]


def _path(points: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _heat(chart: Chart) -> tuple[Frame, list[str]]:
    names, (rows, columns), (bottom, top) = chart.rows, chart.values.shape, chart.ends
    frame = Frame(height=min(max(ROW * rows + 90.0, 260.0), 620.0), left=130.0, right=100.0)
    frame = frame.with_room_for(chart.groups.labels)
    high, wide = frame.down / rows, frame.across / columns
    order = range(rows) if names.listed else range(rows - 1, -1, -1)
    tops = [frame.top + high * place for place in order]
    parts = []
    for (row, column), value in np.ndenumerate(chart.values):
        x, y = frame.left + wide * column, tops[row]
        colour = shade((float(value) - bottom) / (top - bottom))
        words = f"{names.labels[row]} × {chart.groups.labels[column]}: {chart.square(row, column)}"
        title = element("title", {}, escaped(words))
        parts.append(element("rect", {"x": x, "y": y, "width": wide, "height": high, "fill": colour}, title))
        if chart.in_noise[row, column]:
            dot = {"cx": x + wide / 2, "cy": y + high / 2, "r": min(1.8, wide / 4), "fill": QUIET}
            parts.append(element("circle", dot))
    for row in range(0, rows, max(math.ceil(14.0 / high), 1)):
        parts.append(label(frame.left - 7.0, tops[row] + 0.5 * high + 4.0, shortened(names.labels[row], 16), "end"))
    return frame, [
        *parts,
        label(frame.left - 7.0, frame.top - 2.0, shortened(names.name, 18), "end"),
        frame.name_axis(chart.groups.labels, chart.groups.name),
        *_colour_bar(chart, frame),
    ]


def _colour_bar(chart: Chart, frame: Frame) -> list[str]:
    x, step = frame.width - frame.right + 16.0, frame.down / 40
    low, high = (chart.digits.value(end) for end in chart.ends)
    parts = []
    for part in range(40):
        about = {"x": x, "y": frame.floor - step * (part + 1), "width": 14, "height": step + 0.5}
        parts.append(element("rect", {**about, "fill": shade(part / 39)}))
    if 0.0 < chart.interval_part < 1.0:
        long = max(chart.interval_part * frame.down, 1.0)
        parts.append(
            element("rect", {"x": x - 5.0, "y": frame.floor - long, "width": 3, "height": long, "fill": INTERVAL})
        )
    return [
        *parts,
        label(x + 20, frame.floor, low, "start"),
        label(x + 20, frame.top + 10.0, high, "start"),
        label(frame.width - 2.0, frame.floor + 18.0, chart.interval_words, "end"),
    ]


def _number(chart: Chart) -> tuple[Frame, list[str]]:
    """The number in large letters, its interval in words, and where in its interval it lies."""
    frame = Frame(height=136.0)
    big = {"x": 16, "y": 54, "style": "font-size:40px;font-weight:650"}
    parts = [element("text", big, escaped(chart.value(0))), label(18.0, 82.0, chart.number_words, "start")]
    low, high = float(chart.low[0]), float(chart.high[0])
    if low < high:
        across = 320.0
        at = 18.0 + across * min(max((float(chart.values[0]) - low) / (high - low), 0.0), 1.0)
        parts.append(element("rect", {"x": 18, "y": 98, "width": across, "height": 8, "rx": 4, "fill": BAND}))
        parts.append(element("circle", {"cx": at, "cy": 102, "r": 5, "fill": MARK}))
        parts += [
            label(18.0, 126.0, chart.digits.low(low), "start"),
            label(18.0 + across, 126.0, chart.digits.high(high), "end"),
        ]
    return frame, parts


def _dots(chart: Chart) -> tuple[Frame, list[str]]:
    """A line for each mark: a dot in its interval, or a bar that ends in its interval."""
    tall = ROW if len(chart.marks) <= CLOSE else 0.75 * ROW
    frame = Frame(height=tall * len(chart.marks) + 76.0, left=230.0)
    low, high = chart.ends
    starts, ends, middles, zeros = (
        frame.left + frame.across * (column - low) / (high - low)
        for column in (chart.low, chart.high, chart.values, np.zeros(len(chart.marks)))
    )
    parts, tips = [frame.number_axis(low, high, chart.measure.name)], []
    for mark in range(len(chart.marks)):
        y, value = frame.top + tall * (mark + 0.5), float(middles[mark])
        line = {"x1": float(starts[mark]), "x2": float(ends[mark]), "y1": y, "y2": y}
        parts.append(label(frame.left - 9.0, y + 4.0, shortened(chart.label(mark), 32), "end"))
        if chart.kind == "rows":
            left, wide = min(float(zeros[mark]), value), abs(value - float(zeros[mark]))
            bar = {"x": left, "y": y - 0.34 * tall, "width": wide, "height": 0.68 * tall, "fill": BAR}
            parts += [element("rect", bar), element("line", {**line, "stroke": MARK, "stroke-width": 1.4})]
        else:
            parts.append(element("line", {**line, "stroke": BAND, "stroke-width": 8}))
            parts.append(element("circle", {"cx": value, "cy": y, "r": 3, "fill": MARK}))
        tips.append(frame.tip((frame.left, y - tall / 2, frame.across, tall), _tip_lines(chart, mark)))
    return frame, [*parts, *tips]
