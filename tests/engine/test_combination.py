"""Combinations of measurements over common cells: unbiased, as near as promised, the best linear ones."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.candidates import certified_strategy
from blowfishdb.accuracy.intervals import Assessment
from blowfishdb.accuracy.quote import Quote, accuracy_at
from blowfishdb.engine import combination as module
from blowfishdb.engine.combination import (
    Combination,
    Combined,
    CombinedCandidate,
    CombinedMeasurement,
    combine,
    family_width,
    few_spread,
    least_level,
    least_squares,
    likely_level,
)
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.measured import widened, without
from blowfishdb.engine.request import accuracy_target
from blowfishdb.errors import Declined
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model import cells as cells_module
from blowfishdb.model.cells import Cells, compile_cells, merged_cells, refinement
from blowfishdb.model.domain import domain as make_domain
from blowfishdb.model.predicate import Predicate, as_axes
from blowfishdb.model.query import query
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.plan import EdgePlan, Plan

DOMAIN = make_domain({"age": bf.integers(0, 11, null=0), "sex": bf.categorical(["m", "f"], null="cell")})
POLICY = bf.Policy({})
AGE, SEX = bf.col("age"), bf.col("sex")
GROUPS = ([], [AGE], [AGE.bins(3)], [AGE.bins(4), SEX], [AGE, SEX], [SEX], [AGE.bins(6)])
FILTERS: tuple[Predicate | None, ...] = (None, AGE >= 6, AGE < 6, (AGE >= 3) & (AGE < 9), SEX == "m", SEX.is_null())
RECORDS = {
    "age": np.repeat(np.arange(12), 4),
    "sex": np.tile(np.array([0, 1, *(slot.code for slot in DOMAIN["sex"].slots)]), 12),
}
COUNTS = np.arange(48) ** 2 % 71
"""How many records there are of each kind."""
TARGET = accuracy_target(alpha=20, beta="0.2")
DRAWS = 400


@functools.cache
def cells_of(groups: int, where: int) -> tuple[Cells, np.ndarray]:
    """The cells of a query, and the cell of each record."""
    cells = compile_cells(DOMAIN, POLICY, GROUPS[groups], FILTERS[where])
    return cells, cells.cell_of(RECORDS) if cells.attributes else np.zeros(48, dtype=np.int64)


def test_cells_are_merged_exactly_where_every_record_says_so() -> None:
    queries = list(itertools.product(range(len(GROUPS)), range(len(FILTERS))))
    seen = set()
    for new, past in itertools.product(queries, queries):
        (cells, after), (measured, before) = cells_of(*new), cells_of(*past)
        pairs = {(int(a), int(b)) for a, b in zip(before, after, strict=True)}
        inside = {pair for pair in pairs if pair[0] >= 0}
        is_whole = len({pair[0] for pair in inside}) == len(inside) and not any(a < 0 <= b for a, b in pairs)
        merged = merged_cells(cells, measured)
        assert (merged is not None) == is_whole
        seen.add(is_whole)
        if merged is not None:
            assert all(merged[a] == b for a, b in inside)
    assert seen == {True, False}


def test_common_cells_are_the_classes_of_records_that_no_query_tells_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen in itertools.product(itertools.product(range(1, 7), range(len(FILTERS))), repeat=2):
        queries = [cells_of(*one) for one in chosen]
        places = refinement([cells for cells, _ in queries])
        assert places is not None
        classes = set(zip(*(place.tolist() for _, place in queries), strict=True))
        assert sorted(zip(*(place.tolist() for place in places), strict=True)) == sorted(classes)
    monkeypatch.setattr(cells_module, "MOST_PIECES", 5)
    assert refinement([cells_of(1, 0)[0]]) is None
    assert merged_cells(cells_of(1, 0)[0], cells_of(1, 0)[0]) is None


def compiled(kind: str, *groups: object, where: Predicate | None = None) -> Compiled:
    return compile_query(DOMAIN, POLICY, query(kind, as_axes(groups), where))  # type: ignore[arg-type]


def part(of: Compiled, mechanism: str, level: Fraction | str) -> CombinedMeasurement:
    return CombinedMeasurement(of, certified_strategy(of.problem, MECHANISMS[mechanism](of.problem)), Fraction(level))


def counts_of(of: Compiled) -> np.ndarray:
    place = of.cells.cell_of(RECORDS) if of.cells.attributes else np.zeros(48, dtype=np.int64)
    return np.bincount(place[place >= 0], COUNTS[place >= 0], of.problem.graph.cells).astype(np.int64)


def missed(system: Combined, quote: Quote, of: Compiled, alpha: float) -> float:
    """How often some answer of as many draws is off by more than alpha."""
    rows, exact = [], []
    for one in system.parts:
        cells = one.compiled.problem.graph.cells
        noisy, known = one.over([np.arange(cells)], cells)
        rows.append(noisy @ counts_of(one.compiled))
        exact.append(known @ counts_of(one.compiled))
    plan = quote.candidate.plan
    noise = sample(plan.unit / quote.epsilon, np.tile(plan.weights, DRAWS)).reshape(DRAWS, -1)
    exacts = np.tile(np.concatenate(exact), (DRAWS, 1)).T
    answers = quote.strategy.decode((np.concatenate(rows) + noise).T.astype(float), exacts, np.ones(noise.shape[1]))
    truth = of.problem.workload.dot(counts_of(of))
    return float(np.mean(np.abs(answers.T - truth).max(axis=1) > alpha))


CASES = {
    "finer cells": (compiled("cdf", AGE), [("histogram", [AGE], None, "identity")], None),
    "finer cells by a tree": (compiled("count", where=AGE < 6), [("histogram", [AGE], None, "optimized")], None),
    "a sum": (compiled("sum", AGE), [("histogram", [AGE], None, "identity")], None),
    "coarser cells": (
        compiled("histogram", AGE),
        [("histogram", [AGE.bins(3)], None, "identity"), ("histogram", [AGE.bins(6)], None, "identity")],
        compiled("histogram", AGE),
    ),
    "a range that overlaps": (
        compiled("cdf", AGE),
        [("histogram", [AGE], AGE < 8, "identity")],
        compiled("cdf", AGE, where=~(AGE < 8)),
    ),
    "another marginal": (
        compiled("histogram2d", AGE.bins(4), SEX),
        [("histogram", [SEX], None, "identity"), ("histogram", [AGE.bins(4)], None, "identity")],
        compiled("histogram2d", AGE.bins(4), SEX),
    ),
    "two halves": (
        compiled("histogram", AGE.bins(6)),
        [("histogram", [AGE], AGE < 6, "identity"), ("histogram", [AGE.bins(2)], AGE >= 6, "identity")],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_combined_answers_are_unbiased_and_as_near_as_promised(case: str) -> None:
    of, past, newest = CASES[case]
    parts = [part(compiled(kind, *groups, where=where), name, "1/2") for kind, groups, where, name in past]
    parts += [] if newest is None else [part(newest, "identity", "1/3")]
    system = combine(of, parts)
    assert system is not None
    quote = system.quote(TARGET, parts[-1].level)
    assert quote is not None
    # 400 draws: the chance of more than 0.36 with a true rate of 0.2 is below 10^-12.
    assert missed(system, quote, of, quote.alpha) < 0.36
    # Of noise of the promised scale far more miss a third of it, which at most 0.36 would with a chance below 10^-12.
    assert missed(system, quote, of, quote.alpha / 3) > 0.36
    # What is charged is the newest measurement alone, with its certified loss.
    assert quote.certificate.epsilon == parts[-1].level
    assert quote.plan.digest() == parts[-1].candidate.at(parts[-1].level)[0].digest()


@pytest.mark.parametrize("case", CASES)
def test_a_combination_is_the_best_linear_unbiased_one(case: str) -> None:
    of, past, newest = CASES[case]
    parts = [part(compiled(kind, *groups, where=where), name, "1/9") for kind, groups, where, name in past]
    parts += [] if newest is None else [part(newest, "identity", "1/5")]
    system = combine(of, parts)
    assert system is not None
    variances = np.concatenate([one.candidate.variances(one.level) for one in parts])
    # The generalized inverse, by another way: each answer by the least weighted norm among all unbiased coefficients.
    everything, weights = (
        np.vstack([system.rows, system.exact]),
        np.concatenate([variances, np.zeros(len(system.exact))]),
    )
    null = np.linalg.svd(everything.T)[2][np.linalg.matrix_rank(everything) :]
    start = np.linalg.lstsq(everything.T, system.answers.T, rcond=None)[0]
    best = start - null.T @ (np.linalg.pinv((null * weights) @ null.T) @ ((null * weights) @ start))
    candidate = system.at(parts[-1].level)
    assert candidate is not None
    strategy = candidate.strategy
    assert isinstance(strategy, Combination)
    assert np.allclose(strategy.noisy @ system.rows + strategy.exact @ system.exact, system.answers, atol=1e-9)
    assert np.allclose(
        np.square(strategy.noisy) @ variances, np.square(best[: len(variances)]).T @ variances, rtol=1e-6
    )
    # A wrong weight is unbiased no more.
    assert np.abs(1.01 * strategy.noisy @ system.rows - system.answers).max() > 1e-3
    assert np.allclose(candidate.variances(parts[-1].level), variances, rtol=1e-6)


def test_rows_that_do_not_tell_the_answers_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    young = part(compiled("count", where=AGE < 6), "identity", "1")
    system = combine(compiled("histogram", AGE.bins(6)), [young])
    assert system is not None
    assert system.at(Fraction(1)) is None
    assert system.quote(TARGET, Fraction(1)) is None
    assert system.least(TARGET, 20.0, Fraction(1)) is None
    assert system.spread(Fraction(1)) == float("inf")
    # One that has no numbers, one that is not served, and one that is too large.
    ages = combine(compiled("cdf", AGE), [part(compiled("histogram", AGE), "identity", "1")])
    assert ages is not None
    assert ages.quote(TARGET, Fraction(1, 10**13)) is None
    assert ages.least(TARGET, 20.0, Fraction(1)) is not None
    monkeypatch.setattr(Assessment, "least_epsilon", Mock(side_effect=Declined("identity", "it is not served")))
    assert ages.least(TARGET, 20.0, Fraction(1)) is None
    monkeypatch.undo()
    assert least_squares(np.ones((1, 1)), np.zeros((1, 1)), np.empty((0, 1)), np.ones(1)) is None
    monkeypatch.setattr(module, "_noise_plan", Mock(side_effect=OverflowError))
    assert ages.at(Fraction(1, 2)) is None
    monkeypatch.undo()
    assert combine(compiled("cdf", AGE), [part(compiled("histogram", AGE), "identity", "1")], most=10) is None
    edge = EdgePlan.__new__(EdgePlan)
    known = part(compiled("histogram", AGE), "identity", "1")
    object.__setattr__(known.candidate, "plan", edge)
    with pytest.raises(TypeError):
        known.over([np.arange(12)], 12)


def test_a_few_of_many_answers_tell_first_that_an_estimate_is_too_rough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", 2)
    monkeypatch.setattr(module, "FEW", 3)
    one = Fraction(1)

    def ages() -> Combined:
        system = combine(compiled("cdf", AGE), [part(compiled("histogram", AGE), "identity", "1")])
        assert system is not None
        return system

    whole = ages().spread(one)
    system = ages()
    made = Mock(side_effect=system.at)
    monkeypatch.setattr(Combined, "at", made)
    few = system.spread(one, whole / 100)
    assert whole / 100 < few <= whole * (1 + 1e-9)
    assert made.call_count == 0
    monkeypatch.undo()
    monkeypatch.setattr(module, "MANY", 2)
    assert ages().spread(one, whole * 1.01) == whole
    # What least squares finds for all of them has the same spread: the few are some of them.
    variances = system.parts[0].candidate.variances(one)
    best = least_squares(system.answers, system.rows, system.exact, variances)
    assert best is not None
    largest = float(np.sqrt((np.square(best[0]) @ variances).max()))
    assert few_spread(system.answers, system.rows, system.exact, variances) == pytest.approx(largest, rel=1e-9)
    untold = combine(compiled("histogram", AGE.bins(2)), [part(compiled("count", where=AGE < 6), "identity", "1")])
    assert untold is not None
    assert untold.spread(one, 1.0) == float("inf")
    monkeypatch.setattr(module, "few_spread", Mock(side_effect=np.linalg.LinAlgError))
    assert ages().spread(one, whole * 1.01) == float("inf")


def test_levels_of_very_different_sizes_round_noise_up() -> None:
    ages = compiled("histogram", AGE)
    parts = [part(ages, "identity", Fraction(10**6 + place, 10**7 + 19)) for place in (1, 2, 3, 4, 5)]
    system = combine(ages, parts)
    assert system is not None
    candidate = system.at(parts[-1].level)
    assert candidate is not None
    scales = np.concatenate([one.candidate.scales(one.level) for one in parts])
    widened_scales = candidate.scales(parts[-1].level)
    assert np.all(widened_scales >= scales * (1 - 1e-12))
    assert np.allclose(widened_scales, scales, rtol=1e-8)


def test_a_supplement_is_about_the_least_that_meets_the_accuracy() -> None:
    new = compiled("histogram", AGE.bins(3))
    fresh = accuracy_at(new.problem, Fraction(1, 4), 0.2, {"identity": MECHANISMS["identity"]}, "simultaneous").best
    system = combine(
        new,
        [part(compiled("histogram", AGE), "identity", "1/4"), CombinedMeasurement(new, fresh.candidate, Fraction(1))],
    )
    assert system is not None
    likely = likely_level(system, fresh.epsilon, TARGET, fresh.alpha)
    assert likely is not None
    quote = least_level(system, fresh, likely, TARGET, fresh.alpha)
    assert quote is not None
    assert quote.alpha <= fresh.alpha
    less = system.quote(TARGET, quote.epsilon * Fraction(9, 10))
    assert less is not None
    assert less.alpha > fresh.alpha
    # From too low a guess the search goes up, and it ends where nothing is saved.
    assert least_level(system, fresh, likely * Fraction(4, 5), TARGET, fresh.alpha) is not None
    assert least_level(system, fresh, likely, TARGET, 0.0) is None
    useless = combine(
        new,
        [
            part(compiled("histogram", AGE), "identity", "1/1000"),
            CombinedMeasurement(new, fresh.candidate, Fraction(1)),
        ],
    )
    assert useless is not None
    # The public total alone saves something here.
    assert least_level(useless, fresh, fresh.epsilon, TARGET, fresh.alpha) is not None
    useless = replace(useless, exact=np.empty((0, 12)), totals=np.empty(0, dtype=np.bool_))
    assert least_level(useless, fresh, fresh.epsilon, TARGET, fresh.alpha) is None


def test_one_measurement_of_more_cells_is_priced_exactly() -> None:
    some, all_of_them = compiled("histogram", AGE, where=AGE < 6), compiled("histogram", AGE)
    system = combine(some, [part(all_of_them, "identity", "1")])
    assert system is not None
    quote = system.least(TARGET, 20.0, Fraction(1))
    own = MECHANISMS["identity"]
    alone = certified_strategy(some.problem, own(some.problem))
    assert quote is not None
    assert quote.method == "exact"
    assert (quote.certificate.epsilon, alone.plan.unit) == (
        quote.epsilon,
        part(all_of_them, "identity", "1").candidate.plan.unit,
    )


@pytest.mark.parametrize(
    ("kind", "mechanism"), [("histogram", "identity"), ("histogram", "hierarchy"), ("cdf", "direct")]
)
def test_the_width_of_the_family_holds_for_the_worst_question(kind: str, mechanism: str) -> None:
    new, past = compiled("cdf", AGE), part(compiled(kind, AGE), mechanism, "1/2")
    system = combine(new, [past])
    assert system is not None
    quote = system.quote(TARGET, past.level)
    assert quote is not None
    width = family_width(quote, past, new)
    assert width > quote.alpha
    candidate = quote.candidate
    assert isinstance(candidate, CombinedCandidate)
    noise = sample(quote.plan.unit, np.tile(quote.plan.weights, DRAWS)).reshape(DRAWS, -1)
    every = combine(compiled("ranges", AGE), [past])
    assert every is not None
    ranges = every.at(past.level)
    assert ranges is not None
    errors = ranges.strategy.decode(
        noise.T.astype(float), np.zeros((ranges.exact_rows, DRAWS)), np.ones(noise.shape[1])
    )
    worst = np.abs(errors).max(axis=0)
    # 400 draws: the chance of more than 0.36 with a true rate of 0.2 is below 10^-12.
    assert np.mean(worst > width) < 0.36
    assert np.mean(worst > width / 8) > 0.36
    with pytest.raises(TypeError):
        family_width(
            accuracy_at(new.problem, Fraction(1), 0.2, {"direct": MECHANISMS["direct"]}, "simultaneous").best, past, new
        )


def test_rows_that_do_not_tell_their_cells_have_a_family_too() -> None:
    past = part(compile_query(DOMAIN, POLICY, query("ranges", "age", boxes=(((0, 6),), ((3, 9),)))), "direct", "1")
    new = compiled("count", where=AGE < 6)
    system = combine(new, [past])
    assert system is not None
    quote = system.quote(TARGET, Fraction(1))
    assert quote is not None
    assert family_width(quote, past, new) >= quote.alpha


def test_a_query_is_widened_only_by_conditions_on_its_groups() -> None:
    ages = query("histogram", "age", (AGE >= 3) & (SEX == "m") & (AGE < 9) & SEX.is_null())
    wide = widened(ages)
    assert wide is not None
    assert wide.where == (SEX == "m") & SEX.is_null()
    assert widened(query("histogram", "age", AGE < 3)) == query("histogram", "age")
    for none in (query("histogram", "age"), query("histogram", "age", SEX == "m"), query("count", (), AGE < 3)):
        assert widened(none) is None
    rest = without(query("cdf", "age"), query("histogram", "age", AGE < 3))
    assert rest == query("cdf", "age", ~(AGE < 3))
    assert without(query("cdf", "age", SEX == "m"), rest) == query("cdf", "age", (SEX == "m") & ~~(AGE < 3))
    assert without(query("cdf", "age"), query("histogram", "age")) is None
    assert isinstance(part(compiled("histogram", AGE), "identity", "1").candidate.plan, Plan)
