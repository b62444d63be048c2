"""The sweep over a window graph: the largest D(u) + D(v) - 2 C(u, v) in O((n + intervals) log n)."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.arrays import Ints


def sweep_windows(cover: Ints, reach: Ints, low: Ints, high: Ints, weights: Ints) -> tuple[int, int]:
    """The largest loss over all window edges and the later cell of an edge that attains it; (-1, -1) without edges.

    `cover[u]` is D(u), the total weight over cell u; the intervals low..high-1 are not empty.
    """
    from blowfishdb.plan.window_kernel import sweep

    by_start, by_end = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    # Copies are writable, so that the kernel is compiled for one kind of array only.
    best, cell = sweep(*(np.array(part) for part in (cover, reach, low, high, weights, by_start, by_end)))
    return int(best), int(cell)
