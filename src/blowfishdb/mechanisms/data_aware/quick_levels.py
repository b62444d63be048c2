"""The node sizes and shares that suit a workload over buckets, from few candidates and in a millisecond."""

from __future__ import annotations

import numpy as np

from blowfishdb.mechanisms.one_axis.energies import LevelPlan, block_energy, probe
from blowfishdb.mechanisms.one_axis.shares import balanced_shares, level_error
from blowfishdb.model.rows import Rows

FAN_OUTS = (8, 12, 16, 24)
"""Children per node that are tried on long runs: errors are flat around the best."""

SHORT_FAN_OUTS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24)
SHORT = 64


def quick_levels(workload: Rows, length: int, *, free: bool) -> LevelPlan:
    """The best tree on runs of `length` buckets, `free` where the total of a run costs nothing.

    Trees may lack their topmost level, or all levels: then the buckets alone are measured.
    """
    probed = probe(workload)
    energy = {length: block_energy(probed, length)}

    def plan(sizes: list[int]) -> LevelPlan:
        for size in sizes:
            if size not in energy:
                energy[size] = block_energy(probed, size)
        above = [*(energy[size] for size in sizes[1:]), energy[length] if free else 0.0]
        energies = np.maximum(np.array([energy[size] for size in sizes]) - np.array(above), 0.0)
        lengths = np.array(sizes, dtype=np.float64)
        shares = balanced_shares(energies, lengths)
        return LevelPlan(tuple(sizes[1:]), shares, level_error(energies, lengths)(shares)[0])

    candidates = [[1]]
    for fan_out in SHORT_FAN_OUTS if length <= SHORT else FAN_OUTS:
        sizes = [1]
        while sizes[-1] * fan_out < length:
            sizes.append(sizes[-1] * fan_out)
        candidates.extend(part for part in (sizes, sizes[:-1]) if len(part) > 1 and part not in candidates)
    return min((plan(sizes) for sizes in candidates), key=lambda found: found.error)
