"""Which pairs of buckets a matching may join: fixed by their number and order, never by the data."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.arrays import Ints

MOST_COMPLETE = 256
"""Up to this many buckets every pair is a candidate."""
NEAR = 6
"""Beyond that a bucket may join those up to this many places away."""


def candidate_pairs(buckets: int) -> Ints:
    """The candidates, the lower number first, in an order that depends on the number of buckets alone."""
    if buckets <= MOST_COMPLETE:
        first, second = np.triu_indices(buckets, 1)
        return np.stack([first, second], axis=1).astype(np.int64)
    first = np.repeat(np.arange(buckets), NEAR)
    second = first + np.tile(np.arange(1, NEAR + 1), buckets)
    return np.stack([first, second], axis=1)[second < buckets]
