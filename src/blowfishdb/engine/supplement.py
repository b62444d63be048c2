"""Supplements: a new measurement of what is missing, combined with earlier ones of the same cells by least squares.

The proof is docs/proofs/sharing.md. Weights follow from plans alone, so the combination is a fixed linear one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array, eye_array

from blowfishdb.accuracy.candidates import CertifiedCandidate, round_up
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.accuracy.quote import Quote
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import BlowfishError
from blowfishdb.model.numbers import Floats, Ints
from blowfishdb.model.workload import Sparse
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan, Problem

MOST_ANSWERS = 512
MOST_COEFFICIENTS = 2**20
"""Answers, and answers times measured rows, up to which measurements are combined."""
HALVINGS = 6
LEAST, MOST = Fraction(1, 20), Fraction(49, 50)
"""A supplement costs between these parts of the fresh price; at more it is not worth a longer caveat."""


@dataclass(frozen=True, eq=False)
class Combination:
    """A fixed linear estimate of answers from the noisy and the exact rows of several independent measurements."""

    mechanism: str
    problem: Problem
    noise: Plan
    noisy: Floats
    exact: Floats

    has_fixed_coefficients = True
    direct = None

    def plan(self, unit: Fraction) -> Plan:
        """Each row of each measurement by itself, for its noise; nothing is charged or measured by this plan."""
        return self.noise.with_unit(unit)

    def decode(self, measured: Floats, exact: Floats, variances: Floats) -> Floats:
        """The answer to every query."""
        del variances
        return np.asarray(self.noisy @ measured + self.exact @ exact)

    def answer_variances(self, variances: Floats) -> Floats:
        """The expected squared error of each answer."""
        return np.asarray(np.square(self.noisy) @ variances)


@dataclass(frozen=True, eq=False)
class CombinedCandidate(CertifiedCandidate):
    """A combination whose newest measurement is the one that is certified and paid."""

    newest: CertifiedCandidate

    def at(self, epsilon: Fraction) -> tuple[Plan | EdgePlan, Certificate]:
        """Plan and certificate of the newest measurement."""
        return self.newest.at(epsilon)


@dataclass(frozen=True, eq=False)
class Part:
    """A measurement that takes part: how it estimates the answers, and its level."""

    candidate: CertifiedCandidate
    level: Fraction

    def coefficients(self) -> tuple[Floats, Floats]:
        """The answers' coefficients on its noisy rows and on its exact ones."""
        candidate = self.candidate
        variances, rows, exact = candidate.variances(self.level), candidate.weights.size, candidate.exact_rows
        decode = candidate.strategy.decode
        noisy = decode(np.eye(rows), np.zeros((exact, rows)), variances)
        return noisy, decode(np.zeros((rows, exact)), np.eye(exact), variances) if exact else noisy[:, :0]


def combined(problem: Problem, parts: Sequence[Part]) -> CombinedCandidate | None:
    """The best linear combination of unbiased estimates by independent measurements, the newest of them last.

    None where it would be too large. It combines two estimates a, b with covariances S, T into a + K (b - a),
    K = S (S + T)^+, which is unbiased whatever K is, and of least variance for this one.
    """
    answers, newest = problem.workload.shape[0], parts[-1]
    sizes = [part.candidate.weights.size for part in parts]
    if answers > MOST_ANSWERS or answers * sum(sizes) > MOST_COEFFICIENTS:
        return None
    noisy, exact = parts[0].coefficients()
    variances = parts[0].candidate.variances(parts[0].level)
    for part in parts[1:]:
        more_noisy, more_exact = part.coefficients()
        more = part.candidate.variances(part.level)
        before, beside = (noisy * variances) @ noisy.T, (more_noisy * more) @ more_noisy.T
        weight = before @ np.linalg.pinv(before + beside, hermitian=True)
        rest = np.eye(answers) - weight
        noisy, exact = np.hstack([rest @ noisy, weight @ more_noisy]), np.hstack([rest @ exact, weight @ more_exact])
        variances = np.concatenate([variances, more])
    noise = _noise_plan(parts, exact.shape[1])
    strategy = Combination(newest.candidate.strategy.mechanism, problem, noise, noisy, exact)
    certificate = newest.candidate.certificate
    return CombinedCandidate(problem, strategy, noise, certificate, newest.candidate)


def _noise_plan(parts: Sequence[Part], exact: int) -> Plan:
    """All rows with the scales of their noise, at the level of the newest measurement."""
    scales = [part.candidate.plan.unit / part.level for part in parts]
    unit = Fraction(math.lcm(*(one.numerator for one in scales)), math.gcd(*(one.denominator for one in scales)))
    weights = np.concatenate(
        [_times(part.candidate.weights, unit / scale) for part, scale in zip(parts, scales, strict=True)]
    )
    rows = Sparse(csr_array(eye_array(weights.size, weights.size + exact, dtype=np.int64)))
    known = Sparse(csr_array(eye_array(exact, weights.size + exact, k=weights.size, dtype=np.int64))) if exact else None
    return Plan(unit * parts[-1].level, (Measurement(rows, weights),), known)


def _times(weights: Ints, factor: Fraction) -> Ints:
    """Whole multiples of weights; OverflowError where they do not fit."""
    return np.array([int(weight) * int(factor) for weight in weights.tolist()], dtype=np.int64)


def supplement(fresh: Quote, target: AccuracyTarget, alpha: float, past: Sequence[Part]) -> Quote | None:
    """The quote of about the least new measurement that meets an alpha together with past ones; None where none saves.

    Alphas are in the problem's units.
    """
    low, high, best = LEAST * fresh.epsilon, MOST * fresh.epsilon, None
    level = round_up(high / 2)
    for _ in range(HALVINGS):
        quote = quote_combined(fresh, target, level, past)
        if quote is not None and quote.alpha <= alpha:
            best, high = quote, level
        else:
            low = level
        level = round_up((low + high) / 2)
    return best


def quote_combined(fresh: Quote, target: AccuracyTarget, level: Fraction, past: Sequence[Part]) -> Quote | None:
    """What a new measurement at a level promises together with past ones; None where nothing can be promised."""
    try:
        candidate = combined(fresh.candidate.problem, [*past, Part(fresh.candidate, level)])
        if candidate is None:
            return None
        alpha, method = Assessment(candidate, target.guarantee).alpha(level, float(target.beta), simulate=True)
    except (BlowfishError, OverflowError, np.linalg.LinAlgError):
        return None
    return Quote(candidate, level, alpha, float(target.beta), target.guarantee, method)
