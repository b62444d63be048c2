"""The counts as Python works them out from the rows, without any engine."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from blowfishdb.model.cells import Cells
from blowfishdb.model.numbers import Ints
from blowfishdb.model.policy import Person, Row
from blowfishdb.sources import Join
from tests.sources.tables import Cell, Sample


def expected_counts(
    main: Sample, cells: Cells, unit: Row | Person, joined: tuple[tuple[Join, Sample], ...] = ()
) -> Ints:
    """How many rows of the main table fall into each cell."""
    counts = np.zeros(math.prod(cells.graph.shape), dtype=np.int64)
    kept = kept_rows(main, unit)
    if not cells.attributes:
        counts[0] = len(kept)
        return counts
    codes = {}
    for name in cells.attributes:
        values = column_of(name, main, joined)
        column = np.empty(len(kept), dtype=object)
        column[:] = [values[row] for row in kept]
        codes[name] = cells.cuts[name].attribute.encode(column)
    place = cells.cell_of(codes)
    np.add.at(counts, place[place >= 0], 1)
    return counts


def kept_rows(main: Sample, unit: Row | Person) -> list[int]:
    """The rows that count: of each id those whose key, with its ties, is among the first."""
    if isinstance(unit, Row):
        return list(range(len(main.rows)))
    ids, keys = main.column(unit.id), main.column(unit.order_by)

    def place(row: int) -> tuple[bool, object]:
        return (True, 0) if keys[row] is None else (False, keys[row])

    kept = []
    for row, person in enumerate(ids):
        before = [other for other, name in enumerate(ids) if name == person and place(other) <= place(row)]
        if person is not None and len(before) <= unit.at_most:
            kept.append(row)
    return kept


def column_of(name: str, main: Sample, joined: tuple[tuple[Join, Sample], ...]) -> list[Cell]:
    """The values of an attribute, from the main table or through its join."""
    for join, dimension in joined:
        if name in join.attributes:
            keys = dimension.column(join.key)
            times = Counter(keys)
            values = dict(zip(keys, dimension.column(join.attributes[name]), strict=True))
            foreign = column_of(join.foreign_key, main, joined)
            return [values[key] if key is not None and times[key] == 1 else None for key in foreign]
    return main.column(name)
