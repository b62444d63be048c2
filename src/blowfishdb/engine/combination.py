"""Combinations: answers as fixed linear estimates from one or several measurements, by weighted least squares.

All rows are put over the common cells of the question and the measurements. Weights follow from plans and levels alone,
never from noisy values (docs/proofs/sharing.md).
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve
from scipy.sparse import csr_array, eye_array

from blowfishdb.accuracy.candidates import CertifiedCandidate, ColumnsGuarantee, certified_strategy, round_up
from blowfishdb.accuracy.intervals import Assessment, noise_widths
from blowfishdb.accuracy.quote import Quote
from blowfishdb.accuracy.simulation import RoughSimulation
from blowfishdb.engine.compile import Compiled, DatasetHandle, compile_query
from blowfishdb.engine.request import AccuracyTarget
from blowfishdb.errors import BlowfishError
from blowfishdb.mechanisms.joint import JointStrategy
from blowfishdb.mechanisms.strategy import Strategy, value_counts
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cached import cached_property
from blowfishdb.model.cells import Cells, refinement
from blowfishdb.model.domain import Domain
from blowfishdb.model.graphs import ZERO
from blowfishdb.model.numbers import Bools, Floats, Ints
from blowfishdb.model.policy import Policy
from blowfishdb.model.query import Query
from blowfishdb.model.workload import AllRanges, Rows, Sparse
from blowfishdb.noise import distribution
from blowfishdb.plan.certificate import Certificate
from blowfishdb.plan.loss import sparse_columns
from blowfishdb.plan.plan import EdgePlan, Measurement, Plan
from blowfishdb.present.answer_values import MeasuredRows

MOST_ENTRIES = 2**20
"""Rows times common cells, and answers times rows, up to which answers are estimated."""
MOST_SEARCHED = 2**18
"""The same where a level is searched, and the estimate is made for each that is tried."""
MOST_IN_RANGES = 256
"""Cells up to which the ranges of them are listed."""
CACHED = 64
CLOSE = 1e-9
"""An estimate is unbiased to this part of the count of each cell; otherwise it is none."""
RIDGE, REFINEMENTS = 1e-9, 4
"""A ridge keeps the normal equations regular; as many steps of refinement take its bias away."""
MANY, FEW = 64, 8
"""Of more than so many answers, a few tell first whether an estimate is too rough."""
NOTABLE = 0.9
"""The part of a variance below which a known total is worth a longer sum."""
HALVINGS = 7
LEAST, MOST = Fraction(1, 50), Fraction(49, 50)
"""A supplement costs between these parts of the fresh price; at more it is not worth a longer caveat."""
LARGEST_WEIGHT = 2**44
STEP, STEPS, CLOSE_ENOUGH = Fraction(53, 50), 9, Fraction(99, 100)
"""How much levels differ that are assessed, how many are, and what part of a price is not worth another one."""


@dataclass(frozen=True, eq=False)
class CombinedMeasurement:
    """A measurement that takes part: the query whose cells it counts, its certified rows, and its level."""

    compiled: Compiled
    candidate: CertifiedCandidate
    level: Fraction

    @cached_property
    def blocks(self) -> tuple[tuple[Cells, Plan], ...]:
        """Its rows with the cells that they are about; of a plan for several questions one block for each group."""
        joined, strategy = self.compiled.joined, self.candidate.strategy
        if joined is None or not isinstance(strategy, JointStrategy):
            return ((self.compiled.cells, _rows_plan(self.candidate.plan)),)
        plans = (strategy.piece(place)[0].plan(Fraction(1)) for place in range(len(joined.groups)))
        return tuple((group.cells, _rows_plan(plan)) for group, plan in zip(joined.groups, plans, strict=True))

    @cached_property
    def tells_total(self) -> bool:
        """Whether the total of its cells is known beside its rows: it is public, and published with them."""
        is_one, plan = len(self.blocks) == 1, self.blocks[0][1]
        return is_one and plan.exact is None and not np.any(self.compiled.problem.graph.components() == ZERO)

    def known(self, rows: MeasuredRows) -> MeasuredRows:
        """What it published, the total among the exact rows where that is known beside them."""
        if not self.tells_total or rows.total is None:
            return rows
        return replace(rows, exact=np.array([round(rows.total)], dtype=np.int64))

    def over(self, places: Sequence[Ints | None], size: int) -> tuple[Floats, Floats]:
        """Its noisy and its exact rows over common cells; `places` has its cell in which each common cell lies.

        Blocks without cells have rows of zeros, so that no estimate looks at them. A known total is the last exact row.
        """
        noisy, exact = [np.empty((0, size))], [np.empty((0, size))]
        for (_, plan), place in zip(self.blocks, places, strict=True):
            noisy += [_lifted(part.rows, place, size) for part in plan.parts]
            exact += [] if plan.exact is None else [_lifted(plan.exact, place, size)]
        if self.tells_total and places[0] is not None:
            exact.append((places[0] != ZERO).astype(np.float64)[None, :])
        return np.vstack(noisy), np.vstack(exact)


def _rows_plan(plan: Plan | EdgePlan) -> Plan:
    if not isinstance(plan, Plan):
        raise TypeError("noise on edges measures no rows")
    return plan


def _lifted(rows: Rows, places: Ints | None, size: int) -> Floats:
    """Rows over common cells, each of which lies in the given cell; zeros where none of them does."""
    matrix = np.zeros((rows.shape[0], size))
    if places is not None:
        counted = np.flatnonzero(places != ZERO)
        matrix[:, counted] = sparse_columns(rows)[:, places[counted]].toarray()
    return matrix


class MeasurementCache:
    """Compiled queries and certified strategies of measurements, a few at a time; what is cached is public."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[Domain, Policy, Compiled, CertifiedCandidate]]
        self._known = OrderedDict()
        self._turn = threading.Lock()

    def of(self, handle: DatasetHandle, question: str, query: Query, mechanism: str) -> CombinedMeasurement:
        """The cells that a query counts under the versions in force, and what a mechanism measures of them, at level 1.

        Declarations are compared themselves: two ledgers in one process may have versions of the same numbers.
        """
        key = *handle.versions().values(), question, mechanism
        with self._turn:
            known = self._known.pop(key, None)
        if known is None or known[:2] != (handle.domain, handle.policy):
            compiled = compile_query(handle.domain, handle.policy, query)
            measured = certified_strategy(compiled.problem, MECHANISMS[mechanism](compiled.problem))
            known = handle.domain, handle.policy, compiled, measured
        with self._turn:
            self._known[key] = known
            while len(self._known) > CACHED:
                self._known.popitem(last=False)
        return CombinedMeasurement(*known[2:], Fraction(1))


@dataclass(frozen=True, eq=False)
class Combination(Strategy):
    """A fixed linear estimate of answers from the noisy and the exact rows of several independent measurements."""

    mechanism: str
    noise: Plan
    noisy: Floats
    exact: Floats

    has_fixed_coefficients = True

    @cached_property
    def direct(self) -> Ints | None:
        """The noise variable that each answer equals; None where some mix several."""
        return _one_each(self.noisy)

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

    def answer_terms(self) -> Ints | None:
        """How many variables each answer adds up or subtracts; None when some have other factors."""
        sizes = np.abs(self.noisy)
        return np.count_nonzero(sizes, axis=1) if np.all((sizes == 0.0) | (sizes == 1.0)) else None

    def term_counts(self) -> tuple[Ints, Ints] | None:
        """The different numbers of variables that answers add up, and how many answers have each; or None."""
        terms = self.answer_terms()
        return None if terms is None else value_counts(terms)


def _one_each(coefficients: Floats) -> Ints | None:
    """The one row that each answer equals; None where some mix several."""
    is_one = np.isclose(coefficients, 1.0, rtol=0.0, atol=CLOSE)
    is_zero = np.isclose(coefficients, 0.0, rtol=0.0, atol=CLOSE)
    is_direct = np.all(is_one | is_zero) and np.all(is_one.sum(axis=1) == 1)
    return is_one.argmax(axis=1) if is_direct else None


@dataclass(frozen=True, eq=False)
class CombinedCandidate(CertifiedCandidate):
    """A combination whose newest measurement is the one that is certified and paid."""

    newest: CertifiedCandidate

    def at(self, epsilon: Fraction) -> tuple[Plan | EdgePlan, Certificate]:
        """Plan and certificate of the newest measurement."""
        return self.newest.at(epsilon)


@dataclass(frozen=True, eq=False)
class Combined:
    """The answers to a question, and the rows of measurements with independent noise, over their common cells.

    The newest measurement is the last. Which take part depends on plans alone.
    """

    compiled: Compiled
    parts: tuple[CombinedMeasurement, ...]
    answers: Floats
    rows: Floats
    exact: Floats
    totals: Bools
    """Which of the exact rows are totals that are known beside the rows of a measurement."""

    def at(self, level: Fraction) -> CombinedCandidate | None:
        """The best estimate with the newest measurement at a level; None where rows do not tell the answers.

        It is also None where there are no numbers for it: noise of too different sizes, or a singular system.
        """
        if level not in self._made:
            self._made.clear()
            try:
                self._made[level] = self._at(level)
            except (BlowfishError, OverflowError, np.linalg.LinAlgError):
                self._made[level] = None
        return self._made[level]

    @cached_property
    def _made(self) -> dict[Fraction, CombinedCandidate | None]:
        """The estimate of the level that was asked for last."""
        return {}

    def _at(self, level: Fraction) -> CombinedCandidate | None:
        newest = self.parts[-1].candidate
        coefficients = self._coefficients(self._variances(level))
        if coefficients is None:
            return None
        parts = self._parts(level)
        noise = _noise_plan(parts, self.exact.shape[0])
        strategy = Combination(newest.strategy.mechanism, noise, *coefficients)
        return CombinedCandidate(self.compiled.problem, strategy, noise, newest.certificate, newest)

    def _parts(self, level: Fraction) -> list[CombinedMeasurement]:
        return [*self.parts[:-1], replace(self.parts[-1], level=level)]

    def _variances(self, level: Fraction) -> Floats:
        return np.concatenate([part.candidate.variances(part.level) for part in self._parts(level)])

    def _coefficients(self, variances: Floats) -> tuple[Floats, Floats] | None:
        """The coefficients on noisy and on exact rows.

        Answers that are one row each have exact tails, so totals that are known beside it are left out of them unless
        answers vary notably less with these.
        """
        best = least_squares(self.answers, self.rows, self.exact, variances)
        if best is None or not self.totals.any() or not self._are_rows:
            return best
        simple = least_squares(self.answers, self.rows, self.exact[~self.totals], variances)
        if simple is None or _one_each(simple[0]) is None:
            return best
        if float((np.square(best[0]) @ variances).max()) < NOTABLE * float((np.square(simple[0]) @ variances).max()):
            return best
        beside = np.zeros_like(best[1])
        beside[:, ~self.totals] = simple[1]
        return simple[0], beside

    @cached_property
    def _are_rows(self) -> bool:
        """Whether each answer is among the noisy rows."""
        rows = {row.tobytes() for row in self.rows}
        return all(answer.tobytes() in rows for answer in self.answers)

    def largest_coefficients(self, candidate: CombinedCandidate) -> list[float]:
        """For each part the largest coefficient that one of its noisy rows has in an estimate."""
        strategy = candidate.strategy
        if not isinstance(strategy, Combination):
            raise TypeError("only combinations have coefficients")
        ends = np.cumsum([part.candidate.weights.size for part in self.parts])
        return [float(np.abs(piece).max()) for piece in np.split(strategy.noisy, ends[:-1], axis=1)]

    def least(self, target: AccuracyTarget, alpha: float, level: Fraction) -> Quote | None:
        """The quote of the least level of one measurement that meets an alpha, by the estimate made for another level.

        Of one measurement the coefficients are the same at all levels, or as good.
        """
        candidate, beta = self.at(level), float(target.beta)
        if candidate is None:
            return None
        try:
            least, method = self._assessed(candidate, target).least_epsilon(alpha, beta, simulate=True)
        except BlowfishError:
            return None
        return Quote(candidate, least, alpha, beta, self.compiled.guarantee(target.guarantee), method)

    def quote(self, target: AccuracyTarget, level: Fraction) -> Quote | None:
        """What the newest measurement at a level promises together with the others; None where nothing."""
        candidate = self.at(level)
        if candidate is None:
            return None
        try:
            alpha, method = self._assessed(candidate, target).alpha(level, float(target.beta), simulate=True)
        except BlowfishError:
            return None
        return Quote(candidate, level, alpha, float(target.beta), self.compiled.guarantee(target.guarantee), method)

    def _assessed(self, candidate: CombinedCandidate, target: AccuracyTarget) -> Assessment:
        return Assessment(candidate, self.compiled.guarantee(target.guarantee))

    def rough_alpha(self, target: AccuracyTarget, level: Fraction) -> float:
        """About what a level promises; infinite where there is no estimate."""
        candidate = self.at(level)
        if candidate is None:
            return math.inf
        if isinstance(self.compiled.guarantee(target.guarantee), ColumnsGuarantee):
            quote = self.quote(target, level)
            return math.inf if quote is None else quote.alpha
        rough = RoughSimulation(candidate, target.guarantee == "simultaneous", self.compiled.problem.digest())
        return rough.alpha(level, float(target.beta))

    def spread(self, level: Fraction, most: float = math.inf) -> float:
        """The largest standard deviation of an answer; infinite where there is no estimate.

        Where a few of many answers vary more than `most`, it is that of these: all of them vary no less.
        """
        answers = self.answers.shape[0]
        if most < math.inf and answers > MANY and level not in self._made:
            few = self.answers[np.linspace(0, answers - 1, FEW).astype(np.int64)]
            try:
                spread = few_spread(few, self.rows, self.exact, self._variances(level))
            except (BlowfishError, OverflowError, np.linalg.LinAlgError):
                return math.inf
            if spread > most:
                return spread
        candidate = self.at(level)
        return math.inf if candidate is None else spread_of(candidate, level)


def spread_of(candidate: CertifiedCandidate, level: Fraction) -> float:
    """The largest standard deviation of an answer at a level."""
    return math.sqrt(float(candidate.strategy.answer_variances(candidate.variances(level)).max()))


def combine(compiled: Compiled, parts: Sequence[CombinedMeasurement], most: int = MOST_ENTRIES) -> Combined | None:
    """The answers and the rows over common cells; None where these are too many, or rows are none."""
    asked, workload = set(compiled.cells.attributes), compiled.problem.workload
    rows = sum(part.candidate.weights.size for part in parts)
    # Of a plan for several questions the blocks about the same attributes, or for a total any one; else all.
    told = [
        [
            len(part.blocks) == 1 or bool(asked & set(cells.attributes)) or (not asked and place == 0)
            for place, (cells, _) in enumerate(part.blocks)
        ]
        for part in parts
    ]
    divisions = [
        cells
        for part, is_told in zip(parts, told, strict=True)
        for cells, _ in itertools.compress(part.blocks, is_told)
    ]
    places = refinement([compiled.cells, *divisions])
    if places is None or max(rows, workload.shape[0]) * max(rows, places[0].size) > most:
        return None
    size, rest = places[0].size, iter(places[1:])
    try:
        measured = [
            part.over([next(rest) if each else None for each in is_told], size)
            for part, is_told in zip(parts, told, strict=True)
        ]
        answers = _lifted(workload, places[0], size)
    except BlowfishError:
        return None
    noisy, exact = (np.vstack(each) for each in zip(*measured, strict=True))
    totals = [
        np.arange(part_exact.shape[0]) == part_exact.shape[0] - 1 if part.tells_total else np.zeros(part_exact.shape[0])
        for part, (_, part_exact) in zip(parts, measured, strict=True)
    ]
    return Combined(compiled, tuple(parts), answers, noisy, exact, np.concatenate(totals).astype(np.bool_))


def least_squares(answers: Floats, rows: Floats, exact: Floats, variances: Floats) -> tuple[Floats, Floats] | None:
    """The coefficients, on noisy rows and on exact ones, of the unbiased linear estimates of least variance.

    None where no combination of rows is the answers.
    """
    system = _normal_equations(answers, rows, exact, variances)
    free, target = system.free, system.target
    solved = np.linalg.solve(system.gram, system.weighted.T)
    noisy = target @ solved
    for _ in range(REFINEMENTS):
        noisy += (target - noisy @ free) @ solved
    return system.estimate(noisy)


def few_spread(answers: Floats, rows: Floats, exact: Floats, variances: Floats) -> float:
    """The largest standard deviation of the estimates of least variance of a few answers; infinite without such."""
    system = _normal_equations(answers, rows, exact, variances)
    free, target = system.free, system.target
    solve = _solver(system.gram)
    noisy = solve(target.T).T @ system.weighted.T
    for _ in range(REFINEMENTS):
        noisy += solve((target - noisy @ free).T).T @ system.weighted.T
    estimate = system.estimate(noisy)
    return math.inf if estimate is None else math.sqrt(float((np.square(estimate[0]) @ variances).max()))


def _solver(gram: Floats) -> Callable[[Floats], Floats]:
    """What solves normal equations for a few right-hand sides; where rounding leaves them indefinite, by pivots."""
    try:
        return partial(cho_solve, cho_factor(gram))
    except np.linalg.LinAlgError:
        return partial(lu_solve, lu_factor(gram))


@dataclass(frozen=True, eq=False)
class _NormalEquations:
    """Exact rows are constraints: what they leave open is estimated from the noisy rows, by normal equations."""

    answers: Floats
    everything: Floats
    wanted: Floats
    rows: Floats
    known: Floats
    free: Floats
    target: Floats
    weighted: Floats
    gram: Floats

    def estimate(self, noisy: Floats) -> tuple[Floats, Floats] | None:
        """The coefficients with those on exact rows; None where they are not the answers.

        Coefficients that are whole but for the rounding of floats are made whole.
        """
        return self._checked(_made_whole(noisy)) or self._checked(noisy)

    def _checked(self, noisy: Floats) -> tuple[Floats, Floats] | None:
        beside = (self.wanted - noisy @ self.rows) @ self.known
        missed = np.hstack([noisy, beside]) @ self.everything - self.answers
        is_close = float(np.abs(missed).max(initial=0.0)) <= CLOSE * max(1.0, float(np.abs(self.answers).max()))
        return (noisy, beside) if is_close else None


def _made_whole(coefficients: Floats) -> Floats:
    """The coefficients of each answer, as whole numbers where all of them are that but for the rounding of floats."""
    whole = np.round(coefficients) + 0.0
    is_whole = np.all(np.abs(coefficients - whole) <= CLOSE, axis=1)
    return np.where(is_whole[:, None], whole, coefficients)


def _normal_equations(answers: Floats, rows: Floats, exact: Floats, variances: Floats) -> _NormalEquations:
    everything = np.vstack([rows, exact])
    wanted = answers
    if everything.shape[1] > everything.shape[0]:
        # Only what lies in the space of the rows is estimated, which has fewer dimensions than there are cells.
        basis = np.linalg.qr(everything.T)[0]
        rows, exact, wanted = rows @ basis, exact @ basis, answers @ basis
    known = np.asarray(np.linalg.pinv(exact) if exact.size else np.empty((rows.shape[1], 0)), dtype=np.float64)
    free, target = rows - (rows @ known) @ exact, wanted - (wanted @ known) @ exact
    weighted = free / variances[:, None]
    # A product with its own transpose takes half the work.
    scaled = free / np.sqrt(variances)[:, None]
    gram = scaled.T @ scaled
    size = gram.shape[0]
    gram = gram + (RIDGE * np.trace(gram) / size + 1e-300) * np.eye(size)
    return _NormalEquations(answers, everything, wanted, rows, known, free, target, weighted, gram)


def _noise_plan(parts: Sequence[CombinedMeasurement], exact: int) -> Plan:
    """All rows with the scales of their noise, at the level of the newest measurement.

    Where whole weights for all scales would be too large, scales are rounded up, by less than a billionth.
    """
    scales = [part.candidate.plan.unit / part.level for part in parts]
    unit = Fraction(math.lcm(*(one.numerator for one in scales)), math.gcd(*(one.denominator for one in scales)))
    heaviest = [int(part.candidate.weights.max()) for part in parts]
    if max(heavy * unit / scale for heavy, scale in zip(heaviest, scales, strict=True)) > LARGEST_WEIGHT:
        lightest = (scale / int(part.candidate.weights.min()) for part, scale in zip(parts, scales, strict=True))
        unit = max(lightest) * 2**30
    weights = np.concatenate(
        [_times(part.candidate.weights, unit / scale) for part, scale in zip(parts, scales, strict=True)]
    )
    rows = Sparse(csr_array(eye_array(weights.size, weights.size + exact, dtype=np.int64)))
    known = Sparse(csr_array(eye_array(exact, weights.size + exact, k=weights.size, dtype=np.int64))) if exact else None
    return Plan(unit * parts[-1].level, (Measurement(rows, weights),), known)


def _times(weights: Ints, factor: Fraction) -> Ints:
    """Multiples of weights, rounded down; OverflowError where they do not fit."""
    return np.array([math.floor(weight * factor) for weight in weights.tolist()], dtype=np.int64)


def likely_level(
    combined: Combined, most: Fraction, target: AccuracyTarget, alpha: float, paid: Fraction = Fraction(0)
) -> Fraction | None:
    """The level of the newest measurement from which on an alpha is probably met; None where it costs more than `most`.

    A part of the level may be paid.
    """
    low, high = paid + most * LEAST, paid + most
    rough = combined.rough_alpha(target, high)
    if rough > alpha * float(STEP):
        return None
    if len(combined.parts) == 1:
        # All noise is of one level, with which it shrinks.
        return max(low, min(high, high * Fraction(rough / alpha)))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if combined.rough_alpha(target, round_up(middle)) <= alpha else (middle, high)
    return high


def least_level(
    combined: Combined,
    fresh: Quote,
    likely: Fraction,
    target: AccuracyTarget,
    alpha: float,
    paid: Fraction = Fraction(0),
    otherwise: Fraction | None = None,
) -> Quote | None:
    """The quote of about the least newest measurement that meets an alpha with the others; None where none saves.

    `fresh` is the quote without any; the search begins at a likely level, of which a part may be paid. It looks for
    a price that is enough and one that is not, at growing distances, and then between the two. Where the answer is had
    `otherwise` for less, any price that is enough will do.
    """
    best, low, top = None, paid, round_up(paid + MOST * fresh.epsilon)
    level, step = min(round_up(likely), top), STEP
    for _ in range(STEPS):
        quote = combined.quote(target, level)
        if quote is not None and quote.alpha <= alpha:
            best = quote
        elif level == top:
            break
        else:
            low = level
        if best is None:
            level = min(round_up(paid + (level - paid) * step), top)
        else:
            lower = paid + (best.epsilon - paid) / step if low == paid else (low + best.epsilon) / 2
            level = round_up(lower)
            is_more = otherwise is not None and level - paid >= otherwise
            if is_more or level - paid >= CLOSE_ENOUGH * (best.epsilon - paid):
                break
        step *= STEP
    return best


def family_width(quote: Quote, past: CombinedMeasurement, compiled: Compiled) -> float:
    """A half-width for answers read off a past measurement, for whatever is asked after it was seen.

    It holds for all questions about its cells together. Two families are bounded, each at half of beta: all cells,
    whose errors add up, and all ranges of cells where there is one axis. Where rows do not tell the cells, it is the
    errors of the rows that add up.
    """
    if compiled.query in [part.query for part in past.compiled.query.parts]:
        # A question of a plan was chosen with it.
        if not isinstance(quote.guarantee, ColumnsGuarantee):
            return quote.alpha
        return Assessment(quote.candidate, "simultaneous").alpha(quote.epsilon, quote.beta, simulate=True)[0]
    cells, scales = past.compiled.problem.graph.cells, past.candidate.scales(quote.epsilon)
    strategy = quote.strategy
    if not isinstance(strategy, Combination):
        raise TypeError("only what was combined is read off")
    places, beta = refinement([past.compiled.cells, compiled.cells]), quote.beta
    estimate = None
    if places is not None and len(past.blocks) == 1 and cells * max(cells, scales.size) <= MOST_ENTRIES:
        rows, exact = past.over([np.arange(cells)], cells)
        estimate = least_squares(np.eye(cells), rows, exact, past.candidate.variances(quote.epsilon))
    if estimate is None or places is None:
        return float((np.abs(strategy.noisy) @ distribution.quantile(scales, beta / scales.size)).max(initial=0.0))
    # Variances of continuous noise, which the bound asks for.
    covariance = (estimate[0] * (2.0 * np.square(scales))) @ estimate[0].T
    lies_in = np.full(cells, ZERO, dtype=np.int64)
    lies_in[places[0][places[0] != ZERO]] = places[1][places[0] != ZERO]
    coefficients = _lifted(compiled.problem.workload, lies_in, cells)
    widths = np.abs(coefficients).sum(axis=1) * noise_widths(np.diag(covariance), beta / 2).simultaneous
    if len(past.compiled.cells.axes) == 1 and cells <= MOST_IN_RANGES:
        spans = AllRanges(cells).intervals()
        sums = np.zeros((cells + 1, cells + 1))
        sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
        low, high = spans.low, spans.high
        variances = np.maximum(sums[high, high] - 2.0 * sums[low, high] + sums[low, low], 0.0)
        is_range = np.array([_is_range(row) for row in coefficients])
        widths = np.where(is_range, np.minimum(widths, noise_widths(variances, beta / 2).simultaneous), widths)
    return float(widths.max(initial=0.0))


def _is_range(row: Floats) -> bool:
    """Whether a row counts neighbouring cells, each once."""
    (places,) = np.nonzero(row)
    return places.size == 0 or bool(np.all(row[places] == 1) and places[-1] - places[0] == places.size - 1)
