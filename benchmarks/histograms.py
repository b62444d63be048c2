"""The histograms of a folder given with --data, for benchmarks on real counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.harness import MissingData
from blowfishdb.model.numbers import Ints


def read_histograms(data: Path | None, folder: str) -> dict[str, Ints]:
    """The arrays of counts in that folder of the data, by name; MissingData where there are none."""
    found = sorted((data / folder).glob("*.npy")) if data is not None else []
    if not found:
        raise MissingData(f"give --data a folder with {folder}/*.npy, arrays of counts")
    return {path.stem: np.load(path).astype(np.int64) for path in found}
