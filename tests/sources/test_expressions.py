"""Statements are written in many threads at once, and Ibis compares expressions by a table that all of them share."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from blowfishdb.sources.base import ibis

THREADS, ROUNDS = 8, 3000


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("hurried")
def test_threads_that_compare_and_free_expressions_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock about one of two thousand comparisons fails to be forgotten; here are 24,000 of them."""
    faults: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", faults.append)
    start, shared = threading.Barrier(THREADS), ibis().literal(0).op()

    def work(first: int) -> int:
        start.wait()
        return sum(shared == ibis().literal(number % 2).op() for number in range(first, first + ROUNDS))

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [ROUNDS // 2] * THREADS
    assert faults == []
    assert id(shared) not in type(shared).__cache__


def test_one_lock_serves_whoever_loads_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that each had put a lock of their own around the work of the others would wait for each other."""
    ibis()
    from ibis.common.bases import Comparable

    plain = {name: getattr(Comparable, name).__wrapped__ for name in ("__eq__", "__del__")}
    for name, work in plain.items():
        monkeypatch.setattr(Comparable, name, work)
    start = threading.Barrier(THREADS)

    def load(_: int) -> None:
        start.wait()
        # Past the cache, which keeps nobody from calling it meanwhile.
        ibis.__wrapped__()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(load, range(THREADS)))
    for name, work in plain.items():
        assert getattr(Comparable, name).__wrapped__ is work
