"""The compiled loop of matchings of near buckets; imported on first use, as the compiler loads slowly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def decide(gains: Any) -> Any:
    """How far ahead each bucket's partner is, 0 where it is single or already taken.

    gains[i, k] is what joining bucket i with i + k + 1 gains, far below 0 where that is no candidate. best[t] is the
    greatest gain from bucket i on when t tells which of the buckets i, i + 1, ... are taken; the first of the equal
    choices stays.
    """
    buckets, near = gains.shape
    states = 1 << near
    following = np.zeros(states, dtype=np.int64)
    best = np.empty(states, dtype=np.int64)
    choice = np.zeros((buckets, states), dtype=np.int8)
    for bucket in range(buckets - 1, -1, -1):
        for taken in range(states):
            after = taken >> 1
            gain, chosen = following[after], 0
            if not taken & 1:
                for ahead in range(1, near + 1):
                    bit = 1 << (ahead - 1)
                    if not after & bit:
                        total = gains[bucket, ahead - 1] + following[after | bit]
                        if total > gain:
                            gain, chosen = total, ahead
            best[taken], choice[bucket, taken] = gain, chosen
        following, best = best, following
    steps = np.zeros(buckets, dtype=np.int64)
    taken = 0
    for bucket in range(buckets):
        ahead = choice[bucket, taken]
        steps[bucket] = ahead
        taken >>= 1
        if ahead:
            taken |= 1 << (ahead - 1)
    return steps
