"""The privacy loss of a plan under a policy graph, exact, with the worst edge; charge and noise share their scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TypeVar

import numpy as np

from blowfishdb.errors import CannotCertify, DigestMismatch, InfiniteLoss, PlanError, TooLarge
from blowfishdb.model.cells import PointGraph
from blowfishdb.model.encoding import VERSION, version_of
from blowfishdb.model.graphs import AxisGraph, CellGraph, CliqueGraph, Factor, GridGraph, WindowGraph
from blowfishdb.model.numbers import Ints, check_sum
from blowfishdb.model.workload import Intervals
from blowfishdb.plan import encoding_1
from blowfishdb.plan.loss import (
    Measured,
    check_exact_rows,
    listed_losses,
    reason,
    weighted_intervals,
    worst_axis_edge,
    worst_change,
    worst_noised_edge,
    worst_product_edge,
)
from blowfishdb.plan.plan import (
    NO_EDGE,
    EdgePlan,
    KroneckerMeasurement,
    Measurement,
    Plan,
    WorstEdge,
    larger,
    worst_of,
    worst_to_zero,
)
from blowfishdb.plan.points import PointAxis, PointPlan

AnyPlan = TypeVar("AnyPlan", Plan, EdgePlan, Plan | EdgePlan)

LISTED_EDGES = 1_000_000
"""Up to this many edges are compared one by one where no structure gives the exact answer sooner."""


@dataclass(frozen=True)
class Certificate:
    """Publishing the plan's answers is (epsilon, G)-Blowfish private.

    `witness` is the pair of cells (ZERO: outside the filter, or absent) on which the loss is greatest; when
    `is_tight`, no smaller epsilon is true. A bound without a witness is an upper bound. Where public constraints make
    several records change together, `constraint_note` says so: the loss is then summed over their moves, of which the
    witness is the worst.
    """

    epsilon: Fraction
    witness: tuple[int, int] | None
    is_tight: bool
    plan_digest: str
    graph_digest: str
    constraint_note: str = ""
    again: Callable[[], Certificate] | None = field(default=None, compare=False, repr=False)

    def verify(self, plan: Plan | EdgePlan | None = None, graph: CellGraph | None = None) -> None:
        """Computes the loss again; DigestMismatch when this certificate belongs to something else.

        A certificate with digests of the first version is compared in that version's encoding.
        An answer's certificate needs no plan and no graph: `again` works it out from what the answer carries.
        """
        if plan is not None and graph is not None:
            certificate = certify(plan, graph, version_of(self.plan_digest))
        elif self.again is not None and plan is None and graph is None:
            certificate = self.again()
        else:
            raise DigestMismatch("nothing came with this certificate to compute it from: give the plan and the graph")
        if certificate != self:
            raise DigestMismatch("this certificate does not belong to this plan and policy")


@dataclass(frozen=True, eq=False)
class CertifiedPlan:
    """A plan with the certificate that was computed for it on this very graph when this value was made.

    Noise is drawn for nothing else, so no certificate reaches it that a cache, a file or a caller only claims.
    """

    plan: Plan | EdgePlan
    graph: CellGraph
    certificate: Certificate = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "certificate", certify(self.plan, self.graph))


def certified_as_charged(plan: Plan | EdgePlan, graph: CellGraph, charged: Certificate) -> CertifiedPlan:
    """The plan certified anew on this graph; DigestMismatch unless that gives the certificate that is charged."""
    certified = CertifiedPlan(plan, graph)
    if certified.certificate != charged:
        raise DigestMismatch("the certificate was made for another plan or policy: nothing was measured")
    return certified


def certify(plan: Plan | EdgePlan, graph: CellGraph, version: int = VERSION) -> Certificate:
    """The certificate of a plan with its noise level set; its digests in the given version of their encoding."""
    worst = worst_loss(plan, graph)
    epsilon = Fraction(worst.loss) / plan.unit
    digests = plan.digest(), graph.digest()
    if version != VERSION:
        digests = encoding_1.plan_digest(plan), encoding_1.graph_digest(graph)
    return Certificate(epsilon, worst.edge, worst.tight, *digests, reason(graph.constraint_moves))


def calibrate(plan: AnyPlan, graph: CellGraph, epsilon: Fraction) -> tuple[AnyPlan, Certificate]:
    """The same plan with the noise level at which it costs exactly `epsilon`, and its certificate."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PlanError("epsilon is a positive Fraction")
    worst = worst_loss(plan, graph)
    if worst.loss == 0:
        raise CannotCertify("no edge of the policy changes these rows: release them exactly, at no cost")
    scaled = plan.with_unit(Fraction(worst.loss) / epsilon)
    why = reason(graph.constraint_moves)
    return scaled, Certificate(epsilon, worst.edge, worst.tight, scaled.digest(), graph.digest(), why)


def rescaled(plan: AnyPlan, certificate: Certificate, epsilon: Fraction) -> tuple[AnyPlan, Certificate]:
    """The certified plan at the noise level where it costs `epsilon`: every edge's loss is proportional to 1 / unit.

    DigestMismatch when the certificate belongs to another plan; a plan that costs nothing stays as it is.
    """
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PlanError("epsilon is a positive Fraction")
    if plan.digest() != certificate.plan_digest:
        raise DigestMismatch("this certificate does not belong to this plan")
    if certificate.epsilon == 0:
        return plan, certificate
    scaled = plan.with_unit(plan.unit * certificate.epsilon / epsilon)
    return scaled, replace(certificate, epsilon=epsilon, plan_digest=scaled.digest())


def worst_loss(plan: Plan | EdgePlan, graph: CellGraph) -> WorstEdge:
    """The greatest loss between neighbours at unit 1: all rows of a person, or all moves that constraints demand."""
    single = worst_edge(plan, graph)
    if graph.constraint_moves is None:
        return replace(single, loss=single.loss * graph.rows_per_person)
    if isinstance(plan, EdgePlan) or single.loss == 0:
        return worst_change(graph.constraint_moves, single)
    stacked = _stacked_intervals(plan) if len(graph.shape) == 1 else None
    along = None if stacked is None else partial(worst_axis_edge, *stacked)
    return worst_change(graph.constraint_moves, single, Measured(plan, _column_norms(plan), along))


def worst_edge(plan: Plan | EdgePlan, graph: CellGraph) -> WorstEdge:
    """The greatest loss over all edges when the unit is 1."""
    if plan.cells != graph.cells:
        raise PlanError(f"the plan is over {plan.cells} cells, the policy graph over {graph.cells}")
    if isinstance(plan, EdgePlan):
        return worst_noised_edge(plan, graph)
    if plan.exact is not None:
        check_exact_rows(plan.exact, graph)
    if not plan.parts:
        return NO_EDGE
    norms = _column_norms(plan)
    leaving = worst_to_zero(norms, np.flatnonzero(graph.to_zero))
    return larger(leaving, _worst_value_edge(plan, graph, norms)) if graph.has_value_edges else leaving


def _column_norms(plan: Plan) -> Ints:
    """For each cell the summed weight times absolute entry over the noisy rows of the plan."""
    total = np.zeros(plan.cells, dtype=np.int64)
    for part in plan.parts:
        if isinstance(part, Measurement):
            norms = part.rows.column_norms(part.weights)
        else:
            norms = np.ones(1, dtype=np.int64)
            for factor in part.factors:
                factor_norms = factor.rows.column_norms(factor.weights)
                check_sum("product of column norms", int(norms.max()) * int(factor_norms.max()))
                norms = np.multiply.outer(norms, factor_norms).reshape(-1)
        check_sum("sum of column norms", int(total.max()) + int(norms.max()))
        total = total + norms
    return total


def _worst_value_edge(plan: Plan, graph: CellGraph, norms: Ints) -> WorstEdge:
    """The worst edge between two cells: by structure, by listing, or by a bound, in this order."""
    stacked = _stacked_intervals(plan)
    single = graph.factors[0]
    if stacked is not None and len(graph.factors) == 1 and not isinstance(single, GridGraph):
        return worst_axis_edge(*stacked, single)
    if graph.value_edge_bound <= LISTED_EDGES:
        try:
            edges = graph.value_edges()
            losses = np.zeros(edges.shape[0], dtype=np.int64)
            for part in plan.parts:
                losses = losses + listed_losses(part, edges)
            return worst_of(losses, edges)
        except TooLarge:
            pass
    always = WorstEdge(2 * int(norms.max()), None, tight=False)
    products = [part for part in plan.parts if isinstance(part, KroneckerMeasurement)]
    if len(products) < len(plan.parts):
        return always
    bound = worst_product_edge(products, graph)
    return bound if bound.loss <= always.loss else always


def _stacked_intervals(plan: Plan) -> tuple[Intervals, Ints] | None:
    """Weighted intervals of one axis with the same losses as the noisy rows, where there are such."""
    low, high, weights = [], [], []
    for part in plan.parts:
        weighted = weighted_intervals(part.rows, part.weights) if isinstance(part, Measurement) else None
        if weighted is None:
            return None
        low.append(weighted[0].low)
        high.append(weighted[0].high)
        weights.append(weighted[1])
    return Intervals(plan.cells, np.concatenate(low), np.concatenate(high)), np.concatenate(weights)


SHARES, LEAST_SHARES, TABLE = 256, 16, 2**18
"""How finely a joint threshold is shared among its columns: finer is tighter, every number is sound."""


def certify_points(plan: PointPlan, graph: PointGraph) -> Certificate:
    """The certificate of a plan over points; InfiniteLoss when something exact could be changed by a hidden move."""
    _check_blocks(plan, graph)
    loss = point_loss(plan, graph) * graph.rows_per_person
    if plan.unit is None and loss:
        raise InfiniteLoss("a hidden move changes these weights: measure them with noise")
    epsilon = Fraction(0) if plan.unit is None else Fraction(loss) / plan.unit
    return Certificate(epsilon, None, False, plan.digest(), graph.digest())


def calibrate_points(plan: PointPlan, graph: PointGraph, epsilon: Fraction) -> tuple[PointPlan, Certificate]:
    """The plan with the noise level at which it costs `epsilon`; without noise where no hidden move changes it."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PlanError("epsilon is a positive Fraction")
    loss = point_loss(plan, graph) * graph.rows_per_person
    scaled = plan.with_unit(Fraction(loss) / epsilon if loss else None)
    return scaled, certify_points(scaled, graph)


def point_loss(plan: PointPlan, graph: PointGraph) -> int:
    """The most that one hidden move of one record changes the weights in sum, or a little more."""
    if tuple(axis.places.size for axis in plan.axes) != graph.plain:
        raise PlanError("the plan and the policy are about different columns")
    whole, columns = math.prod(axis.steps for axis in plan.axes), len(plan.axes)
    moved = 2 * (whole - _least_kept(plan.axes, graph)) if graph.presence != "only" else 0
    is_rounded = plan.rounding > 1
    loss = -(-moved // plan.rounding) + (2**columns if moved and is_rounded else 0)
    gone = plan.total + (2 ** (columns - 1) if is_rounded else 0)
    return max(loss, gone) if graph.can_vanish else loss


def _least_kept(axes: Sequence[PointAxis], graph: PointGraph) -> int:
    """The least that the weights before and after a move share, as a product of what the columns share."""
    shared = [
        (_least_of_factor(factor, axes[start:stop], graph.plain[start:stop]), axes[start:stop])
        for factor, start, stop in graph.spans
    ]
    if graph.composition == "record":
        return math.prod(least for least, _ in shared)
    whole = math.prod(axis.steps for axis in axes)
    return min(least * (whole // math.prod(axis.steps for axis in columns)) for least, columns in shared)


def _least_of_factor(factor: Factor, axes: Sequence[PointAxis], plain: Sequence[int]) -> int:
    if not isinstance(factor, GridGraph):
        return _least_on_axis(factor, axes[0], plain[0])
    if factor.metric == "linf":
        return math.prod(
            _least_on_axis(factor.axis_within(column, factor.theta), axis, plain[column])
            for column, axis in enumerate(axes)
        )
    return _least_in_ball(factor, axes, plain)


def _least_on_axis(graph: AxisGraph, axis: PointAxis, plain: int) -> int:
    """The least that two joined values share; weights only part further as a value moves on (docs/proofs/kmeans.md)."""
    index = np.arange(plain)
    if isinstance(graph, WindowGraph):
        return int(axis.kept(index, np.minimum(graph.reach[:plain], plain - 1)).min())
    if isinstance(graph, CliqueGraph):
        labels = graph.labels[:plain]
        _, first = np.unique(labels, return_index=True)
        _, last = np.unique(labels[::-1], return_index=True)
        return int(axis.kept(first, plain - 1 - last).min())
    edges = graph.edges()
    edges = edges[np.all(edges < plain, axis=1)]
    return int(axis.kept(edges[:, 0], edges[:, 1]).min(initial=axis.steps))


def _least_in_ball(factor: GridGraph, axes: Sequence[PointAxis], plain: Sequence[int]) -> int:
    """The least product over all ways to share theta among the columns.

    Gaps along the columns add up to at most theta in L1; in L2 to at most theta times the root of their number. A gap
    from share * step on is less than (share + 1) * step, and the shares add up to at most their total.
    """
    theta = factor.theta
    budget = theta if factor.metric == "l1" else math.isqrt(len(axes) * theta**2)
    step = budget // min(SHARES, max(LEAST_SHARES, TABLE // max(plain))) + 1
    shares = budget // step
    best = np.ones(shares + 1, dtype=np.int64)
    radii = np.minimum((np.arange(shares + 1) + 1) * step - 1, theta)
    for column, axis in enumerate(axes):
        # Refuses positions that are not in order: only then is the furthest partner the worst.
        factor.axis_within(column, theta)
        reach = factor.reaches(column, radii, plain[column])
        best = _shared(best, axis.kept(np.broadcast_to(np.arange(plain[column]), reach.shape), reach).min(axis=1))
    return int(best.min())


def _shared(best: Ints, column: Ints) -> Ints:
    """The least product for each total of the shares of what came before and of one column more."""
    products = np.full(best.size, np.iinfo(np.int64).max)
    for share, least in enumerate(column.tolist()):
        products[share:] = np.minimum(products[share:], best[: best.size - share] * least)
    return products


def components_of(graph: PointGraph) -> tuple[Ints, ...]:
    """For each column a label per value that no hidden move changes."""
    labels: list[Ints] = []
    for factor, start, stop in graph.spans:
        for column in range(stop - start):
            axis = factor.axis_within(column, factor.theta) if isinstance(factor, GridGraph) else factor
            labels.append(axis.components()[: graph.plain[start + column]])
    return tuple(labels)


def _check_blocks(plan: PointPlan, graph: PointGraph) -> None:
    """Refuses blocks that a hidden move of a record could change."""
    if not plan.blocks:
        return
    changes = any(
        not _is_constant(labels, parts) for parts, labels in zip(components_of(graph), plan.blocks, strict=True)
    )
    if graph.can_vanish or changes:
        raise InfiniteLoss("a hidden move changes how many records a block has: do not count it exactly")


def _is_constant(labels: Ints, components: Ints) -> bool:
    """Whether all values of each component have one label."""
    last = np.zeros(int(components.max()) + 1, dtype=np.int64)
    last[components] = labels
    return bool(np.all(last[components] == labels))
