"""What one certified strategy promises: alpha for an epsilon, epsilon for an alpha, and how that is known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from blowfishdb.accuracy.bound import REFERENCE_BETA, Bound
from blowfishdb.accuracy.exact_tails import ExactTails
from blowfishdb.accuracy.glance import Glance
from blowfishdb.accuracy.guarantee import Guarantee, check_guarantee
from blowfishdb.accuracy.large_simulation import LargeSimulation, large_simulation
from blowfishdb.accuracy.setting import GivesCoefficients, Setting, declined
from blowfishdb.accuracy.simulation import Simulation
from blowfishdb.errors import TooLarge

Method = Literal["exact", "simulated", "bound"]

TOO_LARGE = "no proof of its accuracy is known at this size, and others promise more"
FEWEST_SAMPLES = 250
"""With fewer samples the confidence correction would cost too much, and larger problems too much time."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """The accuracy of a candidate; where several methods apply, the best of their sound results."""

    setting: Setting
    guarantee: Guarantee
    known_bound: Bound | None = None

    def __post_init__(self) -> None:
        check_guarantee(self.guarantee)

    def least_epsilon(self, alpha: float, beta: float, *, simulate: bool) -> tuple[Fraction, Method]:
        """The least epsilon that keeps errors within alpha except with probability beta, and how it is known."""
        if self.setting.is_exact:
            return Fraction(0), "exact"
        best, method = self._least_unclamped(alpha, beta, simulate)
        lowest, highest = self.setting.served()
        if best is None:
            raise declined(self.setting, TOO_LARGE)
        if best > highest:
            raise declined(self.setting, "the noise this accuracy allows is finer than the sampler serves")
        return max(best, lowest), method

    def alpha(self, epsilon: Fraction, beta: float, *, simulate: bool) -> tuple[float, Method]:
        """The accuracy that holds at this epsilon except with probability beta, and how it is known."""
        if self.setting.is_exact:
            return 0.0, "exact"
        lowest, highest = self.setting.served()
        if not lowest <= epsilon <= highest:
            raise declined(self.setting, f"its noise is served for epsilon {float(lowest):.3g} to {float(highest):.3g}")
        if self._exact is not None:
            return self._exact.alpha(epsilon, beta), "exact"
        found: list[tuple[float, Method]] = []
        if self.bound is not None:
            found.append((self.bound.alpha(epsilon, beta), "bound"))
        simulated = self._simulated_alpha(epsilon, beta) if simulate else None
        if simulated is not None:
            found.append((simulated, "simulated"))
        if not found:
            raise declined(self.setting, TOO_LARGE)
        return min(found)

    @property
    def is_large(self) -> bool:
        """Whether a simulation takes so long that only the best-ranked strategy is worth it."""
        return self._large is not None

    def price(self, glance: Glance) -> float:
        """alpha times epsilon at the reference beta, by a quick estimate that only ranks strategies.

        It is proportional to the unit of the plan: at unit 1 it is the price for each unit of loss.
        """
        if self.setting.is_exact:
            return 0.0
        if self._exact is not None:
            return self._exact.price(REFERENCE_BETA)
        is_tree = isinstance(self.setting.strategy, GivesCoefficients)
        if (is_tree and self.setting.is_wide and self._together) or self.bound is None:
            return glance.price_per_loss * float(self.setting.plan.unit)
        return self.bound.price

    def _least_unclamped(self, alpha: float, beta: float, simulate: bool) -> tuple[Fraction | None, Method]:
        if self._exact is not None:
            return self._exact.least_epsilon(alpha, beta), "exact"
        best = self._simulated_epsilon(alpha, beta) if simulate else None
        method: Method = "simulated"
        if self.bound is not None:
            found = self.bound.least_epsilon(alpha, beta, best)
            best, method = (found, "bound") if found is not None else (best, method)
        return best, method

    def _simulated_epsilon(self, alpha: float, beta: float) -> Fraction | None:
        """Where noise is too small for the proof of a long simulation a short one goes on, at larger epsilons alone."""
        long = self._long(beta)
        found = long.least_epsilon(alpha, beta) if long is not None else None
        if found is not None or not self._may_simulate(beta):
            return found
        return self._simulation.least_epsilon(alpha, beta, long.highest if long is not None else Fraction(0))

    def _simulated_alpha(self, epsilon: Fraction, beta: float) -> float | None:
        long = self._long(beta)
        found = long.alpha(epsilon, beta) if long is not None else None
        return self._simulation.alpha(epsilon, beta) if found is None and self._may_simulate(beta) else found

    def _long(self, beta: float) -> LargeSimulation | None:
        return self._large if self._large is not None and self._large.can_show(beta) else None

    @cached_property
    def _exact(self) -> ExactTails | None:
        direct = self.setting.strategy.direct
        return None if direct is None else ExactTails(self.setting, direct, self._together)

    @cached_property
    def bound(self) -> Bound | None:
        """None where the answers are too many to list."""
        if self.known_bound is not None:
            return self.known_bound
        bound = Bound(self.setting, self._together)
        try:
            return bound if bound.price > 0 else None
        except TooLarge:
            return None

    @cached_property
    def _simulation(self) -> Simulation:
        return Simulation(self.setting, self._together, self.setting.problem.digest())

    @cached_property
    def _large(self) -> LargeSimulation | None:
        return large_simulation(self.setting) if self._together else None

    def _may_simulate(self, beta: float) -> bool:
        """Whether the samples are many enough, also for this beta."""
        return self._simulation.samples >= FEWEST_SAMPLES and self._simulation.can_show(beta)

    @property
    def _together(self) -> bool:
        return self.guarantee == "simultaneous"
