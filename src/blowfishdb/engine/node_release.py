"""Releases weights on nodes: the grid is chosen and certified from public numbers, then charged like every release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from blowfishdb.engine.described import now
from blowfishdb.engine.holding import Holding
from blowfishdb.engine.node_weights import NodeColumn, NodeWeights
from blowfishdb.engine.present.words import condition_words, policy_words
from blowfishdb.engine.unprotected import not_protected
from blowfishdb.engine.written_query import request_digest, write_query
from blowfishdb.errors import DigestMismatch, QueryError
from blowfishdb.mechanisms.nodes.choice import Offer, offers
from blowfishdb.model.arrays import Ints, check_sum
from blowfishdb.model.points import Points, compile_points
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.model.query import Query
from blowfishdb.noise.sampler import sample
from blowfishdb.plan import encoding_1
from blowfishdb.plan.node_loss import certify_nodes
from blowfishdb.plan.node_plan import NodePlan
from blowfishdb.sources.base import Counting, Tally

SAMPLES = 2**14
"""About so many combinations of sample values stand for the values between the nodes."""
AT_ONCE = 2**16
"""Points whose weights are written out together."""
MOST_CLUSTERS = 1000
LARGEST = 10**12


@dataclass(frozen=True)
class NodeQuestion:
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
class NodeRequest:
    """A question with its price, and the digest that the same request always has."""

    asked: NodeQuestion
    epsilon: Fraction
    digest: str


def make_node_request(holding: Holding, asked: NodeQuestion, epsilon: Fraction) -> NodeRequest:
    """The request; refuses questions that hold anything but plain values."""
    written = write_query(Query("histogram", asked.columns, asked.where))
    written |= {"kind": "node weights", "clusters": asked.clusters, "rows": asked.rows}
    digest = request_digest(written, {"epsilon": str(epsilon)}, holding.versions())
    return NodeRequest(asked, epsilon, digest)


@dataclass(frozen=True, eq=False)
class PreparedNodes:
    """A request with the grid that would be measured, and those that were passed over; no data was read."""

    request: NodeRequest
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
        return encoding_1.node_plan_digest(self.best.plan)

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

    def counting(self, holding: Holding) -> Counting:
        """The statement that counts the points, and their weights on the nodes."""
        return NodeCount(self.best.plan, holding.source.prepare_points(self.points, holding.policy.unit))

    def payload(self, counts: Ints, holding: Holding) -> bytes:
        """Draws the noise and gives the weights as JSON."""
        best, asked = self.best, self.request.asked
        if certify_nodes(best.plan, self.points.graph) != best.certificate:
            raise DigestMismatch("the certificate was made for another plan: nothing was measured")
        noisy, blocks = _measured(best.plan, counts)
        weights = NodeWeights(
            dataset=holding.name,
            title=asked.title,
            kind=best.grid.kind,
            columns=tuple(_column(self.points, best, place) for place in range(len(self.points.axes))),
            weights=(noisy / best.plan.total).reshape(best.plan.shape),
            block_counts=blocks.astype(np.float64).reshape(best.plan.block_shape) if best.plan.blocks else None,
            scale=best.scale,
            epsilon=best.certificate.epsilon,
            policy_version=holding.policy_version,
            protected=policy_words(holding.domain, holding.policy, self.points.attributes),
            unprotected=not_protected(holding.domain, holding.policy),
            released=now(),
            plan_digest=best.certificate.plan_digest,
            graph_digest=best.certificate.graph_digest,
        )
        return weights.to_json().encode()


def prepare_nodes(holding: Holding, request: NodeRequest) -> PreparedNodes:
    """Compiles a request and chooses its grid."""
    asked = request.asked
    points = compile_points(holding.domain, holding.policy, asked.columns, asked.where)
    return PreparedNodes(request, points, offers(points, request.epsilon, asked.rows, asked.clusters))


@dataclass(frozen=True)
class NodePreview:
    """One grid that was considered: nodes by column, the scale of its noise in records, and the predicted excess."""

    kind: str
    nodes: tuple[int, ...]
    scale: float
    epsilon: Fraction
    predicted_excess: float
    others: tuple[NodePreview, ...] = ()


def preview_nodes(ready: PreparedNodes) -> NodePreview:
    """The grid that would be measured, and those that were passed over, nearest first."""
    found = [
        NodePreview(offer.grid.kind, offer.plan.shape, offer.scale, offer.certificate.epsilon, offer.predicted)
        for offer in ready.offers
    ]
    return replace(found[0], others=tuple(found[1:]))


@dataclass(frozen=True, eq=False)
class NodeCount:
    """The exact weights of the nodes, then the exact counts of the blocks; never leaves the engine."""

    plan: NodePlan
    tally: Tally

    def run(self, deadline: float | None = None) -> Ints:
        """Counts the points and adds up what they give to the nodes around them."""
        points, numbers = self.tally.run(deadline)
        check_sum("weights on nodes", int(numbers.sum()) * 2 * self.plan.total)
        sums = np.zeros(self.plan.nodes, dtype=np.int64)
        for start in range(0, numbers.size, AT_ONCE):
            some = slice(start, start + AT_ONCE)
            nodes, weights = self.plan.rows_at(points[some])
            np.add.at(sums, nodes, weights * numbers[some, None])
        if not self.plan.blocks:
            return sums
        blocks = np.zeros(int(np.prod(self.plan.block_shape)), dtype=np.int64)
        np.add.at(blocks, self.plan.blocks_at(points), numbers)
        return np.concatenate([sums, blocks])


def _measured(plan: NodePlan, counts: Ints) -> tuple[Ints, Ints]:
    """The weights with their noise, and the exact counts of the blocks."""
    sums, blocks = counts[: plan.nodes], counts[plan.nodes :]
    return sums if plan.unit is None else sums + sample(plan.unit, 1, plan.nodes), blocks


def _column(points: Points, best: Offer, place: int) -> NodeColumn:
    """One column of the grid with evenly spread sample values for what lies between its nodes."""
    axis, blocks = best.plan.axes[place], best.grid.node_blocks[place]
    values = points.positions(place)
    each = (SAMPLES / best.plan.nodes) ** (1.0 / len(points.axes))
    nearest = axis.places // axis.steps
    labels = blocks[np.minimum(nearest, axis.nodes - 1)]
    chosen = []
    for label in range(int(blocks.max()) + 1):
        own = np.flatnonzero(labels == label)
        wanted = max(1, round(each * int(np.count_nonzero(blocks == label))))
        chosen.append(own[_spread(own.size, wanted)])
    kept = np.concatenate(chosen)
    return NodeColumn(
        name=points.axes[place],
        nodes=best.grid.positions[place],
        node_blocks=blocks,
        samples=values[kept],
        places=axis.places[kept] / axis.steps,
        sample_blocks=labels[kept],
    )


def _spread(size: int, wanted: int) -> Ints:
    """So many indices below size, both ends among them; the middle one alone."""
    if wanted == 1:
        return np.array([size // 2])
    return np.unique(np.round(np.linspace(0, size - 1, min(wanted, size))).astype(np.int64))
