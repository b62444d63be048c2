"""Answers read off the cells of an earlier release: only where those make up the new cells, and true to their alpha."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest

import blowfishdb as bf
from blowfishdb.accuracy.candidates import certified_strategy
from blowfishdb.engine.compile import Compiled, compile_query
from blowfishdb.engine.derived import derive, may_derive
from blowfishdb.engine.target import accuracy_target
from blowfishdb.mechanisms.table import MECHANISMS
from blowfishdb.model.cells import Cells, compile_cells, merged_cells
from blowfishdb.model.domain import domain as make_domain
from blowfishdb.model.predicate import Predicate, as_axes
from blowfishdb.model.query import query
from blowfishdb.noise.sampler import sample
from blowfishdb.plan.plan import Plan

DOMAIN = make_domain({"age": bf.integers(0, 11, null=0), "sex": bf.categorical(["m", "f"], null="cell")})
POLICY = bf.Policy({})
AGE, SEX = bf.col("age"), bf.col("sex")
GROUPS = ([], [AGE], [AGE.bins(3)], [AGE.bins(4), SEX], [AGE, SEX], [SEX], [AGE.bins(6)])
FILTERS: tuple[Predicate | None, ...] = (None, AGE >= 6, AGE < 6, (AGE >= 3) & (AGE < 9), SEX == "m", SEX.is_null())
RECORDS = {
    "age": np.repeat(np.arange(12), 3),
    "sex": np.tile(np.array([0, 1, DOMAIN["sex"].slots[0].code]), 12),
}


@functools.cache
def cells_of(groups: int, where: int) -> tuple[Cells, np.ndarray]:
    """The cells of a query, and the cell of each record."""
    cells = compile_cells(DOMAIN, POLICY, GROUPS[groups], FILTERS[where])
    return cells, cells.cell_of(RECORDS) if cells.attributes else np.zeros(36, dtype=np.int64)


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


def compiled(kind: str, *groups: object, where: Predicate | None = None) -> Compiled:
    return compile_query(DOMAIN, POLICY, query(kind, as_axes(groups), where))  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["identity", "optimized", "hierarchy"])
def test_derived_answers_are_unbiased_and_as_near_as_promised(mechanism: str) -> None:
    past = compiled("histogram", AGE)
    measured = certified_strategy(past.problem, MECHANISMS[mechanism](past.problem))
    level = Fraction(1, 2)
    target = accuracy_target(alpha=100, beta="0.2")
    for new in (compiled("cdf", AGE), compiled("histogram", AGE.bins(3)), compiled("count", where=AGE < 6)):
        result = derive(new, target, past, measured, level)
        assert result is not None
        over, quote = result
        plan = quote.plan
        assert isinstance(plan, Plan)
        counts = np.arange(12) ** 2
        rows = np.concatenate([part.rows.dot(counts) for part in plan.parts])  # type: ignore[union-attr]
        exact = np.empty(0) if plan.exact is None else plan.exact.dot(counts).astype(float)
        truth = over.problem.workload.dot(counts)
        assert np.array_equal(truth, new.problem.workload.dot(merged_counts(new, counts)))
        draws = sample(plan.unit, np.tile(plan.weights, 400)).reshape(400, -1)
        variances = quote.candidate.variances(level)
        exacts = np.tile(exact, (400, 1)).T
        answers = quote.strategy.decode((rows + draws).T.astype(float), exacts, variances)
        missed = np.mean(np.abs(answers.T - truth).max(axis=1) > quote.alpha)
        # 400 draws: the chance of more than 0.32 with a true rate of 0.2 is below 10^-8.
        assert missed < 0.32
        assert np.mean(np.abs(answers.T - truth).max(axis=1) > quote.alpha / 3) > 0.32


def merged_counts(new: Compiled, counts: np.ndarray) -> np.ndarray:
    past = compile_cells(DOMAIN, POLICY, [AGE])
    merged = merged_cells(new.cells, past)
    assert merged is not None
    return np.bincount(merged[merged >= 0], counts[merged >= 0], new.problem.graph.cells).astype(np.int64)


def test_rows_that_do_not_tell_the_answers_are_not_used() -> None:
    past = compiled("count", where=AGE < 6)
    whole = compiled("histogram", AGE.bins(6))
    measured = certified_strategy(past.problem, MECHANISMS["identity"](past.problem))
    target = accuracy_target(alpha=100)
    assert derive(whole, target, past, measured, Fraction(1)) is None
    total = compiled("sum", AGE)
    ages = compiled("histogram", AGE)
    known = certified_strategy(ages.problem, MECHANISMS["identity"](ages.problem))
    assert derive(total, target, ages, known, Fraction(1)) is None
    assert may_derive(whole.query, ages.query)
    assert not may_derive(compiled("histogram", SEX).query, ages.query)
