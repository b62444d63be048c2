"""Released weights on nodes: what analyses of points such as k-means are computed from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from blowfishdb.engine.present.numbers import epsilon_words
from blowfishdb.errors import DocumentError, InvalidInput
from blowfishdb.model.arrays import Floats, Ints

SCHEMA = "blowfishdb-node-weights/1"


@dataclass(frozen=True, eq=False, repr=False)
class NodeColumn:
    """One column of the grid: where its nodes lie, and how values between them share their weight.

    `places` are positions of sample values in units of nodes: a value at 2.25 gives three quarters of its weight to
    node 2 and a quarter to node 3. `node_blocks` and `sample_blocks` number the blocks that no record leaves unseen.
    """

    name: str
    nodes: Floats
    node_blocks: Ints
    samples: Floats
    places: Floats
    sample_blocks: Ints

    def __post_init__(self) -> None:
        if self.nodes.size != self.node_blocks.size or self.nodes.size == 0:
            raise InvalidInput("every node has a position and a block")
        if not self.samples.size == self.places.size == self.sample_blocks.size > 0:
            raise InvalidInput("every sample value has a position, a place and a block")
        if self.places.min() < 0 or self.places.max() > self.nodes.size - 1:
            raise InvalidInput("sample values lie among the nodes")

    def shares(self) -> Floats:
        """The part of its weight that each sample value gives to each node: nodes by samples."""
        return np.maximum(0.0, 1.0 - np.abs(np.arange(self.nodes.size)[:, None] - self.places[None, :]))


@dataclass(frozen=True, eq=False, repr=False)
class NodeWeights:
    """How many records stand at each node of a grid, noisy; and how many each block has, exactly, where that is public.

    `weights` has one axis per column. `scale` is the scale of the noise on each node in records, 0 for exact weights.
    """

    dataset: str
    title: str
    kind: str
    columns: tuple[NodeColumn, ...]
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
        if self.weights.shape != tuple(column.nodes.size for column in self.columns):
            raise InvalidInput("weights have one axis per column, with one entry per node")
        blocks = tuple(int(column.node_blocks.max()) + 1 for column in self.columns)
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
                "nodes": column.nodes.tolist(),
                "node_blocks": column.node_blocks.tolist(),
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
    def from_json(text: str | bytes) -> NodeWeights:
        """The weights that `to_json` wrote; DocumentError for anything else."""
        try:
            written = json.loads(text)
            if written["schema"] != SCHEMA:
                raise DocumentError(f"these are no weights in the form {SCHEMA!r}", path="schema")
            columns = tuple(
                NodeColumn(
                    column["name"],
                    _floats(column["nodes"]),
                    _ints(column["node_blocks"]),
                    _floats(column["samples"]),
                    _floats(column["places"]),
                    _ints(column["sample_blocks"]),
                )
                for column in written["columns"]
            )
            blocks = tuple(int(column.node_blocks.max()) + 1 for column in columns)
            counts = written["block_counts"]
            return NodeWeights(
                dataset=written["dataset"],
                title=written["title"],
                kind=written["kind"],
                columns=columns,
                weights=_floats(written["weights"]).reshape([column.nodes.size for column in columns]),
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
