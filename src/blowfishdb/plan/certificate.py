"""The privacy loss of a plan under a policy graph, exact, with the worst edge; charge and noise share their scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from blowfishdb.errors import CannotCertify, DigestMismatch, PlanError, TooLarge
from blowfishdb.model.arguments import checked
from blowfishdb.model.graphs import CellGraph, ConstraintMoves, GridGraph, WindowGraph
from blowfishdb.model.numbers import Ints, check_sum
from blowfishdb.model.serialize import VERSION, version_of
from blowfishdb.model.workload import Intervals
from blowfishdb.plan.loss import (
    NO_EDGE,
    WorstEdge,
    check_exact_rows,
    exchange_loss,
    larger,
    listed_losses,
    weighted_intervals,
    worst_axis_edge,
    worst_noised_edge,
    worst_of,
    worst_product_edge,
    worst_to_zero,
)
from blowfishdb.plan.plan import (
    EdgePlan,
    KroneckerMeasurement,
    Measurement,
    Plan,
    check_positive,
    graph_digest_1,
    plan_digest_1,
)

AnyPlan = TypeVar("AnyPlan", Plan, EdgePlan, Plan | EdgePlan)

LISTED_EDGES = 1_000_000
"""Up to this many edges are compared one by one where no structure gives the exact answer sooner."""


@checked()
@dataclass(frozen=True)
class Certificate:
    """Publishing the plan's answers is (epsilon, G)-Blowfish private.

    `witness` is the pair of cells (ZERO: outside the filter, or absent) on which the loss is greatest; when
    `is_tight`, some record can make that move, so no smaller epsilon is true. Otherwise epsilon is an upper bound.
    Where public constraints make several records change together, `constraint_note` says so: the loss is then summed
    over their moves, of which the witness is the worst.
    """

    epsilon: Fraction
    witness: tuple[int, int] | None
    is_tight: bool
    plan_digest: str
    graph_digest: str
    constraint_note: str = ""
    again: Callable[[], Certificate] | None = field(default=None, compare=False, repr=False)
    former_graph: str = field(default="", compare=False, repr=False)
    """The digest that certificates of the same graph had before it told more about changes under constraints."""

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
        if not self._holds_by(certificate):
            raise DigestMismatch("this certificate does not belong to this plan and policy")

    def _holds_by(self, computed: Certificate) -> bool:
        """Whether this follows from what is computed for the same plan and graph now.

        Bounds have become smaller, and fewer of them are said to be attained, since the first certificates were made.
        """
        mine = self.plan_digest, self.constraint_note
        graphs = computed.graph_digest, computed.former_graph
        if mine != (computed.plan_digest, computed.constraint_note) or self.graph_digest not in graphs:
            return False
        if computed.epsilon < self.epsilon:
            return not self.is_tight
        is_now_attained = self.witness is None and not self.is_tight and computed.is_tight
        return computed.epsilon == self.epsilon and (computed.witness == self.witness or is_now_attained)


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


@dataclass(eq=False)
class CertifiedPlans:
    """The last plans that this process certified on one graph, by the digest of all that a plan is."""

    graph: CellGraph
    most: int = 16
    _recent: Mapping[str, CertifiedPlan] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[type[CertifiedPlans], tuple[CellGraph, int]]:
        """Another process certifies by itself."""
        return CertifiedPlans, (self.graph, self.most)

    def as_charged(self, plan: Plan | EdgePlan, charged: Certificate) -> CertifiedPlan:
        """The plan certified on this graph; DigestMismatch unless that gives the certificate that is charged."""
        digest = plan.digest()
        certified = self._recent.get(digest) or CertifiedPlan(plan, self.graph)
        if certified.certificate != charged:
            raise DigestMismatch("the certificate was made for another plan or policy: nothing was measured")
        if digest not in self._recent:
            # A thread that adds one at the same moment may lose it, which costs the time to certify it again.
            self._recent = dict([*self._recent.items(), (digest, certified)][-self.most :])
        return certified


@checked()
def certify(plan: Plan | EdgePlan, graph: CellGraph, version: int = VERSION) -> Certificate:
    """The certificate of a plan with its noise level set; its digests in the given version of their encoding."""
    worst = worst_loss(plan, graph)
    epsilon = Fraction(worst.loss) / plan.unit
    digests = plan.digest(), graph.digest()
    if version != VERSION:
        digests = plan_digest_1(plan), graph_digest_1(graph)
    note, former = reason(graph.constraint_moves), graph.former_digest()
    return Certificate(epsilon, worst.edge, worst.tight, *digests, note, former_graph=former)


def bounded(epsilon: Fraction, plan_digest: str, graph: CellGraph, version: int = VERSION) -> Certificate:
    """The certificate of a loss that is proven as an upper bound, without a witness."""
    graph_digest = graph.digest() if version == VERSION else graph_digest_1(graph)
    note, former = reason(graph.constraint_moves), graph.former_digest()
    return Certificate(epsilon, None, False, plan_digest, graph_digest, note, former_graph=former)


def calibrate(plan: AnyPlan, graph: CellGraph, epsilon: Fraction) -> tuple[AnyPlan, Certificate]:
    """The same plan with the noise level at which it costs exactly `epsilon`, and its certificate."""
    check_positive("epsilon", epsilon)
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
    check_positive("epsilon", epsilon)
    if plan.digest() != certificate.plan_digest:
        raise DigestMismatch("this certificate does not belong to this plan")
    if certificate.epsilon == 0:
        return plan, certificate
    scaled = plan.with_unit(plan.unit * certificate.epsilon / epsilon)
    return scaled, replace(certificate, epsilon=epsilon, plan_digest=scaled.digest())


def reason(moves: ConstraintMoves | None) -> str:
    """Why several records count as one change, in words; empty where they do not.

    Certificates of the past are compared with this text, so it keeps its words.
    """
    if moves is None:
        return ""
    if not moves.groups:
        return "these answers follow from what is public (atoms)"
    records = "one record changes" if moves.most == 1 else f"up to {moves.most:,} records change together"
    if moves.case == "general":
        return f"{records}, because the facts overlap (Graver bound)"
    return f"{records}, one in each part into which the facts split the records (atoms)"


def worst_loss(plan: Plan | EdgePlan, graph: CellGraph) -> WorstEdge:
    """The greatest loss between neighbours at unit 1: all rows of a person, or all moves that constraints demand."""
    single, moves = worst_edge(plan, graph), graph.constraint_moves
    single = replace(single, tight=single.tight and graph.is_exact)
    if moves is None:
        return replace(single, loss=single.loss * graph.rows_per_person)
    worst, losses, times = single, np.array([single.loss]), [moves.most]
    if isinstance(plan, Plan) and single.loss and not moves.is_everything(plan.cells):
        # Each group of cells is priced by its own worst pair.
        worst, losses = _group_losses(moves, single, plan, is_axis=len(graph.shape) == 1)
        times = moves.times.tolist()
    total, left = 0, moves.most
    for group in np.argsort(-losses, kind="stable").tolist():
        taken = min(left, times[group])
        total += taken * int(losses[group])
        left -= taken
    if isinstance(plan, Plan) and single.loss and moves.exchanges is not None:
        # What the constraints settle costs as much as one move: there is noise in it all the same.
        total = min(total, exchange_loss(plan, moves.exchanges, total) or single.loss)
    check_sum("loss of records that change together", total)
    is_one_move = moves.case == "atoms" and total == worst.loss
    return WorstEdge(total, worst.edge, tight=worst.tight and is_one_move and graph.is_exact)


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
            return worst_of(listed_losses(plan, edges), edges)
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


LISTED_PAIRS = 1_000_000
"""Up to this many pairs of cells are compared one by one; beyond, a group's two largest column norms bound its loss."""
SWEPT_GROUPS = 64
"""The most groups of a long axis that are swept one after the other, where the plan is made of intervals."""


def _group_losses(moves: ConstraintMoves, single: WorstEdge, plan: Plan, *, is_axis: bool) -> tuple[WorstEdge, Ints]:
    """The worst pair of all, and for each group at least the largest loss between two of its vertices."""
    sizes, norms = np.diff(moves.starts), _column_norms(plan)
    if int((sizes * (sizes - 1) // 2).sum()) <= LISTED_PAIRS:
        try:
            return _listed(moves, plan, norms)
        except TooLarge:
            pass
    stacked = _stacked_intervals(plan) if is_axis and moves.groups <= SWEPT_GROUPS and _are_runs(moves) else None
    if stacked is not None:
        return _swept(moves, *stacked, norms)
    group = np.repeat(np.arange(moves.groups), sizes)
    order = np.lexsort((-norms[moves.members], group))
    largest = norms[moves.members][order]
    starts = moves.starts[:-1]
    # A move between two cells loses at most what it takes to leave the one and to enter the other.
    second = np.where(sizes > 1, largest[np.minimum(starts + 1, largest.size - 1)], 0)
    losses = np.minimum(largest[starts] + second, single.loss)
    return WorstEdge(int(losses.max()), single.edge, tight=False), losses


def _are_runs(moves: ConstraintMoves) -> bool:
    """Whether the cells of every group follow each other."""
    steps = np.diff(moves.members)
    inside = np.ones(steps.size, dtype=np.bool_)
    inside[moves.starts[1:-1] - 1] = False
    return bool(np.all(steps[inside] == 1))


def _swept(moves: ConstraintMoves, intervals: Intervals, weights: Ints, norms: Ints) -> tuple[WorstEdge, Ints]:
    """Each group as the only run of joined cells on the axis."""
    by_group = []
    for start, stop, with_zero in zip(moves.starts[:-1], moves.starts[1:], moves.with_zero, strict=True):
        members = moves.members[start:stop]
        reach = np.arange(norms.size)
        reach[members] = members[-1]
        leaving = worst_to_zero(norms, members if with_zero else members[:0])
        group = WindowGraph(reach, np.empty(0, dtype=np.int64))
        by_group.append(larger(worst_axis_edge(intervals, weights, group), leaving))
    return max(by_group, key=lambda worst: worst.loss), np.array([worst.loss for worst in by_group])


def _listed(moves: ConstraintMoves, plan: Plan, norms: Ints) -> tuple[WorstEdge, Ints]:
    pairs, owner = _pairs(moves)
    losses = listed_losses(plan, pairs)
    by_group = np.zeros(moves.groups, dtype=np.int64)
    np.maximum.at(by_group, owner, losses)
    leaving = np.repeat(moves.with_zero, np.diff(moves.starts))
    group = np.repeat(np.arange(moves.groups), np.diff(moves.starts))
    np.maximum.at(by_group, group[leaving], norms[moves.members[leaving]])
    return larger(worst_of(losses, pairs), worst_to_zero(norms, moves.members[leaving])), by_group


def _pairs(moves: ConstraintMoves) -> tuple[Ints, Ints]:
    """All pairs of cells of one group, and their group."""
    sizes = np.diff(moves.starts)
    place = np.arange(moves.members.size)
    following = np.repeat(moves.starts[1:], sizes) - place - 1
    first = np.repeat(place, following)
    second = first + 1 + np.arange(first.size) - np.repeat(np.cumsum(following) - following, following)
    pairs = np.stack([moves.members[first], moves.members[second]], axis=1)
    return pairs, np.repeat(np.repeat(np.arange(moves.groups), sizes), following)
