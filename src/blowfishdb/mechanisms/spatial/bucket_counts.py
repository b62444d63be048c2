"""One noisy count for every bucket of a partition, at exactly the epsilon a stage may spend."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.mechanisms import identity
from blowfishdb.mechanisms.replies import measured_rows
from blowfishdb.mechanisms.row_variances import row_variances
from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.model.workload import Identity, Intervals
from blowfishdb.plan.certificate import calibrate
from blowfishdb.plan.merged import merge_graph
from blowfishdb.plan.plan import Plan
from blowfishdb.plan.problem import Problem
from blowfishdb.plan.stages import Allowance, Ask, MeasurementStage, Reply


@dataclass(frozen=True, eq=False)
class BucketCounts:
    """What to ask, and how to read the reply: buckets that no edge of the policy touches come exactly."""

    ask: Ask
    noisy: Ints
    alone: Ints
    has_total: bool
    noise_variance: float

    def read(self, reply: Reply) -> tuple[Floats, Floats]:
        """The count of every bucket and its noise variance."""
        measured = measured_rows(reply)
        values = np.zeros(self.noisy.size + self.alone.size)
        variances = np.zeros(values.size)
        values[self.noisy] = measured.noisy
        values[self.alone] = measured.exact[: self.alone.size]
        variances[self.noisy] = self.noise_variance
        return values, variances

    def total(self, reply: Reply) -> float | None:
        """The number of records, where the policy lets everybody know it."""
        return float(measured_rows(reply).exact[-1]) if self.has_total else None


def bucket_counts(graph: CellGraph, buckets: Ints | None, allowance: Allowance) -> BucketCounts:
    """Every bucket (every cell where no buckets are given) measured alike, at the whole allowance."""
    own = graph if buckets is None else merge_graph(graph, buckets)
    found = identity.propose(Problem(own, Identity(own.cells)))
    labels = own.components()
    has_total = bool(np.all(labels == 0))
    exact_low = np.append(found.alone, np.zeros(int(has_total), dtype=np.int64))
    exact_high = np.append(found.alone + 1, np.full(int(has_total), own.cells))
    exact = Intervals(own.cells, exact_low, exact_high) if exact_low.size else None
    plan = Plan(Fraction(1), found.plan(Fraction(1)).parts, exact)
    if plan.parts:
        plan, _ = calibrate(plan, own, allowance.epsilon)
    ask = Ask(allowance.stage, MeasurementStage(plan), buckets)
    spread = float(row_variances(plan)[0]) if plan.parts else 0.0
    return BucketCounts(ask, found.noisy, found.alone, has_total, spread)
