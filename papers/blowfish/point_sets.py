"""The point sets of the Blowfish paper's k-means figure: made as it says, read from a folder, or stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import blowfishdb as bf
from blowfishdb.errors import InvalidInput
from blowfishdb.model.cached import cached_property
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.numbers import Floats, Ints
from papers.data import PIXELS, PLACES, generator, given_file, histogram
from papers.experiment import Settings

COLUMNS = ("a", "b", "c", "d")
ROWS, CENTERS = 1000, 4
"""The size of the synthetic set, and the number of its true centres."""
PIXELS_HELD = 245_057
LEAST_POINTS = 1000
"""A hundredth of them is clustered too."""
KM_NORTH, KM_EAST = 2220, 1440
"""The paper's window of the western United States, rounded so that its 400 by 300 cells have short decimal sides."""


Sides = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PointSet:
    """Records by columns, the domain that is declared of them, and where they come from."""

    name: str
    records: Floats
    domain: Domain
    origin: str

    @property
    def label(self) -> str:
        """The name to print, which says where a stand-in stands in."""
        return f"{self.name} (stand-in)" if self.origin == "stand-in" else self.name

    @property
    def names(self) -> tuple[str, ...]:
        return self.domain.names

    @cached_property
    def weighted(self) -> tuple[Floats, Floats]:
        """The different records, and how often each occurs."""
        points, counts = np.unique(self.records, axis=0, return_counts=True)
        return points, counts.astype(np.float64)

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The declared ends of the columns."""
        ends = [_ends(self.domain[name]) for name in self.names]
        return np.array([low for low, _ in ends]), np.array([high for _, high in ends])


def _ends(declared: object) -> tuple[float, float]:
    if isinstance(declared, Bins):
        return float(declared.edge(0)), float(declared.edge(declared.size))
    if isinstance(declared, Integers):
        return float(declared.low), float(declared.high)
    raise InvalidInput("a column of points holds whole numbers or bins")


def point_set(settings: Settings, name: str, repeat: int = 0) -> PointSet:
    """`synthetic` (another one for each repeat), `tweets`, `places`, or `skin`, `skin10`, `skin01` by their size."""
    return _kept(settings, name, repeat if name == "synthetic" else 0)


@lru_cache(maxsize=64)
def _kept(settings: Settings, name: str, repeat: int) -> PointSet:
    if name == "synthetic":
        return synthetic(settings.seed + repeat)
    if name == "tweets":
        return tweets(settings)
    if name == "places":
        return places(settings)
    if name in SKIN_PARTS:
        return colours(settings, name)
    raise InvalidInput(f"there is no point set {name!r}")


def synthetic(seed: int) -> PointSet:
    """Points of the unit cube around random centres, with noise of standard deviation 0.2 in each direction."""
    rng = generator(seed, "synthetic points")
    centers = rng.random((CENTERS, len(COLUMNS)))
    points = centers[rng.integers(0, CENTERS, ROWS)] + rng.normal(0.0, 0.2, (ROWS, len(COLUMNS)))
    domain = bf.domain({name: bf.bins(0, 1, width="0.001", null=0) for name in COLUMNS})
    return PointSet("synthetic", np.clip(points, 0.0, 0.9999), domain, "generated")


def tweets(settings: Settings) -> PointSet:
    """Kilometres north and east of the window's corner, each tweet in the middle of its cell."""
    table = histogram(settings, "TWITTER")
    domain = bf.domain(
        {"north": bf.bins(0, KM_NORTH, width="5.55", null=0), "east": bf.bins(0, KM_EAST, width="4.8", null=0)}
    )
    # The table's rows go from west to east, its columns from south to north.
    return PointSet("tweets", _cell_middles(table.counts.T), domain, table.origin)


def _cell_middles(counts: Ints) -> Floats:
    """One point for each record, in the middle of its cell of the window."""
    rows, columns = (index.astype(np.float64) for index in np.nonzero(counts))
    sides = KM_NORTH / counts.shape[0], KM_EAST / counts.shape[1]
    middles = np.stack([(rows + 0.5) * sides[0], (columns + 0.5) * sides[1]], axis=1)
    return np.repeat(middles, counts[counts > 0], axis=0)


def places(settings: Settings) -> PointSet:
    """Latitudes and longitudes of the world's towns; a stand-in has few large towns and many small ones."""
    file = given_file(settings, PLACES)
    if file is not None:
        points = _points(file, np.load, 2, (-90, -180), (90, 180))
        return PointSet("places", points, _window(-60, 80, -180, 180), "given")
    rng = generator(settings.seed, "towns")
    centers = np.stack([rng.uniform(30, 50, 200), rng.uniform(-125, -110, 200)], axis=1)
    sizes = 1.0 / np.arange(1, 201) ** 1.1
    chosen = rng.choice(200, 50_000, p=sizes / sizes.sum())
    records = centers[chosen] + rng.normal(0.0, 0.15, (chosen.size, 2))
    return PointSet("places", records, _window(30, 50, -125, -110), "stand-in")


def _points(file: Path, read: Callable[[Path], Floats], columns: int, low: Sides, high: Sides) -> Floats:
    """The points of a file, each column within its ends."""
    try:
        points = np.asarray(read(file), dtype=np.float64)
    except (OSError, ValueError, EOFError):
        raise InvalidInput(f"{file.name} holds no points that can be read") from None
    if points.ndim != 2 or points.shape[1] != columns or len(points) < LEAST_POINTS:
        raise InvalidInput(f"{file.name} must have {columns} columns and {LEAST_POINTS} points or more")
    if not bool(np.all((points >= low) & (points <= high))):
        raise InvalidInput(f"the columns of {file.name} must lie within {low} and {high}")
    return points


def _window(south: int, north: int, west: int, east: int) -> Domain:
    each = {"latitude": (south, north), "longitude": (west, east)}
    return bf.domain({name: bf.bins(low, high, width="0.05", null=low) for name, (low, high) in each.items()})


SKIN_PARTS = {"skin": 1, "skin10": 10, "skin01": 100}


def colours(settings: Settings, name: str) -> PointSet:
    """Blue, green and red of pixels: all of them, a tenth or a hundredth."""
    every = SKIN_PARTS[name]
    file = given_file(settings, PIXELS)
    rng = generator(settings.seed, "pixels")
    if file is None:
        shade = rng.beta(1.2, 1.2, (PIXELS_HELD, 1))
        tint = np.array([[0.7, 0.85, 1.0], [1.0, 1.0, 1.0], [0.4, 0.55, 0.5]])[rng.integers(0, 3, PIXELS_HELD)]
        # Steps of 4 make about as few different colours as the photographs have.
        shades = np.clip(shade * tint + rng.normal(0, 0.05, (PIXELS_HELD, 3)), 0, 1)
        pixels, note = np.floor(shades * 63) * 4, "stand-in"
    else:
        read = partial(np.loadtxt, delimiter=",", skiprows=1, usecols=(0, 1, 2))
        pixels, note = _points(file, read, 3, (0, 0, 0), (255, 255, 255)), "given"
    kept = pixels if every == 1 else pixels[rng.choice(len(pixels), len(pixels) // every, replace=False)]
    domain = bf.domain({column: bf.integers(0, 255, null=0) for column in ("blue", "green", "red")})
    return PointSet(name, np.floor(kept), domain, note)
