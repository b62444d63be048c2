"""Weights of a binary tree over buckets, chosen node by node for a workload of ranges in quasi-linear time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.model.arrays import Floats, Ints

SHARES = np.linspace(0.0, 0.98, 50)
"""Parts of what is left that a node may take; 0 is always a local minimum, so all of them are tried."""

NODES_AT_ONCE = 2**14


@dataclass(frozen=True, eq=False)
class PartialRanges:
    """Ranges over buckets that may cover a part of their first and their last bucket, and all between.

    Where `first` equals `last`, `left` is what is covered of that one bucket and `right` is 0.
    """

    first: Ints
    last: Ints
    left: Floats
    right: Floats


@dataclass(frozen=True, eq=False)
class GreedyTree:
    """The weight of every node, level by level from the buckets to the root; on each path they sum to 1.

    `error` is tr(W'W (A'A)^-1), A the weighted nodes and W the workload: half the expected squared error at loss 1.
    """

    weights: tuple[Floats, ...]
    error: float


@dataclass(frozen=True, eq=False)
class _Level:
    """What is known of each node of one level from its subtree alone, M = A'A restricted to it.

    `ones` is 1'M^-1 1 and `trace` tr(W'W M^-1); queries that cover a node whole see `ones` there, the others keep
    (W M^-1 1) at the nodes that hold their ends.
    """

    ones: Floats
    trace: Floats
    ends: PartialRanges


def greedy_weights(count: int, ranges: PartialRanges) -> GreedyTree:
    """From the buckets up, each node takes the share that is best for what its subtree and the workload know."""
    cover = _inside(ranges, count).astype(np.float64)
    cover += np.bincount(ranges.first, ranges.left**2, count) + np.bincount(ranges.last, ranges.right**2, count)
    level = _Level(np.ones(count), cover, ranges)
    depth = max(count - 1, 0).bit_length()
    shares: list[Floats] = []
    while level.ones.size > 1:
        depth -= 1
        level, share = _up(level, 2.0 ** (-depth / 2))
        shares.append(share)
    left = np.ones(1)
    weights: list[Floats] = []
    for share in reversed(shares):
        weights.append(share * left)
        below = count if len(weights) == len(shares) else shares[-len(weights) - 1].size
        left = np.repeat((1 - share) * left, 2)[:below]
    return GreedyTree((left, *reversed(weights)), float(level.trace[0]))


def _up(level: _Level, trust: float) -> tuple[_Level, Floats]:
    """The next level, and the share its nodes take.

    How much a node helps is judged as if queries over both children were only partly asked together (`trust`),
    because nodes above will help those too; what it really gives is then known exactly.
    """
    ends = level.ends
    size = -(-level.ones.size // 2)
    ones, trace = (np.append(part, np.zeros(2 * size - part.size)) for part in (level.ones, level.trace))
    first, last = ends.first // 2, ends.last // 2
    together = first == last
    inner = np.where(ends.first % 2 == 0, ones[ends.first ^ 1], 0.0)
    beside_left = np.where(ends.first == ends.last, 0.0, np.where(together, ends.right, inner))
    beside_right = np.where(together, 0.0, np.where(ends.last % 2 == 1, ones[ends.last ^ 1], 0.0))
    right = np.where(together, 0.0, ends.right)
    whole = _inside(PartialRanges(first, last, ends.left, right), size)
    both = ones[::2] + ones[1::2]
    joint = whole * both**2
    joint += np.bincount(first, (ends.left + beside_left) ** 2, size)
    joint += np.bincount(last, (right + beside_right) ** 2, size)
    apart = whole * (ones[::2] ** 2 + ones[1::2] ** 2)
    apart += np.bincount(first, ends.left**2 + beside_left**2, size)
    apart += np.bincount(last, right**2 + beside_right**2, size)
    known = trace[::2] + trace[1::2]
    share = _best_shares(known, both, trust * joint + (1 - trust) * apart)
    if level.ones.size % 2:
        share[-1] = 0.0
    ratio, grown = (share / (1 - share)) ** 2, (1 - share) ** -2.0
    shrunk = grown / (1 + ratio * both)
    moved = PartialRanges(first, last, shrunk[first] * (ends.left + beside_left), shrunk[last] * (right + beside_right))
    return _Level(shrunk * both, grown * known - ratio * shrunk * joint, moved), share


def _inside(ranges: PartialRanges, count: int) -> Ints:
    """How many ranges cover each node whole: those that begin before it and end after it."""
    far = ranges.last > ranges.first
    steps = np.bincount(ranges.first[far] + 1, minlength=count + 1) - np.bincount(ranges.last[far], minlength=count + 1)
    return np.asarray(np.cumsum(steps)[:count])


def _best_shares(known: Floats, both: Floats, seen: Floats) -> Floats:
    ratio, grown = (SHARES / (1 - SHARES)) ** 2, (1 - SHARES) ** -2.0
    found = np.empty(known.size)
    for start in range(0, known.size, NODES_AT_ONCE):
        part = slice(start, start + NODES_AT_ONCE)
        left = known[part, None] - seen[part, None] * (ratio / (1 + both[part, None] * ratio))
        found[part] = SHARES[np.argmin(grown * left, axis=1)]
    return found
