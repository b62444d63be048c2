"""The Blowfish paper's k-means: Lloyd's iteration with noisy sizes and sums. Its policy variants are NOT private.

Lemma 6.1 prices the sums of the clusters by how far a record can move. A record that changes cluster takes its whole
value from one sum to another, so only the price for the full graph, counted from a corner of the domain, is enough.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats
from blowfishdb.noise.sampler import sample
from blowfishdb.reproduce.random_inputs import generator

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
