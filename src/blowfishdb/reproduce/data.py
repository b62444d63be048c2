"""The papers' data sets: shipped, read from the folder that the user gives, or a generated stand-in that says so."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Ints
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.stand_ins import STAND_INS

Origin = Literal["shipped", "given", "stand-in"]

SHIPPED_CELLS = {"ADULT": 4096, "ADULT_UCI_caploss_4357": 4357}
"""Histograms of capital loss in the shipped UCI Adult table, one cell per dollar, the last one for all above."""
SUBFOLDERS = ("", "histograms_1d", "histograms_2d", "tables")
TABLES = ("skin_segmentation_245057.csv", "geonames_cities1000_latlon.npy")
"""Files of points that may lie in the folder too; they are found by `given_file`."""


@dataclass(frozen=True)
class Histogram:
    """Counts with the name to print: a stand-in is called one in every table and figure."""

    name: str
    counts: Ints
    origin: Origin

    @property
    def label(self) -> str:
        """The name, and that it is a stand-in where it is one."""
        return f"{self.name} (stand-in)" if self.origin == "stand-in" else self.name


def histogram(settings: Settings, name: str) -> Histogram:
    """The data set of that name: from the given folder, else as shipped, else its stand-in."""
    path = given_file(settings, f"{name}.npy")
    if path is not None:
        return Histogram(name, _read(path), "given")
    if name in SHIPPED_CELLS:
        return Histogram(name, _capital_loss(SHIPPED_CELLS[name]), "shipped")
    if name in STAND_INS:
        return Histogram(name, _stand_in(name, settings.seed), "stand-in")
    raise InvalidInput(f"no data set is called {name!r}")


def given_file(settings: Settings, name: str) -> Path | None:
    """The file of that name in the given folder or in its usual subfolders, if it is there."""
    if settings.data is None:
        return None
    found = (settings.data / folder / name for folder in SUBFOLDERS)
    return next((path for path in found if path.is_file()), None)


def data_digest(settings: Settings) -> str:
    """A hash of every file of the given folder that an experiment could read."""
    whole = hashlib.sha256()
    for path in _readable(settings):
        whole.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def _readable(settings: Settings) -> Iterator[Path]:
    names = [*(f"{name}.npy" for name in {*SHIPPED_CELLS, *STAND_INS}), *TABLES]
    for name in sorted(names):
        path = given_file(settings, name)
        if path is not None:
            yield path


def _read(path: Path) -> Ints:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError):
        raise InvalidInput(f"{path.name} is no numpy array of counts") from None
    if found.dtype.kind not in "iu" or found.ndim not in (1, 2) or found.size == 0 or found.min() < 0:
        raise InvalidInput(f"{path.name} must hold whole counts of 0 or more, on one or two axes")
    return np.ascontiguousarray(found, dtype=np.int64)


@lru_cache(maxsize=8)
def _stand_in(name: str, seed: int) -> Ints:
    found = STAND_INS[name].make(seed)
    found.flags.writeable = False
    return found


def _capital_loss(cells: int) -> Ints:
    import pyarrow.parquet as parquet

    with as_file(files("blowfishdb") / "data" / "adult.parquet") as path:
        values = parquet.read_table(path, columns=["capital_loss"])["capital_loss"].to_numpy()
    return np.bincount(np.minimum(values, cells - 1).astype(np.int64), minlength=cells)
