"""The cached property: one value per instance, kept by frozen dataclasses, and no instance waits for another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from blowfishdb.model.cached import cached_property

WAIT = 20.0


@dataclass(frozen=True)
class Value:
    """A number that waits for a sign before it is squared; `reached` is set when the work begins."""

    number: int
    go: threading.Event
    reached: threading.Event

    @cached_property
    def squared(self) -> list[int]:
        """The square, in a list that shows its identity."""
        self.reached.set()
        assert self.go.wait(WAIT)
        return [self.number**2]


def value(number: int, *, is_open: bool) -> Value:
    go = threading.Event()
    if is_open:
        go.set()
    return Value(number, go, threading.Event())


def test_one_instance_does_not_wait_for_another() -> None:
    slow, quick = value(3, is_open=False), value(4, is_open=True)
    with ThreadPoolExecutor(2) as threads:
        heavy = threads.submit(lambda: slow.squared)
        assert slow.reached.wait(WAIT)
        # With one lock for all instances this would wait for the one that cannot end yet.
        assert threads.submit(lambda: quick.squared).result(WAIT / 2) == [16]
        assert not heavy.done()
        slow.go.set()
        assert heavy.result(WAIT) == [9]


def test_everybody_gets_the_value_that_was_kept_first() -> None:
    shared = value(5, is_open=False)
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(lambda: shared.squared) for _ in range(4)]
        assert shared.reached.wait(WAIT)
        shared.go.set()
        values = [future.result(WAIT) for future in futures]
    assert all(one is values[0] for one in values)
    assert shared.squared is values[0]


def test_it_is_computed_once_compared_never_and_documented() -> None:
    one, two = value(2, is_open=True), value(2, is_open=True)
    assert one.squared is one.squared
    same = Value(2, one.go, one.reached)
    assert same == one
    assert two.squared == one.squared
    assert Value.squared.__doc__ == "The square, in a list that shows its identity."
