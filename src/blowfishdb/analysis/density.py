"""Points with weights that explain released node weights: without negative weights, and with known totals met."""

from __future__ import annotations

import itertools

import numpy as np

from blowfishdb.engine.node_weights import NodeWeights
from blowfishdb.inference.nonnegative import nonnegative
from blowfishdb.mechanisms.products.mode_sums import mapped
from blowfishdb.model.arrays import Floats

ROUNDS = 10
TINY = 1e-9


def sharpened(released: NodeWeights) -> tuple[Floats, Floats]:
    """Sample points (points by columns) and their weights, such that together they give about the released weights.

    A record's weight is smeared over the nodes around it. Starting from equal weights, each round multiplies every
    point's weight by how much more its nodes hold than the points give them (Richardson and Lucy's iteration), which
    never makes a weight negative and keeps the total. It reads the release and nothing else.
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
    points, flat = np.stack([axis.ravel() for axis in mesh], axis=1), weights.ravel()
    kept = flat > TINY * float(flat.max())
    return (points[kept], flat[kept]) if kept.any() else (points, np.ones(len(points)))


def cleaned(released: NodeWeights) -> Floats:
    """The nearest weights without negative ones; each block has its exact count where that was released."""
    if released.block_counts is None:
        return nonnegative(released.weights.ravel()).reshape(released.weights.shape)
    found = np.empty(released.weights.shape)
    owners = [column.node_blocks for column in released.columns]
    for block in itertools.product(*(range(size) for size in released.block_counts.shape)):
        inside = np.ix_(*(owner == label for owner, label in zip(owners, block, strict=True)))
        own = released.weights[inside]
        found[inside] = nonnegative(own.ravel(), float(released.block_counts[block])).reshape(own.shape)
    return found
