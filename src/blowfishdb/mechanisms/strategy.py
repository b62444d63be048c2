"""What every mechanism proposes: a plan without a noise level, and how to read answers off it."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from blowfishdb.model.arrays import Floats, Ints
from blowfishdb.plan.plan import EdgePlan, Plan
from blowfishdb.plan.problem import Problem


class Strategy(Protocol):
    """A data-independent way to answer a problem.

    `variances` is always the variance of each noise variable of the plan, in the plan's order.
    """

    @property
    def mechanism(self) -> str:
        """The name users see."""
        ...

    @property
    def direct(self) -> Ints | None:
        """For each answer the one noise variable it equals (-1: exact, no noise); None when answers mix several."""
        ...

    def plan(self, unit: Fraction) -> Plan | EdgePlan:
        """The measurements, at the given noise level."""
        ...

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """Answers to the workload from the measured and the exact rows; linear; takes vectors or column matrices.

        For an edge plan `measured` is the noise alone and the result is the error of each answer.
        """
        ...

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        ...


class Mechanism(Protocol):
    """Proposes a strategy for a problem, or raises Declined with the reason."""

    def __call__(self, problem: Problem) -> Strategy: ...
