"""k-means of the Blowfish paper: its point sets, its iteration as printed, which is not private, and ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

import blowfishdb as bf
from blowfishdb.analysis.kmeans import cluster, distances, from_weights
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.points import PointsRelease, PointWeights, points_release
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import InvalidInput, SourceError
from blowfishdb.model.cached import cached_property
from blowfishdb.model.cells import Cells, Points
from blowfishdb.model.domain import Bins, Domain, Integers
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import ROW, Partition, Person, Policy, Row
from blowfishdb.model.query import query
from blowfishdb.noise.sampler import sample
from blowfishdb.sources.base import ColumnType, Counting
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


# The Blowfish paper's k-means: Lloyd's iteration with noisy sizes and sums. Its policy variants are NOT private.
#
# Lemma 6.1 prices the sums of the clusters by how far a record can move. A record that changes cluster takes its whole
# value from one sum to another, so only the price for the full graph, counted from a corner of the domain, is enough.

ROUNDS = 10
"""The paper fixes ten iterations and shares epsilon equally among them, half for the sizes and half for the sums."""
FINE = 2**20
"""Noise on sums of real numbers is a whole number of steps of its scale over this."""


def noisy_lloyd(
    points: Floats,
    weights: Floats,
    ends: tuple[Floats, Floats],
    clusters: int,
    epsilon: float,
    sum_sensitivity: float,
    seed: int,
) -> Floats:
    """Centres after ten rounds; sizes get noise for a sensitivity of 2, sums for the given one."""
    low, high = ends
    inside, size = points - low, high - low
    centers = generator(seed, "first centres").random((clusters, size.size)) * size
    each = epsilon / ROUNDS / 2.0
    size_scale = 2.0 / each if sum_sensitivity > 0.0 else 0.0
    for _ in range(ROUNDS):
        # The squared distance less that of the point to the corner, which is the same for every centre.
        nearest = ((centers**2).sum(axis=1) - 2.0 * inside @ centers.T).argmin(axis=1)
        counts = np.bincount(nearest, weights, minlength=clusters) + _noise(size_scale, clusters)
        sums = np.stack([np.bincount(nearest, weights * column, minlength=clusters) for column in inside.T], axis=1)
        noisy = sums + _noise(sum_sensitivity / each, sums.size).reshape(sums.shape)
        centers = np.clip(noisy / np.maximum(counts, 1.0)[:, None], 0.0, size)
    return np.asarray(centers + low, dtype=np.float64)


def _noise(scale: float, count: int) -> Floats:
    return np.asarray(sample(Fraction(FINE), 1, count) * (scale / FINE), dtype=np.float64)


# k-means of a point set under a policy: the paper's iteration and our one certified release, and how good each is.

CLUSTERS = 4


@dataclass(frozen=True, eq=False)
class Held:
    """Records at hand, counted as a data source would."""

    points: PointSet

    def identity(self) -> str:
        return "records at hand"

    def columns(self) -> dict[str, ColumnType]:
        return {}

    def is_changing(self) -> bool:
        return False

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        raise SourceError(f"{len(cells.axes)} axes of each {unit}: this source counts points only")

    def prepare_people(self, cells: Cells, unit: Person) -> Counting:
        return self.prepare(cells, unit)

    def last_write(self) -> str | None:
        """Nobody builds on these counts."""
        return None

    def content(self) -> str | None:
        """Nobody builds on these counts."""
        return None

    def prepare_points(self, points: Points, unit: Row | Person = ROW) -> Tallied:
        del unit
        return Tallied(self.points, points)


@dataclass(frozen=True, eq=False)
class Tallied:
    """Each different record, and how often it occurs."""

    own: PointSet
    points: Points

    def run(self, deadline: float | None = None) -> tuple[Ints, Ints]:
        del deadline
        records, times = self.own.weighted
        columns = zip(self.own.names, records.T, strict=True)
        values, counts = self.points.place({name: self.own.domain[name].encode(column) for name, column in columns})
        return values[counts], times[counts].astype(np.int64)


def non_private(points: PointSet) -> float:
    """The objective of the same weighted k-means on the records themselves."""
    return objective(points, cluster(*points.weighted, CLUSTERS, seed=0).centers)


def objective(points: PointSet, centers: Floats) -> float:
    """The summed squared distance of the records to their nearest centres."""
    records, times = points.weighted
    return float(times @ distances(records, centers).min(axis=1))


def prepared(points: PointSet, policy: Policy, epsilon: str) -> PointsRelease:
    """The grid for point sets of this shape; it does not depend on their records."""
    handle = _handle(points, policy)
    asked = query("points", points.names, clusters=CLUSTERS, rows=len(points.records))
    return points_release(handle, asked, accuracy_target(epsilon=epsilon))


def weights_of(points: PointSet, policy: Policy, ready: PointsRelease) -> PointWeights:
    """The release that a session would make, without its ledger."""
    handle = _handle(points, policy)
    return PointWeights.from_json(ready.payload(ready.counting(handle).run(), handle))


def _handle(points: PointSet, policy: Policy) -> DatasetHandle:
    return DatasetHandle(points.name, points.domain, policy, "records at hand", 1, 1, 1, Held(points))


def sound_centers(points: PointSet, seed: int, policy: Policy, ready: PointsRelease) -> Floats:
    """Centres from one certified release."""
    return from_weights(weights_of(points, policy, ready), CLUSTERS, points.names, seed).cluster_centers_


def printed_centers(points: PointSet, seed: int, kind: str, value: str, epsilon: str) -> Floats:
    """The paper's centres under a policy; private for the full graph alone."""
    sensitivity = printed_sensitivity(points, kind, value)
    return noisy_lloyd(*points.weighted, points.ends, CLUSTERS, float(epsilon), sensitivity, seed)


def policy_of(points: PointSet, kind: str, value: str) -> Policy:
    """`full`; `theta`, an L1 distance; `attribute`; `partition` into value x value blocks; `cells`, each by itself."""
    if kind == "full":
        return Policy()
    if kind == "theta":
        return Policy(joint=[bf.grid(points.names, value, "l1")])
    if kind == "attribute":
        return Policy(composition="attribute")
    if kind == "partition":
        return Policy({name: _blocks(low, high, int(value)) for name, low, high in _sides(points)})
    if kind == "cells":
        return Policy(dict.fromkeys(points.names, bf.public()))
    raise InvalidInput(f"there is no policy of kind {kind!r}")


def _sides(points: PointSet) -> list[tuple[str, Fraction, Fraction]]:
    low, high = points.ends
    return [(n, Fraction(str(a)), Fraction(str(b))) for n, a, b in zip(points.names, low, high, strict=True)]


def _blocks(low: Fraction, high: Fraction, parts: int) -> Partition:
    return bf.partition(cuts=[low + place * (high - low) / parts for place in range(1, parts)])


def printed_sensitivity(points: PointSet, kind: str, value: str) -> float:
    """What Lemma 6.1 says of the sums: twice the largest L1 distance between two values that the policy joins."""
    size = points.ends[1] - points.ends[0]
    if kind == "theta":
        return 2.0 * float(value)
    if kind == "cells":
        return 0.0
    if kind == "attribute":
        return 2.0 * float(size.max())
    return 2.0 * float(size.sum()) / (int(value) if kind == "partition" else 1)
