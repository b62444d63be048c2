"""The rows that all contestants count, the ranges and boxes they are asked, and the answers that counts imply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.contestants.common import CELLS, SIDE
from blowfishdb.model.numbers import Floats, Ints

ASKED = 1000
SEED = 11


@dataclass(frozen=True)
class Asked:
    """Half-open ranges of x, and boxes of a and b, a row each."""

    ranges: Ints
    boxes: Ints

    def answers(self, counts: Mapping[str, Floats]) -> dict[str, Floats]:
        """What the counts of the line or the grid say about every job that they serve."""
        found: dict[str, Floats] = {}
        if "line" in counts:
            sums = np.concatenate([[0.0], np.cumsum(counts["line"])])
            found["line"], found["cdf"] = counts["line"], sums[1:]
            found["ranges"] = sums[self.ranges[:, 1]] - sums[self.ranges[:, 0]]
        if "grid" in counts:
            sums = np.zeros((SIDE + 1, SIDE + 1))
            sums[1:, 1:] = counts["grid"].reshape(SIDE, SIDE).cumsum(0).cumsum(1)
            low_a, high_a, low_b, high_b = self.boxes.T
            found["grid"] = counts["grid"]
            found["boxes"] = sums[high_a, high_b] - sums[low_a, high_b] - sums[high_a, low_b] + sums[low_a, low_b]
        return found


def make_rows(folder: Path, size: int) -> Asked:
    """Rows with peaks, heaps and empty segments, as a file for each kind of contestant; returns what is asked."""
    rng = np.random.default_rng(SEED)
    near = rng.choice([300, 1200, 1250, 3000], size) + rng.normal(0, 1, size) * rng.choice([8, 60, 250], size)
    heaped = np.where(rng.random(size) < 0.3, np.round(near, -2), near)
    centre = rng.choice([8, 20, 45], size)
    columns = {
        "x": _within(heaped, CELLS),
        "a": _within(centre + rng.normal(0, 5, size), SIDE),
        "b": _within(SIDE - centre + rng.normal(0, 9, size), SIDE),
    }
    np.savez(folder / "rows.npz", allow_pickle=False, **columns)
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.register("made", pa.table(columns))
        connection.execute("CREATE TABLE rows AS SELECT * FROM made")
    asked = Asked(_spans(rng, CELLS), np.hstack([_spans(rng, SIDE), _spans(rng, SIDE)]))
    np.savez(folder / "asked.npz", allow_pickle=False, ranges=asked.ranges, boxes=asked.boxes)
    return asked


def true_counts(folder: Path) -> dict[str, Floats]:
    """The counts of the line and of the grid."""
    with np.load(folder / "rows.npz") as rows:
        cells = {"line": rows["x"], "grid": rows["a"] * SIDE + rows["b"]}
    return {name: np.bincount(found, minlength=CELLS).astype(np.float64) for name, found in cells.items()}


def _within(values: Floats, size: int) -> Ints:
    return np.clip(values, 0, size - 1).astype(np.int64)


def _spans(rng: np.random.Generator, size: int) -> Ints:
    lows = rng.integers(0, size, ASKED)
    return np.stack([lows, lows + 1 + (rng.random(ASKED) * (size - lows)).astype(np.int64)], axis=1)
