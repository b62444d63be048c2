"""ECharts options from released answers: bars with intervals, a curve in its band, a heat map, dots in intervals.

The colours read on light and on dark ground alike. Tooltips are text, so no label is ever taken for markup.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from blowfishdb.model.numbers import Floats
from blowfishdb.present.released import Released
from blowfishdb.present.table import STOPS, evenly, largest, pooled, row_labels, shape_of, tallest
from blowfishdb.present.words import ABOVE_ZERO, digits_of

Options: TypeAlias = dict[str, Any]

BAR, WHISKER, BAND, WORDS, GRID = "#3d92b8", "#d4762f", "rgba(61,146,184,0.26)", "#6e7f8b", "rgba(128,146,158,0.22)"
LINES = ("#3d92b8", "#d4762f", "#4b9b6e", "#9a6fc0", "#c25566", "#8a8f3c", "#5b7fd0")
"""For several lines in one chart, told apart with any kind of colour vision together with their marks."""
MOST_BARS, MOST_POINTS, MOST_DOTS = 800, 1500, 60
SQUARES = (60, 80)
SKIPPED = 0.5
"""A curve that begins above this part of its height is drawn without the empty space below."""
ZOOMED = 60
"""More bars than this can be zoomed into."""
NUMBER = "value => Math.abs(value) >= 1e6 ? (value / 1e6).toLocaleString('en') + ' M' : value.toLocaleString('en')"
SHOWN = "items => { const one = Array.isArray(items) ? items[0] : items; return one.data.said || one.name; }"
UPRIGHT = f"""(params, api) => {{
  const [x, low, high] = [api.value(0), api.value(1), api.value(2)];
  const [top, end] = [api.coord([x, high]), api.coord([x, low])];
  const half = Math.min(api.size([1, 0])[0] * 0.22, 7);
  const style = {{ stroke: '{WHISKER}', lineWidth: half < 2 ? 1 : 1.6, opacity: half < 2 ? 0.8 : 1 }};
  const line = (x1, y1, x2, y2) => ({{ type: 'line', shape: {{ x1, y1, x2, y2 }}, style }});
  const cap = (point) => line(point[0] - half, point[1], point[0] + half, point[1]);
  return {{ type: 'group', children: [line(top[0], top[1], end[0], end[1]), cap(top), cap(end)] }};
}}"""
LYING = f"""(params, api) => {{
  const [y, low, high] = [api.value(0), api.value(1), api.value(2)];
  const [from, to] = [api.coord([low, y]), api.coord([high, y])];
  return {{ type: 'line', shape: {{ x1: from[0], y1: from[1], x2: to[0], y2: to[1] }},
    style: {{ stroke: '{WHISKER}', lineWidth: 5, opacity: 0.45, lineCap: 'round' }} }};
}}"""


def chart_of(answer: Released, *, raw: bool = False, top: float | None = None) -> Options:
    """The picture that suits the answer, of its consistent or of its raw values; `top` fixes the scale."""
    values = answer.raw if raw else answer.values
    draw = {"bars": _bars, "steps": _steps, "heat": _heat, "dots": _dots}[shape_of(answer)]
    return draw(answer, values, top)


def height_of(answer: Released) -> int:
    """How many pixels high the picture should be."""
    shape = shape_of(answer)
    if shape == "dots":
        return min(max(26 * min(answer.raw.size, MOST_DOTS) + 90, 180), 1400)
    return 460 if shape == "heat" else 400


def top_of(*answers: Released) -> float:
    """One scale for answers that are compared."""
    tallest_end = max(
        max(float(answer.bounds.high.max(initial=1.0)), float(answer.raw.max(initial=1.0))) for answer in answers
    )
    step = 10.0 ** math.floor(math.log10(tallest_end)) / 2
    return step * math.ceil(tallest_end / step)


def said_of(answer: Released, values: Floats, place: int) -> str:
    """What the tooltip says: the label, the value and its interval."""
    digits = digits_of(answer)
    label = " × ".join(part for part in row_labels(answer, [place])[0] if part)
    running = "up to " if place < answer.running else ""
    low, high = digits.low(float(answer.bounds.low[place])), digits.high(float(answer.bounds.high[place]))
    return f"{running}{label}\n{digits.value(float(values[place]))}\n{low} to {high}"


def _sheet(**parts: Any) -> Options:
    """What all pictures share."""
    return {
        "animation": False,
        "aria": {"enabled": True},
        "textStyle": {"fontFamily": "inherit"},
        "grid": {"left": 12, "right": 18, "top": 34, "bottom": 34, "containLabel": True},
        "tooltip": {
            "trigger": "item",
            "renderMode": "richText",
            "confine": True,
            "backgroundColor": "#17242d",
            "borderWidth": 0,
            "padding": [8, 12],
            "textStyle": {"color": "#f2f6f8", "fontSize": 13, "lineHeight": 19},
            ":formatter": SHOWN,
        },
        **parts,
    }


def _names(labels: Sequence[str], name: str, **more: Any) -> Options:
    return {
        "type": "category",
        "data": list(labels),
        "name": name,
        "nameLocation": "middle",
        "nameGap": 32,
        "nameTextStyle": {"color": WORDS, "fontSize": 12.5},
        "axisLabel": {"color": WORDS, "fontSize": 12, "hideOverlap": True, "width": 110, "overflow": "truncate"},
        "axisLine": {"lineStyle": {"color": WORDS}},
        "axisTick": {"show": False},
        **more,
    }


def _numbers(name: str, top: float | None = None, low: float | None = None) -> Options:
    return {
        "type": "value",
        "name": name,
        "nameTextStyle": {"color": WORDS, "fontSize": 12.5, "align": "left"},
        "axisLabel": {"color": WORDS, "fontSize": 12, "hideOverlap": True, ":formatter": NUMBER},
        "splitLine": {"lineStyle": {"color": GRID}},
        **({} if top is None else {"max": top}),
        **({} if low is None else {"min": low}),
    }


def _bars(answer: Released, values: Floats, top: float | None) -> Options:
    axis = answer.tables[0].axes[0]
    places = tallest(values, MOST_BARS)
    bounds = answer.bounds
    wide = len(places) > ZOOMED
    bars = [{"value": float(values[place]), "said": said_of(answer, values, place)} for place in places]
    whiskers = [
        {
            "value": [number, float(bounds.low[place]), float(bounds.high[place])],
            "said": said_of(answer, values, place),
        }
        for number, place in enumerate(places)
    ]
    return _sheet(
        xAxis=_names([axis.labels[place] for place in places], axis.name),
        yAxis=_numbers(answer.value_name, top),
        series=[
            {"type": "bar", "data": bars, "itemStyle": {"color": BAR}, "barCategoryGap": "8%" if wide else "18%"},
            {
                "type": "custom",
                "data": whiskers,
                ":renderItem": UPRIGHT,
                "z": 3,
                "silent": True,
                "encode": {"y": [1, 2]},
            },
        ],
        **_zoom(wide=wide),
    )


def _zoom(*, wide: bool) -> Mapping[str, Any]:
    """A way into pictures with many parts."""
    if not wide:
        return {}
    slider = {
        "type": "slider",
        "height": 16,
        "bottom": 4,
        "borderColor": "transparent",
        "showDetail": False,
        "brushSelect": False,
    }
    return {
        "dataZoom": [slider, {"type": "inside", "zoomOnMouseWheel": "ctrl"}],
        "grid": {"left": 12, "right": 18, "top": 34, "bottom": 58, "containLabel": True},
    }


def _steps(answer: Released, values: Floats, top: float | None) -> Options:
    axis, plain = answer.tables[0].axes[0], answer.running
    places = evenly(plain, MOST_POINTS)
    low, high = answer.bounds.low[:plain], answer.bounds.high[:plain]
    floor = _raised_floor(float(low[0]), float(high.max())) if top is None else None
    curve = [{"value": float(values[place]), "said": said_of(answer, values, place)} for place in places]
    hidden = {"type": "line", "step": "end", "symbol": "none", "silent": True, "stack": "band", "stackStrategy": "all"}
    below = [float(low[place]) for place in places]
    band = [float(high[place] - low[place]) for place in places]
    options = _sheet(
        xAxis=_names([axis.labels[place] for place in places], axis.name, boundaryGap=False),
        yAxis=_numbers(f"records up to here{ABOVE_ZERO if floor else ''}", top, floor),
        series=[
            {**hidden, "data": below, "lineStyle": {"opacity": 0}},
            {**hidden, "data": band, "lineStyle": {"opacity": 0}, "areaStyle": {"color": BAND, "opacity": 1}},
            {
                "type": "line",
                "name": "curve",
                "step": "end",
                "data": curve,
                "symbol": "none",
                "lineStyle": {"color": BAR, "width": 2},
                "itemStyle": {"color": BAR},
                "z": 3,
            },
        ],
        **_zoom(wide=len(places) > 10 * ZOOMED),
    )
    options["tooltip"] |= {
        "trigger": "axis",
        ":formatter": "items => (items.find(item => item.data && item.data.said) || {data: {said: ''}}).data.said",
    }
    return options


def _raised_floor(low: float, high: float) -> float | None:
    """Where the axis of a curve begins that would leave most of the picture empty; None for 0."""
    if low <= SKIPPED * high:
        return None
    step = 10.0 ** math.floor(math.log10(max(high - low, 1.0)))
    return max(step * math.floor((low - 0.1 * (high - low)) / step), 0.0) or None


def _heat(answer: Released, values: Floats, top: float | None) -> Options:
    table = answer.tables[0]
    plane = pooled(values, table, SQUARES)
    digits = digits_of(answer)
    rows, columns = plane.values.shape
    most = max(float(plane.values.max(initial=0.0)), 1.0) if top is None else top
    squares = [
        {
            "value": [column, row, float(plane.values[row, column])],
            "said": f"{plane.rows[row]} × {plane.columns[column]}\n{digits.value(float(plane.values[row, column]))}"
            + (
                f"  ± {digits.high(answer.widths.simultaneous)}"
                if plane.factor == 1 and answer.together is None
                else ""
            ),
        }
        for row in range(rows)
        for column in range(columns)
    ]
    return _sheet(
        grid={"left": 12, "right": 78, "top": 30, "bottom": 36, "containLabel": True},
        xAxis=_names(plane.columns, table.names[1], splitArea={"show": False}),
        yAxis=_names(
            plane.rows,
            table.names[0],
            nameGap=10,
            nameLocation="end",
            nameTextStyle={"color": WORDS, "fontSize": 12.5, "align": "right"},
        ),
        visualMap={
            "type": "continuous",
            "min": 0,
            "max": most,
            "orient": "vertical",
            "right": 6,
            "top": "middle",
            "itemHeight": 220,
            "itemWidth": 14,
            "calculable": False,
            "text": [digits.value(most), "0"],
            "textStyle": {"color": WORDS},
            "inRange": {"color": [f"rgb{stop}" for stop in STOPS]},
        },
        series=[
            {"type": "heatmap", "data": squares, "progressive": 0, "itemStyle": {"borderColor": GRID, "borderWidth": 1}}
        ],
    )


def _dots(answer: Released, values: Floats, top: float | None) -> Options:
    size = answer.raw.size
    places = list(range(size)) if size <= MOST_DOTS else largest(np.asarray(values), MOST_DOTS)
    labels = [" × ".join(part for part in row_labels(answer, [place])[0] if part) for place in places]
    low, high = answer.bounds.low, answer.bounds.high
    lines = [{"value": [row, float(low[place]), float(high[place])]} for row, place in enumerate(places)]
    dots = [
        {"value": [float(values[place]), row], "said": said_of(answer, values, place)}
        for row, place in enumerate(places)
    ]
    names = _names(labels, "", inverse=True)
    names["axisLabel"] |= {"width": 220, "interval": 0}
    title = f"{answer.value_name}, the {MOST_DOTS} largest of {size:,}" if size > MOST_DOTS else answer.value_name
    return _sheet(
        grid={"left": 12, "right": 24, "top": 8, "bottom": 40, "containLabel": True},
        yAxis=names,
        xAxis={
            **_numbers(title, top),
            "nameLocation": "middle",
            "nameGap": 30,
            "nameTextStyle": {"color": WORDS, "fontSize": 12.5},
            "splitNumber": 4,
            "scale": not answer.is_counts,
        },
        series=[
            {"type": "custom", "data": lines, ":renderItem": LYING, "silent": True, "encode": {"x": [1, 2], "y": 0}},
            {"type": "scatter", "data": dots, "symbolSize": 9, "itemStyle": {"color": BAR}, "z": 3},
        ],
    )


def line_chart(
    x: Sequence[str], lines: Mapping[str, Sequence[float | None]], x_name: str, y_name: str, *, log: bool = False
) -> Options:
    """Several lines over the same places, such as the price against theta for several policies."""
    scale = _numbers(y_name) | ({"type": "log"} if log else {})
    options = _sheet(
        legend={"top": 0, "textStyle": {"color": WORDS}, "icon": "roundRect", "itemHeight": 8},
        xAxis=_names(x, x_name, boundaryGap=False),
        yAxis=scale,
        series=[
            {
                "type": "line",
                "name": name,
                "data": list(points),
                "symbolSize": 8,
                "lineStyle": {"width": 2.2},
                "itemStyle": {"color": LINES[number % len(LINES)]},
            }
            for number, (name, points) in enumerate(lines.items())
        ],
    )
    options["grid"] = {"left": 12, "right": 22, "top": 70, "bottom": 36, "containLabel": True}
    options["tooltip"] |= {
        "trigger": "axis",
        ":formatter": "items => [items[0].name, ...items.map(item => item.seriesName + ': ' + "
        "(item.value === null ? '-' : Number(item.value.toPrecision(4))))].join('\\n')",
    }
    return options
