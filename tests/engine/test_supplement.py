"""Supplements: several measurements of the same answers combined; unbiased, as near as promised, never by values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.candidates import CertifiedCandidate, certified_strategy
from blowfishdb.accuracy.quote import Quote, accuracy_at
from blowfishdb.engine import supplement as module
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.derived import DerivedStrategy, derive, family_width
from blowfishdb.engine.supplement import Part, combined, quote_combined, supplement
from blowfishdb.engine.target import accuracy_target
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.domain import domain as make_domain
from blowfishdb.model.predicate import as_axes
from blowfishdb.model.query import query
from blowfishdb.model.workload import Rows
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.plan import Measurement, Plan

DOMAIN = make_domain({"age": bf.integers(0, 11, null=0)})
AGE = bf.col("age")
COUNTS = np.arange(12) ** 2
TARGET = accuracy_target(alpha=20, beta="0.2")
DRAWS = 400


def compiled(kind: str, axis: object, policy: bf.Policy | None = None) -> Compiled:
    return compile_query(DOMAIN, policy or bf.Policy({}), query(kind, as_axes([axis])))  # type: ignore[arg-type]


def past_part(new: Compiled, mechanism: str, level: Fraction) -> tuple[Compiled, Quote]:
    past = compiled("histogram", AGE)
    measured = certified_strategy(past.problem, MECHANISMS[mechanism](past.problem))
    derived = derive(new, TARGET, past, measured, level)
    assert derived is not None
    return past, derived[1]


def rows_of(candidate: CertifiedCandidate, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The true values of the rows that a candidate measures, and of its exact ones."""
    plan = candidate.plan
    assert isinstance(plan, Plan)
    parts: list[Rows] = [part.rows for part in plan.parts if isinstance(part, Measurement)]
    exact = np.empty(0, dtype=np.int64) if plan.exact is None else np.asarray(plan.exact.dot(counts))
    return np.concatenate([part.dot(counts) for part in parts]), exact


def missed(quote: Quote, truth: np.ndarray, rows: np.ndarray, exact: np.ndarray, alpha: float) -> float:
    """How often some answer of as many draws is off by more than alpha."""
    plan = quote.candidate.plan
    noise = sample(plan.unit / quote.epsilon, np.tile(plan.weights, DRAWS)).reshape(DRAWS, -1)
    exacts = np.tile(exact, (DRAWS, 1)).T
    answers = quote.strategy.decode((rows + noise).T.astype(float), exacts, quote.candidate.variances(quote.epsilon))
    return float(np.mean(np.abs(answers.T - truth).max(axis=1) > alpha))


@pytest.mark.parametrize(
    ("mechanism", "kind", "axis"), [("identity", "histogram", AGE.bins(3)), ("optimized", "cdf", AGE)]
)
def test_combined_answers_are_unbiased_and_as_near_as_promised(mechanism: str, kind: str, axis: object) -> None:
    new = compiled(kind, axis)
    fresh = accuracy_at(new.problem, Fraction(1, 2), 0.2, {"identity": MECHANISMS["identity"]}, "simultaneous").best
    _, past = past_part(new, mechanism, Fraction(1, 2))
    quote = quote_combined(fresh, TARGET, Fraction(1, 3), [Part(past.candidate, Fraction(1, 2))])
    assert quote is not None
    assert quote.alpha < min(past.alpha, fresh.alpha * 1.5)
    counts = COUNTS if kind == "cdf" else COUNTS.reshape(-1, 3).sum(axis=1)
    parts = [rows_of(past.candidate, COUNTS), rows_of(fresh.candidate, counts)]
    rows, exact = (np.concatenate(each) for each in zip(*parts, strict=True))
    truth = new.problem.workload.dot(counts)
    # 400 draws: the chance of more than 0.34 with a true rate of 0.2 is below 10^-10.
    assert missed(quote, truth, rows, exact, quote.alpha) < 0.34
    # Of noise of the promised scale far more miss a third of it; and what is charged is the newest measurement alone.
    assert missed(quote, truth, rows, exact, quote.alpha / 3) > 0.34
    assert (quote.certificate.epsilon, quote.plan.digest()) == (
        Fraction(1, 3),
        fresh.candidate.at(Fraction(1, 3))[0].digest(),
    )


def test_a_combination_is_the_best_linear_one() -> None:
    new = compiled("histogram", AGE)
    fresh = accuracy_at(new.problem, Fraction(1), 0.2, {"identity": MECHANISMS["identity"]}, "simultaneous").best
    parts = [Part(fresh.candidate, Fraction(1, 10)), Part(fresh.candidate, Fraction(1, 5))]
    candidate = combined(new.problem, parts)
    assert candidate is not None
    # Where noise is so large, variances go with the square of the level: weights 1/5 and 4/5, row by row.
    coefficients = candidate.strategy.decode(np.eye(24), np.zeros((candidate.exact_rows, 24)), np.ones(24))
    assert np.allclose(coefficients, np.hstack([np.eye(12) / 5, np.eye(12) * 4 / 5]), atol=2e-3)
    variances = candidate.variances(Fraction(1, 5))
    assert np.allclose(variances[:12], fresh.candidate.variances(Fraction(1, 10)))
    assert np.allclose(variances[12:], fresh.candidate.variances(Fraction(1, 5)))


def test_a_supplement_is_the_least_that_meets_the_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    new = compiled("histogram", AGE.bins(3))
    fresh = accuracy_at(new.problem, Fraction(1, 4), 0.2, {"identity": MECHANISMS["identity"]}, "simultaneous").best
    _, past = past_part(new, "identity", Fraction(2, 5))
    known = [Part(past.candidate, Fraction(2, 5))]
    quote = supplement(fresh, TARGET, fresh.alpha, known)
    assert quote is not None
    assert quote.alpha <= fresh.alpha
    less = quote_combined(fresh, TARGET, quote.epsilon * Fraction(9, 10), known)
    assert less is not None
    assert less.alpha > fresh.alpha
    # Nothing is saved where nothing is known, and nothing is combined that is too large or cannot be written exactly.
    assert supplement(fresh, TARGET, fresh.alpha, [Part(past.candidate, Fraction(1, 10**6))]) is None
    assert (
        quote_combined(fresh, TARGET, Fraction(10**12 + 1, 10**14), [Part(past.candidate, Fraction(2, 10**11 + 3))])
        is None
    )
    monkeypatch.setattr(module, "MOST_ANSWERS", 3)
    assert supplement(fresh, TARGET, fresh.alpha, known) is None


@pytest.mark.parametrize("mechanism", ["identity", "hierarchy"])
def test_the_width_of_the_family_holds_for_the_worst_question(mechanism: str) -> None:
    new = compiled("cdf", AGE)
    past, quote = past_part(new, mechanism, Fraction(1, 2))
    width = family_width(quote, past)
    assert width > quote.alpha
    inner = quote.candidate.strategy
    assert isinstance(inner, DerivedStrategy)
    noise = sample(quote.plan.unit, np.tile(quote.plan.weights, DRAWS)).reshape(DRAWS, -1)
    cells = inner.estimate_cells(
        noise.T.astype(float), np.zeros((quote.candidate.exact_rows, DRAWS)), quote.candidate.variances(quote.epsilon)
    )
    sums = np.vstack([np.zeros(DRAWS), np.cumsum(cells, axis=0)])
    worst = sums.max(axis=0) - sums.min(axis=0)
    # 400 draws: the chance of more than 0.34 with a true rate of 0.2 is below 10^-10.
    assert np.mean(worst > width) < 0.34
    assert np.mean(worst > width / 4) > 0.34
    # Cells that lie apart: their errors are added up.
    apart = compiled("histogram", AGE.bins(6))
    _, merged = past_part(apart, mechanism, Fraction(1, 2))
    assert family_width(merged, past) <= 12 * width
