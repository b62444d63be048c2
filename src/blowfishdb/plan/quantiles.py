"""Plans of quantiles: one selection by the joint exponential mechanism, and its certificate.

Proof note: docs/proofs/quantiles.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.errors import CannotCertify, PlanError
from blowfishdb.model.encoding import digest
from blowfishdb.model.graphs import CellGraph
from blowfishdb.plan.certificate import Certificate, reason
from blowfishdb.plan.plan import check_positive

NAME = "exponential-quantiles"
POSITIONS = 2**16
"""Each cell has this many positions; its records are spread evenly over them, so that equal values break no order."""


@dataclass(frozen=True)
class QuantilePlan:
    """Publishes positions o_1 <= ... <= o_m with P(o) ~ exp(-penalty(o) / unit), and of each position only its cell.

    The penalty is half the sum over the intervals between neighbouring positions, of how far the number of records in
    it is from its share of all. `shares` are those of the m + 1 intervals. With a `count_unit` the number of records is
    published first, with noise of that scale, and the shares are shares of the published number. `cells` is the number
    of cells in order; what else is counted, NULL or outside, stands beside the order and has no rank.
    """

    unit: Fraction
    shares: tuple[Fraction, ...]
    cells: int
    count_unit: Fraction | None = None

    def __post_init__(self) -> None:
        check_positive("the unit of a choice of quantiles", self.unit)
        if self.count_unit is not None:
            check_positive("the unit of the number of records", self.count_unit)
        if len(self.shares) < 2 or sum(self.shares) != 1 or min(self.shares) <= 0:
            raise PlanError("quantiles cut the records into at least two positive shares that add up to 1")
        if self.cells < 1:
            raise PlanError("quantiles need at least one cell in order")

    @property
    def levels(self) -> int:
        """The number of quantiles."""
        return len(self.shares) - 1

    def digest(self) -> str:
        """A hash of everything above."""
        return digest(("quantiles", self.unit, self.shares, self.cells, self.count_unit, POSITIONS))

    def gaps(self, total: int) -> tuple[Fraction, ...]:
        """The number of records wanted in each interval, when there are `total`, or so many were published."""
        return tuple(share * max(0, total) for share in self.shares)

    def loss(self, graph: CellGraph) -> Fraction:
        """At least the loss on every edge of a graph whose first `cells` cells are those in order.

        A record that moves within the order changes the penalty by at most 1, either way; one that enters or leaves it
        by 1 - min(shares), or by 1/2 where the shares are of a published number, whose own loss is added. The log-odds
        range is twice that. All that constraints move together, or a person's rows, count one by one.
        """
        if graph.cells < self.cells or len(graph.shape) != 1:
            raise PlanError(f"the plan is over {self.cells} cells of one axis, the policy graph over {graph.shape}")
        leaves = bool(np.any(graph.to_zero)) or graph.constraint_moves is not None
        moves = graph.value_edge_bound > 0 or graph.constraint_moves is not None
        losses = [Fraction(0)]
        if moves:
            losses.append(2 / self.unit)
        if leaves or (moves and graph.cells > self.cells):
            # Without a published number the shares of all intervals shrink or grow with the one that changes.
            kept = 2 * (1 - min(self.shares)) / self.unit
            losses.append(kept if self.count_unit is None else 1 / self.unit + 1 / self.count_unit)
        return max(losses) * graph.rows_per_person


def certify_quantiles(plan: QuantilePlan, graph: CellGraph) -> Certificate:
    """The certificate of a plan of quantiles; CannotCertify where nothing is hidden, and so nothing is to be paid."""
    loss = plan.loss(graph)
    if loss == 0:
        raise CannotCertify("no hidden move changes these counts: release them exactly, at no cost")
    note, former = reason(graph.constraint_moves), graph.former_digest()
    return Certificate(loss, None, False, plan.digest(), graph.digest(), note, former_graph=former)
