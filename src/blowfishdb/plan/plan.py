"""Plans: integer rows with one rational unit and whole-number weights; the problem that they solve; their digests.

What ends in `_1` is the first encoding of digests, kept to recognise what ledgers and files hold in it; nothing new is
written in it. It is not injective: `_factor_1` joins the universal vertices of all axes of a joint threshold without
their lengths, so two graphs may share a digest. A digest names what a certificate is about and proves nothing: whoever
compares one of these computes the loss from the plan and the graph at hand too (docs/proofs/certificate.md, Digests).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import PlanError
from blowfishdb.model.cached import cached_property
from blowfishdb.model.graphs import CellGraph, CliqueGraph, ConstraintMoves, EdgeGraph, Factor, GridGraph, WindowGraph
from blowfishdb.model.numbers import Ints, as_ints, check_sum, total_weight
from blowfishdb.model.serialize import digest, encode
from blowfishdb.model.workload import (
    AllRanges,
    Identity,
    Intervals,
    Kronecker,
    Prefix,
    Rectangles,
    Rows,
    Sparse,
    Stacked,
)
from blowfishdb.noise.certified import Noise


def check_positive(name: str, number: object) -> None:
    """Refuses anything but a Fraction above 0: floats have no place in a proof."""
    if not isinstance(number, Fraction) or number <= 0:
        raise PlanError(f"{name} is a positive Fraction")


def row_noise(unit: Fraction, weights: Ints) -> tuple[Noise, ...]:
    """Two-sided noise on every row, of the scales by which losses are counted; nothing where there is no row."""
    return (Noise("laplace", unit, weights, weights.size),) if weights.size else ()


@dataclass(frozen=True, eq=False)
class Measurement:
    """Rows to measure, each with a positive whole weight: the heavier, the less noise and the more loss."""

    rows: Rows
    weights: Ints

    def __post_init__(self) -> None:
        weights = as_ints(np.broadcast_to(self.weights, (self.rows.shape[0],)))
        object.__setattr__(self, "weights", weights)
        if weights.size == 0:
            raise PlanError("a measurement needs at least one row")
        if int(weights.min()) < 1:
            raise PlanError("weights are positive whole numbers; leave out a row that is not to be measured")
        total_weight(weights)

    @property
    def cells(self) -> int:
        return self.rows.shape[1]

    def fingerprint(self) -> bytes:
        return encode(("rows", self.rows.fingerprint(), self.weights))


@dataclass(frozen=True, eq=False)
class KroneckerMeasurement:
    """Every product of one row per factor, with the product of their weights; factors follow the axes in order."""

    factors: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        if not self.factors:
            raise PlanError("a product of measurements needs at least one factor")
        heaviest = 1
        for factor in self.factors:
            heaviest *= int(factor.weights.max())
        check_sum("largest product of weights", heaviest)

    @property
    def rows(self) -> Kronecker:
        """The rows over flattened cells."""
        return Kronecker(tuple(factor.rows for factor in self.factors))

    @property
    def cells(self) -> int:
        return int(np.prod([factor.cells for factor in self.factors], dtype=object))

    @property
    def weights(self) -> Ints:
        product = np.ones(1, dtype=np.int64)
        for factor in self.factors:
            product = np.multiply.outer(product, factor.weights).reshape(-1)
        return as_ints(product)

    def fingerprint(self) -> bytes:
        return encode(("products", *(factor.fingerprint() for factor in self.factors)))


@dataclass(frozen=True, eq=False)
class Plan:
    """Noisy rows, and rows released exactly because no edge of the policy can change them."""

    unit: Fraction
    parts: tuple[Measurement | KroneckerMeasurement, ...]
    exact: Rows | None = None

    def __post_init__(self) -> None:
        check_positive("the unit of a plan", self.unit)
        if not self.parts and self.exact is None:
            raise PlanError("a plan measures something")
        sizes = {part.cells for part in self.parts} | ({self.exact.shape[1]} if self.exact is not None else set())
        if len(sizes) != 1:
            raise PlanError(f"all rows of a plan are over the same cells, not {sorted(sizes)}")

    @property
    def cells(self) -> int:
        return self.parts[0].cells if self.parts else self.exact.shape[1] if self.exact is not None else 0

    @property
    def weights(self) -> Ints:
        """The weight of each noisy row, in the order in which the noise is drawn."""
        if len(self.parts) == 1:
            return self.parts[0].weights
        return as_ints(np.concatenate([np.empty(0, dtype=np.int64), *(part.weights for part in self.parts)]))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise of its rows, all of it for one draw."""
        return row_noise(self.unit, self.weights)

    def with_unit(self, unit: Fraction) -> Plan:
        """The same rows and weights at another noise level."""
        return replace(self, unit=unit)

    def digest(self) -> str:
        """A hash of the rows, weights, unit and exact rows."""
        exact = None if self.exact is None else self.exact.fingerprint()
        return digest(("plan", self.unit, exact, tuple(part.fingerprint() for part in self.parts)))


@dataclass(frozen=True, eq=False)
class EdgePlan:
    """Answers `workload x + decoder noise`, where the noise belongs to a strategy over the *edges* of the policy.

    Only the answers are ever published. `strategy` (noise variables by edges) and `decoder` (answers by noise
    variables) are whole-number matrices with decoder @ strategy == workload @ P, P the edges' incidence matrix.
    """

    unit: Fraction
    workload: Rows
    edges: Ints
    strategy: csr_array
    decoder: csr_array
    weights: Ints

    def __post_init__(self) -> None:
        check_positive("the unit of a plan", self.unit)
        object.__setattr__(self, "edges", as_ints(self.edges))
        object.__setattr__(self, "weights", as_ints(self.weights))
        variables = self.weights.size
        if self.edges.ndim != 2 or self.edges.shape[1] != 2:
            raise PlanError("edges are rows of two cells")
        if self.strategy.shape != (variables, self.edges.shape[0]):
            raise PlanError("the strategy has one row per noise variable and one column per edge")
        if self.decoder.shape != (self.workload.shape[0], variables):
            raise PlanError("the decoder has one row per answer and one column per noise variable")
        if variables and int(self.weights.min()) < 1:
            raise PlanError("weights are positive whole numbers")
        for matrix in (self.strategy, self.decoder):
            if matrix.dtype.kind != "i":
                raise PlanError("edge plans are made of whole numbers: float rounding would void the proof")

    @property
    def cells(self) -> int:
        return self.workload.shape[1]

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise of its variables, all of it for one draw."""
        return row_noise(self.unit, self.weights)

    def with_unit(self, unit: Fraction) -> EdgePlan:
        """The same strategy at another noise level."""
        return replace(self, unit=unit)

    def digest(self) -> str:
        """A hash of everything above."""
        matrices = tuple(
            (matrix.shape, *(array.astype(np.int64) for array in (matrix.indptr, matrix.indices, matrix.data)))
            for matrix in (self.strategy, self.decoder)
        )
        return digest(("edge plan", self.unit, self.workload.fingerprint(), self.edges, self.weights, matrices))


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload over the counts of the cells of `graph`, in row-major order."""

    graph: CellGraph
    workload: Rows

    def __post_init__(self) -> None:
        if self.workload.shape[1] != self.graph.cells:
            raise PlanError(f"the workload is over {self.workload.shape[1]} cells, the graph has {self.graph.cells}")
        if self.workload.shape[0] == 0:
            raise PlanError("a workload asks at least one query")

    def fingerprint(self) -> bytes:
        """Bytes that determine graph and workload, for digests and for caches that compare values."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> bytes:
        # Neither can be written to.
        return encode(("problem", self.graph.fingerprint(), self.workload.fingerprint()))

    def digest(self) -> str:
        """A hash of graph and workload; simulations are seeded by it."""
        return digest(self.fingerprint())


NAMES_1: dict[type, bytes] = {Identity: b"identity", Prefix: b"prefix", AllRanges: b"all ranges"}


def plan_digest_1(plan: Plan | EdgePlan) -> str:
    """The digest of a plan in the first encoding."""
    unit = str(plan.unit).encode()
    if isinstance(plan, Plan):
        exact = b"" if plan.exact is None else _rows_1(plan.exact)
        return hashed_1([b"plan", unit, exact, *(_part_1(part) for part in plan.parts)])
    matrices = [
        array.tobytes()
        for matrix in (plan.strategy, plan.decoder)
        for array in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
    ]
    return hashed_1(
        [b"edge plan", unit, _rows_1(plan.workload), plan.edges.tobytes(), plan.weights.tobytes(), *matrices]
    )


def graph_digest_1(graph: CellGraph) -> str:
    """The digest of a policy graph on cells in the first encoding."""
    head = f"{graph.composition} {graph.presence} {graph.rows_per_person} {graph.shape}".encode()
    parts = [head, graph.outside.tobytes(), *(_factor_1(factor) for factor in graph.factors)]
    if graph.constraint_moves is not None:
        parts.append(b"together" + _moves_1(graph.constraint_moves))
    lengths = b"".join(len(part).to_bytes(8, "big") for part in parts)
    return hashlib.sha256(lengths + b"".join(parts)).hexdigest()


def hashed_1(parts: Iterable[bytes]) -> str:
    """The hash of parts, each behind its length."""
    return hashlib.sha256(_framed_1(parts)).hexdigest()


def _factor_1(factor: Factor) -> bytes:
    match factor:
        case WindowGraph():
            return b"window" + factor.reach.tobytes() + b"hubs" + factor.universal.tobytes()
        case GridGraph():
            head = f"grid {factor.metric} {factor.theta} {factor.shape}".encode()
            return head + b"".join(
                a.tobytes() for group in (factor.lows, factor.highs, factor.universal) for a in group
            )
        case EdgeGraph():
            return b"edges" + str(factor.size).encode() + factor.pairs.tobytes()
        case CliqueGraph():
            return b"cliques" + factor.labels.tobytes()
    raise TypeError(f"the first encoding has no graph {type(factor)}")


def _moves_1(moves: ConstraintMoves) -> bytes:
    head = f"{moves.case} {moves.most}".encode()
    arrays = [moves.starts, moves.members, np.asarray(moves.with_zero, dtype=np.bool_), moves.times]
    return hashlib.sha256(b"".join([head, *(array.tobytes() for array in arrays)])).digest()


def _part_1(part: Measurement | KroneckerMeasurement) -> bytes:
    if isinstance(part, KroneckerMeasurement):
        return b"product" + b"|".join(_part_1(factor) for factor in part.factors)
    return b"rows" + _rows_1(part.rows) + b"weights" + part.weights.tobytes()


def _rows_1(rows: Rows) -> bytes:
    match rows:
        case Identity() | Prefix() | AllRanges():
            return _framed_1([NAMES_1[type(rows)], str(rows.cells).encode()])
        case Intervals():
            return _framed_1([b"intervals", str(rows.cells).encode(), rows.low.tobytes(), rows.high.tobytes()])
        case Rectangles():
            return _framed_1([b"boxes", str(rows.grid).encode(), rows.low.tobytes(), rows.high.tobytes()])
        case Sparse():
            arrays = (rows.matrix.indptr, rows.matrix.indices, rows.matrix.data)
            entries = [array.astype(np.int64).tobytes() for array in arrays]
            return _framed_1([b"sparse", str(rows.shape).encode(), *entries])
        case Kronecker():
            return _framed_1([b"product", *(_rows_1(factor) for factor in rows.factors)])
        case Stacked():
            return _framed_1([b"union", *(_rows_1(part) for part in rows.parts)])
    raise TypeError(f"the first encoding has no rows {type(rows)}")


def _framed_1(parts: Iterable[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
