"""k-means of weighted points: careful seeding, several starts, the same result for the same seed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Floats, Ints

STARTS = 10
SETTLED = 1e-7


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres (clusters by columns), the weight of each, and the summed squared distance of the points to them."""

    centers: Floats
    weights: Floats
    spread: float


def cluster(points: Floats, weights: Floats, clusters: int, seed: int) -> Clusters:
    """The best of several starts of Lloyd's iteration. Fewer different points than clusters give centres twice."""
    found = [_lloyd(points, weights, _seeded(points, weights, clusters, seed, start)) for start in range(STARTS)]
    best = min(found, key=lambda each: each.spread)
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
    found = np.searchsorted(running, draws * running[-1], side="right")
    return np.asarray(np.minimum(found, weights.size - 1), dtype=np.int64)


def _lloyd(points: Floats, weights: Floats, centers: Floats) -> Clusters:
    """Assigns and averages until nothing is gained; a centre that loses all its points stays where it is."""
    flat = np.ascontiguousarray(points.T)
    lengths, weighted = (flat**2).sum(axis=0), weights * flat
    last = math.inf
    while True:
        # Centres are few: comparing them one by one is much faster than numpy's search along a short axis.
        apart = (centers**2).sum(axis=1)[:, None] - 2.0 * (centers @ flat)
        nearest, least = np.zeros(lengths.size, dtype=np.int64), apart[0].copy()
        for place, own in enumerate(apart[1:], start=1):
            nearest[own < least] = place
            np.minimum(least, own, out=least)
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
