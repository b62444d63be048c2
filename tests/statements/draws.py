"""What many draws of the noise show to be false, and what one answer contradicts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from blowfishdb.engine.answer import Answer
from blowfishdb.model.numbers import Floats

BETA = 0.2
"""Intervals that fail often show within few draws whether they fail too often."""
FALSE_ALARM = 1e-10
SPREADS = 6.5
"""Standard deviations that the logarithm of a mean of many draws keeps to, except with probability FALSE_ALARM."""
CLOSE = 1e-7


def is_too_often(missed: int, draws: int, beta: float = BETA) -> bool:
    """Whether so many misses of so many draws contradict a probability of beta."""
    return bool(binom.sf(missed - 1, draws, beta) < FALSE_ALARM)


def is_missed(answer: Answer, truth: Floats) -> bool:
    """Whether some true value lies outside the intervals that hold together."""
    bounds = answer.bounds
    return bool(np.any(truth < bounds.low - CLOSE) or np.any(truth > bounds.high + CLOSE))


def contradictions(answer: Answer, truth: Floats) -> list[str]:
    """Values outside their intervals, and exact counts that are not the true ones."""
    low, high = answer.bounds.low, answer.bounds.high
    wrong = []
    # Where no consistent answer lies inside, the note says so and measured values are shown as they are.
    if answer.consistent.feasible and (np.any(answer.values < low - CLOSE) or np.any(answer.values > high + CLOSE)):
        wrong.append("a value lies outside its interval")
    if answer.is_counts and np.any(np.abs(answer.values - truth)[answer.widths.per_answer == 0.0] > CLOSE):
        wrong.append("a count without noise is not the true one")
    return wrong


@dataclass
class Tally:
    """Draws whose intervals failed, together and alone; and squared errors over the expected ones."""

    draws: int = 0
    together: int = 0
    alone: int = 0
    errors: tuple[float, ...] = ()

    def add(self, answer: Answer, truth: Floats, expected: float) -> None:
        """Counts one draw; of the intervals that hold alone, one is looked at, in turn."""
        chosen, alone = self.draws % truth.size, answer.pointwise_bounds
        self.together += is_missed(answer, truth)
        self.alone += not alone.low[chosen] - CLOSE <= truth[chosen] <= alone.high[chosen] + CLOSE
        self.draws += 1
        if answer.is_counts and expected > 0:
            self.errors = (*self.errors, float(np.mean((answer.raw - truth) ** 2)) / expected**2)

    def refusals(self, *, is_bound: bool = False) -> list[str]:
        """What these draws show to be false; expected errors may be bounds."""
        refused = [
            f"{what} intervals fail in {missed} of {self.draws} draws, not in {BETA:.0%}"
            for what, missed in (("simultaneous", self.together), ("pointwise", self.alone))
            if is_too_often(missed, self.draws)
        ]
        # The spread is that of the logarithm. Few large errors make the mean and the spread small together, so that
        # the spread of one is taken to be 1 at least: with less, 560 right errors were refused once in 10^8 times.
        ratio = float(np.mean(self.errors))
        off = math.log(ratio) * math.sqrt(len(self.errors)) / max(float(np.std(self.errors)) / ratio, 1.0)
        if off > SPREADS or (off < -SPREADS and not is_bound):
            refused.append(f"squared errors are {ratio:.2f} times the expected ones")
        return refused
