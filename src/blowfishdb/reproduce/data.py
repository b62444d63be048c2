"""The papers' data sets: shipped, read from the folder that the user gives, or a generated stand-in that says so."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from typing import Literal

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Ints
from blowfishdb.reproduce.given_data import AXES, ENDING, TABLES, given_file, others, read_counts
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.stand_ins import STAND_INS

Origin = Literal["shipped", "given", "stand-in"]

SHIPPED, SHIPPED_CELLS = "ADULT", 4096
"""The histogram of capital loss in the shipped UCI Adult table, one cell per dollar, the last one for all above."""


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


def histogram(settings: Settings, name: str, axes: int = 1) -> Histogram:
    """The data set of that name: from the given folder, else as shipped, else its stand-in.

    `axes` is for names that no paper has.
    """
    path = given_file(settings, f"{name}{ENDING}")
    if path is not None:
        return Histogram(name, read_counts(path, AXES.get(name, axes)), "given")
    if name == SHIPPED:
        return Histogram(name, _capital_loss(SHIPPED_CELLS), "shipped")
    if name in STAND_INS:
        return Histogram(name, _stand_in(name, settings.seed), "stand-in")
    raise InvalidInput(f"no data set is called {name!r}")


def data_digest(settings: Settings) -> str:
    """A hash of every file of the given folder that an experiment could read."""
    added = (*others(settings, 1), *others(settings, 2))
    whole = hashlib.sha256()
    for name in sorted([*(f"{each}{ENDING}" for each in (*AXES, *added)), *TABLES]):
        path = given_file(settings, name)
        if path is not None:
            whole.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


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
