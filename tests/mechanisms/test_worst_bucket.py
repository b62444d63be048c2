"""The bound on the bias: its stage loses what it claims, and the bound covers every answer."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blowfishdb.engine.measure import run_program
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.buckets import Buckets
from blowfishdb.mechanisms.data_aware.partition import WorstBucket, bucket_deviations, levels, worst_bucket
from blowfishdb.mechanisms.table import DATA_AWARE
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Kronecker, Prefix, Rows
from blowfishdb.plan.plan import Problem
from tests.mechanisms.test_dawa import full, ranges, two_axes

LOOSE = Fraction(1, 20)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.data())
def test_deviations_of_buckets(counts: list[int], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, max(1, len(counts) - 1))))
    starts = [0, *sorted(cut for cut in cuts if cut < len(counts))]
    parts = [counts[a:b] for a, b in itertools.pairwise([*starts, len(counts)])]
    expected = [min(sum(abs(x - c) for x in part) for c in part) for part in parts]
    assert bucket_deviations(np.array(counts), np.array(starts)).tolist() == expected


def test_levels_reach_everywhere_in_small_steps() -> None:
    found = levels()
    assert found[:5].tolist() == [0, 1, 2, 3, 4]
    assert found[-1] >= 10**15
    assert np.all(np.diff(found) <= 0.1 * found[:-1] + 1)


def stage_loss(unit: Fraction) -> float:
    """The exact largest log-ratio between neighbours, for the chance of each of the lowest levels."""
    stage = WorstBucket(4, np.array([0]), unit)
    scale = float(unit)

    def chances(worst: int) -> list[float]:
        counts = np.array([worst, 0, 0, 0])
        cost = np.abs(levels() - int(bucket_deviations(counts, np.array([0]))[0]))[:12]
        reach = np.arange(200)
        kept = np.exp(-reach / scale) * -math.expm1(-1 / scale)
        found = []
        for own in range(8):
            others = np.ones(reach.size)
            for other in range(12):
                if other != own:
                    beaten = reach - cost[own] + cost[other] + (own < other)
                    others *= np.where(beaten <= 0, 0.0, -np.expm1(-np.maximum(beaten, 0) / scale))
            found.append(float(kept @ others))
        return found

    assert stage.choose(np.array([3, 0, 0, 0]), np.zeros(levels().size, dtype=np.int64)).tolist() == [3]
    return max(
        abs(math.log(one / two))
        for worst in range(6)
        for one, two in zip(chances(worst), chances(worst + 1), strict=True)
    )


def test_the_stage_loses_at_most_what_it_claims() -> None:
    claimed = float(WorstBucket(4, np.array([0]), Fraction(2)).epsilon(full(4)))
    assert claimed == 1
    assert 0.5 * claimed < stage_loss(Fraction(2)) <= claimed + 1e-9
    assert stage_loss(Fraction(1, 2)) > claimed


def test_the_bound_covers_the_truth() -> None:
    generator = np.random.default_rng(0)
    stage = worst_bucket(8, np.array([0, 4]), full(8), Fraction(1, 2))
    assert stage.epsilon(full(8)) == Fraction(1, 2)
    assert stage.digest() != replace(stage, starts=np.array([0, 5])).digest()
    stop = -math.expm1(-1 / float(stage.unit))
    missed = 0
    for _ in range(300):
        counts = np.append(generator.integers(0, 1000), np.zeros(7, dtype=np.int64))
        draws = generator.geometric(stop, levels().size) - 1
        missed += stage.bound(int(stage.choose(counts, draws)[0]), 0.05) < counts[0]
    assert missed <= 30


@pytest.mark.parametrize("uneven", [False, True])
def test_bounded_dawa_covers_every_answer(uneven: bool) -> None:
    generator = np.random.default_rng(1)
    counts = generator.integers(0, 10**6 if uneven else 3, 1024)
    problem = Problem(full(1024), ranges(1024))
    mechanism = DATA_AWARE["dawa-bounded"]
    program = mechanism.program(problem, Fraction(1, 2))
    assert program.epsilon == Fraction(1, 2)
    found = run_program(program, program.digest(), mechanism.script(problem, program), problem.graph, counts)
    assert found.bias is not None
    assert (found.buckets[-1] == 1023) == uneven == (found.bias.max() == 0)
    off = np.abs(found.answers - problem.workload.dot(counts))
    assert np.all(off <= found.bias + 14 * np.sqrt(found.variances))


def test_two_axes_have_no_bound() -> None:
    with pytest.raises(Declined):
        DATA_AWARE["dawa-bounded"].program(Problem(two_axes(), Identity(60)), LOOSE)


@pytest.mark.parametrize("workload", [ranges(40, 60), Identity(40), Prefix(40), Kronecker((Identity(5), Prefix(8)))])
def test_cut_buckets_are_counted(workload: Rows) -> None:
    buckets = Buckets(40, np.array([0, 1, 9, 10, 22, 39]))
    found = buckets.cut_counts(workload)
    for row, count in zip(workload.dense(), found, strict=True):
        inside = np.add.reduceat(row, buckets.starts)
        assert int(np.sum((inside > 0) & (inside < buckets.lengths))) <= count
    if isinstance(workload, Intervals):
        assert found.max() == 2
    assert buckets.cut_counts(AllRanges(40)).max() == 2
