"""Cached quotes are few in all, however many analysts ask, and nobody finds another's."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import Planned, plan_request
from blowfishdb.engine.compile import COMPILED_CELLS, CompiledQueries, DatasetHandle
from blowfishdb.engine.request import accuracy_target, make_request
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.query import query
from blowfishdb.session.local import LEAST, QuoteCache
from tests.engine.held import Rows


def quoted(cells: int, *, wants_preview: bool = False) -> Planned:
    declared = domain({"age": integers(1, cells)})
    handle = DatasetHandle("t", declared, bf.Policy(), "account", 1, 1, 1, Rows())
    target = accuracy_target(epsilon=1, mechanism="identity")
    return plan_request(handle, make_request(handle, query("histogram", "age"), target), wants_preview)


def never() -> Planned:
    pytest.fail("this was quoted already")


DECLARED = domain({"age": integers(1, 10)}), bf.Policy()
SMALL, PREVIEW = quoted(10), quoted(10, wants_preview=True).preview
SIZE = LEAST + 11
"""The smallest question's own weight: its ten values and NULL."""


def test_the_same_request_of_the_same_analyst_is_quoted_once() -> None:
    kept = QuoteCache()
    assert kept.quote("ana", "one", *DECLARED, lambda: SMALL) is SMALL
    assert kept.quote("ana", "one", *DECLARED, never) is SMALL


def test_nobody_finds_what_somebody_else_asked() -> None:
    kept, made = QuoteCache(), []

    def again() -> Planned:
        made.append(1)
        return SMALL

    kept.quote("ana", "one", *DECLARED, again)
    kept.quote("bob", "one", *DECLARED, again)
    assert len(made) == 2
    kept.forget("ana")
    kept.quote("bob", "one", *DECLARED, never)
    kept.quote("ana", "one", *DECLARED, again)
    assert len(made) == 3


def test_each_analyst_has_few() -> None:
    kept = QuoteCache(most_each=2)
    for number in range(5):
        kept.quote("ana", str(number), *DECLARED, lambda: SMALL)
    kept.quote("bob", "0", *DECLARED, lambda: SMALL)
    assert kept.cells == 3 * SIZE
    kept.quote("ana", "4", *DECLARED, never)
    with pytest.raises(pytest.fail.Exception):
        kept.quote("ana", "2", *DECLARED, never)


def test_all_together_have_few_cells() -> None:
    kept = QuoteCache(most_cells=10 * SIZE)
    for number in range(50):
        kept.quote(f"analyst {number}", "one", *DECLARED, lambda: SMALL)
        assert kept.cells <= 10 * SIZE
    kept.quote("analyst 49", "one", *DECLARED, never)


def test_a_quote_that_is_larger_than_all_may_be_is_kept_alone() -> None:
    kept, large = QuoteCache(most_cells=2 * SIZE), quoted(5000)
    kept.quote("bob", "one", *DECLARED, lambda: SMALL)
    kept.quote("ana", "one", *DECLARED, lambda: large)
    assert kept.quote("ana", "one", *DECLARED, never) is large
    assert kept.cells == LEAST + large.release.size == LEAST + 5001


def test_a_quote_without_a_preview_serves_a_release_and_no_preview() -> None:
    kept, whole = QuoteCache(), Planned(SMALL.release, PREVIEW)
    kept.quote("ana", "one", *DECLARED, lambda: SMALL)
    assert kept.quote("ana", "one", *DECLARED, lambda: whole, wants_preview=True) is whole
    assert kept.quote("ana", "one", *DECLARED, never) is whole
    assert kept.quote("ana", "one", *DECLARED, never, wants_preview=True) is whole
    assert kept.cells == SIZE


@pytest.mark.parametrize(
    "other", [(DECLARED[0], bf.Policy({"age": bf.line()})), (domain({"age": integers(1, 9)}), DECLARED[1])]
)
def test_a_quote_of_other_declarations_is_not_taken(other: tuple[bf.Domain, bf.Policy]) -> None:
    kept, line = QuoteCache(), quoted(9)
    kept.quote("ana", "one", *DECLARED, lambda: SMALL)
    assert kept.quote("ana", "one", *other, lambda: line) is line
    assert kept.quote("ana", "one", *other, never) is line
    assert kept.cells == LEAST + 10


def test_a_query_is_compiled_once_for_the_same_declarations() -> None:
    queries, (declared, policy), asked = CompiledQueries(), DECLARED, query("histogram", "age")
    first = queries.compile(declared, policy, asked)
    assert queries.compile(declared, policy, query("histogram", "age")) is first
    assert queries.compile(declared, policy, query("cdf", "age")) is not first
    hidden = bf.Policy({"age": bf.line()})
    assert queries.compile(declared, hidden, asked).problem.digest() != first.problem.digest()
    # Equal declarations that are other objects may be those of another version.
    assert queries.compile(declared, replace(policy), asked) is not first
    wider = domain({"age": integers(1, 20)})
    assert queries.compile(wider, policy, asked).problem.graph.cells == first.problem.graph.cells + 10


def test_few_and_small_compiled_queries_are_remembered_and_none_travels() -> None:
    queries, (declared, policy) = CompiledQueries(most=1), DECLARED
    first = queries.compile(declared, policy, query("histogram", "age"))
    assert pickle.loads(pickle.dumps(queries)).compile(declared, policy, query("histogram", "age")) is not first
    queries.compile(declared, policy, query("cdf", "age"))
    assert queries.compile(declared, policy, query("histogram", "age")) is not first
    long = domain({"age": integers(1, COMPILED_CELLS)})
    assert queries.compile(long, policy, query("cdf", "age")) is not queries.compile(long, policy, query("cdf", "age"))
