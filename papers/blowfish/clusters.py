"""k-means of the Blowfish paper as printed, which is not private, and from one certified release."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

import blowfishdb as bf
from blowfishdb.analysis.kmeans import cluster, distances, from_weights
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.points import PointsRelease, PointWeights, points_release
from blowfishdb.engine.target import accuracy_target
from blowfishdb.errors import InvalidInput, SourceError
from blowfishdb.model.cells import Cells, Points
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.policy import ROW, Partition, Person, Policy, Row
from blowfishdb.model.query import query
from blowfishdb.noise.sampler import sample
from blowfishdb.sources.base import ColumnType, Counting
from papers.blowfish.point_sets import PointSet
from papers.data import generator

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

    def prepare(self, cells: Cells, unit: Row | Person = ROW) -> Counting:
        raise SourceError(f"{len(cells.axes)} axes of each {unit}: this source counts points only")

    def prepare_people(self, cells: Cells, unit: Person) -> Counting:
        return self.prepare(cells, unit)

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
