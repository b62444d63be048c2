"""Names the answers of a question: which cell, range or marginal each of them is about."""

from __future__ import annotations

import itertools

import numpy as np

from blowfishdb.engine.answer_table import AnswerAxis, AnswerTable, single
from blowfishdb.engine.compiled import Compiled
from blowfishdb.model.cells import Cells
from blowfishdb.model.domain import Bins, Dates, Integers, Timestamps
from blowfishdb.model.workload import AllRanges, as_intervals

NAMED_ANSWERS = 2_000_000
"""More ranges than this are numbered, not named."""
DAY = 86_400 * 1_000_000


def answer_tables(compiled: Compiled) -> tuple[AnswerTable, ...]:
    """The tables whose rows are the answers, in the order of the answers."""
    if compiled.query.kind == "ranges":
        return _range_tables(compiled)
    axes = cell_axes(compiled.cells)
    if compiled.query.kind == "marginals":
        return tuple(AnswerTable(tuple(axes[place] for place in subset)) for subset in _subsets(compiled))
    return (AnswerTable(axes),)


def cell_axes(cells: Cells) -> tuple[AnswerAxis, ...]:
    """The cells along each axis; without groups one axis with one label."""
    if not cells.axes:
        return (AnswerAxis("records", ("all",), 1),)
    return tuple(_axis(cells, place) for place in range(len(cells.axes)))


def _axis(cells: Cells, place: int) -> AnswerAxis:
    name = cells.axes[place]
    edges, in_days = _edges(cells, name)
    return AnswerAxis(name, tuple(cells.labels[place]), cells.plain[place], edges, in_days)


def _edges(cells: Cells, name: str) -> tuple[tuple[float, ...], bool]:
    """The ends of the groups on a number line, where they lie side by side on one; and whether they are days."""
    axis = cells.layout[name]
    if axis.plain == 0 or not axis.in_order or not np.array_equal(axis.firsts[1:], axis.lasts[:-1] + 1):
        return (), False
    ends = np.append(axis.firsts, axis.lasts[-1] + 1)
    attribute = axis.segments.attribute
    match attribute:
        case Integers():
            return tuple((attribute.low + ends - 0.5).tolist()), False
        case Bins():
            return tuple(attribute.edge_doubles(ends).tolist()), False
        case Dates():
            return tuple(attribute.starts(ends).astype(np.float64).tolist()), True
        case Timestamps():
            return tuple(((attribute.first_period + ends) * attribute.step / DAY).tolist()), True
    return (), False


def _range_tables(compiled: Compiled) -> tuple[AnswerTable, ...]:
    cells, rows = compiled.cells, compiled.problem.workload
    if compiled.query.boxes:
        order = [[axis.attribute for axis in compiled.query.axes].index(name) for name in cells.axes]
        axes = []
        for place, name in enumerate(cells.axes):
            labels = tuple(_span(cells, place, *box[order[place]]) for box in compiled.query.boxes)
            axes.append(AnswerAxis(name, labels, len(labels)))
        return (AnswerTable(tuple(axes), crossed=False),)
    found = rows.intervals() if isinstance(rows, AllRanges) else as_intervals(rows)
    if found is None or rows.shape[0] > NAMED_ANSWERS:
        return single(cells.axes[0], tuple(map(str, range(rows.shape[0]))))
    spans = zip(found.low.tolist(), found.high.tolist(), strict=True)
    return single(cells.axes[0], tuple(_span(cells, 0, low, high) for low, high in spans))


def _span(cells: Cells, axis: int, low: int, high: int) -> str:
    names = cells.labels[axis]
    return names[low] if high - low == 1 else f"{names[low]} to {names[high - 1]}"


def _subsets(compiled: Compiled) -> list[list[int]]:
    """The axes of each marginal."""
    cells, query = compiled.cells, compiled.query
    if query.ways is not None:
        return [list(chosen) for chosen in itertools.combinations(range(len(cells.axes)), query.ways)]
    return [sorted(cells.axes.index(name) for name in subset) for subset in query.subsets]
