"""Plans: integer rows with one rational unit and whole-number weights; and the problem that they solve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from blowfishdb.errors import PlanError
from blowfishdb.model.encoding import digest, encode
from blowfishdb.model.graphs import CellGraph
from blowfishdb.model.numbers import Ints, as_ints, check_sum, total_weight
from blowfishdb.model.workload import Rows


def check_positive(name: str, number: object) -> None:
    """Refuses whatever is no Fraction above 0: floats have no place in a proof."""
    if not isinstance(number, Fraction) or number <= 0:
        raise PlanError(f"{name} is a positive Fraction")


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
        return as_ints(np.concatenate([np.empty(0, dtype=np.int64), *(part.weights for part in self.parts)]))

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
        return encode(("problem", self.graph.fingerprint(), self.workload.fingerprint()))

    def digest(self) -> str:
        """A hash of graph and workload; simulations are seeded by it."""
        return digest(self.fingerprint())
