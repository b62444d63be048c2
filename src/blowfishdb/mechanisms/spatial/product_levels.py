"""Halves every axis of a grid again and again: the levels of a quadtree, each a product of blocks along the axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blowfishdb.mechanisms.spatial.region_tree import RegionTree
from blowfishdb.model.arrays import Ints
from blowfishdb.model.workload import Intervals


@dataclass(frozen=True, eq=False)
class ProductLevel:
    """The blocks of one level along each axis; its regions are their products in row-major order."""

    blocks: tuple[Intervals, ...]


def halving_levels(shape: tuple[int, ...]) -> list[ProductLevel]:
    """From the whole grid down to single cells; an axis that is down to cells stays so."""
    edges = [np.array([0, size], dtype=np.int64) for size in shape]
    levels = [_level(edges)]
    while any(edge.size <= size for edge, size in zip(edges, shape, strict=True)):
        edges = [_halved(edge) for edge in edges]
        levels.append(_level(edges))
    return levels


def product_tree(shape: tuple[int, ...], levels: list[ProductLevel]) -> RegionTree:
    """The regions of all levels, level by level, each below the region that holds it."""
    low, high, parent = [], [], []
    above: tuple[Intervals, ...] | None = None
    start = 0
    for level in levels:
        counts = tuple(block.low.size for block in level.blocks)
        places = np.unravel_index(np.arange(int(np.prod(counts))), counts)
        low.append(np.stack([block.low[p] for block, p in zip(level.blocks, places, strict=True)], axis=1))
        high.append(np.stack([block.high[p] for block, p in zip(level.blocks, places, strict=True)], axis=1))
        if above is None:
            parent.append(np.full(1, -1))
        else:
            pairs = zip(above, level.blocks, strict=True)
            owners = [np.searchsorted(up.low, own.low, side="right") - 1 for up, own in pairs]
            place = tuple(owner[p] for owner, p in zip(owners, places, strict=True))
            sizes = tuple(up.low.size for up in above)
            parent.append(start - int(np.prod(sizes)) + np.ravel_multi_index(place, sizes))
        start += low[-1].shape[0]
        above = level.blocks
    return RegionTree(shape, np.concatenate(low), np.concatenate(high), np.concatenate(parent))


def _level(edges: list[Ints]) -> ProductLevel:
    return ProductLevel(tuple(Intervals(int(edge[-1]), edge[:-1], edge[1:]) for edge in edges))


def _halved(edges: Ints) -> Ints:
    middles = (edges[:-1] + edges[1:]) // 2
    every = np.sort(np.concatenate([edges, middles]))
    return every[np.diff(every, append=every[-1] + 1) > 0]
