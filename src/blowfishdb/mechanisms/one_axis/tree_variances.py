"""Exact variances of range sums estimated from a block tree, in a few operations per range and level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.one_axis.block_chain import SumCovariance
from blowfishdb.mechanisms.one_axis.block_tree import BlockTree
from blowfishdb.model.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class Upward:
    """Variance of every node's total, level by level from the cells to the blocks.

    `own` is what the node's subtree tells with the node's own measurement, `sums` (not for cells) without it.
    """

    own: tuple[Floats, ...]
    sums: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _End:
    """A place in the axis seen from one level: its node, and how the node's part before it depends on the node.

    That part is slope x (node total) + rest, and the rest is independent of all that is measured higher up.
    """

    node: Ints
    slope: Floats
    rest: Floats


def span_range_variances(tree: BlockTree, up: Upward, covariance: SumCovariance, low: Ints, high: Ints) -> Floats:
    """The variance of each range sum; a range does not leave the span it starts in."""
    if low.size and np.all(low == low[0]):
        low = low[:1]
    left, right = (_End(place, np.zeros(place.size), np.zeros(place.size)) for place in (low, high))
    slope, rest = np.zeros((2, high.size))
    for level, own, sums in zip(tree.levels, up.own, up.sums, strict=False):
        children = np.diff(np.append(level.first_child, own.size))
        parent = np.append(np.repeat(np.arange(sums.size), children), sums.size)
        ahead = np.concatenate([[0.0], np.cumsum(own)])
        starts = np.append(level.first_child, own.size)
        size, total = np.append(own, 1.0), np.append(sums, 1.0)
        new_left, new_right = (_lift(end, parent, starts, ahead, size, total) for end in (left, right))
        joined = left.node == right.node
        meet = new_left.node == new_right.node
        apart = (
            (1 - left.slope) ** 2 * size[left.node]
            + left.rest
            + (ahead[right.node] - ahead[np.minimum(left.node + 1, own.size)])
            + right.slope**2 * size[right.node]
            + right.rest
        )
        whole = np.where(joined, rest + slope**2 * size[left.node], apart)
        inner = np.where(joined, slope * size[left.node] / total[new_left.node], new_right.slope - new_left.slope)
        slope = np.where(meet, inner, 0.0)
        rest = np.where(meet, whole - inner**2 * total[new_left.node], 0.0)
        left, right = new_left, new_right
    return _along_blocks(tree, covariance, (low, high), (left, right), (slope, rest))


def _lift(end: _End, parent: Ints, starts: Ints, ahead: Floats, size: Floats, total: Floats) -> _End:
    """The same place seen from one level up."""
    node = parent[end.node]
    before = ahead[end.node] - ahead[starts[node]]
    part = size[end.node]
    slope = (before + end.slope * part) / total[node]
    rest = end.rest + before + end.slope**2 * part - slope**2 * total[node]
    return _End(node, slope, rest)


def _along_blocks(
    tree: BlockTree,
    covariance: SumCovariance,
    places: tuple[Ints, Ints],
    ends: tuple[_End, _End],
    inside: tuple[Floats, Floats],
) -> Floats:
    """Joins both ends through the running sums of the blocks, or one block's total when both lie inside it."""
    low, high = places
    left, right = ends
    closes = np.isin(high, tree.axis.span_ends)
    last = tree.blocks.size - 1
    block_left = np.minimum(left.node, last)
    block_right = np.minimum(np.where(closes, right.node - 1, right.node), last)
    start = covariance.at(block_left, left.slope)
    stop = covariance.at(block_right, np.where(closes, 1.0, right.slope))
    apart = covariance.of_difference(start, stop) + left.rest + np.where(closes, 0.0, right.rest)
    one = np.ones(low.size)
    block = covariance.of_difference(covariance.at(block_left, 0.0 * one), covariance.at(block_left, one))
    together = inside[0] ** 2 * block + inside[1]
    found = np.where((left.node == right.node) & ~closes, together, apart)
    return np.where(low < high, np.maximum(found, 0.0), 0.0)
