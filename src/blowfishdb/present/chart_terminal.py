"""Charts for a terminal: bars with their interval, or shaded squares for two attributes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from blowfishdb.present.answer_values import AnswerValues
from blowfishdb.present.chart import Chart, Detail, chart_of
from blowfishdb.present.export import cells, column_names, headings, shown_rows
from blowfishdb.present.words import SEPARATOR, caption_words, printable, shortened

DETAIL = Detail(bars=24, points=24, dots=24, rows=24, squares=(24, 30), listed=True)
BAR_WIDTH = 44
SHADES = "·░▒▓█"
LABEL = 24
LINE = 78


def drawing(answer: AnswerValues) -> RenderableType:
    """The answer, to print or to put into a panel; a table of several aggregates as its rows."""
    if answer.parts:
        return Group(*map(drawing, answer.parts))
    if len(answer.columns) > 1:
        return _rows(answer)
    return draw(chart_of(answer, replace(DETAIL, dots=DETAIL.dots * len(answer.tables))))


def _rows(answer: AnswerValues) -> RenderableType:
    """A line for each group, each aggregate with its interval."""
    first, last = shown_rows(answer.row_count, DETAIL.bars)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(headings(answer)):
        grid.add_column(printable(name), justify="left" if place < len(column_names(answer)) else "right", no_wrap=True)
    for line in cells(answer, first):
        grid.add_row(*line)
    if last:
        grid.add_row("...")
    for line in cells(answer, last):
        grid.add_row(*line)
    parts: list[RenderableType] = [
        _headline(answer.title, caption_words(answer)),
        grid,
    ]
    if answer.consistent.note:
        parts.append(Text(printable(answer.consistent.note), style="yellow"))
    return Group(*parts)


def draw(chart: Chart) -> RenderableType:
    """The chart of an answer, below its title and caption."""
    parts: list[RenderableType] = [_headline(chart.title, chart.caption)]
    if chart.kind == "number":
        parts.append(Text.assemble("  ", (chart.value(0), "bold cyan"), f"  {chart.number_words}"))
    else:
        parts += [_squares(chart)] if chart.kind == "heat" else _lists(chart)
    parts += [Text(f"  {printable(words)}", style="dim") for words in (chart.beside, chart.remark) if words]
    if chart.note:
        parts.append(Text(printable(chart.note), style="yellow"))
    return Group(*parts)


def _headline(title: str, caption: str) -> Text:
    """The title, and the caption below it."""
    lines = "\n".join(f"  {printable(line)}" for line in _caption_lines(caption))
    return Text.assemble((printable(title), "bold"), "\n", (lines, "dim"))


def _caption_lines(caption: str) -> list[str]:
    """The caption, in as many lines as it needs, broken between its parts."""
    lines: list[str] = []
    for part in caption.split(SEPARATOR):
        fits = lines and len(lines[-1]) + len(SEPARATOR) + len(part) < LINE
        lines = [*lines[:-1], lines[-1] + SEPARATOR + part] if fits else [*lines, part]
    return lines


def _lists(chart: Chart) -> list[RenderableType]:
    """A line for each mark, the marks of each section below its name."""
    firsts = [*(chart.sections or {0: ""}), len(chart.marks)]
    parts: list[RenderableType] = []
    for first, end in itertools.pairwise(firsts):
        if chart.sections:
            parts.append(Text(printable(chart.sections[first]), style="italic"))
        parts.append(_bars(chart, range(first, end)))
    return parts


def _bars(chart: Chart, marks: range) -> RenderableType:
    """Bars that are solid up to the low end and light up to the high end."""
    top = max((abs(float(chart.high[mark])) for mark in marks), default=0.0) or 1.0
    grid = Table.grid(padding=(0, 1))
    for justify in ("right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    for mark in marks:
        solid, end = (round(BAR_WIDTH * max(float(column[mark]), 0.0) / top) for column in (chart.low, chart.high))
        bar = Text.assemble(("█" * solid, "cyan"), ("▒" * max(end - solid, 0), "blue"))
        if chart.half_width is None:
            is_certain = chart.low[mark] == chart.high[mark]  # the place in a list of names
            bar = Text("" if is_certain else f"from {chart.interval(mark)}", style="cyan")
        longest = LABEL + len(chart.label(mark)) - len(chart.marks[mark])
        grid.add_row(Text(f"  {shortened(chart.label(mark), longest)}"), chart.value(mark), bar)
    return grid


def _squares(chart: Chart) -> RenderableType:
    """Squares whose shade tells the value; the steps widen with the value, so that small counts are told apart.

    Where some squares are within the noise, the lightest shade is theirs alone.
    """
    low, high = chart.ends
    rows, columns = chart.rows, chart.groups
    parts = np.sqrt((chart.values - low) / (high - low))
    steps = np.minimum((parts * len(SHADES)).astype(int), len(SHADES) - 1)
    has_noise = bool(chart.in_noise.any())
    if has_noise:
        steps = np.where(chart.in_noise, 0, np.maximum(steps, 1))
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    for label, row in zip(rows.labels, steps, strict=True):
        grid.add_row(
            Text(f"  {shortened(label, LABEL)}"), Text("".join(SHADES[step] * 2 for step in row), style="cyan")
        )
    ends = [low + (high - low) * ((step + 1) / len(SHADES)) ** 2 for step in range(len(SHADES))]
    marks = [chart.digits.value(end) for end in ends]
    if has_noise:
        marks[0] = "within the noise"
    legend = "  ".join(f"{sign * 2} {mark}" for sign, mark in zip(SHADES, marks, strict=True))
    span = f"{printable(columns.labels[0])} … {printable(columns.labels[-1])}"
    names = f"  across: {printable(columns.name)}, {span}; down: {printable(rows.name)}"
    return Group(grid, Text(f"{names}\n  up to:  {legend}", style="dim"))
