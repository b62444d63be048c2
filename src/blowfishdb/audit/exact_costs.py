"""What selections compare: how far one record moves it, item by item; and that nothing else decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.audit.verdicts import Line, judged
from blowfishdb.mechanisms.select.l1_gate import L1Gate
from blowfishdb.mechanisms.select.l1_partition import Candidates, L1Partition
from blowfishdb.mechanisms.select.l1_refinement import L1Refinement, deviations
from blowfishdb.mechanisms.select.matching import MatchingPartition
from blowfishdb.mechanisms.select.matching_pairs import MOST_COMPLETE
from blowfishdb.mechanisms.select.worst_bucket import WorstBucket, bucket_deviations, levels
from blowfishdb.model.arrays import Ints
from blowfishdb.plan.refinement import RefinementNoise
from blowfishdb.plan.stages import Selection

CELLS, TRIES, SWEPT, SEED = 8, 200, 250, 5
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
    gate = L1Gate(CELLS, 4, 10**9, 60, Fraction(30))
    yield _judged("unevenness at a gate", lambda counts: np.array([gate.unevenness(counts)]), ONE)
    starts = np.array([0, 3, 5])
    yield _judged("scores of buckets", partial(bucket_deviations, starts=starts), ONE)


def choice_lines() -> Iterator[Line]:
    """What a selection compares may be all that it sees: noise that makes up for other counts gives the same winner."""
    shapes: tuple[Candidates, ...] = ("powers", "aligned", "all")
    for said in shapes:
        partition = L1Partition(CELLS, said, Fraction(10**4), Fraction(2))
        yield _told_apart(f"winners of a partition, {said}", partition, CELLS, partial(_saved, partition))
    for cells in (np.array([1, 1, 2, 3, 1, 4, 2, 1]), np.ones(MOST_COMPLETE + 2, dtype=np.int64)):
        matching = MatchingPartition(cells, Fraction(3), Fraction(2**28))
        yield _told_apart(f"winners of a matching of {cells.size}", matching, cells.size, partial(_joined, matching))
    bucket = WorstBucket(CELLS, np.array([0, 3, 5]), Fraction(4))
    yield _told_apart("levels of the worst bucket", bucket, CELLS, partial(_from_levels, bucket))
    refinement = L1Refinement(20, RefinementNoise(Fraction(4), np.array([2, 5]), 3, 9, 5))
    yield _told_apart("cuts of a refinement", refinement, 20, partial(_above, refinement))
    gate = L1Gate(16, 4, 50, 60, Fraction(30))
    yield _told_apart("outcomes of a gate", gate, 16, lambda c: np.array([gate.unevenness(c)]))


def _saved(partition: L1Partition, counts: Ints) -> Ints:
    return -partition.costs(counts)


def _joined(matching: MatchingPartition, counts: Ints) -> Ints:
    """Single buckets cost nothing; words that break ties stand after the pairs."""
    words = np.zeros(int(matching.noise.sizes.sum()) * matching.noise.tie_words, dtype=np.int64)
    return np.concatenate([np.zeros(matching.cells, dtype=np.int64), -matching.costs(counts), words])


def _from_levels(bucket: WorstBucket, counts: Ints) -> Ints:
    return -np.abs(levels() - int(bucket_deviations(counts, bucket.starts).max()))


def _above(refinement: L1Refinement, counts: Ints) -> Ints:
    """How far the score of every node lies above the threshold of its level, or as far below as counts."""
    rule, found = refinement.noise, list[Ints]()
    for level, size in enumerate(refinement.blocks):
        found.append(np.maximum(deviations(counts, size) - rule.first - level * rule.spacing, -rule.clip))
    return np.concatenate(found)


def _told_apart(subject: str, stage: Selection, cells: int, scores: Callable[[Ints], Ints]) -> Line:
    """Two tables of any counts, with noise on the one that makes its scores those of the other."""
    random, troubles = np.random.default_rng(SEED), list[str]()
    size = int(stage.noise.sizes.sum()) * (1 + stage.noise.tie_words)
    tries = TRIES if cells <= MOST_COMPLETE else 24
    for number in range(tries):
        # Whatever limit somebody may look at, some of these tables lie on either side of it.
        one, two = (random.integers(0, random.choice([2, 6, 12, 30, 200, 10**5]), size=cells) for _ in range(2))
        draws = random.integers(0, random.choice([4, 400]), size=size)
        other = draws + scores(one) - scores(two)
        if not np.array_equal(stage.choose(one, draws), stage.choose(two, other)):
            troubles.append(f"table {number}: the winner depends on more of the data than its scores")
    return judged("exact", subject, "scores alone decide", troubles, "the same winner for the same scores", tries)


def _by_item(partition: L1Partition) -> Ints:
    """What the noise of every item is made for, by the classes that are drawn."""
    noise = partition.noise
    drawn = np.repeat(noise.sensitivities, noise.sizes)
    return np.asarray(drawn[: int(partition.offsets[-1])])


def _judged(subject: str, costs: Callable[[Ints], Ints], allowed: Ints) -> Line:
    random, worst = np.random.default_rng(SEED), 0.0
    troubles: list[str] = []
    tables = [random.integers(0, random.choice([2, 4, 40, 10**6]), size=CELLS) for _ in range(TRIES)]
    swept = random.integers(0, 40, size=CELLS)
    # One cell from 0 on, record by record and then around round numbers: whatever limit is looked at is passed.
    rising = [*range(SWEPT), *(base**power - 1 for base in (2, 10) for power in range(8, 12))]
    tables += [np.where(np.arange(CELLS) == 3, count, swept) for count in rising]
    for number, counts in enumerate(tables):
        cell = int(random.integers(CELLS)) if number < TRIES else 3
        more = counts + (np.arange(CELLS) == cell)
        moved = np.abs(costs(more) - costs(counts))
        worst = max(worst, float(np.max(moved / np.maximum(allowed, 1))))
        if np.any(moved > allowed):
            troubles.append(f"one record moves an item by {int(moved.max())}, its noise is made for less")
    return judged(
        "exact", subject, "sensitivity", troubles, f"at most {worst:.3g} of what noise is made for", len(tables)
    )
