"""The exact law of a noisy least-cost partition of three cells, all six intervals allowed (DAWA, Algorithm 1).

Costs are whole multiples of 1/3, on which grid every deviation of three cells lies; so the noise is discrete too.
Ties go to the first partition of PARTITIONS, whatever the data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.errata.exact import Noise

Cells = tuple[int, int, int]
Interval = tuple[int, int]

INTERVALS: tuple[Interval, ...] = ((0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3))
PARTITIONS = ("123", "12|3", "1|23", "1|2|3")
SENSITIVITY = {1: 0, 2: 3, 3: 4}
"""3 x 2(1 - 1/length): what one record added or removed changes the cost of a bucket, in grid steps."""


def deviation(counts: Cells, bucket: Interval) -> int:
    """Summed distance to the mean of the bucket, in grid steps."""
    inside = counts[bucket[0] : bucket[1]]
    return 3 * sum(abs(len(inside) * count - sum(inside)) for count in inside) // len(inside)


def law(counts: Cells, per_bucket: int, noise: dict[Interval, Noise], reach: int) -> NDArray[np.float64]:
    """The probability of each partition; noise beyond `reach` steps is left out, so each entry is a lower bound."""
    steps = np.arange(-reach, reach + 1)
    cost = {bucket: per_bucket + deviation(counts, bucket) for bucket in INTERVALS}
    mass = {bucket: noise[bucket].mass(steps) for bucket in INTERVALS}

    def no_less(bucket: Interval, bound: NDArray[np.int64]) -> NDArray[np.float64]:
        return noise[bucket].at_least(bound - cost[bucket])

    def greater(bucket: Interval, bound: NDArray[np.int64]) -> NDArray[np.float64]:
        return no_less(bucket, bound + 1)

    one, two, three, left, right, whole = INTERVALS
    first, last = steps + cost[one], steps + cost[three]
    rows, columns = first[:, None], last[None, :]
    found = np.zeros(4)
    for place, chance in enumerate(mass[whole]):
        level = steps[place] + cost[whole]
        ahead, behind = mass[one] * no_less(right, level - first), mass[three] * no_less(left, level - last)
        found[0] += chance * (ahead @ no_less(two, level - rows - columns) @ behind)
    for place, chance in enumerate(mass[left]):
        level = steps[place] + cost[left]
        ahead, behind = mass[one] * no_less(two, level - first), mass[three] * greater(whole, level + last)
        found[1] += chance * (ahead @ no_less(right, level + columns - rows) @ behind)
    for place, chance in enumerate(mass[right]):
        level = steps[place] + cost[right]
        ahead, behind = mass[one] * greater(whole, level + first), mass[three] * no_less(two, level - last)
        found[2] += chance * (ahead @ greater(left, level + rows - columns) @ behind)
    for place, chance in enumerate(mass[two]):
        level = steps[place] + cost[two]
        ahead, behind = mass[one] * greater(left, level + first), mass[three] * greater(right, level + last)
        found[3] += chance * (ahead @ greater(whole, level + rows + columns) @ behind)
    return found
