"""The compiled loop of isotonic regression in a band."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.numbers import Floats


def pool(values: Floats, weights: Floats, low: Floats, high: Floats) -> Floats:
    """Isotonic regression with bounds that never decrease, by pooling adjacent violators.

    A block's best level is its mean, clipped between the low of its last and the high of its first value: the only
    bounds that matter, since bounds never decrease. Merging keeps that interval non-empty.
    """
    size = values.size
    start = np.empty(size, dtype=np.int64)
    weight, mean, level = np.empty(size), np.empty(size), np.empty(size)
    blocks = 0
    for i in range(size):
        start[blocks] = i
        weight[blocks], mean[blocks] = weights[i], values[i]
        level[blocks] = min(max(values[i], low[i]), high[i])
        while blocks > 0 and level[blocks - 1] > level[blocks]:
            blocks -= 1
            both = weight[blocks] + weight[blocks + 1]
            mean[blocks] += (mean[blocks + 1] - mean[blocks]) * (weight[blocks + 1] / both)
            weight[blocks] = both
            level[blocks] = min(max(mean[blocks], low[i]), high[start[blocks]])
        blocks += 1
    result = np.empty(size)
    for b in range(blocks):
        end = start[b + 1] if b + 1 < blocks else size
        for i in range(start[b], end):
            result[i] = level[b]
    return result
