"""Answers drawn in a terminal: bars with their interval, or shaded squares for two attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from blowfishdb.model.numbers import Floats
from blowfishdb.present.released import AnswerTable, Released
from blowfishdb.present.table import Pooled, evenly, largest, pooled, shape_of, shortened, whose
from blowfishdb.present.words import Digits, accuracy_words, digits_of, epsilon_words, printable

BARS = 24
BAR_WIDTH = 44
SQUARES = (24, 30)
SHADES = "·░▒▓█"
LABEL = 24
LINE = 78


def drawing(answer: Released) -> RenderableType:
    """The plot, to print or to put into a panel."""
    parts: list[RenderableType] = [_heading(answer)]
    start = 0
    for table in answer.tables:
        if len(answer.tables) > 1:
            parts.append(Text(" × ".join(map(printable, table.names)), style="italic"))
        parts.append(_squares(answer, table) if shape_of(answer) == "heat" else _bars(answer, table, start))
        start += table.size
    if answer.consistent.note:
        parts.append(Text(printable(answer.consistent.note), style="yellow"))
    return Group(*parts)


def _heading(answer: Released) -> Text:
    price = f"  epsilon {epsilon_words(answer.epsilon)}{whose(answer)} with {answer.mechanism}"
    good = accuracy_words(answer)
    said = f"{price}; {good}" if len(price) + len(good) < LINE else f"{price}\n  {good}"
    return Text.assemble((printable(answer.title), "bold"), "\n", ("\n".join(map(printable, said.split("\n"))), "dim"))


def _bars(answer: Released, table: AnswerTable, start: int) -> RenderableType:
    """Bars: solid up to the low end, light up to the high end. Of many, some that stand for the rest."""
    places, remark = _chosen(answer, start, table.size)
    low, high = answer.bounds.low, answer.bounds.high
    top = max(float(np.abs(high[list(places)]).max(initial=0.0)), 1e-12)
    digits = digits_of(answer)
    grid = Table.grid(padding=(0, 1))
    for justify in ("right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    for place in places:
        solid = round(BAR_WIDTH * max(float(low[place]), 0.0) / top)
        light = max(round(BAR_WIDTH * max(float(high[place]), 0.0) / top) - solid, 0)
        bar = Text.assemble(("█" * solid, "cyan"), ("▒" * light, "blue"))
        if answer.together is not None:
            bar = Text(f"from {digits.low(float(low[place]))} to {digits.high(float(high[place]))}", style="cyan")
        label = shortened(" × ".join(table.row(place - start)), LABEL)
        running = "up to " if place < answer.running else ""
        grid.add_row(Text(f"  {running}{label}"), digits.value(float(answer.values[place])), bar)
    return Group(grid, Text(f"  {remark}", style="dim")) if remark else grid


def _chosen(answer: Released, start: int, size: int) -> tuple[Sequence[int], str]:
    """Which answers to draw, and what to say about the others."""
    if size <= BARS:
        return range(start, start + size), ""
    if answer.kind == "cdf":
        return [start + place for place in evenly(size, BARS)], f"{BARS} of {size:,} running counts, evenly spread"
    found = largest(answer.values[start : start + size], BARS)
    return [start + place for place in found], f"the {BARS} largest of {size:,} values"


def _squares(answer: Released, table: AnswerTable) -> RenderableType:
    """Squares whose shade tells the value; many cells are added up."""
    plane = pooled(answer.values, table, SQUARES)
    top = max(float(plane.values.max(initial=0.0)), 1e-12)
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    for label, row in zip(plane.rows, plane.values, strict=True):
        grid.add_row(Text(f"  {shortened(label, LABEL)}"), Text(_shaded(row / top), style="cyan"))
    across, down = printable(table.names[1]), printable(table.names[0])
    lines = [f"  across: {across}, {_ends(plane)}; down: {down}"]
    lines.append(f"  {_legend(top, digits_of(answer))}")
    if plane.factor > 1:
        lines.append(f"  each square adds up {plane.factor:,} cells")
    return Group(grid, Text("\n".join(lines), style="dim"))


def _shaded(row: Floats) -> str:
    """Two signs per square; the steps widen with the value, so that small counts are still told apart."""
    steps = np.minimum((np.sqrt(np.clip(row, 0.0, 1.0)) * len(SHADES)).astype(int), len(SHADES) - 1)
    return "".join(SHADES[step] * 2 for step in steps)


def _ends(plane: Pooled) -> str:
    return f"{printable(plane.columns[0])} … {printable(plane.columns[-1])}" if plane.columns else ""


def _legend(top: float, digits: Digits) -> str:
    """Up to which value each sign stands."""
    ends = [digits.value(top * ((step + 1) / len(SHADES)) ** 2) for step in range(len(SHADES))]
    return "up to:  " + "  ".join(f"{sign * 2} {end}" for sign, end in zip(SHADES, ends, strict=True))
