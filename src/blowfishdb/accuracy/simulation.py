"""Accuracy by simulating public noise: deterministic, seeded by the problem, with a stated confidence."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from blowfishdb.accuracy.grid import first_passing
from blowfishdb.accuracy.setting import EstimatesCells, Setting
from blowfishdb.model.arrays import Floats, Ints, distinct
from blowfishdb.model.workload import AllRanges, Intervals
from blowfishdb.model.workload.line import sums_before

CONFIDENCE = 0.999
"""A promise that does not hold passes the test with a probability of at most 1 - CONFIDENCE."""
MOST_SAMPLES = 6_000
NUMBERS = 2_000_000
"""Noise variables times samples that are drawn in all; larger problems get fewer samples."""
WIDE_NUMBERS = 4_000_000
"""As many where no sharp bound could serve instead."""
SUMS = 30_000_000
"""Ranges times samples that are read off the cells: two numbers each."""
DENSE = 0.45
"""Where at least this share of all pairs of ends is asked, the largest error is looked for among all pairs."""
BATCH = 250_000
"""Noise variables times samples that are decoded at once."""


def allowed_failures(samples: int, beta: float, confidence: float = CONFIDENCE) -> int:
    """How many failures among the samples still show P(failure) <= beta; -1 when no number does.

    This is the Clopper-Pearson upper bound turned round: with P(failure) > beta, so few failures have a probability
    below 1 - confidence.
    """
    return bisect_right(range(samples), 1.0 - confidence, key=lambda failures: bdtr(failures, samples, beta)) - 1


@dataclass(frozen=True, eq=False)
class Simulation:
    """The same random numbers serve every epsilon; `together` looks at the largest error of each sample."""

    setting: Setting
    together: bool
    seed: str

    @property
    def samples(self) -> int:
        """How many samples are drawn, whatever alpha, beta and epsilon."""
        numbers = WIDE_NUMBERS if self.setting.is_wide else NUMBERS
        served = numbers // self._width
        if self._ranges_of_cells and self._ends is None:
            served = max(
                served, min(numbers // self.setting.weights.size, SUMS // self.setting.problem.workload.shape[0])
            )
        return int(min(MOST_SAMPLES, max(1, served)))

    def can_show(self, beta: float) -> bool:
        """Whether the samples are many enough for this beta."""
        return self._allowed(beta) >= 0

    def least_epsilon(self, alpha: float, beta: float, lowest: Fraction = Fraction(0)) -> Fraction | None:
        """The first grid epsilon from the continuous estimate and from `lowest` on that passes; None if none does.

        Whole-number noise may stay within alpha a little sooner, so the search starts below that estimate.
        """
        rounding = 1.0 / (1.0 + alpha / 10.0)
        start = Fraction(self._quantile(self._continuous_errors, beta) / (alpha + rounding))
        first, last = self.setting.served()
        return first_passing(lambda epsilon: self.passes(epsilon, alpha, beta), max(start, first, lowest), last)

    def passes(self, epsilon: Fraction, alpha: float, beta: float) -> bool:
        """Whether few enough samples, of the discrete noise that would be drawn, are off by more than alpha."""
        allowed = self._allowed(beta)
        failures = np.zeros(self._counted, dtype=np.int64)
        for errors in self._errors(epsilon):
            failures += np.sum(errors > alpha, axis=1)
            if np.any(failures > allowed):
                return False
        return True

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least alpha that passes at this epsilon."""
        return self._quantile(np.concatenate(list(self._errors(epsilon)), axis=1), beta)

    @property
    def _width(self) -> int:
        """Numbers per sample: the noise variables, or the answers where they are more."""
        answers = self.setting.problem.workload.shape[0]
        listed = 0 if self._ends is not None else answers
        return max(self.setting.weights.size, listed)

    @property
    def _counted(self) -> int:
        return 1 if self.together else self.setting.problem.workload.shape[0]

    @property
    def _ranges_of_cells(self) -> bool:
        """Whether all answers are ranges that are read off an estimate of the cells."""
        is_listed = isinstance(self.setting.problem.workload, Intervals)
        return self.together and is_listed and isinstance(self.setting.strategy, EstimatesCells)

    @cached_property
    def _ends(self) -> Ints | None:
        """The ends of ranges that are read off an estimate of the cells, where nearly every pair of ends is asked."""
        workload = self.setting.problem.workload
        if not (self.together and isinstance(self.setting.strategy, EstimatesCells)):
            return None
        if isinstance(workload, AllRanges):
            return np.arange(workload.cells + 1)
        if not isinstance(workload, Intervals):
            return None
        ends = distinct(np.concatenate([workload.low, workload.high]))
        return ends if workload.shape[0] >= DENSE * ends.size * (ends.size - 1) / 2 > 0 else None

    def _allowed(self, beta: float) -> int:
        """Answers looked at one by one share the risk of a wrong verdict equally."""
        return allowed_failures(self.samples, beta, 1.0 - (1.0 - CONFIDENCE) / self._counted)

    def _quantile(self, errors: Floats, beta: float) -> float:
        place = self.samples - 1 - self._allowed(beta)
        return float(np.partition(errors, place, axis=1)[:, place].max())

    @cached_property
    def _draws(self) -> NDArray[np.float32]:
        """Signed exponentials, variables by samples."""
        digest = hashlib.sha256(f"{self.seed} {self.setting.strategy.mechanism}".encode()).digest()
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
        shape = (self.setting.weights.size, self.samples)
        size = generator.standard_exponential(shape, dtype=np.float32)
        signs = np.unpackbits(np.frombuffer(generator.bytes(size.size // 8 + 1), np.uint8))[: size.size]
        # The highest bit of a float is its sign; a masked negation takes as long as all the draws.
        size.view(np.uint32).reshape(-1)[:] |= signs.astype(np.uint32) << 31
        return size

    @cached_property
    def _continuous_errors(self) -> Floats:
        """Errors at epsilon 1 if noise were continuous."""
        scales = self.setting.scales(Fraction(1))
        return np.concatenate(
            [self._decoded(part * scales[:, None], self.setting.coarse_variances) for part in self._batches()], axis=1
        )

    def _errors(self, epsilon: Fraction) -> Iterator[Floats]:
        """Absolute errors of the discrete noise, answers (or their maximum) by samples, batch by batch.

        |X| is floor(t (E + log(2 / (1 + exp(-1/t))))) for a standard exponential E: P(|X| >= k) comes out exactly.
        """
        scales, variances = self.setting.scales(epsilon)[:, None], self.setting.variances(epsilon)
        lift = np.log(2.0) - np.log1p(np.exp(-1.0 / scales))
        for part in self._batches():
            noise = np.abs(part)
            noise += lift
            noise *= scales
            yield self._decoded(np.copysign(np.floor(noise, out=noise), part, out=noise), variances)

    def _batches(self) -> Iterator[Floats]:
        step = max(1, BATCH // self._width)
        for start in range(0, self.samples, step):
            yield self._draws[:, start : start + step].astype(np.float64)

    def _decoded(self, noise: Floats, variances: Floats) -> Floats:
        """What the noise alone makes of the answers; the largest error of most ranges comes from the prefixes."""
        exact = np.zeros((self.setting.exact_rows, noise.shape[1]))
        strategy = self.setting.strategy
        if self._ends is not None and isinstance(strategy, EstimatesCells):
            at_ends = sums_before(strategy.estimate_cells(noise, exact, variances))[self._ends]
            return np.asarray(at_ends.max(axis=0) - at_ends.min(axis=0))[None, :]
        errors = np.abs(strategy.decode(noise, exact, variances))
        return errors.max(axis=0)[None, :] if self.together else errors
