"""The privacy loss of weights on nodes: a proven bound, without listing the edges of the product of the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from blowfishdb.errors import InfiniteLoss, PlanError
from blowfishdb.model.arrays import Ints
from blowfishdb.model.cellgraph import Factor
from blowfishdb.model.graphs.axis import AxisGraph
from blowfishdb.model.graphs.explicit import CliqueGraph
from blowfishdb.model.graphs.grid import GridGraph
from blowfishdb.model.graphs.window import WindowGraph
from blowfishdb.model.points import PointGraph
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.node_plan import NodeAxis, NodePlan

SHARES, LEAST_SHARES, TABLE = 256, 16, 2**18
"""How finely a joint threshold is shared among its columns: finer is tighter, every number is sound."""


def certify_nodes(plan: NodePlan, graph: PointGraph) -> Certificate:
    """The certificate of a plan over points; InfiniteLoss when something exact could be changed by a hidden move."""
    _check_blocks(plan, graph)
    loss = node_loss(plan, graph) * graph.rows_per_person
    if plan.unit is None and loss:
        raise InfiniteLoss("a hidden move changes these weights: measure them with noise")
    epsilon = Fraction(0) if plan.unit is None else Fraction(loss) / plan.unit
    return Certificate(epsilon, None, False, plan.digest(), graph.digest())


def calibrate_nodes(plan: NodePlan, graph: PointGraph, epsilon: Fraction) -> tuple[NodePlan, Certificate]:
    """The plan with the noise level at which it costs `epsilon`; without noise where no hidden move changes it."""
    if not isinstance(epsilon, Fraction) or epsilon <= 0:
        raise PlanError("epsilon is a positive Fraction")
    loss = node_loss(plan, graph) * graph.rows_per_person
    scaled = plan.with_unit(Fraction(loss) / epsilon if loss else None)
    return scaled, certify_nodes(scaled, graph)


def node_loss(plan: NodePlan, graph: PointGraph) -> int:
    """The most that one hidden move of one record changes the weights in sum, or a little more."""
    if tuple(axis.places.size for axis in plan.axes) != graph.plain:
        raise PlanError("the plan and the policy are about different columns")
    whole, columns = math.prod(axis.steps for axis in plan.axes), len(plan.axes)
    moved = 2 * (whole - _least_kept(plan.axes, graph)) if graph.presence != "only" else 0
    is_rounded = plan.rounding > 1
    loss = -(-moved // plan.rounding) + (2**columns if moved and is_rounded else 0)
    gone = plan.total + (2 ** (columns - 1) if is_rounded else 0)
    return max(loss, gone) if graph.can_vanish else loss


def _least_kept(axes: Sequence[NodeAxis], graph: PointGraph) -> int:
    """The least that the weights before and after a move share, as a product of what the columns share."""
    kept = [
        (_least_of_factor(factor, axes[start:stop], graph.plain[start:stop]), axes[start:stop])
        for factor, start, stop in graph.spans
    ]
    if graph.composition == "record":
        return math.prod(least for least, _ in kept)
    whole = math.prod(axis.steps for axis in axes)
    return min(least * (whole // math.prod(axis.steps for axis in own)) for least, own in kept)


def _least_of_factor(factor: Factor, axes: Sequence[NodeAxis], plain: Sequence[int]) -> int:
    if not isinstance(factor, GridGraph):
        return _least_on_axis(factor, axes[0], plain[0])
    if factor.metric == "linf":
        return math.prod(
            _least_on_axis(factor.axis_within(column, factor.theta), axis, plain[column])
            for column, axis in enumerate(axes)
        )
    return _least_in_ball(factor, axes, plain)


def _least_on_axis(graph: AxisGraph, axis: NodeAxis, plain: int) -> int:
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


def _least_in_ball(factor: GridGraph, axes: Sequence[NodeAxis], plain: Sequence[int]) -> int:
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


def _shared(best: Ints, own: Ints) -> Ints:
    """The least product for each total of the shares of what came before and of one column more."""
    found = np.full(best.size, np.iinfo(np.int64).max)
    for share, least in enumerate(own.tolist()):
        found[share:] = np.minimum(found[share:], best[: best.size - share] * least)
    return found


def components_of(graph: PointGraph) -> tuple[Ints, ...]:
    """For each column a label per value that no hidden move changes."""
    found: list[Ints] = []
    for factor, start, stop in graph.spans:
        for column in range(stop - start):
            axis = factor.axis_within(column, factor.theta) if isinstance(factor, GridGraph) else factor
            found.append(axis.components()[: graph.plain[start + column]])
    return tuple(found)


def _check_blocks(plan: NodePlan, graph: PointGraph) -> None:
    """Refuses blocks that a hidden move of a record could change."""
    if not plan.blocks:
        return
    changes = any(not _is_constant(labels, own) for own, labels in zip(components_of(graph), plan.blocks, strict=True))
    if graph.can_vanish or changes:
        raise InfiniteLoss("a hidden move changes how many records a block has: do not count it exactly")


def _is_constant(labels: Ints, components: Ints) -> bool:
    """Whether all values of each component have one label."""
    last = np.zeros(int(components.max()) + 1, dtype=np.int64)
    last[components] = labels
    return bool(np.all(last[components] == labels))
