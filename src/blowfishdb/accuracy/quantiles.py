"""Quotes of exponential quantiles: their price, the ranks they promise, and the ranks they usually miss by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.candidates import check_beta, round_up
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.quantiles import NAME, propose
from blowfishdb.model.graphs import CellGraph
from blowfishdb.noise.distribution import quantile
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.quantiles import POSITIONS, QuantilePlan, certify_quantiles


@dataclass(frozen=True, eq=False)
class QuantileQuote:
    """A plan of quantiles with its certificate, and what it promises except with probability beta."""

    plan: QuantilePlan
    certificate: Certificate
    beta: float
    mechanism: str = NAME

    @property
    def epsilon(self) -> Fraction:
        """The price."""
        return self.certificate.epsilon

    @property
    def alpha(self) -> float:
        """The number of ranks within which all quantiles lie, except with probability beta, whatever the data."""
        return promised_ranks(self.plan, self.beta)

    @property
    def rmse(self) -> float:
        """The root mean square of their errors in ranks, where values lie evenly."""
        return expected_ranks(self.plan)


def quantiles_at(
    graph: CellGraph, cells: int, levels: tuple[Fraction, ...], epsilon: Fraction, beta: float
) -> QuantileQuote:
    """The quote at a price; Declined where the mechanism does not serve it."""
    check_beta(beta)
    plan = propose(graph, cells, levels, epsilon)
    return QuantileQuote(plan, certify_quantiles(plan, graph), beta)


def quantiles_within(
    graph: CellGraph, cells: int, levels: tuple[Fraction, ...], alpha: float, beta: float
) -> QuantileQuote:
    """The quote of the least epsilon, rounded up, that promises all ranks within alpha."""
    if alpha <= 0:
        raise Declined(NAME, "it promises ranks within a positive alpha only")
    # The promise is in proportion to 1 / epsilon, but for whole-number noise, which a little more makes up for.
    epsilon = round_up(Fraction(quantiles_at(graph, cells, levels, Fraction(1), beta).alpha / alpha))
    quote = quantiles_at(graph, cells, levels, epsilon, beta)
    while quote.alpha > alpha:
        epsilon = round_up(epsilon * Fraction(101, 100))
        quote = quantiles_at(graph, cells, levels, epsilon, beta)
    return quote


def promised_ranks(plan: QuantilePlan, beta: float) -> float:
    """The number of ranks within which all quantiles lie, except with probability beta, whatever the data.

    Records of one value count as spread evenly over it. To this comes a 2^-17th part of the records that share the
    value of a true quantile, for each quantile (docs/proofs/quantiles.md).
    """
    positions = plan.cells * POSITIONS
    vectors = sum(math.log((positions + other) / (other + 1)) for other in range(plan.levels))
    if plan.count_unit is None:
        return float(plan.unit) * (vectors - math.log(beta))
    count = float(quantile(float(plan.count_unit), beta / 2.0))
    furthest = float(max(1 - plan.shares[0], 1 - plan.shares[-1]))
    return float(plan.unit) * (vectors - math.log(beta / 2.0)) + furthest * count


def expected_ranks(plan: QuantilePlan) -> float:
    """The root mean square of the errors in ranks where values lie evenly: of a walk with Laplace steps from 0 to 0.

    The steps have scale 2 * unit; to end where it must costs the walk about one of its steps.
    """
    steps = len(plan.shares)
    place = np.arange(1, steps)
    variances = 8.0 * float(plan.unit) ** 2 * place * (steps - place) / steps * (plan.levels / steps)
    return math.sqrt(float(variances.mean()))
