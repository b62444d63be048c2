"""What the baselines share: exact noise on whole numbers, and the choice of a least cost under noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.noise.sampler import sample, sample_geometric


def noisy(values: Ints, scale: Fraction) -> Floats:
    """The whole numbers with discrete Laplace noise of that scale."""
    return (values + sample(scale, 1, values.size)).astype(np.float64)


def least(costs: Floats, sensitivity: int, epsilon: Fraction) -> int:
    """The place of a low cost, at a loss of epsilon when one record moves each cost by at most `sensitivity`.

    Costs are rounded to whole numbers, and each is lowered by a geometric variable of scale 2 sensitivity / epsilon.
    """
    whole = np.floor(costs + 0.5).astype(np.int64)
    return int(np.argmin(whole - sample_geometric(2 * sensitivity / epsilon, 1, costs.size)))


def rounded_up(value: float) -> Fraction:
    """A short fraction that is not less."""
    return Fraction(math.ceil(value * 2**20), 2**20)
