"""The variances of noisy rows for bounds that know nothing but variances."""

from __future__ import annotations

import numpy as np

from blowfishdb.model.arrays import Floats
from blowfishdb.plan.plan import EdgePlan, Plan


def row_variances(plan: Plan | EdgePlan) -> Floats:
    """The variance that continuous noise of the same scale would have: a little more than that of the discrete noise.

    Bounds that know variances alone are proven for it (docs/proofs/accuracy.md).
    """
    return np.asarray(2.0 * (float(plan.unit) / plan.weights) ** 2)
