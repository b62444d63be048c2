"""What one certified strategy promises: alpha for an epsilon, epsilon for an alpha, and how that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from blowfishdb.accuracy.bound import REFERENCE_BETA, Bound
from blowfishdb.accuracy.exact_tails import ExactTails
from blowfishdb.accuracy.sampled_tails import SampledTails
from blowfishdb.accuracy.setting import Setting, declined
from blowfishdb.accuracy.simulation import Simulation
from blowfishdb.errors import AccuracyError, TooLarge
from blowfishdb.model.workload import AllRanges

Guarantee = Literal["simultaneous", "per-query"]
Method = Literal["exact", "simulated", "bound", "estimated"]

TOO_LARGE = "no proof of its accuracy is known at this size, and others promise more"
LIKELY_LARGEST = 5.5
"""How many standard deviations off the worst of many answers is, to rank strategies by their variances."""
SAMPLES_BEYOND_SHARP_BOUND = 2_000
"""With fewer samples the confidence correction costs more than a sharp bound loses."""
FEWEST_SAMPLES = 250
"""With fewer samples the confidence correction would cost too much, and larger problems too much time."""


@dataclass(frozen=True, eq=False)
class Assessment:
    """The accuracy of a candidate; where several methods apply, the best of their sound results."""

    setting: Setting
    guarantee: Guarantee

    def __post_init__(self) -> None:
        if self.guarantee not in ("simultaneous", "per-query"):
            raise AccuracyError(f"a guarantee is 'simultaneous' or 'per-query', not {self.guarantee!r}")

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
        if self._bound is not None:
            found.append((self._bound.alpha(epsilon, beta), "bound"))
        if simulate:
            found += [(other.alpha(epsilon, beta), method) for other, method in self._estimates(beta)]
        if not found:
            raise declined(self.setting, TOO_LARGE)
        return min(found)

    @property
    def reach(self) -> float:
        """A strategy priced this much above the best one may still turn out to be the best."""
        return 1.6 if self._simulation.samples >= FEWEST_SAMPLES else 1.06

    def price(self) -> float:
        """alpha times epsilon at the reference beta, by a quick estimate that ranks strategies."""
        if self.setting.is_exact:
            return 0.0
        if self._exact is not None:
            return self._exact.price(REFERENCE_BETA)
        if self._bound is not None and self._bound.is_sharp:
            return self._bound.price
        if self._can_sample:
            return self._sampled.price()
        if isinstance(self.setting.problem.workload, AllRanges):
            answers = self.setting.problem.workload.shape[0]
            typical = self.setting.total_variance(self.setting.coarse_variances) / answers
        else:
            typical = float(self.setting.coarse_answer_variances.max())
        return LIKELY_LARGEST * math.sqrt(typical) / self.setting.coarse_unit * float(self.setting.plan.unit)

    def _least_unclamped(self, alpha: float, beta: float, simulate: bool) -> tuple[Fraction | None, Method]:
        if self._exact is not None:
            return self._exact.least_epsilon(alpha, beta), "exact"
        best: Fraction | None = None
        method: Method = "simulated"
        for other, name in self._estimates(beta) if simulate else []:
            found = other.least_epsilon(alpha, beta, best)
            best, method = (found, name) if found is not None else (best, method)
        if self._bound is not None:
            found = self._bound.least_epsilon(alpha, beta, best)
            best, method = (found, "bound") if found is not None else (best, method)
        return best, method

    @cached_property
    def _exact(self) -> ExactTails | None:
        direct = self.setting.strategy.direct
        return None if direct is None else ExactTails(self.setting, direct, self._together)

    @cached_property
    def _bound(self) -> Bound | None:
        """None where the answers are too many to list."""
        bound = Bound(self.setting, self._together)
        try:
            return bound if bound.price > 0 else None
        except TooLarge:
            return None

    @cached_property
    def _simulation(self) -> Simulation:
        return Simulation(self.setting, self._together, self.setting.problem.digest())

    @cached_property
    def _sampled(self) -> SampledTails:
        return SampledTails(self.setting)

    def _estimates(self, beta: float) -> list[tuple[Simulation | SampledTails, Method]]:
        """The methods that rest on samples rather than on a proof."""
        is_sharp = self._bound is not None and self._bound.is_sharp
        is_all_ranges = isinstance(self.setting.problem.workload, AllRanges)
        needed = SAMPLES_BEYOND_SHARP_BOUND if is_sharp and not is_all_ranges else FEWEST_SAMPLES
        found: list[tuple[Simulation | SampledTails, Method]] = []
        if self._simulation.samples >= needed and self._simulation.can_show(beta):
            found.append((self._simulation, "simulated"))
        if self._can_sample:
            found.append((self._sampled, "estimated"))
        return found

    @property
    def _can_sample(self) -> bool:
        is_crude = self._bound is not None and not self._bound.is_sharp
        return self._together and is_crude and SampledTails.serves(self.setting)

    @property
    def _together(self) -> bool:
        return self.guarantee == "simultaneous"
