"""How far one record moves what selections compare, item by item, against what their noise is made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.mechanisms.select.l1_partition import Candidates, L1Partition
from blowfishdb.mechanisms.select.l1_refinement import deviations
from blowfishdb.mechanisms.select.matching import MatchingPartition
from blowfishdb.mechanisms.select.worst_bucket import bucket_deviations
from blowfishdb.model.arrays import Ints

CELLS, TRIES, SEED = 8, 200, 5
ONE = np.ones(1, dtype=np.int64)


def cost_lines() -> Iterator[Line]:
    """Partitions, matchings, blocks and buckets on tables of eight cells, each with one record less."""
    shapes: tuple[Candidates, ...] = ("powers", "aligned", "all")
    for said in shapes:
        partition = L1Partition(CELLS, said, Fraction(1), Fraction(0))
        yield _judged(f"costs of a partition, {said}", partition.costs, _by_item(partition))
    buckets = MatchingPartition(np.array([1, 1, 2, 3, 1, 4, 2, 1]), Fraction(1), Fraction(2**24))
    noise = buckets.noise
    yield _judged("costs of a matching", buckets.costs, np.repeat(noise.sensitivities[1:], noise.sizes[1:]))
    for size in (2, 4, CELLS):
        yield _judged(f"scores of blocks of {size}", partial(deviations, size=size), ONE)
    starts = np.array([0, 3, 5])
    yield _judged("scores of buckets", partial(bucket_deviations, starts=starts), ONE)


def _by_item(partition: L1Partition) -> Ints:
    """What the noise of every item is made for, by the classes that are drawn."""
    noise = partition.noise
    drawn = np.repeat(noise.sensitivities, noise.sizes)
    return np.asarray(drawn[: int(partition.offsets[-1])])


def _judged(subject: str, costs: Callable[[Ints], Ints], allowed: Ints) -> Line:
    random, worst = np.random.default_rng(SEED), 0.0
    troubles: list[str] = []
    for _ in range(TRIES):
        counts = random.integers(0, random.choice([2, 4, 40]), size=CELLS)
        cell = int(random.integers(CELLS))
        more = counts + (np.arange(CELLS) == cell)
        moved = np.abs(costs(more) - costs(counts))
        worst = max(worst, float(np.max(moved / np.maximum(allowed, 1))))
        if np.any(moved > allowed):
            troubles.append(f"one record moves an item by {int(moved.max())}, its noise is made for less")
    return judged("exact", subject, "sensitivity", troubles, f"at most {worst:.3g} of what noise is made for", TRIES)
