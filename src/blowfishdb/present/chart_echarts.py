"""Charts as ECharts options: bars with intervals, a curve in its band, a heat map, dots in intervals, lines.

The colours read on light and on dark ground alike. Tooltips are text, so no label is ever taken for markup.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from blowfishdb.model.numbers import Floats
from blowfishdb.present.chart import STOPS, Chart, Detail, Series

Options: TypeAlias = dict[str, Any]

DETAIL = Detail(bars=800, points=1_500, dots=400, rows=400, squares=(60, 80), named=400)
ROW, NARROW = 22, 560
"""Pixels of a line in a list, and of a picture in which names have less room."""
BAR, WHISKER, BAND, WORDS, GRID = "#3d92b8", "#d4762f", "rgba(61,146,184,0.26)", "#6e7f8b", "rgba(128,146,158,0.22)"
DOT = "#5f6c7b"
"""Upon squares within the noise."""
UPON = "#9a6fc0"
"""Of values drawn upon others."""
LINES = ("#3d92b8", "#d4762f", "#4b9b6e", "#9a6fc0", "#c25566", "#8a8f3c", "#5b7fd0")
"""For several lines in one chart, told apart with any kind of colour vision together with their marks."""
SLANT, MOST_SLANTED, SLANTED_LETTERS = 38, 32, 22
"""The degrees of names that have no room side by side, how many of them are written so, and their letters."""
LETTER, ACROSS = 7, 520
"""Pixels of a letter and its share of the gap, and of a narrow picture of squares."""
SQUARES, SQUARE, SCALE = 460, 17, 220
"""Pixels of the height of a picture of squares, of the least height of one of them, and of the scale of colours."""
WRITTEN, SIGNS_ACROSS = 150, 72
"""Squares up to which each holds its number, and signs that must fit side by side into the squares of one row."""
ZOOMED_BARS, ZOOMED_POINTS = 60, 600
"""More marks than these can be zoomed into."""
NUMBER = "value => Math.abs(value) >= 1e6 ? (value / 1e6).toLocaleString('en') + ' M' : value.toLocaleString('en')"
BOTH_ENDS = "name => name.length > {most} ? name.slice(0, {head}) + '…' + name.slice(-{tail}) : name"
"""Long names often differ in their last letters alone."""
TIP = "item => item.data.tip || item.name"
TIP_OF_CURVE = "items => (items.find(item => item.data && item.data.tip) || {data: {tip: ''}}).data.tip"
TIP_OF_LINES = """items => [items[0].name, ...items.map(item => item.seriesName + ': ' +
  (item.value === null ? '-' : Number(item.value.toPrecision(4))))].join('\\n')"""
UPRIGHT = f"""(params, api) => {{
  const [x, low, high] = [api.value(0), api.value(1), api.value(2)];
  const [top, end] = [api.coord([x, high]), api.coord([x, low])];
  const half = Math.min(api.size([1, 0])[0] * 0.22, 7);
  // Of bars a few pixels wide: one veil without caps, through which the bars are seen.
  const [narrow, wide] = [half < 2, Math.min(half / 0.22, 1)];
  const style = {{ stroke: '{WHISKER}', lineWidth: narrow ? wide : 1.6, opacity: narrow ? 0.4 : 1 }};
  const line = (x1, y1, x2, y2) => ({{ type: 'line', shape: {{ x1, y1, x2, y2 }}, style }});
  const cap = (point) => line(point[0] - half, point[1], point[0] + half, point[1]);
  const caps = narrow ? [] : [cap(top), cap(end)];
  return {{ type: 'group', children: [line(top[0], top[1], end[0], end[1]), ...caps] }};
}}"""
WHISKERS = f"""(params, api) => {{
  const [y, low, high] = [api.value(0), api.value(1), api.value(2)];
  const [from, to] = [api.coord([low, y]), api.coord([high, y])];
  const style = {{ stroke: '{WHISKER}', lineWidth: 1.6 }};
  const line = (x1, y1, x2, y2) => ({{ type: 'line', shape: {{ x1, y1, x2, y2 }}, style }});
  const cap = (point) => line(point[0], point[1] - 4, point[0], point[1] + 4);
  return {{ type: 'group', children: [line(from[0], from[1], to[0], to[1]), cap(from), cap(to)] }};
}}"""
LYING = f"""(params, api) => {{
  const [y, low, high] = [api.value(0), api.value(1), api.value(2)];
  const [from, to] = [api.coord([low, y]), api.coord([high, y])];
  return {{ type: 'line', shape: {{ x1: from[0], y1: from[1], x2: to[0], y2: to[1] }},
    style: {{ stroke: '{WHISKER}', lineWidth: 5, opacity: 0.45, lineCap: 'round' }} }};
}}"""


def draw(chart: Chart, *, top: float | None = None) -> Options:
    """The chart as plain data, unless it is a single number; `top` fixes the end of its measure."""
    kinds = {"bars": _bars, "rows": _dots, "steps": _steps, "heat": _heat, "dots": _dots}
    return _lines(chart) if chart.kind == "lines" else kinds[chart.kind](chart, top)


def height_of(chart: Chart) -> int:
    """How many pixels high the picture should be."""
    if chart.kind in ("dots", "rows"):
        return max(ROW * len(chart.marks) + 70, 150)
    return max(SQUARE * len(chart.rows.labels) + 130, SQUARES) if chart.kind == "heat" else 400


def _sheet(tip: str, *, bottom: int = 34, trigger: str = "item", **parts: Any) -> Options:
    """What all pictures share."""
    return {
        "animation": False,
        "aria": {"enabled": True},
        "textStyle": {"fontFamily": "inherit"},
        "grid": {"left": 12, "right": 18, "top": 34, "bottom": bottom, "containLabel": True},
        "tooltip": {
            "trigger": trigger,
            "renderMode": "richText",
            "confine": True,
            "backgroundColor": "#17242d",
            "borderWidth": 0,
            "padding": [8, 12],
            "textStyle": {"color": "#f2f6f8", "fontSize": 13, "lineHeight": 19},
            ":formatter": tip,
        },
        **parts,
    }


def _names(name: str, labels: tuple[str, ...], **more: Any) -> Options:
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


def _slanted(names: Options) -> Options:
    """The names below a picture, each of them: slanted where they have no room side by side and are not too many."""
    longest = max(map(len, names["data"]), default=0)
    if len(names["data"]) > MOST_SLANTED or LETTER * longest * len(names["data"]) <= ACROSS:
        return names
    room = LETTER * min(longest, SLANTED_LETTERS)
    names["axisLabel"] |= {"rotate": SLANT, "interval": 0, "hideOverlap": False, **_room(SLANTED_LETTERS)}
    return names | {"nameGap": 24 + math.ceil(room * math.sin(math.radians(SLANT)))}


def _on_top(names: Options) -> Options:
    """The names above a picture that is scrolled."""
    slanted = {"rotate": -SLANT} if "rotate" in names["axisLabel"] else {}
    return names | {"position": "top", "axisLabel": names["axisLabel"] | slanted}


def _room(most: int) -> Options:
    """Labels cut to a number of letters; the picture leaves the room that they take."""
    tail = most // 3
    return {"overflow": "none", ":formatter": BOTH_ENDS.format(most=most, head=most - 1 - tail, tail=tail)}


def _numbers(chart: Chart, top: float | None = None, **more: Any) -> Options:
    """The axis of the measure; ECharts finds round ends where none is fixed."""
    return {
        "type": "log" if chart.measure.log else "value",
        "name": chart.measure.name,
        "nameTextStyle": {"color": WORDS, "fontSize": 12.5, "align": "left"},
        "axisLabel": {"color": WORDS, "fontSize": 12, "hideOverlap": True, ":formatter": NUMBER},
        "splitLine": {"lineStyle": {"color": GRID}},
        **({} if top is None else {"max": top}),
        **({"min": chart.ends[0]} if chart.begins_above_zero and top is None else {}),
        **more,
    }


def _tips(chart: Chart) -> list[str]:
    """The label, the value and its interval, for each mark."""
    return [f"{chart.label(mark)}\n{chart.value(mark)}\n{chart.interval(mark)}" for mark in range(len(chart.marks))]


def _points(chart: Chart) -> list[Options]:
    return [{"value": value, "tip": tip} for value, tip in zip(chart.values.tolist(), _tips(chart), strict=True)]


def _intervals(chart: Chart, shape: str, **more: Any) -> Options:
    """A series of intervals, each drawn by the given function."""
    ends = zip(range(len(chart.marks)), chart.low.tolist(), chart.high.tolist(), strict=True)
    rows = [{"value": list(row)} for row in ends]
    return {"type": "custom", "data": rows, ":renderItem": shape, "silent": True, **more}


def _upon(chart: Chart) -> list[Options]:
    """The further series, as dots upon the first."""
    look = {"symbolSize": 6, "itemStyle": {"color": UPON}, "z": 5, "silent": True}
    return [
        {"type": "scatter", "name": series.name, "data": _with_gaps(series.values), **look}
        for series in chart.series[1:]
    ]


def _zoom(options: Options, *, many: bool) -> Options:
    """The options, with a way into pictures of many marks."""
    if many:
        look = {"borderColor": "transparent", "showDetail": False, "brushSelect": False}
        slider = {"type": "slider", "height": 16, "bottom": 4, **look}
        options["dataZoom"] = [slider, {"type": "inside", "zoomOnMouseWheel": "ctrl"}]
        options["grid"]["bottom"] = 58
    return options


def _bars(chart: Chart, top: float | None) -> Options:
    many = len(chart.marks) > ZOOMED_BARS
    bars = {"type": "bar", "data": _points(chart), "itemStyle": {"color": BAR}}
    options = _sheet(
        TIP,
        xAxis=_names(chart.groups.name, chart.marks),
        yAxis=_numbers(chart, top),
        series=[
            bars | {"barCategoryGap": "8%" if many else "18%"},
            _intervals(chart, UPRIGHT, z=3, encode={"y": [1, 2]}),
            *_upon(chart),
        ],
    )
    return _zoom(options, many=many)


def _steps(chart: Chart, top: float | None) -> Options:
    stacked: Options = {"stack": "band", "stackStrategy": "all", "silent": True, "lineStyle": {"opacity": 0}}
    hidden = {"type": "line", "step": "end", "symbol": "none", **stacked}
    band = {"data": (chart.high - chart.low).tolist(), "areaStyle": {"color": BAND, "opacity": 1}}
    curve = {"type": "line", "name": "curve", "step": "end", "data": _points(chart), "symbol": "none", "z": 3}
    look = {"lineStyle": {"color": BAR, "width": 2}, "itemStyle": {"color": BAR}}
    options = _sheet(
        TIP_OF_CURVE,
        trigger="axis",
        title={"text": chart.beside, "right": 18, "top": 0, "textStyle": {"color": WORDS, "fontSize": 12}},
        xAxis=_names(chart.groups.name, chart.marks, boundaryGap=False),
        yAxis=_numbers(chart, top),
        series=[{**hidden, "data": chart.low.tolist()}, hidden | band, curve | look, *_upon(chart)],
    )
    return _zoom(options, many=len(chart.marks) > ZOOMED_POINTS)


def _heat(chart: Chart, top: float | None) -> Options:
    rows, columns = chart.rows, chart.groups
    low, high = chart.ends[0], chart.ends[1] if top is None else top
    is_tall = height_of(chart) > SQUARES
    texts = [chart.digits.value(value) for value in chart.values.ravel().tolist()]
    longest = max(map(len, texts), default=0)
    is_numbered = len(texts) <= WRITTEN and longest * len(columns.labels) <= SIGNS_ACROSS
    squares = [
        {
            "value": [column, row, float(value)],
            "tip": f"{rows.labels[row]} × {columns.labels[column]}\n{chart.square(row, column)}",
            "label": {"formatter": text, "color": "#ffffff" if value > (low + high) / 2 else "#1f2933"},
        }
        for ((row, column), value), text in zip(np.ndenumerate(chart.values), texts, strict=True)
    ]
    colours = {"min": low, "max": high, "inRange": {"color": [f"rgb{stop}" for stop in STOPS]}}
    place = {"orient": "vertical", "right": 6, "itemHeight": SCALE, "itemWidth": 14, "top": 60 if is_tall else "middle"}
    ends = {"text": [chart.digits.value(high), chart.digits.value(low)], "textStyle": {"color": WORDS}}
    above = {"color": WORDS, "fontSize": 12.5, "align": "right"}
    across = _slanted(_names(columns.name, columns.labels, splitArea={"show": False}))
    down = _names(rows.name, rows.labels, nameGap=10, nameTextStyle=above, inverse=rows.listed)
    down |= {"nameLocation": "start" if rows.listed else "end"}
    dots = {"symbolOffset": [0, 13 * is_numbered]}
    wide: Options = {"yAxis": {"axisLabel": _room(30)}, "series": [{"label": {"show": is_numbered}}, dots]}
    without_numbers = [{"label": {"show": False}}, {"symbolOffset": [0, 0]}]
    narrow: Options = {"yAxis": {"axisLabel": _room(13)}, "series": without_numbers}
    down["axisLabel"] |= wide["yAxis"]["axisLabel"]
    is_slanted = "rotate" in across["axisLabel"]
    wide["xAxis"] = {"axisLabel": {"hideOverlap": not is_slanted, "interval": 0 if is_slanted else "auto"}}
    narrow["xAxis"] = {"axisLabel": {"hideOverlap": True, "interval": "auto"}}
    return _sheet(
        TIP,
        grid={"left": 12, "right": 78, "top": 30, "bottom": 36, "containLabel": True},
        title={"text": chart.remark, "right": 78, "top": 0, "textStyle": {"color": WORDS, "fontSize": 12}},
        graphic=_interval_mark(chart, high - low, max(map(len, ends["text"])), is_tall=is_tall),
        xAxis=_on_top(across) if is_tall else across,
        yAxis=down,
        media=[{"query": {"maxWidth": NARROW}, "option": narrow}, {"option": wide}],
        visualMap={"type": "continuous", "calculable": False, "seriesIndex": 0, **colours, **place, **ends},
        series=[
            {
                "type": "heatmap",
                "data": squares,
                "progressive": 0,
                "label": {"show": False, "fontSize": 12},
                "itemStyle": {"borderColor": GRID, "borderWidth": 1},
            },
            {
                "type": "scatter",
                "data": np.argwhere(chart.in_noise)[:, ::-1].tolist(),
                "symbolSize": 6,
                "itemStyle": {"color": DOT, "borderColor": "#ffffff", "borderWidth": 1},
                "silent": True,
            },
        ],
    )


def _interval_mark(chart: Chart, span: float, letters: int, *, is_tall: bool) -> list[Options]:
    """A length as long as the widest interval, beside the scale of colours: what is nearer may be the same."""
    long = chart.interval_part * (chart.ends[1] - chart.ends[0]) / span
    if not 0.0 < long < 1.0:
        return []
    # Where ECharts puts the scale: below its upper end's number, or in the middle; to the left of its numbers' middle.
    scale_end = SCALE + (93 if is_tall else (SQUARES - SCALE) / 2)
    right = 35 + 3 * max(letters, 3)
    shape = {"width": 4, "height": max(SCALE * long, 2.0)}
    return [
        {
            "type": "rect",
            "right": right,
            "top": scale_end - shape["height"],
            "shape": shape,
            "style": {"fill": WHISKER},
            "silent": True,
        }
    ]


def _dots(chart: Chart, top: float | None) -> Options:
    names = _names("", chart.marks, inverse=True)
    wide, narrow = {"yAxis": {"axisLabel": _room(34)}}, {"yAxis": {"axisLabel": _room(16)}}
    names["axisLabel"] |= {**wide["yAxis"]["axisLabel"], "interval": 0}
    above = {"position": "top", "nameLocation": "middle", "nameGap": 28}
    above |= {"nameTextStyle": {"color": WORDS, "fontSize": 12.5}}
    if chart.kind == "rows":
        bars = {"type": "bar", "data": _points(chart), "itemStyle": {"color": BAR}, "barCategoryGap": "26%"}
        series = [bars, _intervals(chart, WHISKERS, z=3, encode={"x": [1, 2], "y": 0})]
    else:
        dots = [{**point, "value": [point["value"], mark]} for mark, point in enumerate(_points(chart))]
        look = {"symbolSize": 9, "itemStyle": {"color": BAR}, "z": 3}
        series = [_intervals(chart, LYING, encode={"x": [1, 2], "y": 0}), {"type": "scatter", "data": dots, **look}]
    return _sheet(
        TIP,
        grid={"left": 12, "right": 24, "top": 44, "bottom": 8, "containLabel": True},
        yAxis=names,
        xAxis=_numbers(chart, top, splitNumber=4, scale=not chart.is_counts, **above),
        series=series,
        media=[{"query": {"maxWidth": NARROW}, "option": narrow}, {"option": wide}],
    )


def _lines(chart: Chart) -> Options:
    named = len(chart.series) != 1 or chart.series[0].name != chart.measure.name
    values = np.concatenate([series.values for series in chart.series]) if chart.series else np.zeros(0)
    whole = bool(values.size) and np.array_equal(values, np.round(values), equal_nan=True)
    options = _sheet(
        TIP_OF_LINES,
        bottom=36,
        trigger="axis",
        legend={"show": named, "top": 0, "textStyle": {"color": WORDS}, "icon": "roundRect", "itemHeight": 8},
        xAxis=_names(chart.groups.name, chart.groups.labels, boundaryGap=False),
        yAxis=_numbers(chart, **({"minInterval": 1} if whole else {})),
        series=[_line(series, LINES[number % len(LINES)]) for number, series in enumerate(chart.series)],
    )
    options["grid"] |= {"right": 22, "top": 70 if named else 34}
    return options


def _line(series: Series, colour: str) -> Options:
    look = {"width": 2, "type": "dashed"} if series.dashed else {"width": 2.2}
    data: list[object] = _with_gaps(series.values)
    for place, words in series.flags.items():
        if data[place] is not None:
            label = {"show": True, "formatter": words, "position": "top", "color": WORDS, "fontSize": 12}
            data[place] = {"value": data[place], "symbol": "diamond", "symbolSize": 16, "label": label}
    return {
        "type": "line",
        "name": series.name,
        "data": data,
        "symbolSize": 5 if series.dashed else 8,
        "lineStyle": look,
        "itemStyle": {"color": colour},
    }


def _with_gaps(values: Floats) -> list[object]:
    return [None if value != value else value for value in values.tolist()]
