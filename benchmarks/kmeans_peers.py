"""The paper's k-means variants, for comparison only. One of them is NOT private: see `unsound_theta_lloyd`."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.arrays import Floats

ROUNDS = 10
"""The paper fixes ten iterations and shares epsilon equally among them, half for the sizes and half for the sums."""


def dp_lloyd(records: Floats, low: Floats, high: Floats, clusters: int, epsilon: float, seed: int) -> Floats:
    """Lloyd's iteration with noisy sizes (sensitivity 2) and sums (twice the L1 diameter): differentially private."""
    return _noisy_lloyd(records - low, high - low, clusters, epsilon, 2.0 * float((high - low).sum()), seed) + low


def unsound_theta_lloyd(
    records: Floats, low: Floats, high: Floats, clusters: int, epsilon: float, theta: float, seed: int
) -> Floats:
    """The paper's Lemma 6.1: sums with noise for 2 theta. UNSOUND: a record that changes cluster moves far more."""
    return _noisy_lloyd(records - low, high - low, clusters, epsilon, 2.0 * theta, seed) + low


def _noisy_lloyd(records: Floats, size: Floats, clusters: int, epsilon: float, sensitivity: float, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    centers = rng.random((clusters, size.size)) * size
    each = epsilon / ROUNDS / 2.0
    for _ in range(ROUNDS):
        nearest = ((records[:, None, :] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.bincount(nearest, minlength=clusters) + rng.laplace(0.0, 2.0 / each, clusters)
        sums = np.stack([np.bincount(nearest, column, minlength=clusters) for column in records.T], axis=1)
        noisy = sums + rng.laplace(0.0, sensitivity / each, sums.shape)
        centers = np.clip(noisy / np.maximum(counts, 1.0)[:, None], 0.0, size)
    return centers
