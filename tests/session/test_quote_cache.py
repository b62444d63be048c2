"""Quotes are cached for everybody, few in all, and for the very request and declarations that they were made for."""

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
HANDLE = DatasetHandle("t", *DECLARED, "account", 1, 1, 1, Rows())
SMALL, PREVIEW = quoted(10), quoted(10, wants_preview=True).preview
SIZE = LEAST + 11
"""The smallest question's own weight: its ten values and NULL."""


def test_the_same_request_is_quoted_once() -> None:
    cache = QuoteCache()
    assert cache.quote("one", HANDLE, lambda: SMALL) is SMALL
    assert cache.quote("one", replace(HANDLE), never) is SMALL
    assert cache.quote("two", HANDLE, lambda: quoted(10)) is not SMALL


def test_another_number_of_records_is_another_quote() -> None:
    cache, counted = QuoteCache(), quoted(10)
    cache.quote("one", HANDLE, lambda: SMALL)
    assert cache.quote("one", replace(HANDLE, rows=7), lambda: counted) is counted
    assert cache.quote("one", HANDLE, never) is SMALL


def test_all_together_have_few_cells_and_the_oldest_goes() -> None:
    cache = QuoteCache(most_cells=10 * SIZE)
    for number in range(50):
        cache.quote(str(number), HANDLE, lambda: SMALL)
        assert cache.cells <= 10 * SIZE
    cache.quote("40", HANDLE, never)
    cache.quote("50", HANDLE, lambda: SMALL)
    cache.quote("40", HANDLE, never)
    with pytest.raises(pytest.fail.Exception):
        cache.quote("41", HANDLE, never)


def test_a_quote_that_is_larger_than_all_may_be_is_cached_alone() -> None:
    cache, large = QuoteCache(most_cells=2 * SIZE), quoted(5000)
    cache.quote("one", HANDLE, lambda: SMALL)
    cache.quote("two", HANDLE, lambda: large)
    assert cache.quote("two", HANDLE, never) is large
    assert cache.cells == LEAST + large.release.size == LEAST + 5001


def test_a_quote_without_a_preview_serves_a_release_and_no_preview() -> None:
    cache, whole = QuoteCache(), Planned(SMALL.release, PREVIEW)
    cache.quote("one", HANDLE, lambda: SMALL)
    assert cache.quote("one", HANDLE, lambda: whole, wants_preview=True) is whole
    assert cache.quote("one", HANDLE, never) is whole
    assert cache.quote("one", HANDLE, never, wants_preview=True) is whole
    assert cache.cells == SIZE


@pytest.mark.parametrize(
    "other", [(DECLARED[0], bf.Policy({"age": bf.line()})), (domain({"age": integers(1, 9)}), DECLARED[1])]
)
def test_a_quote_of_other_declarations_is_not_taken(other: tuple[bf.Domain, bf.Policy]) -> None:
    cache, line = QuoteCache(), quoted(9)
    declared = replace(HANDLE, domain=other[0], policy=other[1])
    cache.quote("one", HANDLE, lambda: SMALL)
    assert cache.quote("one", declared, lambda: line) is line
    assert cache.quote("one", declared, never) is line
    assert cache.cells == LEAST + 10


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
