"""Weights on a grid of points: chosen and certified from public numbers, then charged and released."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np

from blowfishdb.engine.answer import compact_json, now, read_stored
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.measure import measure_points
from blowfishdb.engine.preview import AnyPreview
from blowfishdb.engine.release import Release, ledger_document
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.errors import AccuracyError, DigestMismatch, DocumentError, InvalidInput
from blowfishdb.mechanisms.point_grids import GridOffer, offers
from blowfishdb.model.arguments import checked
from blowfishdb.model.cached import cached_property
from blowfishdb.model.cells import Points, compile_points
from blowfishdb.model.explain import not_protected
from blowfishdb.model.numbers import Floats, Ints, check_sum
from blowfishdb.model.query import Query
from blowfishdb.model.serialize import PLAIN, Field, Leaves
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.points import PointPlan, certify_points
from blowfishdb.present.words import counted_words, epsilon_words, policy_words, question_words, read_counted
from blowfishdb.sources.base import Counting, PointCounting

SCHEMA = "blowfishdb-node-weights/1"
COLUMN_KEYS = {
    "name": "name",
    "nodes": "grid_points",
    "node_blocks": "point_blocks",
    "samples": "samples",
    "places": "places",
    "sample_blocks": "sample_blocks",
}
"""The keys of a stored column, and the fields of PointColumn that they hold."""


@dataclass(frozen=True, eq=False, repr=False)
class PointColumn:
    """One column of the grid: where its points lie, and how values between them share their weight.

    `places` are positions of sample values in units of grid points: a value at 2.25 gives three quarters of its weight
    to point 2 and a quarter to point 3. `point_blocks` and `sample_blocks` number the blocks that no record leaves
    unseen.
    """

    name: str
    grid_points: Floats
    point_blocks: Ints
    samples: Floats
    places: Floats
    sample_blocks: Ints

    def __post_init__(self) -> None:
        if self.grid_points.size != self.point_blocks.size or self.grid_points.size == 0:
            raise InvalidInput("every grid point has a position and a block")
        if not self.samples.size == self.places.size == self.sample_blocks.size > 0:
            raise InvalidInput("every sample value has a position, a place and a block")
        if self.places.min() < 0 or self.places.max() > self.grid_points.size - 1:
            raise InvalidInput("sample values lie among the grid points")

    def shares(self) -> Floats:
        """The part of its weight that each sample value gives to each grid point: points by samples."""
        return np.maximum(0.0, 1.0 - np.abs(np.arange(self.grid_points.size)[:, None] - self.places[None, :]))


@checked()
@dataclass(frozen=True, eq=False, repr=False)
class PointWeights:
    """Noisy numbers of records at each point of a grid; and exact numbers of each block, where they are public.

    `weights` has one axis per column. `scale` is the scale of the noise on each point in records, 0 for exact weights.
    """

    dataset: str
    title: str
    kind: str
    columns: tuple[PointColumn, ...]
    weights: Floats
    block_counts: Floats | None
    scale: float
    epsilon: Fraction
    policy_version: int
    protected: tuple[str, ...]
    unprotected: tuple[str, ...]
    released: str
    plan_digest: str
    graph_digest: str
    counted: str = ""

    def __post_init__(self) -> None:
        shapes = {
            "weights": tuple(column.grid_points.size for column in self.columns),
            "block_counts": tuple(int(column.point_blocks.max()) + 1 for column in self.columns),
        }
        for name, shape in shapes.items():
            numbers = getattr(self, name)
            if numbers is not None and numbers.size != math.prod(shape):
                raise InvalidInput("there is a weight for each grid point, and a count for each block or none")
            object.__setattr__(self, name, None if numbers is None else numbers.reshape(shape))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the axes of `weights`."""
        return tuple(column.name for column in self.columns)

    def __repr__(self) -> str:
        grid = " × ".join(str(size) for size in self.weights.shape)
        noise = f"noise of scale {self.scale:.3g} records" if self.scale else "no noise"
        price = f"epsilon {epsilon_words(self.epsilon)}"
        parts = (f"{grid} points", price, noise, self.counted)
        return f"<{self.title} of {self.dataset}: {', '.join(filter(None, parts))}>"

    def to_json(self) -> str:
        """Everything, as JSON that reads back exactly."""
        columns = [{key: getattr(column, name) for key, name in COLUMN_KEYS.items()} for column in self.columns]
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        blocks = None if self.block_counts is None else self.block_counts.ravel()
        content |= {"columns": columns, "weights": self.weights.ravel(), "block_counts": blocks}
        if not self.counted:
            del content["counted"]
        return compact_json({"schema": SCHEMA, **content, "epsilon": str(self.epsilon)})

    @staticmethod
    def from_json(text: str | bytes) -> PointWeights:
        """The weights that `to_json` wrote; DocumentError for anything else."""
        content = read_stored(text, SCHEMA, "weights on points")
        stored = {key: field.value for key, field in content.items() if key != "schema"}
        try:
            weights: PointWeights = replace(content.whole, value=stored).read(PointWeights, LEAVES)
        except DocumentError:
            raise
        except InvalidInput as error:
            raise DocumentError(f"the stored weights on points contradict themselves: {error}") from None
        return replace(weights, counted=read_counted(weights.counted))


def _read_column(column: Field) -> PointColumn:
    fields = column.fields()
    return PointColumn(
        fields["name"].text(),
        _finite(fields["nodes"]),
        _ints(fields["node_blocks"]),
        _finite(fields["samples"]),
        _finite(fields["places"]),
        _ints(fields["sample_blocks"]),
    )


def _finite(values: Field) -> Floats:
    array = values.floats()
    if not np.all(np.isfinite(array)):
        raise values.wrong("finite numbers were expected")
    return array


def _ints(values: Field) -> Ints:
    try:
        return np.array(values.each(Field.whole), dtype=np.int64)
    except OverflowError:
        raise values.wrong("smaller numbers were expected") from None


LEAVES: Leaves = {**PLAIN, Floats: _finite, Ints: _ints, tuple[str, ...]: Field.texts, PointColumn: _read_column}
SAMPLES = 2**14
"""The number of combinations of sample values that stand for the values between grid points, about."""
AT_ONCE = 2**16
"""Points whose weights are written out together."""


@dataclass(frozen=True, eq=False)
class PointsRelease(Release):
    """Weights on the grid that would be measured, and the grids that were passed over; no data was read."""

    query: Query
    points: Points
    offers: tuple[GridOffer, ...]
    compiled: None = None

    @property
    def best(self) -> GridOffer:
        """The grid that would run."""
        return self.offers[0]

    @property
    def size(self) -> int:
        """The number of declared values of the columns and of points of all grids."""
        return sum(self.points.graph.plain) + sum(offer.plan.grid_points for offer in self.offers)

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return self.best.plan.digest_1()

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of the grid, computed anew; DigestMismatch when it is not the offer's."""
        if certify_points(self.best.plan, self.points.graph) != self.best.certificate:
            raise DigestMismatch("the certificate was made for another plan: nothing was charged or measured")
        return self.best.certificate

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        details: dict[str, object] = {"witness": None, "is_tight": self.certificate.is_tight}
        return ledger_document(self.query, self.best.grid.kind, self.certificate, details)

    def preview(self, handle: DatasetHandle) -> PointPreview:
        """The grid that would be measured, and those that were passed over, nearest first."""
        grids = [
            PointPreview(offer.grid.kind, offer.plan.shape, offer.scale, offer.certificate.epsilon, offer.predicted)
            for offer in self.offers
        ]
        return replace(grids[0], others=tuple(grids[1:]), counted=counted_words(handle.policy.unit))

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the points, and their weights on the grid."""
        return PointCount(self.best.plan, handle.source.prepare_points(self.points, handle.policy.unit))

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """Draws the noise and gives the weights as JSON."""
        best, certificate = self.best, self.certificate
        noisy, blocks = measure_points(best.plan, certificate, counts)
        weights = PointWeights(
            dataset=handle.name,
            title=question_words(self.query),
            kind=best.grid.kind,
            columns=tuple(_column(self.points, best, place) for place in range(len(self.points.axes))),
            weights=(noisy / best.plan.total).reshape(best.plan.shape),
            block_counts=blocks.astype(np.float64).reshape(best.plan.block_shape) if best.plan.blocks else None,
            scale=best.scale,
            epsilon=certificate.epsilon,
            policy_version=handle.policy_version,
            protected=policy_words(handle.domain, handle.policy, self.points.attributes),
            unprotected=not_protected(handle.domain, handle.policy),
            released=now(),
            plan_digest=certificate.plan_digest,
            graph_digest=certificate.graph_digest,
            counted=counted_words(handle.policy.unit),
        )
        return weights.to_json().encode()


def points_release(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> PointsRelease:
    """The release of weights on the grid that suits the query best; AccuracyError for anything but an epsilon."""
    if target.epsilon is None or target != AccuracyTarget(None, target.epsilon):
        raise AccuracyError("weights on points are paid with an epsilon, such as epsilon='0.3', and take nothing else")
    points = compile_points(handle.domain, handle.policy, query.axes, query.where)
    return PointsRelease(query, points, offers(points, target.epsilon, query.rows or 1, query.clusters or 1))


@dataclass(frozen=True)
class PointPreview(AnyPreview):
    """One grid that was considered: points by column, the scale of its noise in records, and the predicted excess."""

    kind: str
    grid_points: tuple[int, ...]
    scale: float
    epsilon: Fraction
    predicted_excess: float
    others: tuple[PointPreview, ...] = ()
    counted: str = ""


@dataclass(frozen=True, eq=False)
class PointCount:
    """The exact weights of the grid points, then the exact counts of the blocks; never leaves the engine."""

    plan: PointPlan
    tally: PointCounting

    def run(self, deadline: float | None = None) -> Ints:
        """Counts the points and adds up what they give to the grid points around them."""
        points, numbers = self.tally.run(deadline)
        check_sum("weights on points", int(numbers.sum()) * 2 * self.plan.total)
        sums = np.zeros(self.plan.grid_points, dtype=np.int64)
        for start in range(0, numbers.size, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            grid_points, weights = self.plan.rows_at(points[some])
            np.add.at(sums, grid_points, weights * numbers[some, None])
        if not self.plan.blocks:
            return sums
        blocks = np.zeros(int(np.prod(self.plan.block_shape)), dtype=np.int64)
        np.add.at(blocks, self.plan.blocks_at(points), numbers)
        return np.concatenate([sums, blocks])


def _column(points: Points, best: GridOffer, place: int) -> PointColumn:
    """One column of the grid with evenly spread sample values for what lies between its points."""
    axis, blocks = best.plan.axes[place], best.grid.point_blocks[place]
    values = points.positions(place)
    each = (SAMPLES / best.plan.grid_points) ** (1.0 / len(points.axes))
    nearest = axis.places // axis.steps
    labels = blocks[np.minimum(nearest, axis.grid_points - 1)]
    chosen = []
    for label in range(int(blocks.max()) + 1):
        members = np.flatnonzero(labels == label)
        number = max(1, round(each * int(np.count_nonzero(blocks == label))))
        chosen.append(members[_spread(members.size, number)])
    indices = np.concatenate(chosen)
    return PointColumn(
        name=points.axes[place],
        grid_points=best.grid.positions[place],
        point_blocks=blocks,
        samples=values[indices],
        places=axis.places[indices] / axis.steps,
        sample_blocks=labels[indices],
    )


def _spread(size: int, number: int) -> Ints:
    """Evenly spread indices below size, both ends among them; for one index, the middle."""
    if number == 1:
        return np.array([size // 2])
    return np.unique(np.round(np.linspace(0, size - 1, min(number, size))).astype(np.int64))
