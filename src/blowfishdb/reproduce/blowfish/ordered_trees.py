"""The ordered hierarchical mechanism of the Blowfish paper: its tree, its noise as printed and made sound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.workload import Intervals
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import Measurement, Plan

FINEST = 2**20
"""Shares of epsilon are whole multiples of one over this; they are rounded down."""


@dataclass(frozen=True)
class OrderedTree:
    """Blocks of theta cells, a running sum at the end of each, and inside each a tree with equal fan-outs.

    Children are disjoint; the paper's text lets the last child overlap the one before it, which costs more.
    """

    cells: int
    theta: int
    fan_out: int

    @property
    def height(self) -> int:
        """Levels below the root of a block."""
        return 0 if self.theta == 1 else math.ceil(round(math.log(min(self.theta, self.cells), self.fan_out), 9))

    @property
    def is_whole(self) -> bool:
        """Whether one block is all there is; its total is public."""
        return self.theta >= self.cells

    @property
    def sums(self) -> Ints:
        """Where the running sums end; the last one is the public number of rows and is not measured."""
        return np.arange(self.theta, self.cells, self.theta, dtype=np.int64)

    @cached_property
    def levels(self) -> list[Ints]:
        """The starts of the nodes of each level inside the blocks, coarsest first."""
        found = []
        starts = np.arange(0, self.cells, self.theta, dtype=np.int64)
        for _ in range(self.height):
            ends = np.append(starts[1:], self.cells)
            steps = -(-(ends - starts) // self.fan_out)
            pieces = [np.arange(a, b, step) for a, b, step in zip(starts, ends, np.maximum(steps, 1), strict=True)]
            starts = np.concatenate(pieces)
            found.append(starts)
        return found

    @property
    def best_split(self) -> float:
        """The share of epsilon for the running sums that the paper recommends after its equation (14)."""
        if self.is_whole:
            return 0.0
        if self.height == 0:
            return 1.0
        sums = 4 * (self.cells - self.theta) / (self.cells + 1)
        depth = math.log(self.theta, self.fan_out)
        nodes = 8 * (self.fan_out - 1) * depth**3 * self.cells / (self.cells + 1)
        return float(np.cbrt(sums) / (np.cbrt(sums) + np.cbrt(nodes)))


@dataclass(frozen=True)
class Noise:
    """One over the scale at epsilon 1: of each running sum, and of each node of each level. Infinite means exact."""

    tree: OrderedTree
    sums: Floats
    levels: tuple[Floats, ...]


def sound_noise(tree: OrderedTree) -> Noise:
    """Every running sum at the split's share, every node at the rest over twice the height."""
    split = tree.best_split
    each = (1 - split) / (2 * max(tree.height, 1))
    levels = tuple(np.full(starts.size, each) for starts in tree.levels)
    return Noise(tree, np.full(tree.sums.size, split), levels)


def printed_noise(tree: OrderedTree) -> Noise:
    """The same, but the first running sum and the first block's tree get the whole epsilon over twice the height."""
    sound = sound_noise(tree)
    first = 1 / (2 * tree.height) if tree.height else math.inf
    sums = np.where(np.arange(sound.sums.size) == 0, first, sound.sums)
    inside = (starts < tree.theta for starts in tree.levels)
    levels = tuple(np.where(where, first, each) for where, each in zip(inside, sound.levels, strict=True))
    return Noise(tree, sums, levels)


def certified_epsilon(noise: Noise) -> float:
    """What the noise that is meant for epsilon 1 really costs under the threshold; infinite where a sum is exact."""
    tree = noise.tree
    shares = np.concatenate([noise.sums, *noise.levels])
    if np.any(np.isinf(shares)):
        return math.inf
    starts = tree.levels
    low = np.concatenate([np.zeros(tree.sums.size, dtype=np.int64), *starts])
    ends = [np.append(level[1:], tree.cells) for level in starts]
    high = np.concatenate([tree.sums, *ends])
    weights = np.floor(shares * FINEST + 1e-9).astype(np.int64)
    plan = Plan(Fraction(FINEST), (Measurement(Intervals(tree.cells, low, high), weights),))
    return float(certify(plan, threshold_graph(tree.cells, tree.theta)).epsilon)


def threshold_graph(cells: int, theta: int) -> CellGraph:
    """Values up to theta apart are hidden from each other, and the number of rows is public."""
    window = WindowGraph(np.minimum(np.arange(cells) + theta, cells - 1), np.empty(0, dtype=np.int64))
    return CellGraph((window,), "record", np.zeros(cells, dtype=np.bool_), "public")


def drawn_errors(noise: Noise, low: Ints, high: Ints) -> Floats:
    """The error of each range [low, high) in one release at epsilon 1, answered as the paper answers it.

    A running count is a running sum plus nodes of one block, on each level those before the node it ends in.
    """
    tree = noise.tree
    ends = np.arange(tree.cells + 1)
    block = np.minimum(ends, tree.cells - 1) // tree.theta
    before = np.concatenate([[0.0], _drawn(noise.sums)])
    found = before[block]
    parents = np.arange(0, tree.cells, tree.theta)
    for starts, shares in zip(tree.levels, noise.levels, strict=True):
        running = np.concatenate([[0.0], np.cumsum(_drawn(shares))])
        inside = np.minimum(ends, tree.cells - 1)
        own = np.searchsorted(starts, inside, side="right") - 1
        first = np.searchsorted(starts, parents[np.searchsorted(parents, inside, side="right") - 1])
        found = found + running[own] - running[first]
        parents = starts
    found[-1] = 0.0
    return np.asarray(found[high] - found[low])


def _drawn(shares: Floats) -> Floats:
    """Laplace noise of scale 1 / share, in steps of the scale over FINEST."""
    return sample(Fraction(FINEST), 1, shares.size) / (FINEST * shares)
