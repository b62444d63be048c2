"""Heavy arithmetic: few at a time, people in turn, in processes that get no secret and end when nobody waits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from blowfishdb.errors import RateLimited, TooExpensive, TooLarge, WorkCancelled
from blowfishdb.server.worker_pools import NICE, FairQueue, HeavyWork
from blowfishdb.sources.calls import is_cancelled

PATIENCE = 60.0


def never() -> bool:
    return False


def waiting(queue: FairQueue, number: int) -> None:
    until = time.monotonic() + PATIENCE
    while sum(map(len, queue._lines.values())) < number:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_people_take_turns_however_many_pieces_one_of_them_has() -> None:
    queue, order, gate = FairQueue(1), [], threading.Event()

    def piece(person: str) -> None:
        with queue.turn(person, never):
            order.append(person)
            assert gate.wait(PATIENCE)

    with ThreadPoolExecutor(12) as threads:
        pieces = []
        for number, person in enumerate(["ana", "ana", "ana", "ana", "bob", "bob", "cleo"], 1):
            pieces.append(threads.submit(piece, person))
            waiting(queue, number)
        gate.set()
        for one in pieces:
            one.result(PATIENCE)
    assert order == ["ana", "bob", "cleo", "ana", "bob", "ana", "ana"]
    assert not queue._lines


def test_one_person_has_one_slot_and_the_others_are_free() -> None:
    queue, running, gate = FairQueue(3), [], threading.Event()

    def piece(person: str) -> None:
        with queue.turn(person, never):
            running.append(person)
            assert gate.wait(PATIENCE)

    with ThreadPoolExecutor(12) as threads:
        for number, person in enumerate(["ana"] * 4 + ["bob"], 1):
            threads.submit(piece, person)
            waiting(queue, number)
        while len(running) < 2:
            time.sleep(0.001)
        assert sorted(running) == ["ana", "bob"]
        gate.set()


def test_many_waiting_pieces_of_one_person_are_refused_and_cancelled_ones_leave_the_line() -> None:
    queue, gate, gone = FairQueue(1, most_waiting=2), threading.Event(), threading.Event()

    def piece(cancelled: threading.Event) -> None:
        with queue.turn("ana", cancelled.is_set):
            assert gate.wait(PATIENCE)

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(piece, threading.Event())
        waiting(queue, 1)
        others = [threads.submit(piece, gone) for _ in range(2)]
        waiting(queue, 3)
        with pytest.raises(RateLimited), queue.turn("ana", never):
            pass
        gone.set()
        for other in others:
            with pytest.raises(WorkCancelled):
                other.result(PATIENCE)
        gate.set()
        first.result(PATIENCE)
    with queue.turn("ana", never):
        assert len(queue._lines) == 1


@pytest.fixture(scope="module")
def heavy_work() -> Iterator[HeavyWork]:
    """Everything is heavy here."""
    work = HeavyWork(FairQueue(1), light=-1)
    yield work
    work.close()


def heavy() -> int:
    return 1


def who() -> tuple[int, int, dict[str, str]]:
    return os.getpid(), os.nice(0), dict(os.environ)


def too_large() -> None:
    raise TooLarge("cells", 10, 5, "Ask for less.")


def broken() -> None:
    raise ZeroDivisionError("a detail")


def test_work_runs_in_a_process_without_secrets_that_yields_to_the_server(
    heavy_work: HeavyWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINIC_PASSWORD", "hidden")
    process, nice, environment = heavy_work.compute("ana", heavy, who)
    assert process != os.getpid()
    assert nice == min(19, os.nice(0) + NICE)
    assert "hidden" not in environment.values()
    again, _, _ = heavy_work.compute("bob", heavy, who)
    assert again == process
    assert HeavyWork(light=1).compute("ana", heavy, who)[0] == os.getpid()


def immovable() -> object:
    return lambda: None


class Unreadable:
    """A value that can be sent and not received."""

    def __reduce__(self) -> tuple[object, ...]:
        return broken, ()


def test_errors_come_back_as_they_were_and_faults_as_a_fault(heavy_work: HeavyWork) -> None:
    with pytest.raises(TooLarge, match=r"cells: 10 is more than the limit of 5\. Ask for less\.") as refusal:
        heavy_work.compute("ana", heavy, too_large)
    assert (refusal.value.requested, refusal.value.limit, str(refusal.value)) == (10, 5, refusal.value.message)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a detail"):
        heavy_work.compute("ana", heavy, broken)
    with pytest.raises(RuntimeError, match="pickle local object"):
        heavy_work.compute("ana", heavy, immovable)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a detail"):
        heavy_work.compute("ana", heavy, str, Unreadable())


def test_work_that_nobody_waits_for_is_ended_and_the_next_one_runs(heavy_work: HeavyWork) -> None:
    process = heavy_work.compute("ana", heavy, os.getpid)
    began = time.monotonic()
    token = is_cancelled.set(lambda: time.monotonic() > began + 0.1)
    try:
        with pytest.raises(WorkCancelled):
            heavy_work.compute("ana", heavy, time.sleep, PATIENCE)
    finally:
        is_cancelled.reset(token)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    heavy_work.longest = 0.1
    try:
        with pytest.raises(TooExpensive, match="given up after"):
            heavy_work.compute("ana", heavy, time.sleep, PATIENCE)
    finally:
        heavy_work.longest = PATIENCE
    with pytest.raises(TooExpensive, match="memory"):
        heavy_work.compute("ana", heavy, os._exit, 9)
    assert heavy_work.compute("ana", heavy, os.getpid) != process


def test_a_process_without_work_ends() -> None:
    work = HeavyWork(FairQueue(1), light=-1, idle=0.01)
    process, until = work.compute("ana", heavy, os.getpid), time.monotonic() + PATIENCE
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < until:
            os.kill(process, 0)
            time.sleep(0.01)
    assert not work._idle
    work.close()
