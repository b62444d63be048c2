"""The algorithms of the thesis on the line policy: counts and epsilon in, every cell's estimate out.

Algorithms for differential privacy get half of epsilon, because a move is one record less and one more.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.mechanisms.data_aware.dawa_transform import DawaTransform
from blowfishdb.mechanisms.data_aware.matching_transform import MatchingTransform
from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.workload import Identity
from blowfishdb.plan.problem import Problem
from blowfishdb.reproduce.baselines.drawing import noisy
from blowfishdb.reproduce.baselines.printed_dawa import PrintedDawa
from blowfishdb.reproduce.dawa.published_noise import GivenBuckets, published_starts
from blowfishdb.reproduce.releasing import line, one_record, release
from blowfishdb.reproduce.thesis.transformed_buckets import GivenTransform, PrintedTransform

Cells = Callable[[Ints, Fraction], Floats]

LAPLACE, DAWA, SUMS, BOTH = "Laplace", "DAWA, sound", "Transformed + Laplace", "DAWA + Transformed, sound"
DAWA_PUBLISHED = "DAWA, published noise (not private)"
BOTH_PUBLISHED = "DAWA + Transformed, published noise (not private)"
OURS_DAWA, OURS, MATCHING = "dawa (BlowfishDB)", "dawa-transform (BlowfishDB)", "Matching + Transformed, sound"
MATCHING_PRINTED, OURS_MATCHING = (
    "Matching + Transformed, thesis' noise (not private)",
    "matching-transform (BlowfishDB)",
)
QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)


def laplace(counts: Ints, epsilon: Fraction) -> Floats:
    """Noise on every cell; a move changes two."""
    return noisy(counts, 2 / epsilon)


def running_sums(counts: Ints, epsilon: Fraction) -> Floats:
    """Noise on every running sum but the last, which is public; a move to the next value changes one."""
    exact = np.cumsum(counts)
    found = np.concatenate([[0.0], noisy(exact[:-1], 1 / epsilon), [float(exact[-1])]])
    return np.asarray(np.diff(found))


def on_the_line(mechanism: DataAware, counts: Ints, epsilon: Fraction) -> Floats:
    """A mechanism that is certified against the line policy itself."""
    return release(mechanism, Problem(line(counts.size), Identity(counts.size)), epsilon, counts).cells


def at_half(mechanism: DataAware, counts: Ints, epsilon: Fraction) -> Floats:
    """A mechanism for one record more or less."""
    return release(mechanism, Problem(one_record(counts.size), Identity(counts.size)), epsilon / 2, counts).cells


def dawa_published(counts: Ints, epsilon: Fraction, share: Fraction = QUARTER) -> Floats:
    """DAWA with the published code's partition, at half of epsilon."""
    half = epsilon / 2
    starts = published_starts(counts, half * share, half * (1 - share))
    return at_half(GivenBuckets(starts), counts, epsilon * (1 - share))


def both_published(counts: Ints, epsilon: Fraction, share: Fraction = HALF) -> Floats:
    """The published code's partition at half of its share, then running sums of buckets."""
    starts = published_starts(counts, epsilon * share / 2, epsilon * (1 - share))
    return on_the_line(GivenTransform(starts), counts, epsilon * (1 - share))


def matching_printed(counts: Ints, epsilon: Fraction) -> Floats:
    """Matching with the thesis' noise: half of what moves need, so half of epsilon selects as if it were all of it."""
    return on_the_line(
        MatchingTransform(rounds=1, select_share=Fraction(2, 3), caution=Fraction(0)), counts, 3 * epsilon / 2
    )


ALGORITHMS: dict[str, Cells] = {
    LAPLACE: laplace,
    DAWA: partial(at_half, PrintedDawa()),
    SUMS: running_sums,
    BOTH: partial(on_the_line, PrintedTransform()),
    DAWA_PUBLISHED: dawa_published,
    BOTH_PUBLISHED: both_published,
    OURS_DAWA: partial(on_the_line, Dawa()),
    OURS: partial(on_the_line, DawaTransform()),
}
MATCHINGS: dict[str, Cells] = {
    MATCHING: partial(on_the_line, MatchingTransform(rounds=1, caution=Fraction(0))),
    MATCHING_PRINTED: matching_printed,
    OURS_MATCHING: partial(on_the_line, MatchingTransform()),
}


def squared_error(algorithm: Cells, counts: Ints, epsilon: Fraction) -> float:
    """The mean squared error of a cell in one release."""
    return float(np.mean((algorithm(counts, epsilon) - counts) ** 2))
