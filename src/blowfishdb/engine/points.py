"""Weights on a grid of points: chosen and certified from public numbers, then charged and released."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.engine.answer import now
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.evidence import not_protected
from blowfishdb.engine.serialize import request_digest, write_query
from blowfishdb.errors import DigestMismatch, DocumentError, InvalidInput, QueryError
from blowfishdb.mechanisms.points import Offer, offers
from blowfishdb.model.numbers import Floats, Ints, check_sum
from blowfishdb.model.points import Points, compile_points
from blowfishdb.model.predicate import Axis, Predicate, condition_words
from blowfishdb.model.query import Query
from blowfishdb.noise.sampler import sample
from blowfishdb.plan import encoding_1
from blowfishdb.plan.certificate import certify_points
from blowfishdb.plan.points import PointPlan
from blowfishdb.present.words import epsilon_words, policy_words
from blowfishdb.sources.base import Counting, Tally

SCHEMA = "blowfishdb-node-weights/1"


@dataclass(frozen=True, eq=False, repr=False)
class PointColumn:
    """One column of the grid: where its nodes lie, and how values between them share their weight.

    `places` are positions of sample values in units of nodes: a value at 2.25 gives three quarters of its weight to
    node 2 and a quarter to node 3. `node_blocks` and `sample_blocks` number the blocks that no record leaves unseen.
    """

    name: str
    grid_points: Floats
    point_blocks: Ints
    samples: Floats
    places: Floats
    sample_blocks: Ints

    def __post_init__(self) -> None:
        if self.grid_points.size != self.point_blocks.size or self.grid_points.size == 0:
            raise InvalidInput("every node has a position and a block")
        if not self.samples.size == self.places.size == self.sample_blocks.size > 0:
            raise InvalidInput("every sample value has a position, a place and a block")
        if self.places.min() < 0 or self.places.max() > self.grid_points.size - 1:
            raise InvalidInput("sample values lie among the nodes")

    def shares(self) -> Floats:
        """The part of its weight that each sample value gives to each node: nodes by samples."""
        return np.maximum(0.0, 1.0 - np.abs(np.arange(self.grid_points.size)[:, None] - self.places[None, :]))


@dataclass(frozen=True, eq=False, repr=False)
class PointWeights:
    """How many records stand at each node of a grid, noisy; and how many each block has, exactly, where that is public.

    `weights` has one axis per column. `scale` is the scale of the noise on each node in records, 0 for exact weights.
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

    def __post_init__(self) -> None:
        if self.weights.shape != tuple(column.grid_points.size for column in self.columns):
            raise InvalidInput("weights have one axis per column, with one entry per node")
        blocks = tuple(int(column.point_blocks.max()) + 1 for column in self.columns)
        if self.block_counts is not None and self.block_counts.shape != blocks:
            raise InvalidInput("block counts have one axis per column, with one entry per block")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the order of the axes of `weights`."""
        return tuple(column.name for column in self.columns)

    def __repr__(self) -> str:
        grid = " × ".join(str(size) for size in self.weights.shape)
        noise = f"noise of scale {self.scale:.3g} records" if self.scale else "no noise"
        return f"<{self.title} of {self.dataset}: {grid} nodes, epsilon {epsilon_words(self.epsilon)}, {noise}>"

    def to_json(self) -> str:
        """Everything, as JSON that reads back exactly."""
        columns = [
            {
                "name": column.name,
                "nodes": column.grid_points.tolist(),
                "node_blocks": column.point_blocks.tolist(),
                "samples": column.samples.tolist(),
                "places": column.places.tolist(),
                "sample_blocks": column.sample_blocks.tolist(),
            }
            for column in self.columns
        ]
        return json.dumps(
            {
                "schema": SCHEMA,
                "dataset": self.dataset,
                "title": self.title,
                "kind": self.kind,
                "columns": columns,
                "weights": self.weights.ravel().tolist(),
                "block_counts": None if self.block_counts is None else self.block_counts.ravel().tolist(),
                "scale": self.scale,
                "epsilon": str(self.epsilon),
                "policy_version": self.policy_version,
                "protected": list(self.protected),
                "unprotected": list(self.unprotected),
                "released": self.released,
                "plan_digest": self.plan_digest,
                "graph_digest": self.graph_digest,
            },
            allow_nan=False,
            separators=(",", ":"),
        )

    @staticmethod
    def from_json(text: str | bytes) -> PointWeights:
        """The weights that `to_json` wrote; DocumentError for anything else."""
        try:
            written = json.loads(text)
            if written["schema"] != SCHEMA:
                raise DocumentError(f"these are no weights in the form {SCHEMA!r}", path="schema")
            columns = tuple(
                PointColumn(
                    column["name"],
                    _floats(column["nodes"]),
                    _ints(column["node_blocks"]),
                    _floats(column["samples"]),
                    _floats(column["places"]),
                    _ints(column["sample_blocks"]),
                )
                for column in written["columns"]
            )
            blocks = tuple(int(column.point_blocks.max()) + 1 for column in columns)
            counts = written["block_counts"]
            return PointWeights(
                dataset=written["dataset"],
                title=written["title"],
                kind=written["kind"],
                columns=columns,
                weights=_floats(written["weights"]).reshape([column.grid_points.size for column in columns]),
                block_counts=None if counts is None else _floats(counts).reshape(blocks),
                scale=float(written["scale"]),
                epsilon=Fraction(written["epsilon"]),
                policy_version=written["policy_version"],
                protected=tuple(written["protected"]),
                unprotected=tuple(written["unprotected"]),
                released=written["released"],
                plan_digest=written["plan_digest"],
                graph_digest=written["graph_digest"],
            )
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise DocumentError("these are no stored weights on nodes") from None


def _floats(values: list[float]) -> Floats:
    array = np.array(values, dtype=np.float64)
    if not math.isfinite(float(np.abs(array).sum())):
        raise InvalidInput("stored numbers are finite")
    return array


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


SAMPLES = 2**14
"""About so many combinations of sample values stand for the values between the nodes."""
AT_ONCE = 2**16
"""Points whose weights are written out together."""
MOST_CLUSTERS = 1000
LARGEST = 10**12


@dataclass(frozen=True)
class PointQuery:
    """Which columns, which records, for how many clusters, and how many records there are about."""

    columns: tuple[Axis, ...]
    where: Predicate | None
    clusters: int
    rows: int

    def __post_init__(self) -> None:
        for what, number, most in (("clusters", self.clusters, MOST_CLUSTERS), ("rows", self.rows, LARGEST)):
            if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
                raise QueryError(f"the number of {what} is a whole number from 1 to {most:,}")

    @property
    def title(self) -> str:
        """What is asked, in one line."""
        said = f"Node weights of {' × '.join(axis.attribute for axis in self.columns)}"
        return said if self.where is None else f"{said} where {condition_words(self.where)}"


@dataclass(frozen=True)
class PointRequest:
    """A question with its price, and the digest that the same request always has."""

    asked: PointQuery
    epsilon: Fraction
    digest: str


def make_point_request(handle: DatasetHandle, asked: PointQuery, epsilon: Fraction) -> PointRequest:
    """The request; refuses questions that hold anything but plain values."""
    written = write_query(Query("histogram", asked.columns, asked.where))
    written |= {"kind": "node weights", "clusters": asked.clusters, "rows": asked.rows}
    digest = request_digest(written, {"epsilon": str(epsilon)}, handle.versions())
    return PointRequest(asked, epsilon, digest)


@dataclass(frozen=True, eq=False)
class PointRelease:
    """A request with the grid that would be measured, and those that were passed over; no data was read."""

    request: PointRequest
    points: Points
    offers: tuple[Offer, ...]

    @property
    def best(self) -> Offer:
        """The grid that would run."""
        return self.offers[0]

    @property
    def epsilon(self) -> Fraction:
        """What the release costs."""
        return self.best.certificate.epsilon

    @property
    def digest(self) -> str:
        """The plan that a receipt covers."""
        return self.best.certificate.plan_digest

    def digest_1(self) -> str:
        """The same in the first encoding."""
        return encoding_1.point_plan_digest(self.best.plan)

    def document(self) -> dict[str, object]:
        """The certificate that the ledger keeps."""
        certificate = self.best.certificate
        return {
            "question": self.request.asked.title[:2000],
            "mechanism": self.best.grid.kind,
            "epsilon": str(certificate.epsilon),
            "witness": None,
            "is_tight": certificate.is_tight,
            "plan": certificate.plan_digest,
            "graph": certificate.graph_digest,
        }

    def counting(self, handle: DatasetHandle) -> Counting:
        """The statement that counts the points, and their weights on the nodes."""
        return PointCount(self.best.plan, handle.source.prepare_points(self.points, handle.policy.unit))

    def payload(self, counts: Ints, handle: DatasetHandle) -> bytes:
        """Draws the noise and gives the weights as JSON."""
        best, asked = self.best, self.request.asked
        if certify_points(best.plan, self.points.graph) != best.certificate:
            raise DigestMismatch("the certificate was made for another plan: nothing was measured")
        noisy, blocks = _measured(best.plan, counts)
        weights = PointWeights(
            dataset=handle.name,
            title=asked.title,
            kind=best.grid.kind,
            columns=tuple(_column(self.points, best, place) for place in range(len(self.points.axes))),
            weights=(noisy / best.plan.total).reshape(best.plan.shape),
            block_counts=blocks.astype(np.float64).reshape(best.plan.block_shape) if best.plan.blocks else None,
            scale=best.scale,
            epsilon=best.certificate.epsilon,
            policy_version=handle.policy_version,
            protected=policy_words(handle.domain, handle.policy, self.points.attributes),
            unprotected=not_protected(handle.domain, handle.policy),
            released=now(),
            plan_digest=best.certificate.plan_digest,
            graph_digest=best.certificate.graph_digest,
        )
        return weights.to_json().encode()


def prepare_point_release(handle: DatasetHandle, request: PointRequest) -> PointRelease:
    """Compiles a request and chooses its grid."""
    asked = request.asked
    points = compile_points(handle.domain, handle.policy, asked.columns, asked.where)
    return PointRelease(request, points, offers(points, request.epsilon, asked.rows, asked.clusters))


@dataclass(frozen=True)
class PointPreview:
    """One grid that was considered: nodes by column, the scale of its noise in records, and the predicted excess."""

    kind: str
    grid_points: tuple[int, ...]
    scale: float
    epsilon: Fraction
    predicted_excess: float
    others: tuple[PointPreview, ...] = ()


def preview_points(ready: PointRelease) -> PointPreview:
    """The grid that would be measured, and those that were passed over, nearest first."""
    found = [
        PointPreview(offer.grid.kind, offer.plan.shape, offer.scale, offer.certificate.epsilon, offer.predicted)
        for offer in ready.offers
    ]
    return replace(found[0], others=tuple(found[1:]))


@dataclass(frozen=True, eq=False)
class PointCount:
    """The exact weights of the nodes, then the exact counts of the blocks; never leaves the engine."""

    plan: PointPlan
    tally: Tally

    def run(self, deadline: float | None = None) -> Ints:
        """Counts the points and adds up what they give to the nodes around them."""
        points, numbers = self.tally.run(deadline)
        check_sum("weights on nodes", int(numbers.sum()) * 2 * self.plan.total)
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


def _measured(plan: PointPlan, counts: Ints) -> tuple[Ints, Ints]:
    """The weights with their noise, and the exact counts of the blocks."""
    sums, blocks = counts[: plan.grid_points], counts[plan.grid_points :]
    return sums if plan.unit is None else sums + sample(plan.unit, 1, plan.grid_points), blocks


def _column(points: Points, best: Offer, place: int) -> PointColumn:
    """One column of the grid with evenly spread sample values for what lies between its nodes."""
    axis, blocks = best.plan.axes[place], best.grid.point_blocks[place]
    values = points.positions(place)
    each = (SAMPLES / best.plan.grid_points) ** (1.0 / len(points.axes))
    nearest = axis.places // axis.steps
    labels = blocks[np.minimum(nearest, axis.grid_points - 1)]
    chosen = []
    for label in range(int(blocks.max()) + 1):
        own = np.flatnonzero(labels == label)
        wanted = max(1, round(each * int(np.count_nonzero(blocks == label))))
        chosen.append(own[_spread(own.size, wanted)])
    kept = np.concatenate(chosen)
    return PointColumn(
        name=points.axes[place],
        grid_points=best.grid.positions[place],
        point_blocks=blocks,
        samples=values[kept],
        places=axis.places[kept] / axis.steps,
        sample_blocks=labels[kept],
    )


def _spread(size: int, wanted: int) -> Ints:
    """So many indices below size, both ends among them; the middle one alone."""
    if wanted == 1:
        return np.array([size // 2])
    return np.unique(np.round(np.linspace(0, size - 1, min(wanted, size))).astype(np.int64))
