"""Accuracy of long trees by one simulation of continuous noise, carried over to whole-number noise by a proof."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from blowfishdb.accuracy.grid import round_up
from blowfishdb.accuracy.setting import Setting
from blowfishdb.accuracy.simulation import CONFIDENCE, MOST_SAMPLES, allowed_failures
from blowfishdb.accuracy.tree_noise import serves, tree_noise
from blowfishdb.mechanisms.one_axis.estimator import STEADY_SCALE, EstimatingStrategy
from blowfishdb.mechanisms.one_axis.tree_least_squares import TreeCorrection
from blowfishdb.model.arrays import Floats
from blowfishdb.model.workload import AllRanges

FEWEST_VARIABLES = 8_000
"""Smaller problems have samples enough of the whole-number noise itself."""
MOST_VARIABLES = 5_000_000
FEWEST_SAMPLES = 304
"""With these a beta of 0.05 is shown if at most four samples fail; a multiple of what the kernel draws at once."""
EFFORT = 4_000_000
"""(EFFORT / variables)^(3/2) samples are drawn where these are more: at 20 000 cells some 2400, a fifth of a second."""
SHIFT = 2.5
"""How far, in norms of the coefficients, whole-number noise is compared with continuous noise."""
ROUNDING = 1.001
"""Covers the single precision of the draws and of some factors, which changes errors by less than a millionth."""


@dataclass(frozen=True, eq=False)
class LargeSimulation:
    """The largest errors of K samples at epsilon 1; one of them decides every demand."""

    setting: Setting
    tree: TreeCorrection
    seed: str

    @property
    def samples(self) -> int:
        """How many samples are drawn, whatever alpha, beta and epsilon."""
        return min(MOST_SAMPLES, max(FEWEST_SAMPLES, int((EFFORT / self.setting.weights.size) ** 1.5)))

    def can_show(self, beta: float) -> bool:
        """Whether the samples are many enough for this beta."""
        return self._allowed(beta) >= 0

    def least_epsilon(self, alpha: float, beta: float) -> Fraction | None:
        """The least grid epsilon shown to keep the promise; None where noise would be too small for the proof."""
        room = alpha - self._rounding
        if room <= 0:
            return None
        found = round_up(Fraction(self._quantile(beta) / room))
        return found if found <= self.highest else None

    def alpha(self, epsilon: Fraction, beta: float) -> float | None:
        """The least alpha shown to hold at this epsilon; None where noise is too small for the proof."""
        return self._quantile(beta) / float(epsilon) + self._rounding if epsilon <= self.highest else None

    @property
    def highest(self) -> Fraction:
        """Up to this epsilon the least-squares weights are those of continuous noise."""
        return self.setting.plan.unit / (STEADY_SCALE * int(self.setting.weights.max()))

    def _allowed(self, beta: float) -> int:
        return allowed_failures(self.samples, beta * -math.expm1(-(SHIFT**2)), CONFIDENCE)

    def _quantile(self, beta: float) -> float:
        place = self.samples - 1 - self._allowed(beta)
        return ROUNDING * float(self._errors[place])

    @cached_property
    def _rounding(self) -> float:
        """SHIFT times the largest norm of an answer's coefficients; a range has at most the norms of two prefixes."""
        setting = self.setting
        if isinstance(setting.problem.workload, AllRanges):
            place = np.arange(setting.problem.workload.cells + 1)
            found = self.tree.range_variances(np.zeros_like(place), place, setting.coarse_variances)
            largest = 4.0 * float(found.max())
        else:
            largest = float(setting.coarse_answer_variances.max())
        return SHIFT * math.sqrt(largest / 2.0) / setting.coarse_unit * float(setting.weights.max())

    @cached_property
    def _errors(self) -> Floats:
        """The largest error of each sample at epsilon 1 if noise were continuous, in increasing order."""
        setting = self.setting
        noise = tree_noise(self.tree, setting.problem.workload, setting.scales(Fraction(1)), setting.coarse_variances)
        words = hashlib.shake_256(f"{self.seed} {setting.strategy.mechanism}".encode()).digest(12 * self.samples)
        return np.sort(noise.largest_errors(np.frombuffer(words, dtype="<u4").astype(np.uint32).reshape(-1, 3)))


def large_simulation(setting: Setting) -> LargeSimulation | None:
    """The simulation of a long tree whose largest error one pass over the cells finds; None for anything else."""
    strategy = setting.strategy
    is_long = FEWEST_VARIABLES < setting.weights.size <= MOST_VARIABLES
    if not (is_long and isinstance(strategy, EstimatingStrategy) and serves(setting.problem.workload)):
        return None
    tree = strategy.estimator
    return LargeSimulation(setting, tree, setting.problem.digest()) if isinstance(tree, TreeCorrection) else None
