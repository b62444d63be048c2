"""A partition into aligned blocks as a tree: blocks of 4, 16, 64, ... places, down to the blocks that were kept."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.model.arrays import Ints

FAN_OUT = 4


def block_tree(places: int, starts: Ints) -> RegionTree:
    """The tree over places 0..places-1 whose leaves are the buckets that start at `starts`, in that order last.

    A block of 4^j places stands in the tree where it holds two or more buckets.
    """
    ends = np.append(starts[1:], places)
    lows, highs = [np.zeros(1, dtype=np.int64)], [np.full(1, places)]
    size = FAN_OUT
    while size < places:
        size *= FAN_OUT
    owner = np.zeros(starts.size, dtype=np.int64)
    parents = [np.full(1, -1)]
    nodes = 1
    while size > FAN_OUT:
        size //= FAN_OUT
        block = starts // size
        first = np.flatnonzero(np.diff(block, prepend=-1))
        count = np.diff(np.append(first, starts.size))
        inner = first[count > 1]
        lows.append(block[inner] * size)
        highs.append(np.minimum((block[inner] + 1) * size, places))
        parents.append(owner[inner])
        held = np.repeat(count > 1, count)
        owner[held] = nodes + np.repeat(np.arange(inner.size), count[count > 1])
        nodes += inner.size
    if starts.size > 1:
        lows.append(starts)
        highs.append(ends)
        parents.append(owner)
    low, high = np.concatenate(lows), np.concatenate(highs)
    return RegionTree((places,), low[:, None], high[:, None], np.concatenate(parents))
