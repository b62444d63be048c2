"""Quotes of exponential quantiles: their price, the ranks they promise, and the ranks they usually miss by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.accuracy.candidates import check_beta, round_up
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.script import hides_anything
from blowfishdb.model.graphs import CellGraph
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE, quantile
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import check_positive
from blowfishdb.plan.program import EXPONENTIAL_QUANTILES, POSITIONS, QuantilePlan, certify_quantiles

MOST_LEVELS = 64
COUNTED = Fraction(3, 2)
"""The part of epsilon that a published number of records takes, times the number of intervals between quantiles."""


def propose(graph: CellGraph, cells: int, levels: tuple[Fraction, ...], epsilon: Fraction) -> QuantilePlan:
    """The plan that costs epsilon; Declined where nothing is hidden or too much is asked at once."""
    check_positive("epsilon", epsilon)
    if cells < 1:
        raise Declined(EXPONENTIAL_QUANTILES, "the filter keeps no value of the attribute")
    if not hides_anything(graph):
        raise Declined(EXPONENTIAL_QUANTILES, "no move is hidden, so the CDF is exact and free")
    ordered = sorted(set(levels))
    if len(ordered) > MOST_LEVELS:
        raise Declined(EXPONENTIAL_QUANTILES, f"it chooses at most {MOST_LEVELS} quantiles at once")
    shares = tuple(high - low for low, high in zip([Fraction(0), *ordered], [*ordered, Fraction(1)], strict=True))
    plan = QuantilePlan(QuantilePlan(Fraction(1), shares, cells).loss(graph) / epsilon, shares, cells)
    part, rows = COUNTED / len(shares), graph.rows_per_person
    # Where records only appear or vanish, a number of records that is published first nearly halves the loss.
    if not graph.has_value_edges and part < 1:
        counted = QuantilePlan(rows / (epsilon * (1 - part)), shares, cells, rows / (epsilon * part))
        plan = min(plan, counted, key=lambda one: one.unit)
    if not all(MIN_SCALE <= unit <= MAX_SCALE for unit in (plan.unit, plan.count_unit or plan.unit)):
        raise Declined(
            EXPONENTIAL_QUANTILES, "so large or so small an epsilon asks for a scale that the sampler does not serve"
        )
    return plan


@dataclass(frozen=True, eq=False)
class QuantileQuote:
    """A plan of quantiles with its certificate, and what it promises except with probability beta."""

    plan: QuantilePlan
    certificate: Certificate
    beta: float
    mechanism: str = EXPONENTIAL_QUANTILES

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
        raise Declined(EXPONENTIAL_QUANTILES, "it promises ranks within a positive alpha only")
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
