"""The one place where counts meet noise: rows of a certified plan, measured with the scales that were charged."""

from __future__ import annotations

import numpy as np

from blowfishdb.errors import DigestMismatch, InvalidInput
from blowfishdb.model.arrays import Ints, check_sum
from blowfishdb.model.rows import Rows
from blowfishdb.model.workload import Kronecker
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.certificate import CertifiedPlan
from blowfishdb.plan.plan import EdgePlan, KroneckerMeasurement, Measurement
from blowfishdb.plan.stages import Measured


def measure(certified: CertifiedPlan, counts: Ints) -> Measured:
    """Draws the noise of a whole plan at once; refuses a plan that is no longer the one that was certified."""
    plan = certified.plan
    if certified.certificate.plan_digest != plan.digest():
        raise DigestMismatch("the certificate was made for another plan: nothing was measured")
    cells = checked_counts(counts, plan.cells)
    noise = sample(plan.unit, plan.weights) if plan.weights.size else np.empty(0, dtype=np.int64)
    nothing = np.empty(0, dtype=np.int64)
    if isinstance(plan, EdgePlan):
        largest = int(np.abs(noise).max(initial=0)) * int(abs(plan.decoder).sum(axis=1).max(initial=0))
        check_sum("noise on one answer", largest)
        return Measured(plan.workload.dot(cells) + plan.decoder @ noise, nothing)
    rows = [_rows(part).dot(cells) for part in plan.parts]
    exact = plan.exact.dot(cells) if plan.exact is not None else nothing
    return Measured(np.concatenate([nothing, *rows]) + noise, exact)


def _rows(part: Measurement | KroneckerMeasurement) -> Rows:
    if isinstance(part, Measurement):
        return part.rows
    return Kronecker(tuple(factor.rows for factor in part.factors))


def checked_counts(counts: Ints, cells: int) -> Ints:
    """Whole counts for each cell; the message names sizes, never values."""
    if counts.shape != (cells,) or counts.dtype != np.int64:
        raise InvalidInput(f"counts are {cells} 64-bit whole numbers, one per cell, not {counts.shape} {counts.dtype}")
    return counts
