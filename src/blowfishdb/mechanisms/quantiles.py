"""Exponential quantiles: a choice among all declared values by their ranks, instead of a noisy CDF.

Proof note: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from fractions import Fraction

from blowfishdb.errors import Declined
from blowfishdb.mechanisms.data_aware.script import hides_anything
from blowfishdb.model.graphs import CellGraph
from blowfishdb.noise.distribution import MAX_SCALE, MIN_SCALE
from blowfishdb.plan.plan import check_positive
from blowfishdb.plan.quantiles import QuantilePlan

NAME = "exponential-quantiles"
MOST_LEVELS = 64
COUNTED = Fraction(3, 2)
"""The part of epsilon that a published number of records takes, times the number of intervals between quantiles."""


def propose(graph: CellGraph, cells: int, levels: tuple[Fraction, ...], epsilon: Fraction) -> QuantilePlan:
    """The plan that costs epsilon; Declined where nothing is hidden or too much is asked at once."""
    check_positive("epsilon", epsilon)
    if cells < 1:
        raise Declined(NAME, "the filter keeps no value of the attribute")
    if not hides_anything(graph):
        raise Declined(NAME, "no move is hidden, so the CDF is exact and free")
    ordered = sorted(set(levels))
    if len(ordered) > MOST_LEVELS:
        raise Declined(NAME, f"it chooses at most {MOST_LEVELS} quantiles at once")
    shares = tuple(high - low for low, high in zip([Fraction(0), *ordered], [*ordered, Fraction(1)], strict=True))
    plan = QuantilePlan(QuantilePlan(Fraction(1), shares, cells).loss(graph) / epsilon, shares, cells)
    part, rows = COUNTED / len(shares), graph.rows_per_person
    # Where records only appear or vanish, a number of records that is published first nearly halves the loss.
    if not graph.has_value_edges and part < 1:
        counted = QuantilePlan(rows / (epsilon * (1 - part)), shares, cells, rows / (epsilon * part))
        plan = min(plan, counted, key=lambda one: one.unit)
    if not all(MIN_SCALE <= unit <= MAX_SCALE for unit in (plan.unit, plan.count_unit or plan.unit)):
        raise Declined(NAME, "so large or so small an epsilon asks for a scale that the sampler does not serve")
    return plan
