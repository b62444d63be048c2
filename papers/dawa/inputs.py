"""Histograms, workloads, partitions and algorithms of the DAWA paper's experiments."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Identity, Intervals, Rows
from blowfishdb.plan.plan import Problem
from papers.baselines.histograms import efpa, mwem, php, privelet, structure_first
from papers.baselines.noise import noisy, one_record, release
from papers.baselines.printed_dawa import GivenBuckets, L1Partition, PrintedDawa, published_starts
from papers.data import Generator, Histogram, generator, histogram, others
from papers.experiment import Settings

# The seven histograms of the DAWA paper, in its order from easy to hard, and those that the user adds.

NAMES = ("NETTRACE", "ADULT", "MEDCOST", "SEARCHLOGS", "INCOME", "PATENT", "HEPTH")
"""The paper calls the last one HepPh."""
EASY, HARD = NAMES[:3], NAMES[4:]
TINY = 64


def names(settings: Settings) -> tuple[str, ...]:
    """All of them and the user's own; the paper's first and last in a tiny run."""
    return (*settings.pick((NAMES[0], NAMES[-1]), NAMES, NAMES), *others(settings, axes=1))


def all_names(settings: Settings) -> tuple[str, ...]:
    """All of them and the user's own, in a tiny run too."""
    return (*NAMES, *others(settings, axes=1))


def paper_histogram(settings: Settings, name: str) -> Histogram:
    """One of them; a tiny run keeps the few cells with the most records."""
    table = histogram(settings, name)
    if settings.size == "tiny":
        length = min(TINY, table.counts.size)
        segments = table.counts[: table.counts.size // length * length].reshape(-1, length)
        return Histogram(name, segments[np.argmax(segments.sum(axis=1))].copy(), table.origin)
    return table


# The workloads of the DAWA paper, seeded and the same for every algorithm.

Kind = Literal["identity", "uniform intervals", "clustered intervals", "large clustered intervals"]
KINDS: tuple[Kind, ...] = ("identity", "uniform intervals", "clustered intervals", "large clustered intervals")
CLUSTERS = 5
SPREADS = {"clustered intervals": 256, "large clustered intervals": 1024}
"""Standard deviations on 4096 cells."""


def workload(settings: Settings, kind: Kind, cells: int, trial: int) -> Identity | Intervals:
    """The workload of one trial."""
    if kind == "identity":
        return Identity(cells)
    draw = generator(settings.seed, kind, trial)
    queries = settings.pick(40, 2000, 2000)
    if kind == "uniform intervals":
        return uniform(draw, cells, queries)
    centres = np.repeat(draw.integers(0, cells, CLUSTERS), queries // CLUSTERS)
    reach = np.abs(draw.normal(0, SPREADS[kind] * cells / 4096, (2, centres.size))).astype(np.int64)
    return Intervals(cells, np.maximum(centres - reach[0], 0), np.minimum(centres + reach[1] + 1, cells))


def uniform(draw: Generator, cells: int, queries: int) -> Intervals:
    """Intervals with uniform ends."""
    ends = np.sort(draw.integers(0, cells, (queries, 2)), axis=1)
    return Intervals(cells, ends[:, 0], ends[:, 1] + 1)


# The cost of a partition, and the partition of least cost, found without noise: what private ones are held to.


def optimal_starts(counts: Ints, epsilon: Fraction) -> Ints:
    """The first cells of the buckets of least summed deviation plus 1 / epsilon for each bucket; not private."""
    from papers.baselines.kernels import least_partition

    stage = L1Partition(counts.size, "all", Fraction(1), Fraction(0))
    scores = stage.costs(counts) + round(stage.grid / epsilon)
    return np.asarray(least_partition(stage.cells, stage.lengths, stage.steps, stage.offsets, scores), dtype=np.int64)


def partition_cost(counts: Ints, starts: Ints, epsilon: Fraction) -> float:
    """Definition 5 of the paper: the deviations of all buckets from their means, plus 1 / epsilon for each bucket."""
    ends = np.append(starts[1:], counts.size)
    means = np.add.reduceat(counts, starts) / (ends - starts)
    return float(np.abs(counts - np.repeat(means, ends - starts)).sum() + starts.size / float(epsilon))


# The algorithms of the DAWA paper's comparison, by the names it gives them: counts, epsilon and intervals in.

Answers = Callable[[Ints, Fraction, Intervals], Floats]

OURS = "dawa (BlowfishDB)"
PRINTED = "DAWA as printed, sound"
PUBLISHED = "DAWA, published noise (not private)"
RIVALS = ("Identity", "Privelet", "MWEM", "EFPA", "P-HP", "S.First")
ALL = (*RIVALS, PRINTED, PUBLISHED, OURS)


def answers_of(mechanism: DataAware, counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """The answers of one release, for one record more or less."""
    return release(mechanism, Problem(one_record(counts.size), workload), epsilon, counts).answers


def identity(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """Laplace noise on every cell."""
    return np.asarray(workload.dot(noisy(counts, 1 / epsilon)))


def published(counts: Ints, epsilon: Fraction, workload: Rows) -> Floats:
    """DAWA with the published code's partition."""
    starts = published_starts(counts, epsilon / 4, 3 * epsilon / 4)
    return answers_of(GivenBuckets(starts), counts, 3 * epsilon / 4, workload)


def algorithm(name: str, rounds: int) -> Answers:
    """The algorithm of that name; `rounds` is for MWEM."""
    known: dict[str, Answers] = {
        "Identity": identity,
        "Privelet": privelet,
        "MWEM": partial(mwem, rounds=rounds),
        "EFPA": efpa,
        "P-HP": php,
        "S.First": structure_first,
        PRINTED: partial(answers_of, PrintedDawa()),
        PUBLISHED: published,
        OURS: partial(answers_of, Dawa()),
    }
    return known[name]
