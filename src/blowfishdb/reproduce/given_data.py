"""What the user's folder holds: files in place of the papers' data, files added to them, and files of no use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.arrays import Ints
from blowfishdb.reproduce.settings import Settings
from blowfishdb.reproduce.stand_ins import STAND_INS

SUBFOLDERS = ("", "histograms_1d", "histograms_2d", "tables")
AXES = {"ADULT": 1, **{name: one.axes for name, one in STAND_INS.items()}}
"""The papers' data sets by the names of their files without ending, and how many axes each has."""
PIXELS, PLACES = "skin_segmentation_245057.csv", "geonames_cities1000_latlon.npy"
TABLES = (PIXELS, PLACES)
"""Files of points that may lie in the folder too."""
LEAST_SIDE = 16
MOST_CELLS = 8192
"""Of one axis: the optimal partition looks at every pair of cells."""
MOST_SIDE = 4096
MOST_PEOPLE_CELLS = 65_536
"""Of the census, which is released thousands of times."""
MOST_RECORDS = 10**9
ENDING = ".npy"


@dataclass(frozen=True)
class Survey:
    """File names by what becomes of them: read in place of a paper's data, added to the experiments, or left alone."""

    replacing: tuple[str, ...]
    histograms: tuple[str, ...]
    maps: tuple[str, ...]
    unused: tuple[str, ...]

    def words(self) -> str:
        """One sentence for each kind that there is."""
        parts = {
            "In place of the papers' data": self.replacing,
            "Added to the histograms of the DAWA paper and the thesis": self.histograms,
            "Added to the maps of the DAWA paper": self.maps,
            "Not used": self.unused,
        }
        return " ".join(f"{what}: {', '.join(names)}." for what, names in parts.items() if names)


def survey(settings: Settings) -> Survey:
    """What the given folder holds. Refuses one without any use, and a file of a known name that cannot serve."""
    found = {path.name: path for path in _files(settings)}
    known = {**{f"{name}{ENDING}": axes for name, axes in AXES.items()}, **dict.fromkeys(TABLES, 0)}
    for name, axes in known.items():
        if name in found and axes:
            read_counts(found[name], axes)
    histograms, maps = (others(settings, axes) for axes in (1, 2))
    replacing = tuple(name for name in found if name in known)
    added = {f"{name}{ENDING}" for name in (*histograms, *maps)}
    if settings.data is not None and not replacing and not added:
        raise InvalidInput(
            f"{settings.data} holds nothing that an experiment reads. Give numpy files of whole counts ({ENDING}) in "
            f"it or in {', '.join(SUBFOLDERS[1:])}. Named {', '.join(AXES)} they take the place of the papers' data; "
            f"others are added to the histograms ({LEAST_SIDE} to {MOST_CELLS:,} cells) or to the maps (two axes)"
        )
    unused = tuple(name for name in found if name not in known and name not in added)
    return Survey(replacing, histograms, maps, unused)


def others(settings: Settings, axes: int) -> tuple[str, ...]:
    """The names without ending of counts that no paper has, with so many axes; what is not counts is left out."""
    return tuple(path.stem for path in _files(settings) if path.stem not in AXES and _serves(path, axes))


def given_file(settings: Settings, name: str) -> Path | None:
    """The file of that name in the given folder or in its usual subfolders, if it is there."""
    return next((path for path in _files(settings) if path.name == name), None)


def read_counts(path: Path, axes: int) -> Ints:
    """The counts in a numpy file. Refuses one with other axes, or with what no experiment could use."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InvalidInput(f"{path.name} is no numpy array of counts") from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu" or found.size == 0 or found.min() < 0:
        raise InvalidInput(f"{path.name} must hold whole counts of 0 or more")
    if found.ndim != axes:
        raise InvalidInput(f"{path.name} must have {axes} {'axis' if axes == 1 else 'axes'}; it has {found.ndim}")
    most = MOST_CELLS if axes == 1 else MOST_SIDE
    if min(found.shape) < LEAST_SIDE or max(found.shape) > most:
        raise InvalidInput(f"{path.name} must have {LEAST_SIDE} to {most:,} cells along each axis")
    if path.name == f"CENSUS{ENDING}" and found.size > MOST_PEOPLE_CELLS:
        raise InvalidInput(f"{path.name} must have {MOST_PEOPLE_CELLS:,} cells at most")
    if not 0 < float(found.sum(dtype=np.float64)) <= MOST_RECORDS:
        raise InvalidInput(f"{path.name} must hold 1 to {MOST_RECORDS:,} records")
    return np.ascontiguousarray(found, dtype=np.int64)


def _serves(path: Path, axes: int) -> bool:
    if path.suffix != ENDING or path.name in TABLES:
        return False
    try:
        read_counts(path, axes)
    except InvalidInput:
        return False
    return True


def _files(settings: Settings) -> Iterator[Path]:
    """Files of data in the folder and its usual subfolders, by name; of two with one name the first counts."""
    if settings.data is None:
        return
    seen: set[str] = set()
    for inside in (settings.data / folder for folder in SUBFOLDERS):
        try:
            paths = sorted(inside.iterdir()) if inside.is_dir() else []
        except OSError:
            raise InvalidInput(f"{inside} cannot be read") from None
        for path in paths:
            if path.is_file() and path.suffix.lower() in (ENDING, ".csv", ".txt") and path.name not in seen:
                seen.add(path.name)
                yield path
