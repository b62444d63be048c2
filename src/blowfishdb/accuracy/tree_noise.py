"""The largest error that noise makes of a tree's answers, sample after sample, a few nanoseconds per cell."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blowfishdb.mechanisms.one_axis.block_chain import chain_system
from blowfishdb.mechanisms.one_axis.tree_least_squares import TreeCorrection
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import AllRanges, Identity, Prefix

THREADS = min(4, os.cpu_count() or 1)
"""Samples are shared out among so many threads; the kernel holds no lock."""


@dataclass(frozen=True, eq=False)
class TreeNoise:
    """The flat arrays of one tree, its noise scales and its least-squares weights."""

    variables: int
    kind: int
    arrays: tuple[Any, ...]

    def largest_errors(self, seeds: NDArray[np.uint32]) -> Floats:
        """The largest error of one sample for each row of three seeds."""
        from blowfishdb.accuracy.tree_kernel import LANES, largest_errors

        lanes = -(-len(seeds) // LANES)
        padded = np.resize(seeds, (lanes * LANES, 3))

        def part(chosen: Ints) -> Floats:
            rows = padded[LANES * int(chosen[0]) : LANES * (int(chosen[-1]) + 1)]
            return np.asarray(largest_errors(rows, self.variables, self.kind, *self.arrays))

        # Samples are independent and each has its own seeds, so the result is the same for any number of threads.
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(part, np.array_split(np.arange(lanes), min(THREADS, lanes)))
            return np.concatenate(list(found))[: len(seeds)]


def serves(workload: Rows) -> bool:
    """Whether the largest error follows from one pass over the cells."""
    return isinstance(workload, Identity | Prefix | AllRanges)


def tree_noise(tree: TreeCorrection, workload: Rows, scales: Floats, variances: Floats) -> TreeNoise:
    """Noise of the given scales, decoded with the least-squares weights of the given variances."""
    from blowfishdb.accuracy.tree_kernel import CELLS, PREFIXES, RANGES, factor_chain

    kind = CELLS if isinstance(workload, Identity) else PREFIXES if isinstance(workload, Prefix) else RANGES
    shape, up = tree.tree, tree.upward(variances)
    variable = tree.split(np.arange(scales.size))
    levels = np.concatenate([[0], np.cumsum([level.starts.size for level in shape.levels])])
    below = [shape.axis.cells, *(level.starts.size for level in shape.levels)]
    first = np.concatenate(
        [np.append(level.first_child, size) for level, size in zip(shape.levels, below, strict=False)]
    )
    pulls = [
        own / np.repeat(total, np.diff(np.append(level.first_child, own.size)))
        for level, own, total in zip(shape.levels, up.own, up.sums, strict=False)
    ]
    measured = np.concatenate([level.measured for level in shape.levels])
    node_variable = _placed(np.concatenate(variable[1:-1]), np.flatnonzero(measured), measured.size)
    trust = 1.0 - np.concatenate(up.own[1:]) / np.concatenate(up.sums)
    sum_variable = _placed(variable[-1], np.flatnonzero(shape.summed), shape.blocks.size)
    padded = np.append(scales, 0.0)
    chain = tree.chain(up.own[-1], variances)
    diagonal, beside = chain_system(chain)
    step, pivot = factor_chain(diagonal, beside)
    small = np.float32
    cell_scales = np.zeros(shape.axis.cells, dtype=small)
    cell_scales[tree.noisy] = scales[variable[0]]
    cells = (_placed(variable[0], tree.noisy, shape.axis.cells), cell_scales, pulls[0].astype(small))
    nodes = (node_variable, padded[node_variable], trust, np.concatenate([*pulls[1:], np.zeros(below[-1])]))
    links = (1.0 / chain.own, beside, 1.0 / chain.noise, ~chain.pinned, chain.links, step, pivot, padded[sum_variable])
    return TreeNoise(scales.size, kind, (cells, levels, first, nodes, links, sum_variable))


def _placed(variables: Ints, places: Ints, size: int) -> Ints:
    """The variable at each of `size` places, -1 where there is none."""
    found = np.full(size, -1, dtype=np.int64)
    found[places] = variables
    return found
