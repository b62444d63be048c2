"""StructureFirst (Xu, Zhang, Xiao, Yang, Yu, Winslett 2013) in a sound form: buckets first, then a tree inside each.

The paper's scores are squared deviations; one record moves them by up to twice the largest count, which it takes from
the data. Here that count is published with noise, and larger counts are cut off before the buckets are chosen.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.reproduce.baselines.drawing import least, noisy
from blowfishdb.reproduce.baselines.hb import hb_cells

CELLS_PER_BUCKET = 10
"""How many buckets there are is not chosen privately: the number of cells over this."""
CAP_SHARE = Fraction(1, 20)
MARGIN = 3
"""The noisy largest count is raised by so many scales, so that it is hardly ever too low."""
STRUCTURE_SHARE = Fraction(9, 20)


def structure_first(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """A twentieth of epsilon bounds the counts, nine twentieths choose the buckets, half counts inside them."""
    scale = 1 / (epsilon * CAP_SHARE)
    cap = max(1, int(noisy(counts.max()[None], scale)[0] + MARGIN * scale))
    starts = _starts(np.minimum(counts, cap), cap, epsilon * STRUCTURE_SHARE)
    left = epsilon * (1 - CAP_SHARE - STRUCTURE_SHARE)
    cells = noisy(counts, 1 / left)
    for low, high in zip(starts, np.append(starts[1:], counts.size), strict=True):
        if high - low > 1:
            cells[low:high] = hb_cells(counts[low:high], left)
    return np.asarray(workload.dot(cells))


def _starts(counts: Ints, cap: int, epsilon: Fraction) -> Ints:
    """The first cell of each bucket, chosen from the last to the first.

    A record moves each score by at most 2 cap + 1, so scores are counted in steps of that size.
    """
    buckets = max(1, counts.size // CELLS_PER_BUCKET)
    heads, sums, squares = _best_heads(counts.tobytes(), buckets)
    starts = np.zeros(buckets, dtype=np.int64)
    end = counts.size
    for bucket in range(buckets - 1, 0, -1):
        places = np.arange(bucket, end)
        inside = sums[end] - sums[places]
        spread = squares[end] - squares[places] - inside**2 // (end - places)
        scores = heads[bucket - 1, places] + spread
        end = int(places[least((scores // (2 * cap + 1)).astype(np.float64), 1, epsilon / (buckets - 1))])
        starts[bucket] = end
    return starts


@lru_cache(maxsize=4)
def _best_heads(counts: bytes, buckets: int) -> tuple[Ints, Ints, Ints]:
    """The least squared deviation of the first so many cells in so many buckets; and sums and squares before a place.

    The deviation of each bucket is rounded up to a whole number, so that all of it is exact.
    """
    from blowfishdb.reproduce.baselines.kernels import best_heads

    cells = np.frombuffer(counts, dtype=np.int64)
    sums, squares = (np.concatenate([[0], np.cumsum(values)]) for values in (cells, cells**2))
    return best_heads(sums, squares, buckets), sums, squares
