"""Whole transcripts of the spatial mechanisms: how much likelier one table makes them than its neighbour, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from blowfishdb.engine.measure import measure
from blowfishdb.mechanisms.data_aware import DataAware
from blowfishdb.mechanisms.data_aware.kdtree import AdaptiveTree
from blowfishdb.model.numbers import Ints
from blowfishdb.model.workload import Kronecker
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import KroneckerMeasurement, Plan, Problem
from blowfishdb.plan.program import Measured, MeasurementStage, merge_counts, merge_graph
from tests.mechanisms.spatial_cases import clustered, full, random_boxes
from tests.mechanisms.test_spatial_mechanisms import EVERY, IDS

SHAPE = (8, 6)
EPSILON = Fraction(1, 2)


def noisy_rows(plan: Plan, counts: Ints) -> Ints:
    """The plan's rows without noise."""
    rows = []
    for part in plan.parts:
        own = Kronecker(tuple(f.rows for f in part.factors)) if isinstance(part, KroneckerMeasurement) else part.rows
        rows.append(own.dot(counts))
    return np.concatenate([np.empty(0, dtype=np.int64), *rows])


def log_ratio(
    mechanism: DataAware, problem: Problem, counts: Ints, other: Ints, scales: Fraction = Fraction(1)
) -> float:
    """Runs the script on `counts`; the log of how much likelier they make what was published than `other` does.

    `scales` multiplies the noise, to see whether too little of it is noticed. Every later stage is determined by what
    was published before, so the stages' ratios multiply.
    """
    script = mechanism.script(problem, mechanism.program(problem, EPSILON))
    total = 0.0
    reply: Measured | None = None
    try:
        while True:
            asked = next(script) if reply is None else script.send(reply)
            assert isinstance(asked.stage, MeasurementStage)
            assert isinstance(asked.stage.plan, Plan)
            plan = asked.stage.plan.with_unit(asked.stage.plan.unit * scales)
            merged = counts if asked.buckets is None else merge_counts(counts, asked.buckets)
            against = other if asked.buckets is None else merge_counts(other, asked.buckets)
            graph = problem.graph if asked.buckets is None else merge_graph(problem.graph, asked.buckets)
            reply = measure(CertifiedPlan(plan, graph), merged)
            if plan.exact is not None:
                assert np.array_equal(plan.exact.dot(merged), plan.exact.dot(against))
            far, near = (np.abs(reply.noisy - noisy_rows(plan, table)) for table in (against, merged))
            total += float(((far - near) * plan.weights).sum() / plan.unit)
    except StopIteration:
        return total


@pytest.mark.parametrize("presence", ["only", "public", "secret"])
@pytest.mark.parametrize("mechanism", EVERY, ids=IDS)
@pytest.mark.sampled(4)
def test_no_transcript_tells_neighbours_apart_by_more_than_epsilon(mechanism: DataAware, presence: str) -> None:
    problem = Problem(full(SHAPE, presence), random_boxes(SHAPE, 5))
    counts = clustered(SHAPE, 600)
    other = counts.copy()
    other[0] -= 1
    if presence == "public":
        other[-1] += 1
    seen = [log_ratio(mechanism, problem, counts, other) for _ in range(25)]
    assert max(np.abs(seen)) <= float(EPSILON) + 1e-9
    if presence != "secret":
        assert max(np.abs(seen)) > 0.3 * float(EPSILON)


def test_half_the_noise_is_noticed() -> None:
    problem = Problem(full(SHAPE, "only"), random_boxes(SHAPE, 5))
    counts = clustered(SHAPE, 600)
    other = counts.copy()
    other[0] -= 1
    seen = [log_ratio(AdaptiveTree(), problem, counts, other, Fraction(1, 2)) for _ in range(60)]
    assert max(np.abs(seen)) > 1.5 * float(EPSILON)
