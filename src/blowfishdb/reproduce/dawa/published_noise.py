"""What DAWA's published code does to choose buckets: NOT private at its stated epsilon, run only to explain figures.

Its noise has half the scale that the proof needs, single cells get none, and noisy costs are raised to 1/epsilon_2
after the noise (docs/errata.md). On a small table it loses more than twice what it states.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.script import Script
from blowfishdb.mechanisms.select.l1_partition import L1Partition
from blowfishdb.model.arrays import Ints
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Program
from blowfishdb.reproduce.baselines.bucket_trees import measured_buckets

MEASURE = "buckets"


def published_starts(counts: Ints, select: Fraction, measure: Fraction) -> Ints:
    """The first cell of each bucket as the published code finds them."""
    from blowfishdb.mechanisms.select.l1_kernel import least_partition

    stage = L1Partition(counts.size, "powers", Fraction(1), Fraction(0))
    scores = stage.costs(counts) + round(stage.grid / measure)
    for place, length in enumerate(stage.lengths.tolist()):
        own = scores[stage.offsets[place] : stage.offsets[place + 1]]
        if length > 1:
            scale = (2 - Fraction(1, length) - Fraction(1, counts.size)) / select
            own += sample(scale * stage.grid, 1, own.size)
        np.maximum(own, round(stage.grid / measure), out=own)
    return np.asarray(least_partition(stage.cells, stage.lengths, stage.steps, stage.offsets, scores), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class GivenBuckets:
    """Measures buckets that somebody else has chosen, with the paper's weights."""

    starts: Ints

    @property
    def name(self) -> str:
        return "given buckets"

    def program(self, problem: Problem, epsilon: Fraction) -> Program:
        """One stage."""
        del problem
        return Program(self.name, (Allowance(MEASURE, epsilon),))

    def script(self, problem: Problem, program: Program) -> Script:
        """The measurement."""
        buckets = Buckets(problem.graph.cells, self.starts)
        return measured_buckets(problem, buckets, "greedy", MEASURE, program.epsilon)
