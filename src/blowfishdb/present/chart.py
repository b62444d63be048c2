"""Charts as values: kind, axes, marks, limits and words of a picture, decided once; every renderer only draws them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from blowfishdb.errors import plural
from blowfishdb.model.numbers import Bools, Floats
from blowfishdb.present.answer_values import AnswerAxis, AnswerTable, AnswerValues
from blowfishdb.present.export import row_labels
from blowfishdb.present.words import Digits, accuracy_words, caption_words, digits_for, digits_of, price_words
from blowfishdb.present.words import percent as confidence_words

ChartKind: TypeAlias = Literal["number", "bars", "rows", "steps", "heat", "dots", "lines"]
Order: TypeAlias = Literal["declared", "value", "name"]
Unit: TypeAlias = Literal["", "days", "share"]

NAMED_BARS = 40
"""More bars than this stand on a number line, where there is one, instead of over their names."""
UPRIGHT_NAMES, UPRIGHT_LETTERS = 16, 80
"""More names than this, or longer ones side by side, stand beside horizontal bars."""
SKIPPED = 0.5
"""A curve that begins above this part of its height is drawn without the empty space below."""
MARGIN = 0.05
WHOLE = Digits(0)

BAR = "#3b7ea1"
MARK = "#12394f"
BAND = "#a9cfe2"
INK = "#1f2933"
QUIET = "#5f6c7b"
GRID = "#e3e8ee"
INTERVAL = "#d1603d"
"""Of a length as long as an interval, beside a scale of colours."""
PAPER = "#ffffff"

STOPS = ((253, 253, 244), (214, 233, 214), (147, 203, 194), (78, 160, 174), (38, 109, 146), (27, 58, 104), (17, 17, 58))
"""Light to dark at an even pace of lightness, so that it also reads in grey."""


@dataclass(frozen=True)
class Detail:
    """The most marks a renderer draws: bars, points of a curve, dots, horizontal bars, rows and columns of squares.

    Rows of squares that have names are not added up until they are more than `named` where a picture may grow.
    With `listed` each bar takes a line of text: of many bars the largest stay, not the tallest of neighbours.
    """

    bars: int
    points: int
    dots: int
    rows: int
    squares: tuple[int, int]
    listed: bool = False
    named: int = 0


@dataclass(frozen=True)
class ChartAxis:
    """The name of an axis and the labels of its groups, in order.

    `edges` are the ends of the groups where they are drawn on a number line (for lines, the points themselves); in
    `days` they count from 1970, and a `share` is shown in percent. Names that lie on no number line are `listed`: they
    read from the top down.
    """

    name: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    unit: Unit = ""
    log: bool = False
    listed: bool = False


@dataclass(frozen=True, eq=False)
class Series:
    """Values with the ends of their intervals; NaN is a gap. `flags` are words beside single values."""

    name: str
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    dashed: bool = False
    flags: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Chart:
    """One picture. Its first series has the values; further ones are drawn upon it.

    `groups` is the axis along the marks, `measure` the axis of their values, `rows` the second axis of a heat map.
    Mark i is called `marks[i]`, shows answer `places[i]` and stands for the groups from `starts[i]` to the next start.
    `limits` are the ends of the measure, margins included. `half_width` is that of the intervals of all answers with
    noise, None where they differ. `sections` name parts of the marks by the first mark of each. `confidence` is that of
    all intervals together; empty where no noise is in the numbers. `counted` says which rows count where not all do.
    """

    kind: ChartKind
    groups: ChartAxis
    measure: ChartAxis
    series: tuple[Series, ...]
    title: str = ""
    caption: str = ""
    description: str = ""
    digits: Digits = WHOLE
    limits: tuple[float, float] | None = None
    rows: ChartAxis = ChartAxis("")
    marks: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    sections: Mapping[int, str] = field(default_factory=dict)
    half_width: float | None = None
    beside: str = ""
    remark: str = ""
    note: str = ""
    is_counts: bool = True
    confidence: str = ""
    counted: str = ""

    @property
    def values(self) -> Floats:
        """The values of the first series; of a heat map, rows by columns."""
        return self.series[0].values

    @property
    def low(self) -> Floats:
        """The low ends of the intervals of the first series."""
        low = self.series[0].low
        return self.values if low is None else low

    @property
    def high(self) -> Floats:
        """The high ends of the intervals of the first series."""
        high = self.series[0].high
        return self.values if high is None else high

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the measure, of an answer's chart."""
        return self.limits or (0.0, 1.0)

    @property
    def begins_above_zero(self) -> bool:
        """Whether the axis of counts leaves out the part next to 0."""
        return self.is_counts and self.ends[0] > 0.0

    def label(self, mark: int) -> str:
        """The name of a mark; of a running count with its "up to"."""
        return f"up to {self.marks[mark]}" if self.kind == "steps" else self.marks[mark]

    def value(self, mark: int) -> str:
        """The value of a mark as text."""
        return self.digits.value(float(self.values[mark]))

    def square(self, row: int, column: int) -> str:
        """The value of a square of a heat map as text, with its interval, and whether that holds 0."""
        digits, value = self.digits, self.digits.value(float(self.values[row, column]))
        low, high = digits.low(float(self.low[row, column])), digits.high(float(self.high[row, column]))
        return f"{value} ({low} to {high})" + (", within the noise" if self.in_noise[row, column] else "")

    @property
    def in_noise(self) -> Bools:
        """Which values are not told apart from 0 by their intervals."""
        return np.asarray((self.low <= 0.0) & (self.high > self.low), dtype=np.bool_)

    @property
    def interval_part(self) -> float:
        """The part of the measure that the widest interval takes; 0 where all values are exact."""
        low, high = self.ends
        return 2.0 * self._widest / (high - low)

    @property
    def interval_words(self) -> str:
        """The half-width of the intervals, or of the widest one; nothing where all values are exact."""
        least = "" if self.half_width is not None else "up to "
        return f"intervals {least}± {self.digits.high(self._widest)}" if self._widest else ""

    @property
    def _widest(self) -> float:
        return float((self.high - self.low).max(initial=0.0)) / 2 if self.half_width is None else self.half_width

    @property
    def noise_words(self) -> str:
        """What the dots upon a heat map mean; nothing where no value is within the noise."""
        wide = "" if self.half_width is None else f" of ± {self.digits.high(self.half_width)}"
        return f"dotted: within the noise{wide}, perhaps 0" if self.in_noise.any() else ""

    @property
    def number_words(self) -> str:
        """The interval of a single number as a sentence."""
        if self.low[0] == self.high[0]:
            return "exact" if not self.confidence else f"no other value fits, with {self.confidence} confidence"
        return f"between {self.interval(0).replace(' to ', ' and ')}, with {self.confidence} confidence"

    def interval(self, mark: int) -> str:
        """The interval of a mark as text: "7 to 17"."""
        return f"{self.digits.low(float(self.low[mark]))} to {self.digits.high(float(self.high[mark]))}"


def chart_kind(answer: AnswerValues) -> ChartKind:
    """A number by itself; bars for one attribute, horizontal where names need room; a heat map for two; steps for
    running counts; dots in intervals for all else."""
    # Of one group that was chosen among others the name is the answer.
    is_chosen = answer.kind == "table" and not answer.tables[0].crossed
    if answer.raw.size == 1 and not is_chosen:
        return "number"
    if answer.running > 0:
        return "steps"
    if answer.kind in ("histogram", "histogram2d", "table") and is_amounts(answer) and len(answer.tables) == 1:
        (table,) = answer.tables
        if len(table.axes) == 1:
            return "rows" if needs_rows(table.axes[0]) else "bars"
        if len(table.axes) == 2 and table.crossed:
            return "heat"
    return "dots"


def is_amounts(answer: AnswerValues) -> bool:
    """Whether the answers are counts or shares, which bars from 0 on and shades show truly."""
    return answer.is_counts or {column.function for column in answer.columns} == {"share"}


def needs_rows(axis: AnswerAxis) -> bool:
    """Whether the names of groups need more room than there is below upright bars."""
    many, longest = len(axis.labels), max(map(len, axis.labels), default=0)
    return not axis.edges and (many > UPRIGHT_NAMES or many * longest > UPRIGHT_LETTERS)


def is_categories(answer: AnswerValues) -> bool:
    """Whether the marks have names that may be sorted and searched: they lie on no number line, and are one list."""
    return (
        chart_kind(answer) in ("bars", "rows", "dots")
        and len(answer.tables) == 1
        and not answer.tables[0].axes[0].edges
    )


def chart_of(
    answer: AnswerValues,
    detail: Detail,
    *,
    raw: bool = False,
    order: Order = "declared",
    matching: str = "",
    percent: bool = False,
) -> Chart:
    """The chart that suits the answer, of its consistent or of its raw values, with a limited number of marks.

    Categories may be sorted and searched, and counts shown in percent of all of them. Of a table the first column is
    drawn, and of several answers the first.
    """
    if answer.parts:
        return chart_of(answer.parts[0], detail, raw=raw)
    if len(answer.columns) > 1:
        return chart_of(answer.column(0), detail, raw=raw, order=order, matching=matching, percent=percent)
    kind, shown = chart_kind(answer), _amounts(answer, raw=raw, percent=percent)
    if kind == "heat":
        return _heat_map(answer, shown, detail)
    places, starts, remark = _thinned(answer, shown.values, kind, detail, order, matching)
    low, high, values = shown.low[places], shown.high[places], shown.values[places]
    limits = _limits(kind, low, high, values, is_counts=is_amounts(answer))
    groups, measure = _axes(answer, kind, shown.name, remark)
    if kind == "steps" and limits[0] > 0.0:
        measure += " (axis begins above 0)"
    if kind == "bars" and is_categories(answer):
        groups = replace(groups, labels=tuple(groups.labels[place] for place in places))
    return Chart(
        kind,
        groups,
        ChartAxis(measure),
        (Series(shown.name, values, low, high),),
        answer.title,
        caption_words(answer),
        description(answer),
        shown.digits,
        limits,
        marks=tuple(" × ".join(part for part in row if part) for row in row_labels(answer, places)),
        places=tuple(places),
        starts=tuple(starts),
        sections=_sections(answer.tables, places),
        half_width=shown.half_width,
        beside=_beside(answer) if kind == "steps" else "",
        remark=remark,
        note=answer.consistent.note,
        is_counts=is_amounts(answer),
        confidence=_confidence(answer),
        counted=answer.counted,
    )


def _confidence(answer: AnswerValues) -> str:
    return "" if answer.is_true else confidence_words(answer.beta)


@dataclass(frozen=True, eq=False)
class _Amounts:
    """The numbers of an answer as they are drawn."""

    name: str
    values: Floats
    low: Floats
    high: Floats
    digits: Digits
    half_width: float | None


def _amounts(answer: AnswerValues, *, raw: bool, percent: bool) -> _Amounts:
    """The values with their intervals; in percent of the total where that is asked and means something."""
    values, low, high = answer.raw if raw else answer.values, answer.bounds.low, answer.bounds.high
    half_width = answer.widths.simultaneous if answer.simultaneous is None else None
    if not percent or not can_be_percent(answer):
        return _Amounts(answer.value_name, values, low, high, digits_of(answer), half_width)
    total = None if answer.measured is None else answer.measured.total
    if total:
        low, high, half_width = low / total, high / total, None if half_width is None else 100.0 * half_width / total
        shares = values / total
    else:
        # All true counts lie in their intervals: a share is least where its count is and the others are greatest.
        rest_low, rest_high, half_width = low.sum() - low, high.sum() - high, None
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = low / (low + rest_high), high / (high + rest_low)
            shares = values / values.sum()
        low, high = np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
        shares = np.clip(np.nan_to_num(shares), low, high)
    shares, low, high = 100.0 * shares, 100.0 * np.clip(low, 0.0, 1.0), 100.0 * np.clip(high, 0.0, 1.0)
    return _Amounts("percent of the records", shares, low, high, digits_for(shares, low, high), half_width)


def can_be_percent(answer: AnswerValues) -> bool:
    """Whether the answers are counts of all groups of one division of the records, so that they have a total."""
    one_division = len(answer.tables) == 1 and answer.tables[0].crossed and answer.raw.size > 1
    return answer.kind in ("histogram", "histogram2d") and answer.is_counts and one_division


def shared_top(*answers: AnswerValues) -> float:
    """A round end of the measure for answers that are compared."""
    highest = max(
        max(float(answer.bounds.high.max(initial=1.0)), float(answer.raw.max(initial=1.0))) for answer in answers
    )
    step = 10.0 ** math.floor(math.log10(highest)) / 2
    return step * math.ceil(highest / step)


def description(answer: AnswerValues) -> str:
    """What the picture shows, for those who do not see it."""
    size = answer.raw.size
    parts = (plural(size, "value"), price_words(answer), accuracy_words(answer), answer.counted)
    words = f"{', '.join(filter(None, parts))}."
    if size == 0:
        return words
    largest_value = digits_of(answer).value(float(answer.values.max()))
    return f"{words} The largest is {largest_value}. The values are in the table."


def _thinned(
    answer: AnswerValues, values: Floats, kind: ChartKind, detail: Detail, order: Order, matching: str
) -> tuple[list[int], Sequence[int], str]:
    """The answers to draw in their order, the first group that each stands for, and words about the others."""
    size = values.size
    if is_categories(answer):
        most = min(detail.bars, detail.rows) if kind in ("bars", "rows") else detail.dots
        return _listed(answer, values, most, order, matching)
    if kind == "steps":
        places = evenly(answer.running, detail.points)
        words = f"{len(places)} of {answer.running:,} running counts, evenly spread"
        return places, [0, *(place + 1 for place in places[:-1])], words if len(places) < answer.running else ""
    if kind == "bars" and not detail.listed:
        return tallest(values, detail.bars), runs(size, detail.bars), ""
    most = detail.bars if kind == "bars" else detail.dots
    places = largest(values, most)
    return places, range(len(places)), f"the {most} largest of {size:,} values" if size > most else ""


def _listed(
    answer: AnswerValues, values: Floats, most: int, order: Order, matching: str
) -> tuple[list[int], Sequence[int], str]:
    """The categories whose names hold the text, sorted; of too many the largest."""
    labels = answer.labels
    wanted = matching.strip().casefold()
    places = np.array([place for place, label in enumerate(labels) if wanted in label.casefold()], dtype=np.int64)
    matching_count = places.size
    if matching_count > most:
        places = places[largest(values[places], most)]
    if order == "value":
        places = places[np.argsort(-values[places], kind="stable")]
    listed: list[int] = places.tolist()
    if order == "name":
        listed.sort(key=lambda place: natural(labels[place]))
    words = f"the {most} largest of {matching_count:,} values" if matching_count > most else ""
    return listed, range(len(listed)), words


def natural(label: str) -> list[tuple[int, int, str]]:
    """A key that sorts names as people do: ward 2 before ward 10, capital letters beside small ones."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", label.casefold())]


def _axes(answer: AnswerValues, kind: ChartKind, measured: str, remark: str) -> tuple[ChartAxis, str]:
    """The axis of the groups, and the name of the measure."""
    first = answer.tables[0]
    if kind in ("dots", "rows", "number"):
        name = " × ".join(first.names) if len(answer.tables) == 1 and is_amounts(answer) else ""
        return ChartAxis(name), f"{measured} ({remark})" if remark else measured
    axis = first.axes[0]
    edges = tuple(axis.edges) if kind == "steps" or _on_line(axis) else ()
    groups = ChartAxis(axis.name, tuple(axis.labels[: answer.running or None]), edges, "days" if axis.in_days else "")
    return groups, "records up to here" if kind == "steps" else measured


def _on_line(axis: AnswerAxis) -> bool:
    """Whether bars are drawn on a number line: they lie on one, are many, and equally wide."""
    if not axis.edges or axis.plain < len(axis.labels) or axis.plain <= NAMED_BARS:
        return False
    steps = np.diff(axis.edges)
    return bool(np.all(np.abs(steps - steps[0]) <= 1e-6 * abs(steps[0])))


def _limits(kind: ChartKind, low: Floats, high: Floats, values: Floats, *, is_counts: bool) -> tuple[float, float]:
    if not values.size:
        return 0.0, 1.0
    bottom, top = float(min(low.min(), values.min())), float(max(high.max(), values.max()))
    if not is_counts:
        spare = MARGIN * ((top - bottom) or 1.0)
        return bottom - spare, top + spare
    top = max(top, 1.0)
    if kind == "steps" and bottom > SKIPPED * top:
        step = 10.0 ** math.floor(math.log10(max(top - bottom, 1.0))) / 5
        floor = max(step * math.floor((bottom - MARGIN * (top - bottom)) / step), 0.0)
        return floor, top + MARGIN * (top - floor)
    return min((1 + MARGIN) * bottom, 0.0), (1 + MARGIN) * top


def _sections(tables: Sequence[AnswerTable], places: Sequence[int]) -> dict[int, str]:
    """The names of the tables by the first mark of each; none where there is one table."""
    if len(tables) == 1:
        return {}
    starts = np.cumsum([0, *(table.size for table in tables)])
    firsts = np.searchsorted(places, starts).tolist()
    return {
        first: " × ".join(table.names)
        for table, first, end in zip(tables, firsts, firsts[1:], strict=False)
        if first < end
    }


def _beside(answer: AnswerValues) -> str:
    """The special cells that no running count holds."""
    digits, bounds = digits_of(answer), answer.bounds
    parts = [
        f"{row[0]}: {digits.value(float(answer.values[place]))} "
        f"({digits.low(float(bounds.low[place]))} to {digits.high(float(bounds.high[place]))})"
        for place, row in enumerate(row_labels(answer, range(answer.running, answer.raw.size)), answer.running)
    ]
    return f"beside the order: {', '.join(parts)}" if parts else ""


def _heat_map(answer: AnswerValues, shown: _Amounts, detail: Detail) -> Chart:
    """The answers of two attributes as a plane; sums of neighbours where there are more cells than squares."""
    (table,) = answer.tables
    down, across = detail.squares
    down = down if table.axes[0].edges else max(down, detail.named)
    blocks = [_blocks(axis, most) for axis, most in zip(table.axes, (down, across), strict=True)]

    def plane(column: Floats) -> Floats:
        squares = column.reshape(table.shape)
        for axis, starts in enumerate(blocks):
            squares = np.add.reduceat(squares, starts, axis=axis)
        return squares

    values = plane(shown.values)
    cells = math.prod(int(np.diff([*starts, size]).max()) for starts, size in zip(blocks, table.shape, strict=True))
    rows, columns = (
        ChartAxis(axis.name, _block_labels(axis, starts), listed=not axis.edges)
        for axis, starts in zip(table.axes, blocks, strict=True)
    )
    # Intervals that hold together add up: a sum of cells lies between the sums of their ends.
    return Chart(
        "heat",
        columns,
        ChartAxis(shown.name),
        (Series(shown.name, values, plane(shown.low), plane(shown.high)),),
        answer.title,
        caption_words(answer),
        description(answer),
        shown.digits,
        (min(float(values.min()), 0.0), max(float(values.max()), 1.0)),
        rows,
        half_width=shown.half_width if cells == 1 else None,
        remark=f"each square adds up {cells:,} cells" if cells > 1 else "",
        note=answer.consistent.note,
        confidence=_confidence(answer),
        counted=answer.counted,
    )


def _blocks(axis: AnswerAxis, most: int) -> list[int]:
    """Where the blocks begin: equal runs of ordinary cells, then each special cell alone."""
    special = len(axis.labels) - axis.plain
    step = math.ceil(axis.plain / max(most - special, 1)) or 1
    return [*range(0, axis.plain, step), *range(axis.plain, len(axis.labels))]


def _block_labels(axis: AnswerAxis, starts: list[int]) -> tuple[str, ...]:
    ends = [*starts[1:], len(axis.labels)]
    return tuple(
        axis.labels[low] if high - low == 1 else f"{axis.labels[low]} to {axis.labels[high - 1]}"
        for low, high in zip(starts, ends, strict=True)
    )


def evenly(size: int, most: int) -> list[int]:
    """Places evenly spread, `most` of them at most, the first and the last included."""
    if size <= most:
        return list(range(size))
    return [round(step * (size - 1) / (most - 1)) for step in range(most)]


def regular(labels: Sequence[str], most: int) -> list[int]:
    """Places at equal steps, `most` of them at most; where the labels count up in ones, at round numbers."""
    size = len(labels)
    if size <= most:
        return list(range(size))
    steps = (part * 10**power for power in itertools.count() for part in (1, 2, 5))
    step = next(step for step in steps if size <= step * most)
    first = _whole(labels[0])
    counts_up = first is not None and _whole(labels[1]) == first + 1
    start = -first % step if first is not None and counts_up else 0
    return list(range(start, size, step))


def _whole(label: str) -> int | None:
    try:
        return int(label)
    except ValueError:
        return None


def tallest(values: Floats, most: int) -> list[int]:
    """The place of the largest value in each of at most `most` runs of neighbours of nearly equal length."""
    starts = runs(values.size, most)
    ends = [*starts[1:], values.size]
    return [low + int(values[low:high].argmax()) for low, high in zip(starts, ends, strict=True)]


def runs(size: int, most: int) -> list[int]:
    """Where each of at most `most` runs of nearly equal length begins."""
    count = min(size, most)
    return [place * size // count for place in range(count)]


def largest(values: Floats, most: int) -> list[int]:
    """The places of the largest values, in order of place."""
    return sorted(np.argsort(-values, kind="stable")[:most].tolist())


def shade(part: float) -> str:
    """The colour for a part between 0 (light) and 1 (dark)."""
    place = min(max(part, 0.0), 1.0) * (len(STOPS) - 1)
    first = min(int(place), len(STOPS) - 2)
    rest = place - first
    mixed = (round(a + (b - a) * rest) for a, b in zip(STOPS[first], STOPS[first + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
