"""Plans over points: each record spreads a public whole weight over the grid points around it.

Proof note: docs/proofs/kmeans.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.errors import InfiniteLoss, PlanError, TooLarge
from blowfishdb.model.cells import PointGraph
from blowfishdb.model.graphs import AxisGraph, CliqueGraph, Factor, GridGraph, WindowGraph, axis_graphs
from blowfishdb.model.numbers import Ints, as_ints, check_sum
from blowfishdb.model.serialize import digest
from blowfishdb.noise.certified import Noise
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import check_positive, hashed_1

MOST_POINTS = 2**20


@dataclass(frozen=True, eq=False)
class PointAxis:
    """The values of a column among the grid points: `places` are steps from the first grid point, never decreasing.

    A value at place a * steps + x, x < steps, gives grid point a the weight steps - x, the next one x. With one
    step every value stands on a grid point, and the weights are counts of cells.
    """

    steps: int
    places: Ints

    def __post_init__(self) -> None:
        places = as_ints(self.places)
        object.__setattr__(self, "places", places)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise PlanError("between two grid points lies at least one step")
        if places.ndim != 1 or places.size == 0 or places[0] < 0 or np.any(np.diff(places) < 0):
            raise PlanError("places are whole numbers from 0 on that never decrease, one per value")

    @property
    def grid_points(self) -> int:
        return -(-int(self.places[-1]) // self.steps) + 1

    def kept(self, first: Ints, second: Ints) -> Ints:
        """The weight that two values share: the sum over the grid points of the smaller one."""
        one, two = self.places[first], self.places[second]
        low, high = np.minimum(one, two), np.maximum(one, two)
        apart, low, high = high // self.steps - low // self.steps, low % self.steps, high % self.steps
        beside = np.minimum(self.steps - high, low)
        return np.where(apart == 0, self.steps - high + low, np.where(apart == 1, beside, 0))


@dataclass(frozen=True, eq=False)
class PointPlan:
    """Weights on the grid points of a grid with noise of scale `unit` on each, and exact counts of blocks of values.

    One record adds round(total * product of its weights / product of the steps) to each point around it. Without a unit
    they are released exactly. `blocks` labels the values of each column; every combination of labels is counted
    exactly. Both are refused unless no hidden move can change them.
    """

    unit: Fraction | None
    axes: tuple[PointAxis, ...]
    total: int
    blocks: tuple[Ints, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(as_ints(labels) for labels in self.blocks))
        if self.unit is not None:
            check_positive("the unit of a plan", self.unit)
        if not self.axes:
            raise PlanError("grid points need at least one column")
        check_sum("product of the steps between grid points", self._whole)
        if self.total < 1 or self._whole % self.total:
            raise PlanError("the total weight of a record divides the product of the steps")
        if self.grid_points > MOST_POINTS:
            raise TooLarge("grid points of a grid", self.grid_points, MOST_POINTS, "Use fewer grid points.")
        sizes = [axis.places.size for axis in self.axes]
        if self.blocks and [labels.size for labels in self.blocks] != sizes:
            raise PlanError("blocks label every value of every column")
        if any(int(labels.min()) < 0 for labels in self.blocks) or math.prod(self.block_shape) > MOST_POINTS:
            raise PlanError(f"blocks are numbered from 0 on and there are at most {MOST_POINTS:,}")

    @property
    def _whole(self) -> int:
        return math.prod(axis.steps for axis in self.axes)

    @property
    def rounding(self) -> int:
        """The divisor of the product of the weights, to the nearest whole number; 1 when nothing is rounded."""
        return self._whole // self.total

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.grid_points for axis in self.axes)

    @property
    def grid_points(self) -> int:
        return math.prod(self.shape)

    @property
    def block_shape(self) -> tuple[int, ...]:
        return tuple(int(labels.max()) + 1 for labels in self.blocks)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The same noise on every grid point; none without a unit."""
        return () if self.unit is None else (Noise("laplace", self.unit, 1, self.grid_points),)

    def with_unit(self, unit: Fraction | None) -> PointPlan:
        """The same grid points at another noise level."""
        return replace(self, unit=unit)

    def digest(self) -> str:
        """A hash of everything above."""
        axes = tuple((axis.steps, axis.places) for axis in self.axes)
        return digest(("node plan", self.unit, self.total, axes, self.blocks))

    def digest_1(self) -> str:
        """The same in the first encoding, for what was stored in it."""
        head = ("node plan", self.unit, self.total, len(self.axes))
        axes = [f"{axis.steps} ".encode() + axis.places.tobytes() for axis in self.axes]
        return hashed_1([*(str(part).encode() for part in head), *axes, *(labels.tobytes() for labels in self.blocks)])

    def rows_at(self, points: Ints) -> tuple[Ints, Ints]:
        """For each point (values by column) the flat grid points around it and the weight it gives to each."""
        grid_points, weights = [], []
        placed = [axis.places[points[:, column]] for column, axis in enumerate(self.axes)]
        for corner in itertools.product((0, 1), repeat=len(self.axes)):
            flat, weight = np.zeros(points.shape[0], dtype=np.int64), np.ones(points.shape[0], dtype=np.int64)
            for upper, axis, place in zip(corner, self.axes, placed, strict=True):
                part = place % axis.steps
                # A value on the last grid point gives the next one nothing, so it may stand for itself.
                flat = flat * axis.grid_points + np.minimum(place // axis.steps + upper, axis.grid_points - 1)
                weight = weight * (part if upper else axis.steps - part)
            grid_points.append(flat)
            weights.append((weight + self.rounding // 2) // self.rounding)
        return np.stack(grid_points, axis=1), np.stack(weights, axis=1)

    def blocks_at(self, points: Ints) -> Ints:
        """The flat block of each point."""
        flat = np.zeros(points.shape[0], dtype=np.int64)
        for column, (labels, size) in enumerate(zip(self.blocks, self.block_shape, strict=True)):
            flat = flat * size + labels[points[:, column]]
        return flat


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
    check_positive("epsilon", epsilon)
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
    if isinstance(factor, GridGraph) and factor.metric != "linf":
        return _least_in_ball(factor, axes, plain)
    return math.prod(
        _least_on_axis(graph, axis, size) for graph, axis, size in zip(axis_graphs(factor), axes, plain, strict=True)
    )


def _least_on_axis(graph: AxisGraph, axis: PointAxis, plain: int) -> int:
    """The least that two joined values share; weights only part further as a value moves on (docs/proofs/kmeans.md)."""
    index = np.arange(plain)
    if isinstance(graph, WindowGraph):
        # A universal value is joined to both ends as well.
        universal = np.repeat(graph.universal[graph.universal < plain], 2)
        first = np.concatenate([index, universal])
        second = np.append(np.minimum(graph.reach[:plain], plain - 1), np.resize([0, plain - 1], universal.size))
        return int(axis.kept(first, second).min())
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
        for axis, plain in zip(axis_graphs(factor), graph.plain[start:stop], strict=True):
            labels.append(axis.components()[:plain])
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
