"""A policy graph as DOT text or as an SVG picture: arcs over ordered values, a ring of others, a field of two."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from blowfishdb.errors import plural
from blowfishdb.model.constraint_view import ConstraintsView
from blowfishdb.model.explain import CellsView, GraphView
from blowfishdb.model.numbers import Ints
from blowfishdb.present.chart import BAR, GRID, PAPER, QUIET
from blowfishdb.present.chart_svg import LETTER, Frame, element, escaped, label, name_label
from blowfishdb.present.words import shortened

PARTS = (BAR, "#c8553d", "#4f7d3a", "#8a5a9e", "#b5862b", "#2f8f83", "#a3466c", "#5b6470")
"""One colour for each connected part, the first again after the last."""
GAP = 34.0
RADIUS = 6.0
NAME = 24
STEEPEST = 210.0
ABSENCE = "no record"
"""The vertex of a record that is not there, where that is hidden."""


def to_dot(view: GraphView) -> str:
    """The shown values and moves for Graphviz; the layout is left to it."""
    lines = [f"graph {_quoted(view.name)} {{", "  node [shape=circle, style=filled, fontname=Helvetica];"]
    for place, text in enumerate(view.labels):
        lines.append(f"  {_quoted(text)} [fillcolor={_quoted(_colour(view, place))}, fontcolor=white];")
    lines += [f"  {_quoted(view.labels[one])} -- {_quoted(view.labels[two])};" for one, two in view.pairs.tolist()]
    for universal_vertex in view.universal:
        lines.append(f"  {_quoted(universal_vertex)} [shape=doublecircle];")
        lines += [f"  {_quoted(universal_vertex)} -- {_quoted(text)} [style=dashed];" for text in view.labels]
    lines += [f"  {_quoted(text)} [style=dashed];" for text in view.apart]
    if view.is_absence_hidden:
        lines.append(f"  {_quoted(ABSENCE)} [shape=doublecircle];")
        lines += [f"  {_quoted(ABSENCE)} -- {_quoted(text)} [style=dashed];" for text in (*view.labels, *view.apart)]
        lines += [f"  {_quoted(ABSENCE)} -- {_quoted(text)} [style=dashed];" for text in view.universal]
    return "\n".join([*lines, "}", ""])


def to_svg(view: GraphView) -> str:
    """The graph as one picture, with a title and a description."""
    return _arcs(view) if view.ordered else _ring(view)


def _quoted(text: str) -> str:
    """Text between quotes that nothing in it can close."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(sign for sign in escaped if sign.isprintable())}"'


def _colour(view: GraphView, place: int) -> str:
    return PARTS[0] if view.is_joined else PARTS[view.part_of[place] % len(PARTS)]


def _sheet(view: GraphView, frame: Frame, *parts: str) -> str:
    mark = hashlib.sha256(repr((view.name, view.labels, view.pairs.tolist())).encode()).hexdigest()[:10]
    title = f"What the policy hides about {view.name}"
    shown = f"{len(view.labels):,} of {plural(view.size, 'value')} and {plural(len(view.pairs), 'hidden move')}."
    return frame.sheet(f"bf{mark}", title, " ".join([shown, *view.warnings()]), *parts)


def _captions(view: GraphView, frame: Frame, y: float) -> list[str]:
    """The lines below the picture: what is shown, what stands beside it, and what is not hidden."""
    shown = f"{'all' if view.is_whole else f'{len(view.labels):,} of'} {plural(view.size, 'value')}"
    lines = [f"{view.name}: {shown}; values that a line joins are hidden from each other"]
    lines += [f"{universal_vertex}: one step from every value" for universal_vertex in view.universal]
    lines += [f"{ABSENCE}: one step from all of them"] if view.is_absence_hidden else []
    lines += [f"{name}: joined to no value" for name in view.apart]
    if view.parts is not None and view.parts > 1 and not view.is_joined:
        lines.append(f"{view.parts:,} parts that no line joins (one colour each): which part is not hidden")
    return [
        element(
            "text", {"x": frame.width / 2, "y": y + 18.0 * row, "text-anchor": "middle", "class": "q"}, escaped(line)
        )
        for row, line in enumerate(lines)
    ]


def _caption_height(view: GraphView) -> float:
    return 18.0 * (2 + len(view.universal) + len(view.apart) + view.is_absence_hidden) + 12.0


def _dot(name: str, colour: str, x: float, y: float) -> str:
    about = {"cx": x, "cy": y, "r": RADIUS, "fill": colour, "stroke": PAPER, "stroke-width": 1.5}
    return element("circle", about, element("title", {}, escaped(name)))


def _arcs(view: GraphView) -> str:
    """Values in a row, each hidden move an arc above them; the shorter ones lie in front."""
    count = len(view.labels)
    side, margin = GAP * (count - 1), 64.0
    width = max(side + 2 * margin, 520.0)
    left = (width - side) / 2
    widest = max((two - one for one, two in view.pairs.tolist()), default=0)
    tallest = GAP * widest / 2
    flat = min(1.0, STEEPEST / tallest) if widest else 1.0
    base = 34.0 + tallest * flat
    longest = min(max(len(text) for text in view.labels), NAME)
    tilts = longest * LETTER > GAP - 6.0
    below = base + (34.0 + 0.62 * LETTER * longest if tilts else 40.0)
    frame = Frame(width=width, height=below + _caption_height(view))
    parts = [element("line", {"x1": left - 26, "x2": left + side + 26, "y1": base, "y2": base, "stroke": GRID})]
    for one, two in sorted(view.pairs.tolist(), key=lambda pair: pair[0] - pair[1]):
        x1, x2 = left + GAP * one, left + GAP * two
        half = (x2 - x1) / 2
        curve = f"M{x1:.1f} {base:.1f}A{half:.1f} {half * flat:.1f} 0 0 1 {x2:.1f} {base:.1f}"
        faint = 0.85 if two - one == 1 else max(0.25, 0.6 - 0.02 * len(view.pairs) / count)
        stroke = {"stroke": _colour(view, one), "stroke-width": 1.4, "stroke-opacity": f"{faint:.2f}"}
        parts.append(element("path", {"d": curve, "fill": "none", **stroke}))
    for place, text in enumerate(view.labels):
        x = left + GAP * place
        parts.append(_dot(text, _colour(view, place), x, base))
        parts.append(name_label(x, base + 22.0, shortened(text, NAME), tilts=tilts))
    if view.first > 0:
        parts.append(label(left - 40.0, base + 4.0, "…", "middle"))
    if view.first + count < view.size:
        parts.append(label(left + side + 40.0, base + 4.0, "…", "middle"))
    return _sheet(view, frame, *parts, *_captions(view, frame, below + 8.0))


def _ring(view: GraphView) -> str:
    """Values on a circle, those of one part side by side; each hidden move a line through it."""
    order = sorted(range(len(view.labels)), key=lambda place: (view.part_of[place], place))
    width, below, parts = _circle(view.labels, order, view.pairs, [_colour(view, p) for p in range(len(order))])
    frame = Frame(width=width, height=below + 10.0 + _caption_height(view))
    return _sheet(view, frame, *parts, *_captions(view, frame, below + 8.0))


def _circle(
    labels: Sequence[str], order: Sequence[int], pairs: Ints, colours: Sequence[str], most: int = NAME
) -> tuple[float, float, list[str]]:
    """Dots on a circle with lines through it: the width, where it ends, and its parts."""
    radius = max(90.0, 24.0 * len(order) / (2 * math.pi) + 40.0)
    longest = min(max(map(len, labels)), most)
    width, below = max(2 * (radius + LETTER * longest + 30.0), 520.0), 2 * radius + 100.0
    middle_x, middle_y = width / 2, radius + 50.0
    turn = {place: -math.pi / 2 + 2 * math.pi * step / len(order) for step, place in enumerate(order)}
    where = {p: (middle_x + radius * math.cos(a), middle_y + radius * math.sin(a)) for p, a in turn.items()}
    parts = [element("circle", {"cx": middle_x, "cy": middle_y, "r": radius, "fill": "none", "stroke": GRID})]
    for one, two in pairs.tolist():
        (x1, y1), (x2, y2) = where[one], where[two]
        pull = 0.35
        cx, cy = (x1 + x2) / 2 + pull * (middle_x - (x1 + x2) / 2), (y1 + y2) / 2 + pull * (middle_y - (y1 + y2) / 2)
        curve = f"M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"
        faint = max(0.25, 0.9 - len(pairs) / 400)
        stroke = {"stroke": colours[one], "stroke-width": 1.5, "stroke-opacity": f"{faint:.2f}"}
        parts.append(element("path", {"d": curve, "fill": "none", **stroke}))
    for place in order:
        x, y = where[place]
        parts.append(_dot(labels[place], colours[place], x, y))
        across = math.cos(turn[place])
        anchor = "middle" if abs(across) < 0.25 else "start" if across > 0 else "end"
        away = RADIUS + (10.0 if anchor != "middle" else 12.0)
        text_y = y + away * math.sin(turn[place]) + 4.0
        parts.append(label(x + away * across, text_y, shortened(labels[place], most), anchor))
    return width, below, parts


REST = "other records"
"""Stands for the records in none of the counts: the vertices v+ and v- of the paper's graph."""


def constraints_svg(view: ConstraintsView) -> str:
    """Public constraints as dots with their factors, joined where one hidden change of a record changes both."""
    labels = [f"{shortened(name, NAME)}: {price}" for name, price, _ in view.rows()]
    pairs = [*view.pairs.tolist(), *([place, len(labels)] for place, alone in enumerate(view.alone) if alone)]
    colours = [
        PARTS[part % len(PARTS)] if is_changed else GRID
        for part, is_changed in zip(view.part_of, view.changed, strict=True)
    ]
    if any(view.alone):
        labels, colours = [*labels, REST], [*colours, QUIET]
    order = sorted(range(len(view.names)), key=lambda place: (view.part_of[place], place))
    order += range(len(order), len(labels))
    width, below, parts = _circle(labels, order, np.array(pairs, dtype=np.int64).reshape(-1, 2), colours, 2 * NAME)
    mark = hashlib.sha256(repr((view.names, pairs, view.records)).encode()).hexdigest()[:10]
    title = "How public constraints tie records together"
    return Frame(width=width, height=below).sheet(f"bf{mark}", title, " ".join(view.words()), *parts)


NARROWEST, ROW = 40.0, 58.0
MOST_LINES = 90
"""More lines than this are left out where colours say as much."""
COLUMN_NAME = 11
ARC, BOW = 0.45, 0.14
"""How far a line bows out over the dots between its ends, of its length: above one row of dots, and in a field."""


def cells_svg(view: CellsView, of: str = "") -> str:
    """The graph projected on a question: dots in a row for the groups of one attribute, in a field for those of two.

    With more lines than can be told apart, colours stand for them, or those of one dot are drawn: the dot named `of`,
    or the one in the middle.
    """
    rows, columns = view.labels if len(view.labels) == len(view.axes) > 1 else (("",), view.labels[0])
    step = max(NARROWEST, LETTER * min(max(map(len, columns)), COLUMN_NAME) + 14.0)
    margin = LETTER * min(max(map(len, (view.axes[0], *rows))), NAME) + 30.0 if len(view.axes) > 1 else 24.0
    furthest = max((two - one for one, two in view.pairs.tolist()), default=0)
    lines, captions = _lines(view, of)
    rise = min(ARC * step * furthest / 2, STEEPEST / 2) if len(rows) == 1 and lines else 0.0
    width = max(margin + step * len(columns) + 24.0, 340.0)
    left, top = margin + (width - margin - step * len(columns)) / 2 + step / 2, 84.0 + rise
    below = top + ROW * (len(rows) - 1) + 46.0
    frame = Frame(width=width, height=below + 10.0)
    where = [(left + step * column, top + ROW * row) for row in range(len(rows)) for column in range(len(columns))]
    faint = max(0.35, 0.85 - len(lines) / 250)
    parts = []
    for one, two in lines:
        stroke = {"stroke": _part_colour(view, one), "stroke-width": 1.6, "stroke-opacity": f"{faint:.2f}"}
        curve = _bowed(where[one], where[two], rise if len(rows) == 1 else None)
        parts.append(element("path", {"d": curve, "fill": "none", **stroke}))
    for place, (name, (x, y)) in enumerate(zip(view.names, where, strict=True)):
        about = {"cx": x, "cy": y, "stroke-width": 1.5}
        if view.leaving[place]:
            ring = {"r": RADIUS + 5.0, "fill": "none", "stroke": _part_colour(view, place), "stroke-dasharray": "3 3"}
            parts.append(element("circle", {**about, **ring}))
        dot = {"r": RADIUS, "fill": _part_colour(view, place), "stroke": PAPER}
        parts.append(element("circle", {**about, **dot}, element("title", {}, escaped(name))))
    parts += [label(left + step * n, 44.0, shortened(one, COLUMN_NAME), "middle") for n, one in enumerate(columns)]
    parts += [label(left - 26.0, top + ROW * n + 4.0, shortened(one, NAME), "end") for n, one in enumerate(rows)]
    across = {"x": left + step * (len(columns) - 1) / 2, "y": 22.0, "text-anchor": "middle", "class": "q"}
    parts.append(element("text", across, escaped(shortened(view.axes[-1], NAME))))
    if len(view.axes) > 1:
        corner = {"x": left - 26.0, "y": 22.0, "text-anchor": "end", "class": "q"}
        parts.append(element("text", corner, escaped(shortened(view.axes[0], NAME))))
    mark = hashlib.sha256(repr((view.axes, view.labels, view.pairs.tolist(), view.part_of)).encode()).hexdigest()[:10]
    title = f"What the policy hides about {' and '.join(view.axes)}"
    return frame.sheet(f"bf{mark}", title, " ".join(captions), *parts)


def _lines(view: CellsView, of: str) -> tuple[list[tuple[int, int]], list[str]]:
    """The moves to draw, and what the picture shows, in words."""
    pairs = [(one, two) for one, two in view.pairs.tolist()]
    if len(pairs) <= MOST_LINES and not of:
        return pairs, [*view.words()]
    if view.is_all_of_parts and not of:
        return [], [*view.words(), "Any two of one colour are hidden from each other; their lines are left out."]
    names = view.names
    columns = len(view.labels[-1])
    centre = names.index(of) if of in names else len(names) // columns // 2 * columns + columns // 2
    return [pair for pair in pairs if centre in pair], [*view.words(), f"Lines are drawn for {names[centre]} alone."]


def cells_words(view: CellsView, of: str = "") -> list[str]:
    """What the picture shows, in words."""
    return _lines(view, of)[1]


def _part_colour(view: CellsView, place: int) -> str:
    return PARTS[0] if view.is_absence_hidden else PARTS[view.part_of[place] % len(PARTS)]


def _bowed(start: tuple[float, float], end: tuple[float, float], rise: float | None) -> str:
    """A line that leaves the dots between its ends free: above one row of them, or to one side in a field."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1)
    if rise is not None:
        across, down = 0.0, -min(ARC * length, 2 * rise)
    else:
        across, down = -BOW * (y2 - y1), BOW * (x2 - x1)
    middle = f"{(x1 + x2) / 2 + across:.1f} {(y1 + y2) / 2 + down:.1f}"
    return f"M{x1:.1f} {y1:.1f}Q{middle} {x2:.1f} {y2:.1f}"
