"""k-means under a policy: computed from one charged release of point weights, with scikit-learn's conventions."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from blowfishdb.engine.points import PointWeights
from blowfishdb.engine.request import Number
from blowfishdb.errors import InvalidInput, NotRevealed
from blowfishdb.inference.consistency import Parts, fill_parts, nonnegative
from blowfishdb.mechanisms.products import mapped
from blowfishdb.model.arguments import checked
from blowfishdb.model.numbers import Floats, Ints, row_major

STARTS = 10
"""Starts of Lloyd's iteration; the best one counts."""
SETTLED = 1e-7
ROUNDS = 10
TINY = 1e-9


@runtime_checkable
class NumericColumns(Protocol):
    """Columns of a dataset as points, perhaps filtered."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the query."""
        ...

    def point_weights(
        self, *, epsilon: Number, clusters: int, rows: int | None = None, key: str | None = None
    ) -> PointWeights:
        """Weights on the points of a grid that suits the number of clusters, charged."""
        ...


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class KMeans:
    """Cluster centres that were learned under a policy; the same names as in scikit-learn's KMeans after a fit.

    Everything here is computed from `released`. `estimated_inertia_` and `estimated_cluster_sizes_` describe the
    release, not the data; how far the records themselves lie from the centres is not revealed.
    """

    n_clusters: int
    feature_names_in_: tuple[str, ...]
    cluster_centers_: Floats
    estimated_cluster_sizes_: Floats
    estimated_inertia_: float
    released: PointWeights = field(repr=False)

    @property
    def n_features_in_(self) -> int:
        """The number of columns."""
        return len(self.feature_names_in_)

    @property
    def epsilon(self) -> Fraction:
        """The price of the release."""
        return self.released.epsilon

    @property
    def inertia_(self) -> float:
        """Never: the summed squared distance of the records was not released."""
        raise NotRevealed("inertia_", "estimated_inertia_, which is computed from the release")

    @property
    def labels_(self) -> Ints:
        """Never: which cluster a record belongs to was not released."""
        raise NotRevealed("labels_", "predict(points) on points of your own")

    def __repr__(self) -> str:
        return f"<{self.n_clusters} centres of {', '.join(self.feature_names_in_)}, from {self.released!r}>"

    def predict(self, points: ArrayLike) -> Ints:
        """The number of the nearest centre for each point (points by columns, in the order of the names)."""
        return np.asarray(self._apart(points).argmin(axis=1), dtype=np.int64)

    def transform(self, points: ArrayLike) -> Floats:
        """The distance of each point to each centre."""
        return np.sqrt(self._apart(points))

    def score(self, points: ArrayLike) -> float:
        """Minus the summed squared distance of the given points to their nearest centres."""
        return -float(self._apart(points).min(axis=1).sum())

    def _apart(self, points: ArrayLike) -> Floats:
        try:
            table = np.asarray(points, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            table = np.empty(0)
        if table.ndim != 2 or table.shape[1] != self.n_features_in_ or not np.all(np.isfinite(table)):
            raise InvalidInput(f"points are a table of finite numbers with {self.n_features_in_} columns")
        return distances(table, self.cluster_centers_)


@checked()
def kmeans(
    columns: NumericColumns,
    n_clusters: int,
    *,
    epsilon: Number,
    seed: int = 0,
    rows: int | None = None,
    key: str | None = None,
) -> KMeans:
    """Cluster centres of the columns, for one charge of `epsilon`.

    `rows` is about how many records there are; it steers the grid only, and is looked up where it is public. The same
    query is answered from the stored release, free; another seed starts the search elsewhere on the same release.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidInput("a seed is a whole number")
    released = columns.point_weights(epsilon=epsilon, clusters=n_clusters, rows=rows, key=key)
    return from_weights(released, n_clusters, columns.names, seed)


def from_weights(released: PointWeights, n_clusters: int, names: tuple[str, ...], seed: int = 0) -> KMeans:
    """Cluster centres from weights that were released before; costs nothing."""
    points, weights = sharpened(released)
    order = [released.names.index(name) for name in names]
    best = cluster(points[:, order], weights, n_clusters, seed)
    return KMeans(n_clusters, names, best.centers, best.weights, best.spread, released)


def sharpened(released: PointWeights) -> tuple[Floats, Floats]:
    """Samples (samples by columns) and their weights, which spread over the grid give about the released weights.

    A record's weight is spread over the grid points around it. Starting from equal weights, each round multiplies the
    weight of every sample by how much more its grid points hold than the samples give them (Richardson and Lucy's
    iteration), which never makes a weight negative and keeps the total. It reads the release and nothing else.
    """
    target = cleaned(released)
    shares = [column.shares() for column in released.columns]
    back = [share.T for share in shares]
    sizes = [column.samples.size for column in released.columns]
    weights = np.full(sizes, float(target.sum()) / float(np.prod(sizes)))
    for _ in range(ROUNDS):
        given = mapped(weights, shares)
        weights = weights * mapped(target / np.maximum(given, TINY), back)
    mesh = np.meshgrid(*(column.samples for column in released.columns), indexing="ij")
    samples, flat = np.stack([axis.ravel() for axis in mesh], axis=1), weights.ravel()
    heavy = flat > TINY * float(flat.max())
    return (samples[heavy], flat[heavy]) if heavy.any() else (samples, np.ones(len(samples)))


def cleaned(released: PointWeights) -> Floats:
    """The nearest weights without negative ones; each block has its exact count where that was released."""
    noisy, counts = released.weights.ravel(), released.block_counts
    if counts is None:
        return nonnegative(noisy).reshape(released.weights.shape)
    block = row_major(np.ix_(*(column.point_blocks for column in released.columns)), counts.shape)
    parts = Parts.of(block.ravel(), counts.ravel())
    filled = fill_parts(parts, noisy, np.zeros(noisy.size), np.full(noisy.size, np.inf))
    return filled.reshape(released.weights.shape)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres (clusters by columns), the weight of each, and the summed squared distance of the points to them."""

    centers: Floats
    weights: Floats
    spread: float


def cluster(points: Floats, weights: Floats, clusters: int, seed: int) -> Clusters:
    """The best of several starts of Lloyd's iteration. Fewer different points than clusters give centres twice."""
    tries = (_lloyd(points, weights, _seeded(points, weights, clusters, seed, start)) for start in range(STARTS))
    best = min(tries, key=lambda each: each.spread)
    order = np.lexsort(best.centers.T[::-1])
    return Clusters(best.centers[order], best.weights[order], best.spread)


def distances(points: Floats, centers: Floats) -> Floats:
    """Squared distances, points by centres."""
    lengths = (points**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(lengths - 2.0 * (points @ centers.T), 0.0), dtype=np.float64)


def _seeded(points: Floats, weights: Floats, clusters: int, seed: int, start: int) -> Floats:
    """First centres, each drawn in proportion to weight times squared distance; the best of a few draws stays."""
    tries = 2 + int(math.log(clusters))
    draws = _uniform(f"{seed} {start}", clusters * tries).reshape(clusters, tries)
    chosen = [int(_drawn(weights, draws[0, :1])[0])]
    nearest = distances(points, points[chosen])[:, 0]
    for place in range(1, clusters):
        candidates = _drawn(weights * nearest, draws[place])
        options = np.minimum(nearest[:, None], distances(points, points[candidates]))
        best = int((weights @ options).argmin())
        chosen.append(int(candidates[best]))
        nearest = options[:, best]
    return points[chosen]


def _drawn(weights: Floats, draws: Floats) -> Ints:
    """Places drawn in proportion to weights; evenly where all are 0."""
    running = np.cumsum(weights)
    if running[-1] <= 0.0:
        return np.floor(draws * weights.size).astype(np.int64)
    places = np.searchsorted(running, draws * running[-1], side="right")
    return np.asarray(np.minimum(places, weights.size - 1), dtype=np.int64)


def _lloyd(points: Floats, weights: Floats, centers: Floats) -> Clusters:
    """Assigns and averages until nothing is gained; a centre that loses all its points stays where it is."""
    flat = np.ascontiguousarray(points.T)
    lengths, weighted = (flat**2).sum(axis=0), weights * flat
    last = math.inf
    while True:
        # Centres are few: comparing them one by one is much faster than numpy's search along a short axis.
        apart = (centers**2).sum(axis=1)[:, None] - 2.0 * (centers @ flat)
        nearest, least = np.zeros(lengths.size, dtype=np.int64), apart[0].copy()
        for place, distance in enumerate(apart[1:], start=1):
            nearest[distance < least] = place
            np.minimum(least, distance, out=least)
        spread = float(weights @ np.maximum(lengths + least, 0.0))
        mass = np.asarray(np.bincount(nearest, weights, minlength=len(centers)), dtype=np.float64)
        if last - spread <= SETTLED * spread:
            return Clusters(centers, mass, spread)
        sums = np.stack([np.bincount(nearest, column, minlength=len(centers)) for column in weighted], axis=1)
        centers = np.where(mass[:, None] > 0.0, sums / np.maximum(mass, 1e-300)[:, None], centers)
        last = spread


def _uniform(seed: str, count: int) -> Floats:
    """Numbers in [0, 1) that the seed determines on every machine."""
    stream = hashlib.shake_256(seed.encode()).digest(8 * count)
    return (np.frombuffer(stream, dtype=">u8") >> np.uint64(11)).astype(np.float64) * 2.0**-53
