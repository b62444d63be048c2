"""Cached quotes are few in all, however many analysts ask, and each is made once for everybody."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

import blowfishdb as bf
from blowfishdb.engine.charge import Planned, plan_request
from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.request import make_request
from blowfishdb.engine.target import accuracy_target
from blowfishdb.model.domain import domain, integers
from blowfishdb.model.query import query
from blowfishdb.session.local import LEAST, QuoteCache
from tests.engine.held import Rows

NOTHING_SAID, ROWS = bf.Policy(), Rows()


def declared(cells: int, policy: bf.Policy = NOTHING_SAID, **other: Any) -> DatasetHandle:
    handle = DatasetHandle("t", domain({"age": integers(1, cells)}), policy, "account", 1, 1, 1, ROWS)
    return replace(handle, **other)


def quoted(cells: int, *, wants_preview: bool = False) -> Planned:
    handle = declared(cells)
    target = accuracy_target(epsilon=1, mechanism="identity")
    return plan_request(handle, make_request(handle, query("histogram", "age"), target), wants_preview)


def never() -> Planned:
    pytest.fail("this was quoted already")


DECLARED = declared(10)
SMALL, PLAN, PREVIEW = quoted(10), quoted(10), quoted(10, wants_preview=True).preview
SIZE = LEAST + 11
"""The smallest question's own weight: its ten values and NULL."""


def test_the_same_request_of_the_same_analyst_is_quoted_once() -> None:
    kept = QuoteCache()
    assert kept.quote("ana", "one", DECLARED, lambda: SMALL) is SMALL
    assert kept.quote("ana", "one", DECLARED, never) is SMALL


def test_what_somebody_else_asked_is_quoted_once_for_all() -> None:
    kept = QuoteCache()
    kept.quote("ana", "one", DECLARED, lambda: SMALL)
    assert kept.quote("bob", "one", declared(10), never) is SMALL
    kept.forget("bob")
    assert kept.quote("bob", "one", DECLARED, never) is SMALL
    kept.forget("ana")
    assert kept.quote("bob", "one", DECLARED, lambda: PLAN) is PLAN


def test_who_asks_while_a_quote_is_made_waits_for_it() -> None:
    kept, begun, go_on, outcomes = QuoteCache(), threading.Event(), threading.Event(), list[Planned]()

    def slowly() -> Planned:
        begun.set()
        go_on.wait()
        return SMALL

    first = threading.Thread(target=lambda: outcomes.append(kept.quote("ana", "one", DECLARED, slowly)))
    second = threading.Thread(target=lambda: outcomes.append(kept.quote("bob", "one", DECLARED, lambda: PLAN)))
    first.start()
    begun.wait()
    second.start()
    assert kept.quote("cleo", "two", DECLARED, lambda: PLAN) is PLAN
    go_on.set()
    first.join()
    second.join()
    assert outcomes == [SMALL, SMALL]
    assert not kept._making


def test_where_a_quote_fails_the_next_one_tries() -> None:
    kept = QuoteCache()
    with pytest.raises(pytest.fail.Exception):
        kept.quote("ana", "one", DECLARED, never)
    assert kept.quote("bob", "one", DECLARED, lambda: SMALL) is SMALL


def test_each_analyst_has_few() -> None:
    kept = QuoteCache(most_each=2)
    for number in range(5):
        kept.quote("ana", str(number), DECLARED, lambda: SMALL)
    kept.quote("bob", "0", DECLARED, lambda: SMALL)
    kept.quote("bob", "4", DECLARED, never)
    assert kept.cells == 3 * SIZE
    kept.quote("ana", "4", DECLARED, never)
    with pytest.raises(pytest.fail.Exception):
        kept.quote("ana", "2", DECLARED, never)


def test_all_together_have_few_cells() -> None:
    kept = QuoteCache(most_cells=10 * SIZE)
    for number in range(50):
        kept.quote(f"analyst {number}", str(number), DECLARED, lambda: SMALL)
        assert kept.cells <= 10 * SIZE
    kept.quote("analyst 49", "49", DECLARED, never)


def test_a_quote_that_is_larger_than_all_may_be_is_kept_alone() -> None:
    kept, large = QuoteCache(most_cells=2 * SIZE), quoted(5000)
    kept.quote("bob", "two", DECLARED, lambda: SMALL)
    kept.quote("ana", "one", DECLARED, lambda: large)
    assert kept.quote("ana", "one", DECLARED, never) is large
    assert kept.cells == LEAST + large.release.size == LEAST + 5001


def test_a_quote_without_a_preview_serves_a_release_and_no_preview() -> None:
    kept, whole = QuoteCache(), Planned(SMALL.release, PREVIEW)
    kept.quote("ana", "one", DECLARED, lambda: SMALL)
    assert kept.quote("ana", "one", DECLARED, lambda: whole, wants_preview=True) is whole
    assert kept.quote("ana", "one", DECLARED, never) is whole
    assert kept.quote("ana", "one", DECLARED, never, wants_preview=True) is whole
    assert kept.cells == SIZE


@pytest.mark.parametrize(
    "other",
    [
        declared(10, bf.Policy({"age": bf.line()})),
        declared(9),
        declared(10, name="another"),
        declared(10, account="another"),
        declared(10, snapshot=2),
        declared(10, accounting="edges"),
        declared(10, rows=7),
    ],
)
def test_a_quote_of_other_declarations_is_not_taken(other: DatasetHandle) -> None:
    kept, line = QuoteCache(), quoted(9)
    kept.quote("ana", "one", DECLARED, lambda: SMALL)
    assert kept.quote("bob", "one", other, lambda: line) is line
    assert kept.quote("ana", "one", other, never) is line
    assert kept.cells == LEAST + 10
