"""A name for each answer of a question."""

from __future__ import annotations

import itertools

from blowfishdb.engine.compiled import Compiled
from blowfishdb.model.cells import Cells
from blowfishdb.model.workload import AllRanges, as_intervals

NAMED_ANSWERS = 2_000_000
"""More answers than this are numbered, not named."""


def answer_labels(compiled: Compiled) -> tuple[str, ...]:
    """One label per answer, in the order of the answers."""
    cells, kind = compiled.cells, compiled.query.kind
    answers = compiled.problem.workload.shape[0]
    if answers > NAMED_ANSWERS:
        return tuple(map(str, range(answers)))
    if kind == "cdf":
        plain = cells.plain[0]
        names = cells.labels[0]
        return tuple(f"up to {names[i]}" if i < plain else names[i] for i in range(len(names)))
    if kind == "ranges":
        return _range_labels(compiled)
    if kind == "marginals":
        return _marginal_labels(compiled)
    return tuple(" × ".join(parts) for parts in itertools.product(*cells.labels))


def _range_labels(compiled: Compiled) -> tuple[str, ...]:
    cells, workload = compiled.cells, compiled.problem.workload
    if compiled.query.boxes:
        order = [[axis.attribute for axis in compiled.query.axes].index(name) for name in cells.axes]
        return tuple(
            " × ".join(_span(cells, place, *box[order[place]]) for place in range(len(order)))
            for box in compiled.query.boxes
        )
    found = workload.intervals() if isinstance(workload, AllRanges) else as_intervals(workload)
    if found is None:
        return tuple(map(str, range(workload.shape[0])))
    return tuple(_span(cells, 0, int(low), int(high)) for low, high in zip(found.low, found.high, strict=True))


def _span(cells: Cells, axis: int, low: int, high: int) -> str:
    names = cells.labels[axis]
    return names[low] if high - low == 1 else f"{names[low]} to {names[high - 1]}"


def _marginal_labels(compiled: Compiled) -> tuple[str, ...]:
    cells, query = compiled.cells, compiled.query
    if query.ways is not None:
        subsets = [list(chosen) for chosen in itertools.combinations(range(len(cells.axes)), query.ways)]
    else:
        subsets = [sorted(cells.axes.index(name) for name in subset) for subset in query.subsets]
    return tuple(
        " × ".join(f"{cells.axes[axis]} {part}" for axis, part in zip(subset, parts, strict=True))
        for subset in subsets
        for parts in itertools.product(*(cells.labels[axis] for axis in subset))
    )
