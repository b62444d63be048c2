"""The node sizes and shares that suit a workload over buckets, from few candidates and in a millisecond."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.one_axis.energies import LevelPlan, block_energy, probe
from blowfishdb.mechanisms.one_axis.shares import balanced_shares
from blowfishdb.model.rows import Rows

FAN_OUTS = (8, 12, 16, 24)
"""Children per node that are tried on long runs: errors are flat around the best."""

SHORT_FAN_OUTS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24)
SHORT = 64


def quick_levels(workload: Rows, length: int, *, free: bool) -> LevelPlan:
    """The best tree on runs of `length` buckets, `free` where the total of a run costs nothing.

    Trees may lack their topmost level, or all levels: then the buckets alone are measured.
    """
    candidates = _candidates(length)
    energy = _energies(workload, {length, *(size for sizes in candidates for size in sizes)})
    sizes = np.zeros((len(candidates), max(map(len, candidates))))
    energies = np.zeros_like(sizes)
    for row, tree in enumerate(candidates):
        sizes[row, : len(tree)] = tree
        own = np.array([*(energy[size] for size in tree), energy[length] if free else 0.0])
        energies[row, : len(tree)] = np.maximum(-np.diff(own), 0.0)
    shares = balanced_shares(energies, sizes)
    errors = 2 * np.sum(energies / np.cumsum(shares**2 * sizes, axis=1), axis=1)
    best = int(np.argmin(errors))
    levels = len(candidates[best])
    return LevelPlan(tuple(candidates[best][1:]), shares[best, :levels], float(errors[best]))


def _candidates(length: int) -> list[list[int]]:
    """The sizes of the nodes of each tree, single buckets first."""
    candidates = [[1]]
    for fan_out in SHORT_FAN_OUTS if length <= SHORT else FAN_OUTS:
        sizes = [1]
        while sizes[-1] * fan_out < length:
            sizes.append(sizes[-1] * fan_out)
        candidates.extend(part for part in (sizes, sizes[:-1]) if len(part) > 1 and part not in candidates)
    return candidates


def _energies(workload: Rows, sizes: set[int]) -> dict[int, float]:
    probed = probe(workload)
    return {size: block_energy(probed, size) for size in sizes}
