"""The papers' data sets: shipped, read from the folder that the user gives, or a generated stand-in that says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import numpy as np

from blowfishdb.errors import InvalidInput
from blowfishdb.model.numbers import Floats, Ints
from papers.experiment import Settings

# Seeded generators for what is public in an experiment: workloads, stand-in data and resampling; never for noise.

Generator = np.random.Generator


def generator(seed: int, *words: str | int) -> Generator:
    """A generator of its own for each purpose that the words name."""
    text = "\0".join([str(seed), *map(str, words)])
    return np.random.default_rng(np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype=np.uint32))


# Generated histograms in place of data that may not be shipped: seeded, and like the originals in size and shape only.
#
# Each is written from what the papers say about the original (what is counted, how many records, how many empty cells,
# how rough it is), not from its counts. A test keeps totals and shares of empty cells near the published ones.

CELLS = 4096
SIDE = 256


@dataclass(frozen=True)
class StandIn:
    """What the original counts, how many records it has, which share of its cells is empty, how ours is made."""

    what: str
    records: int
    empty: float
    shape: Callable[[Generator], Floats]
    axes: int = 1

    def make(self, seed: int) -> Ints:
        """Counts with about that many records and that share of empty cells."""
        draw = generator(seed, "stand-in", self.what)
        return _counts(draw, self.shape(draw), self.records, self.empty)


def _counts(draw: Generator, rates: Floats, records: int, empty: float) -> Ints:
    """Poisson counts for the rates; cells with the lowest rates are empty, the others have a record at least."""
    flat = rates.reshape(-1).copy()
    unused = np.argsort(flat, kind="stable")[: round(empty * flat.size)]
    flat[unused] = 0.0
    counts = np.maximum(draw.poisson(flat / flat.sum() * records), 1)
    counts[unused] = 0
    return np.asarray(counts.reshape(rates.shape), dtype=np.int64)


def _net_trace(draw: Generator) -> Floats:
    """Connections by internal host: three blocks of addresses in use, quiet hosts and few very busy ones."""
    rates = draw.uniform(0.0, 1e-6, CELLS)
    for block in (300, 1400, 2900):
        rates[block : block + 48] = draw.uniform(0.5, 1.5, 48)
        rates[block + draw.choice(48, 3, replace=False)] += 1000 * (draw.pareto(1.0, 3) + 0.5)
    return rates


def _medical_cost(draw: Generator) -> Floats:
    """Costs: fewer and fewer upwards, evenly."""
    place = np.arange(CELLS)
    return np.asarray(np.exp(-place / 260.0) * draw.gamma(8.0, 1 / 8, CELLS))


def _search_logs(draw: Generator) -> Floats:
    """How often a name is searched: nearly never for half of the time, then a slow rise with bursts."""
    place = np.arange(CELLS)
    rates = np.where(place < 0.52 * CELLS, 1e-3, 1.0 + 2.0 * (place / CELLS - 0.52)) * draw.gamma(6.0, 1 / 6, CELLS)
    for centre in draw.integers(int(0.55 * CELLS), CELLS, 25):
        rates += draw.pareto(1.2) * 3 * np.exp(-np.abs(place - centre) / draw.uniform(3, 40))
    return np.asarray(rates * (place >= 0.51 * CELLS) + 1e-6 * draw.uniform(0, 1, CELLS))


def _income(draw: Generator) -> Floats:
    """Incomes: log-normal, with most people at round sums; cut off at the top, and thin before."""
    place = np.arange(CELLS) + 0.5
    rates = np.exp(-((np.log(place) - np.log(300.0)) ** 2) / (2 * 0.8**2)) / place
    rates *= draw.gamma(4.0, 1 / 4, CELLS)
    rates[::5] *= 4
    rates[::25] *= 4
    thin = place > 1300
    rates[thin] *= np.where(np.arange(int(thin.sum())) % 25 == 0, 1.0, 1e-5)
    rates[place > 3000] *= 1e-3
    return np.asarray(rates)


def _patent(draw: Generator) -> Floats:
    """Citations by day: nearly none at first, then ever more, more on one day of the week than on the others."""
    place = np.arange(CELLS)
    week = np.where(place % 7 == 2, 3.0, 0.6)
    return np.asarray(np.exp(14.0 * place / CELLS) * week * draw.gamma(12.0, 1 / 12, CELLS))


def _physics(draw: Generator) -> Floats:
    """Citations of preprints by day: rising, rough from day to day, few at weekends."""
    place = np.arange(CELLS)
    week = np.where(place % 7 >= 5, 0.05, 1.0)
    return np.asarray((0.01 + (place / CELLS) ** 2) * week * draw.gamma(1.5, 1 / 1.5, CELLS))


def _towns(towns: int, spread: float, weight: float, side: int = SIDE) -> Callable[[Generator], Floats]:
    """Points around towns of very different size."""

    def shape(draw: Generator) -> Floats:
        places = np.arange(side)
        rates = np.full((side, side), 1e-9)
        for size in draw.pareto(weight, towns) + 0.05:
            x, y = draw.uniform(0, side, 2)
            width = spread * (0.5 + size**0.3)
            near = [places[max(0, int(centre - 6 * width)) : int(centre + 6 * width) + 1] for centre in (x, y)]
            across, along = (np.exp(-((n - c) ** 2) / (2 * width**2)) for n, c in zip(near, (x, y), strict=True))
            rates[np.ix_(*near)] += size * np.outer(across, along)
        return np.asarray(rates * draw.gamma(0.8, 1.25, (side, side)))

    return shape


def _people(draw: Generator) -> Floats:
    """People by age and income: fewer in old age, incomes highest in the fifties and often round."""
    age, income = np.arange(79)[:, None], np.arange(100)[None, :] + 0.5
    people = 1 / (1 + np.exp((age - 48) / 9.0))
    middle = 12 + 16 * np.exp(-(((age - 33) / 20.0) ** 2))
    rates = people * np.exp(-((np.log(income / middle)) ** 2) / (2 * 0.7**2)) / income
    rates[:, ::5] *= 2.5
    return np.asarray(rates * draw.gamma(3.0, 1 / 3, (79, 100)))


STAND_INS = {
    "NETTRACE": StandIn("external connections of each internal host", 25_714, 0.966, _net_trace),
    "MEDCOST": StandIn("medical cost of a person", 9_415, 0.748, _medical_cost),
    "SEARCHLOGS": StandIn("searches for one name over time", 335_889, 0.510, _search_logs),
    "INCOME": StandIn("income of a person", 20_787_122, 0.450, _income),
    "PATENT": StandIn("new citations of patents by day", 27_948_226, 0.062, _patent),
    "HEPTH": StandIn("new citations of physics preprints by day", 347_414, 0.212, _physics),
    "TWITTER": StandIn("messages by place", 193_563, 0.945, _towns(60, 1.5, 1.1), axes=2),
    "ROADS": StandIn("road intersections by place", 1_634_165, 0.80, _towns(400, 5.0, 1.2, side=1024), axes=2),
    "CENSUS": StandIn("people by age and income", 1_000_000, 0.20, _people, axes=2),
}
"""Stand-ins by the name of the original's file."""


# What the user's folder holds: files in place of the papers' data, files added to them, and files of no use.

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
    files = {path.name: path for path in _files(settings)}
    known = {**{f"{name}{ENDING}": axes for name, axes in AXES.items()}, **dict.fromkeys(TABLES, 0)}
    for name, axes in known.items():
        if name in files and axes:
            read_counts(files[name], axes)
    histograms, maps = (others(settings, axes) for axes in (1, 2))
    replacing = tuple(name for name in files if name in known)
    added = {f"{name}{ENDING}" for name in (*histograms, *maps)}
    if settings.data is not None and not replacing and not added:
        raise InvalidInput(
            f"{settings.data} holds nothing that an experiment reads. Give numpy files of whole counts ({ENDING}) in "
            f"it or in {', '.join(SUBFOLDERS[1:])}. Named {', '.join(AXES)} they take the place of the papers' data; "
            f"others are added to the histograms ({LEAST_SIDE} to {MOST_CELLS:,} cells) or to the maps (two axes)"
        )
    unused = tuple(name for name in files if name not in known and name not in added)
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
        counts = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InvalidInput(f"{path.name} is no numpy array of counts") from None
    if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iu" or counts.size == 0 or counts.min() < 0:
        raise InvalidInput(f"{path.name} must hold whole counts of 0 or more")
    if counts.ndim != axes:
        raise InvalidInput(f"{path.name} must have {axes} {'axis' if axes == 1 else 'axes'}; it has {counts.ndim}")
    most = MOST_CELLS if axes == 1 else MOST_SIDE
    if min(counts.shape) < LEAST_SIDE or max(counts.shape) > most:
        raise InvalidInput(f"{path.name} must have {LEAST_SIDE} to {most:,} cells along each axis")
    if path.name == f"CENSUS{ENDING}" and counts.size > MOST_PEOPLE_CELLS:
        raise InvalidInput(f"{path.name} must have {MOST_PEOPLE_CELLS:,} cells at most")
    if not 0 < float(counts.sum(dtype=np.float64)) <= MOST_RECORDS:
        raise InvalidInput(f"{path.name} must hold 1 to {MOST_RECORDS:,} records")
    return np.ascontiguousarray(counts, dtype=np.int64)


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


# The papers' data sets: shipped, read from the folder that the user gives, or a generated stand-in that says so.

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
    counts = STAND_INS[name].make(seed)
    counts.flags.writeable = False
    return counts


def _capital_loss(cells: int) -> Ints:
    import pyarrow.parquet as parquet

    with as_file(files("blowfishdb") / "data" / "adult.parquet") as path:
        values = parquet.read_table(path, columns=["capital_loss"])["capital_loss"].to_numpy()
    return np.bincount(np.minimum(values, cells - 1).astype(np.int64), minlength=cells)
