"""Accuracy by simulating public noise: deterministic, seeded by the problem, with a stated confidence."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from blowfishdb.accuracy.candidates import Candidate, first_passing, round_up
from blowfishdb.mechanisms.axis import STEADY_SCALE, EstimatingStrategy, TreeCorrection
from blowfishdb.mechanisms.strategy import CellStrategy
from blowfishdb.model.cached import cached_property
from blowfishdb.model.numbers import Floats, Ints, distinct
from blowfishdb.model.workload import AllRanges, Identity, Intervals, Prefix, Rows, sums_before

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
FIRST_LOOK = 2
"""The samples that are looked at first are this many times as many as may fail."""
NEARLY = 1e-9
"""Room for the rounding of floats."""
SIGN_BYTE = 3 if sys.byteorder == "little" else 0
"""Which of the four bytes of a single-precision float has its sign."""


def allowed_failures(samples: int, beta: float, confidence: float = CONFIDENCE) -> int:
    """How many failures among the samples still show P(failure) <= beta; -1 when no number does.

    This is the Clopper-Pearson upper bound turned round: with P(failure) > beta, this few failures have a probability
    below 1 - confidence.
    """
    return bisect_right(range(samples), 1.0 - confidence, key=lambda failures: bdtr(failures, samples, beta)) - 1


@lru_cache(maxsize=4)
def signed_exponentials(seed: str, variables: int, samples: int) -> NDArray[np.float32]:
    """The draws of a seed. Those of the last few problems are kept, at most 16 MB each, for their next quotes."""
    generator = np.random.Generator(
        np.random.Philox(key=int.from_bytes(hashlib.sha256(seed.encode()).digest()[:16], "big"))
    )
    size = generator.standard_exponential((variables, samples), dtype=np.float32)
    signs = np.unpackbits(np.frombuffer(generator.bytes(size.size // 8 + 1), np.uint8))[: size.size]
    # The highest bit of a float is its sign; a masked negation takes as long as all the draws.
    size.view(np.uint8).reshape(-1)[SIGN_BYTE::4] |= signs << 7
    size.flags.writeable = False
    return size


@dataclass(frozen=True, eq=False)
class Simulation:
    """The same random numbers serve every epsilon; `together` looks at the largest error of each sample."""

    candidate: Candidate
    together: bool
    seed: str
    reach: float = math.inf
    """At least the sum of the absolute coefficients of every answer, where these are known for coarse noise."""

    @property
    def samples(self) -> int:
        """How many samples are drawn, whatever alpha, beta and epsilon."""
        numbers = WIDE_NUMBERS if self.candidate.is_wide else NUMBERS
        served = numbers // self._width
        workload, reads_cells = self.candidate.problem.workload, isinstance(self.candidate.strategy, CellStrategy)
        if self.together and reads_cells and isinstance(workload, Intervals) and self._ends is None:
            served = max(served, min(numbers // self.candidate.weights.size, SUMS // workload.shape[0]))
        return int(min(MOST_SAMPLES, max(1, served)))

    def can_show(self, beta: float) -> bool:
        """Whether the samples are many enough for this beta."""
        return self._allowed(beta) >= 0

    def least_epsilon(self, alpha: float, beta: float, lowest: Fraction = Fraction(0)) -> Fraction | None:
        """The first grid epsilon from the continuous estimate and from `lowest` on that passes; None if none does.

        Whole-number noise may stay within alpha a little sooner, so the search starts below that estimate.
        """
        rounding = 1.0 / (1.0 + alpha / 10.0)
        errors = self._largest_errors if self.together else self._continuous_errors()
        start = Fraction(self._quantile(errors, beta) / (alpha + rounding))
        first, last = self.candidate.served()
        return first_passing(lambda epsilon: self.passes(epsilon, alpha, beta), max(start, first, lowest), last)

    def passes(self, epsilon: Fraction, alpha: float, beta: float) -> bool:
        """Whether few enough samples, of the discrete noise that would be drawn, are off by more than alpha."""
        allowed = self._allowed(beta)
        failures = np.zeros(self._counted, dtype=np.int64)
        batches = self._doubtful(epsilon, alpha, allowed) if self.together else self._batches()
        for errors in self._errors(epsilon, batches):
            failures += np.sum(errors > alpha, axis=1)
            if np.any(failures > allowed):
                return False
        return True

    def alpha(self, epsilon: Fraction, beta: float) -> float:
        """The least alpha that passes at this epsilon."""
        return self._quantile(np.concatenate(list(self._errors(epsilon, self._batches())), axis=1), beta)

    @property
    def _width(self) -> int:
        """Numbers per sample: the noise variables, or the answers where they are more."""
        answers = 0 if self._ends is not None else self.candidate.problem.workload.shape[0]
        return max(self.candidate.weights.size, answers)

    @property
    def _counted(self) -> int:
        return 1 if self.together else self.candidate.problem.workload.shape[0]

    @cached_property
    def _ends(self) -> Ints | None:
        """The ends of ranges that are read off an estimate of the cells, where nearly every pair of ends is asked."""
        workload = self.candidate.problem.workload
        if not (self.together and isinstance(self.candidate.strategy, CellStrategy)):
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

    @property
    def _draws(self) -> NDArray[np.float32]:
        """Signed exponentials, variables by samples."""
        return signed_exponentials(
            f"{self.seed} {self.candidate.strategy.mechanism}", self.candidate.weights.size, self.samples
        )

    @cached_property
    def _largest_errors(self) -> Floats:
        """Errors at epsilon 1 if noise were continuous, the largest of each sample: few enough to be kept."""
        return self._continuous_errors()

    def _continuous_errors(self) -> Floats:
        """Errors at epsilon 1 if noise were continuous."""
        scales, variances, draws = self.candidate.scales(Fraction(1)), self.candidate.coarse_variances, self._draws
        return np.concatenate(
            [self._decoded(draws[:, part] * scales[:, None], variances) for part in self._batches()], axis=1
        )

    @cached_property
    def _order(self) -> Ints:
        """The samples, those of the largest errors first."""
        return np.argsort(-self._largest_errors[0], kind="stable")

    def _doubtful(self, epsilon: Fraction, alpha: float, allowed: int) -> Iterator[Ints]:
        """The samples that may be off by more than alpha, batch by batch; where many are, that shows in the first one.

        Noise of scale t that is rounded differs from continuous noise by at most t log(2 / (1 + exp(-1/t))) or 1 less
        that, and an answer by that times the sum of its coefficients; the others surely stay within alpha.
        """
        order, count, step = self._order, self.samples, max(1, BATCH // self._width)
        is_linear = self.candidate.is_steady(epsilon) or self.candidate.strategy.has_fixed_coefficients
        if is_linear and self._ends is None:
            scales = self.candidate.scales(epsilon)
            lifted = scales * _lift(scales)
            off = self.reach * float(np.max(np.maximum(lifted, 1.0 - lifted)))
            at_most = (1.0 + NEARLY) * (self._largest_errors[0][order] / float(epsilon) + off)
            count = int(np.searchsorted(-at_most, -alpha))
        first = min(step, FIRST_LOOK * (allowed + 2))
        ends = [0, *range(first, count, step), count] if count else []
        # Columns next to each other are collected twice as fast.
        return (np.sort(order[start:stop]) for start, stop in pairwise(ends))

    def _errors(self, epsilon: Fraction, batches: Iterable[slice | Ints]) -> Iterator[Floats]:
        """Absolute errors of the discrete noise, answers (or their maximum) by samples, batch by batch.

        |X| is floor(t (E + log(2 / (1 + exp(-1/t))))) for a standard exponential E: P(|X| >= k) comes out exactly.
        """
        scales, variances = self.candidate.scales(epsilon)[:, None], self.candidate.variances(epsilon)
        lift, draws = _lift(scales), self._draws
        for batch in batches:
            part = draws[:, batch].astype(np.float64)
            noise = np.abs(part)
            noise += lift
            noise *= scales
            yield self._decoded(np.copysign(np.floor(noise, out=noise), part, out=noise), variances)

    def _batches(self) -> Iterator[slice]:
        step = max(1, BATCH // self._width)
        return (slice(start, start + step) for start in range(0, self.samples, step))

    def _decoded(self, noise: Floats, variances: Floats) -> Floats:
        """What the noise alone makes of the answers; the largest error of most ranges comes from the prefixes."""
        exact = np.zeros((self.candidate.exact_rows, noise.shape[1]))
        strategy = self.candidate.strategy
        if self._ends is not None and isinstance(strategy, CellStrategy):
            at_ends = sums_before(strategy.estimate_cells(noise, exact, variances))[self._ends]
            return np.asarray(at_ends.max(axis=0) - at_ends.min(axis=0))[None, :]
        errors = np.abs(strategy.decode(noise, exact, variances))
        return errors.max(axis=0)[None, :] if self.together else errors


def _lift(scales: Floats) -> Floats:
    """What is added to an exponential before it is scaled and cut off to the whole number below."""
    return np.asarray(np.log(2.0) - np.log1p(np.exp(-1.0 / scales)))


ROUGH_SAMPLES = 600


@dataclass(frozen=True, eq=False)
class RoughSimulation(Simulation):
    """A few samples, which tell about how accurate a candidate is and prove nothing: for searches alone."""

    @property
    def samples(self) -> int:
        """How many samples are drawn."""
        return ROUGH_SAMPLES

    def _allowed(self, beta: float) -> int:
        return int(self.samples * beta)


THREADS = min(4, os.cpu_count() or 1)
"""The number of threads that share the samples; the kernel holds no lock."""


def tree_arrays(tree: TreeCorrection, workload: Rows, scales: Floats, variances: Floats) -> tuple[Any, ...]:
    """What the kernel reads to decode noise of these scales with the least-squares weights of these variances."""
    from blowfishdb.accuracy.kernels import CELLS, PREFIXES, RANGES, factor_chain

    kind = CELLS if isinstance(workload, Identity) else PREFIXES if isinstance(workload, Prefix) else RANGES
    shape, solver = tree.tree, tree.solver(variances)
    variable = tree.split(np.arange(scales.size))
    levels = np.concatenate([[0], np.cumsum([level.starts.size for level in shape.levels])])
    measured = np.concatenate([level.measured for level in shape.levels])
    node_variable = _placed(np.concatenate(variable[1:-1]), np.flatnonzero(measured), measured.size)
    sum_variable = _placed(variable[-1], np.flatnonzero(shape.summed), shape.blocks.size)
    padded = np.append(scales, 0.0)
    chain = tree.chain(solver, variances)
    diagonal, beside = chain.system
    step, pivot = factor_chain(diagonal, beside)
    small = np.float32
    cell_scales = np.zeros(shape.axis.cells, dtype=small)
    cell_scales[tree.noisy] = scales[variable[0]]
    cells = (_placed(variable[0], tree.noisy, shape.axis.cells), cell_scales, solver.shares[0].astype(small))
    shares = np.concatenate([*solver.shares[1:], np.zeros(shape.blocks.size)])
    nodes = (node_variable, padded[node_variable], np.concatenate(solver.trust), shares)
    hold, free = 1.0 / chain.noise, ~chain.pinned
    links = (1.0 / chain.below, beside, hold, free, chain.links, step, pivot, padded[sum_variable])
    return kind, cells, levels, np.concatenate(shape.nodes.starts), nodes, links, sum_variable


def largest_errors(seeds: NDArray[np.uint32], variables: int, arrays: tuple[Any, ...]) -> Floats:
    """The largest error of one sample of the noise variables for each row of three seeds."""
    from blowfishdb.accuracy import kernels

    lanes = -(-len(seeds) // kernels.LANES)
    padded = np.resize(seeds, (lanes * kernels.LANES, 3))

    def part(chosen: Ints) -> Floats:
        rows = padded[kernels.LANES * int(chosen[0]) : kernels.LANES * (int(chosen[-1]) + 1)]
        return np.asarray(kernels.largest_errors(rows, variables, *arrays))

    # Samples are independent and each has its own seeds, so the result is the same for any number of threads.
    with ThreadPoolExecutor(THREADS) as pool:
        parts = pool.map(part, np.array_split(np.arange(lanes), min(THREADS, lanes)))
        return np.concatenate(list(parts))[: len(seeds)]


def _placed(variables: Ints, places: Ints, size: int) -> Ints:
    """The variable at each of `size` places, -1 where there is none."""
    placed = np.full(size, -1, dtype=np.int64)
    placed[places] = variables
    return placed


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
    """The largest errors of K samples at epsilon 1; one of them decides every accuracy target."""

    candidate: Candidate
    tree: TreeCorrection
    seed: str

    @property
    def samples(self) -> int:
        """How many samples are drawn, whatever alpha, beta and epsilon."""
        return min(MOST_SAMPLES, max(FEWEST_SAMPLES, int((EFFORT / self.candidate.weights.size) ** 1.5)))

    def can_show(self, beta: float) -> bool:
        """Whether the samples are many enough for this beta."""
        return self._allowed(beta) >= 0

    def least_epsilon(self, alpha: float, beta: float) -> Fraction | None:
        """The least grid epsilon shown to keep the promise; None where noise would be too small for the proof."""
        room = alpha - self._rounding
        if room <= 0:
            return None
        epsilon = round_up(Fraction(self._quantile(beta) / room))
        return epsilon if epsilon <= self.highest else None

    def alpha(self, epsilon: Fraction, beta: float) -> float | None:
        """The least alpha shown to hold at this epsilon; None where noise is too small for the proof."""
        return self._quantile(beta) / float(epsilon) + self._rounding if epsilon <= self.highest else None

    @property
    def highest(self) -> Fraction:
        """Up to this epsilon the least-squares weights are those of continuous noise."""
        return self.candidate.plan.unit / (STEADY_SCALE * int(self.candidate.weights.max()))

    def _allowed(self, beta: float) -> int:
        return allowed_failures(self.samples, beta * -math.expm1(-(SHIFT**2)), CONFIDENCE)

    def _quantile(self, beta: float) -> float:
        place = self.samples - 1 - self._allowed(beta)
        return ROUNDING * float(self._errors[place])

    @cached_property
    def _rounding(self) -> float:
        """SHIFT times the largest norm of an answer's coefficients; a range has at most the norms of two prefixes."""
        candidate = self.candidate
        if isinstance(candidate.problem.workload, AllRanges):
            place = np.arange(candidate.problem.workload.cells + 1)
            variances = self.tree.range_variances(np.zeros_like(place), place, candidate.coarse_variances)
            largest = 4.0 * float(variances.max())
        else:
            largest = float(candidate.coarse_answer_variances.max())
        return SHIFT * math.sqrt(largest / 2.0) / candidate.coarse_unit * float(candidate.weights.max())

    @cached_property
    def _errors(self) -> Floats:
        """The largest error of each sample at epsilon 1 if noise were continuous, in increasing order."""
        candidate = self.candidate
        scales = candidate.scales(Fraction(1))
        arrays = tree_arrays(self.tree, candidate.problem.workload, scales, candidate.coarse_variances)
        words = hashlib.shake_256(f"{self.seed} {candidate.strategy.mechanism}".encode()).digest(12 * self.samples)
        seeds = np.frombuffer(words, dtype="<u4").astype(np.uint32).reshape(-1, 3)
        return np.sort(largest_errors(seeds, scales.size, arrays))


def large_simulation(candidate: Candidate) -> LargeSimulation | None:
    """The simulation of a long tree whose largest error one pass over the cells finds; None for anything else."""
    strategy, problem = candidate.strategy, candidate.problem
    is_long = FEWEST_VARIABLES < candidate.weights.size <= MOST_VARIABLES
    if not (is_long and isinstance(problem.workload, Identity | Prefix | AllRanges)):
        return None
    tree = strategy.estimator if isinstance(strategy, EstimatingStrategy) else None
    return LargeSimulation(candidate, tree, problem.digest()) if isinstance(tree, TreeCorrection) else None
