"""Programs of several stages: an allowance each, certified when its inputs are public, stopped when exceeded."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from blowfishdb.errors import AllowanceExceeded, CannotCertify, DigestMismatch, PlanError
from blowfishdb.model.arrays import Ints, as_ints
from blowfishdb.model.cellgraph import CellGraph
from blowfishdb.plan.certificate import certify
from blowfishdb.plan.plan import EdgePlan, Plan, digest


class Stage(Protocol):
    """One access to the data whose output is public to the stages after it."""

    def epsilon(self, graph: CellGraph) -> Fraction:
        """The loss of this stage on the graph of the cells it reads."""
        ...

    def digest(self) -> str:
        """A hash of everything the loss and the noise depend on."""
        ...


@dataclass(frozen=True, eq=False)
class MeasurementStage:
    """Publishes the noisy rows of a plan."""

    plan: Plan | EdgePlan

    def epsilon(self, graph: CellGraph) -> Fraction:
        return certify(self.plan, graph).epsilon

    def digest(self) -> str:
        return digest([b"measure", self.plan.digest().encode()])


@dataclass(frozen=True, eq=False)
class SelectionStage:
    """Publishes the candidate with the least noisy score, nothing else.

    A candidate is a set of items (the buckets of a partition); its score is the sum of its items' whole-number costs
    less noise of scale unit / weight on each item. `sensitivities` bound how far one record that appears or vanishes
    moves each item's cost, and such a record touches at most one item of each candidate: then item b costs
    (max sensitivity + its own) / scale, and a record that moves does it twice (proof: docs/proofs/selection.md).
    """

    unit: Fraction
    weights: Ints
    sensitivities: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", as_ints(self.weights))
        object.__setattr__(self, "sensitivities", as_ints(self.sensitivities))
        if not isinstance(self.unit, Fraction) or self.unit <= 0:
            raise PlanError("the unit of a selection is a positive Fraction")
        if self.weights.size == 0 or self.weights.shape != self.sensitivities.shape:
            raise PlanError("a selection needs one weight and one sensitivity per item")
        if int(self.weights.min()) < 1 or int(self.sensitivities.min()) < 0:
            raise PlanError("weights are positive and sensitivities not negative")

    def epsilon(self, graph: CellGraph) -> Fraction:
        largest = int(self.sensitivities.max())
        worst = max(
            int(weight) * (largest + int(own)) for weight, own in zip(self.weights, self.sensitivities, strict=True)
        )
        touched = 2 if graph.has_value_edges else 1
        return Fraction(worst * touched * graph.rows_per_person) / self.unit

    def digest(self) -> str:
        return digest([b"select", str(self.unit).encode(), self.weights.tobytes(), self.sensitivities.tobytes()])


@dataclass(frozen=True)
class Allowance:
    """What one stage of a program may spend."""

    stage: str
    epsilon: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction) or self.epsilon < 0:
            raise PlanError("an allowance is a Fraction that is not negative")


@dataclass(frozen=True)
class Program:
    """The stages a mechanism will run, in order; the receipt covers all of them before the first one starts."""

    mechanism: str
    allowances: tuple[Allowance, ...]

    def __post_init__(self) -> None:
        if not self.allowances:
            raise PlanError("a program has at least one stage")

    @property
    def epsilon(self) -> Fraction:
        """What the whole program is charged: the sum over its stages."""
        return sum((allowance.epsilon for allowance in self.allowances), Fraction(0))

    def digest(self) -> str:
        """A hash of the mechanism, the stages and their allowances."""
        stages = [f"{allowance.stage} {allowance.epsilon}".encode() for allowance in self.allowances]
        return digest([b"program", self.mechanism.encode(), *stages])


@dataclass(frozen=True)
class ProgramRun:
    """How far a program has come. Each admitted stage gives the next value; nothing is ever admitted twice."""

    program: Program
    receipt_digest: str
    admitted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.receipt_digest != self.program.digest():
            raise DigestMismatch("the receipt was written for another program")

    def admit(self, name: str, stage: Stage, graph: CellGraph) -> ProgramRun:
        """The run after this stage; AllowanceExceeded stops the program, and what was charged stays charged."""
        if len(self.admitted) == len(self.program.allowances):
            raise CannotCertify("every stage of this program has run")
        allowance = self.program.allowances[len(self.admitted)]
        if name != allowance.stage:
            raise CannotCertify(f"the next stage of this program is {allowance.stage!r}, not {name!r}")
        needed = stage.epsilon(graph)
        if needed > allowance.epsilon:
            raise AllowanceExceeded(name, needed, allowance.epsilon)
        return ProgramRun(self.program, self.receipt_digest, (*self.admitted, name))
