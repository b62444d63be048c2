"""The algorithms of the DAWA paper's comparison, by the names it gives them: counts, epsilon and intervals in."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from blowfishdb.mechanisms.data_aware.dawa import Dawa
from blowfishdb.mechanisms.data_aware.script import DataAware
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.problem import Problem
from blowfishdb.reproduce.baselines.drawing import noisy
from blowfishdb.reproduce.baselines.efpa import efpa
from blowfishdb.reproduce.baselines.mwem import mwem
from blowfishdb.reproduce.baselines.php import php
from blowfishdb.reproduce.baselines.printed_dawa import PrintedDawa
from blowfishdb.reproduce.baselines.privelet import privelet
from blowfishdb.reproduce.baselines.structure_first import structure_first
from blowfishdb.reproduce.dawa.published_noise import GivenBuckets, published_starts
from blowfishdb.reproduce.releasing import one_record, release

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
