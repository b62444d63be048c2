"""Synthetic records with the counts of a synopsis: whole numbers, always the same from the same file and seed.

Made from published counts alone, so they cost nothing and hide exactly what the synopsis hides.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blowfishdb.engine.synopsis import Artefact, Synopsis, SynopsisAxis
from blowfishdb.errors import InvalidInput, TooLarge
from blowfishdb.model.cached import cached_property
from blowfishdb.model.calendar import Dates
from blowfishdb.model.domain import Bins, Categorical, Integers
from blowfishdb.model.numbers import Floats, Ints

if TYPE_CHECKING:
    import pandas
    import pyarrow

MOST_ROWS = 50_000_000


@dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Records drawn from a synopsis: for each its cell, and for each attribute a value code inside that cell."""

    artefact: Artefact
    counts: Ints
    seed: int

    @property
    def size(self) -> int:
        """The number of records."""
        return int(self.counts.sum())

    @cached_property
    def codes(self) -> dict[str, Ints]:
        """The value code of each record by attribute, evenly drawn within its cell."""
        place = np.unravel_index(np.repeat(np.arange(self.counts.size), self.counts), self.artefact.shape)
        # Draws that anybody can repeat from the file; they hide nothing and need not.
        generator = np.random.Generator(np.random.Philox(key=[int(self.artefact.digest()[:16], 16), self.seed]))
        order = generator.permutation(self.size)
        return {
            axis.name: _codes_within(axis, np.asarray(cell)[order], generator.random(self.size))
            for axis, cell in zip(self.artefact.axes, place, strict=True)
        }

    def to_arrow(self) -> pyarrow.Table:
        """The records as a table; NULL for records of a cell without a value."""
        import pyarrow as pa

        return pa.table({axis.name: pa.array(_values(axis, self.codes[axis.name])) for axis in self.artefact.axes})

    def to_pandas(self) -> pandas.DataFrame:
        """The records as a pandas frame."""
        return self.to_arrow().to_pandas()


def synthetic_rows(synopsis: Synopsis, *, rows: int | None = None, seed: int = 0) -> SyntheticRows:
    """Records with the synopsis' counts; `rows` fixes their number, which is otherwise the estimated total."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InvalidInput("a seed is a whole number, 0 or more")
    artefact = synopsis.artefact
    weights = np.maximum(artefact.counts, 0.0)
    total = max(0, round(float(artefact.counts.sum()))) if rows is None else rows
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise InvalidInput("the number of rows is a whole number, 0 or more")
    if total > MOST_ROWS:
        raise TooLarge("synthetic rows", total, MOST_ROWS, "Ask for fewer with rows=.")
    if synopsis.filter is not None:
        raise InvalidInput("rows are drawn from the whole synopsis; filter the rows instead")
    if total and not weights.any():
        raise InvalidInput("every count of this synopsis is 0 or less: there is nothing to draw rows from")
    return SyntheticRows(artefact, _whole(weights, total), seed)


def _whole(weights: Floats, total: int) -> Ints:
    """Whole numbers in proportion to the weights that add up to total: the largest remainders get one more."""
    if total == 0:
        return np.zeros(weights.size, dtype=np.int64)
    scaled = weights * (total / weights.sum())
    counts: Ints = np.floor(scaled).astype(np.int64)
    missing = total - int(counts.sum())
    order = np.argsort(counts - scaled, kind="stable")
    counts[order[:missing]] += 1
    return counts


def _codes_within(axis: SynopsisAxis, cell: Ints, uniform: Floats) -> Ints:
    """For each record a value code of its cell; every declared value of the cell is equally likely."""
    segments = axis.cells.segments
    lengths = np.diff(np.append(segments.starts, segments.attribute.size))
    slots = np.array([slot.code for slot in segments.slots], dtype=np.int64)
    starts = np.concatenate([segments.starts, slots])
    sizes = np.concatenate([lengths, np.ones(slots.size, dtype=np.int64)])
    runs = np.flatnonzero(axis.cells.cell_of >= 0)
    runs = runs[np.argsort(axis.cells.cell_of[runs], kind="stable")]
    cells, sizes, starts = axis.cells.cell_of[runs], sizes[runs], starts[runs]
    before = np.concatenate([[0], np.cumsum(sizes)])
    first = np.searchsorted(cells, np.arange(axis.cells.cells), side="left")
    last = np.searchsorted(cells, np.arange(axis.cells.cells), side="right")
    low, high = before[first][cell], before[last][cell]
    drawn = low + np.minimum((uniform * (high - low)).astype(np.int64), high - low - 1)
    run = np.searchsorted(before, drawn, side="right") - 1
    return np.asarray(starts[run] + drawn - before[run], dtype=np.int64)


def _values(axis: SynopsisAxis, codes: Ints) -> list[object]:
    """The declared value of each code; the middle of a bin; None for NULL and outside."""
    attribute = axis.cells.segments.attribute
    known = (codes >= 0) & (codes < attribute.size)
    inside = np.where(known, codes, 0)
    values: list[object]
    match attribute:
        case Categorical():
            values = [attribute.values[code] for code in inside.tolist()]
        case Integers():
            values = (inside + attribute.low).tolist()
        case Bins():
            distinct, place = np.unique(inside, return_inverse=True)
            middles = [float((attribute.edge(code) + attribute.edge(code + 1)) / 2) for code in distinct.tolist()]
            values = np.array(middles)[place].tolist()
        case Dates():
            days = attribute.starts(inside).tolist()
            values = [datetime.date(1970, 1, 1) + datetime.timedelta(days=day) for day in days]
        case _:
            values = [attribute.run_label(code, code) for code in inside.tolist()]
    return [value if there else None for value, there in zip(values, known.tolist(), strict=True)]
