"""Slow work holds up no quick work: kinds have their own threads, and one person's questions wait outside of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from starlette.requests import Request

from blowfishdb.errors import WorkCancelled
from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.session import STALE
from blowfishdb.server.auth.users import Tokens, Users
from blowfishdb.server.worker_pools import RELEASES_AT_ONCE, Turn, WorkerPools, turn
from blowfishdb.sources.calls import is_cancelled
from tests.server.places import Place

PATIENCE = 20.0


def client(leaves: anyio.Event | None = None) -> Request:
    """A request whose client waits, or leaves when told."""

    async def receive() -> dict[str, str]:
        await (leaves.wait() if leaves is not None else anyio.sleep_forever())
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


def test_many_questions_of_one_person_leave_the_threads_to_others() -> None:
    free, running = threading.Event(), []

    def slow() -> None:
        running.append(1)
        free.wait(PATIENCE)

    async def crowd() -> list[int]:
        worker_pools = WorkerPools()
        async with anyio.create_task_group() as group:
            for _ in range(3 * RELEASES_AT_ONCE):
                group.start_soon(worker_pools.release, "ana", slow, client())
            while not running:
                await checkpoint()
            with anyio.fail_after(PATIENCE / 2):
                found = [
                    await worker_pools.release("bob", lambda: len(running), client()),
                    await worker_pools.quote("cleo", lambda: 7, client()),
                ]
            free.set()
        return found

    assert anyio.run(crowd) == [1, 7]
    assert len(running) == 3 * RELEASES_AT_ONCE


def test_no_more_of_a_kind_run_at_once_than_its_threads() -> None:
    guard, now, most = threading.Lock(), [0], [0]

    def counted() -> None:
        with guard:
            now[0] += 1
            most[0] = max(most[0], now[0])
        with turn.waiting():
            threading.Event().wait(0.002)
        with guard:
            now[0] -= 1

    async def crowd() -> None:
        worker_pools = WorkerPools(quotes=anyio.CapacityLimiter(3))
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(worker_pools.quote, str(number), counted, client())

    anyio.run(crowd)
    assert 2 <= most[0] <= 3


def test_one_thread_at_a_time_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "longest", PATIENCE)
    now, most = [0], [0]

    def counted() -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        threading.Event().wait(0.001)
        now[0] -= 1

    async def crowd() -> None:
        worker_pools = WorkerPools()
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(worker_pools.quote, str(number), counted, client())

    anyio.run(crowd)
    assert most == [1]


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_whoever_waits_gives_the_turn_away() -> None:
    one, told, seen = Turn(), threading.Event(), []

    def first() -> None:
        with one.taken():
            with one.waiting():
                seen.append(told.wait(PATIENCE / 2))
            seen.append("back")

    def second() -> None:
        with one.taken():
            told.set()

    for thread in (in_thread(first), in_thread(second)):
        thread.join(PATIENCE)
    assert seen == [True, "back"]


def test_whoever_waits_without_a_turn_takes_none() -> None:
    one, seen = Turn(), []

    def other() -> None:
        with one.waiting():
            seen.append("waits")
        seen.append("goes on")

    with one.taken():
        in_thread(other).join(PATIENCE)
        assert seen == ["waits", "goes on"]


def test_a_turn_that_lasts_too_long_is_over_and_ends_nobody_elses() -> None:
    one, ends = Turn(0.0), {name: threading.Event() for name in ("slow", "next", "last")}
    begun: list[str] = []

    def works(name: str) -> threading.Thread:
        def work() -> None:
            with one.taken():
                begun.append(name)
                ends[name].wait(PATIENCE)

        return in_thread(work)

    def begins(name: str) -> bool:
        return any(name in begun or ends[name].wait(0.01) for _ in range(int(PATIENCE / 0.01)))

    slow = works("slow")
    assert begins("slow")
    one.end_if_long()
    works("next")
    assert begins("next"), "slow work holds up nobody"
    ends["slow"].set()
    slow.join(PATIENCE)
    works("last")
    ends["last"].wait(0.1)
    assert begun == ["slow", "next"], "the turn is the next one's, whoever ends"
    ends["next"].set()
    assert begins("last")
    ends["last"].set()


def test_no_two_threads_wait_for_each_other() -> None:
    """One wants the turn back while it holds a lock that the other, whose turn it is, waits for."""
    lock, is_held, is_next = threading.Lock(), threading.Event(), threading.Event()

    def first() -> None:
        with lock, turn.waiting():
            is_held.set()
            is_next.wait(PATIENCE / 2)

    def second() -> str:
        is_next.set()
        with lock:
            return "both"

    async def pair() -> str:
        worker_pools = WorkerPools()
        async with anyio.create_task_group() as group:
            group.start_soon(worker_pools.quote, "ana", first, client())
            await anyio.to_thread.run_sync(is_held.wait, PATIENCE / 2)
            with anyio.fail_after(PATIENCE):
                return await worker_pools.quote("bob", second, client())
        return "never"

    assert anyio.run(pair) == "both"


def test_an_error_of_the_work_is_the_error_of_the_lane() -> None:
    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        anyio.run(WorkerPools().quote, "ana", fails, client())


def test_work_hears_that_its_client_went_away() -> None:
    """And work that nobody waits for any more gives way to the next one of the same person."""

    def waits() -> str:
        gone = is_cancelled.get()
        for _ in range(int(PATIENCE / 0.01)):
            if gone():
                raise WorkCancelled
            threading.Event().wait(0.01)
        return "never told"

    async def asked() -> int:
        worker_pools, leaves = WorkerPools(), anyio.Event()
        async with anyio.create_task_group() as group:

            async def first() -> None:
                with pytest.raises(WorkCancelled):
                    await worker_pools.quote("ana", waits, client(leaves))

            group.start_soon(first)
            leaves.set()
            return await worker_pools.quote("ana", lambda: 7, client())

    assert anyio.run(asked) == 7


def test_whoever_reads_does_not_wait_for_whoever_writes(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/users.db")
    users = Users(database, Grants(database))
    users.add("ana", "analyst", None)
    tokens = Tokens(users, database)
    secret, _ = tokens.issue("ana", "test", ["ask"], 1)
    found: list[object] = []
    with database.write() as cursor:
        cursor.rows("UPDATE users SET disabled = 1 WHERE name = 'ana'")
        reader = threading.Thread(target=lambda: found.append(tokens.resume(secret)))
        reader.start()
        reader.join(PATIENCE)
        assert found != [], "the reader waits for the writer"
    assert found[0] is not None, "what is not committed is not seen"
    assert tokens.resume(secret) is None, "being shut out counts at once"
    database.close()


def test_a_long_look_at_the_users_holds_up_nobody_who_does_not_look(place: Place) -> None:
    """Look-ups of users are made on the event loop only where they wait for nothing."""
    ana, anybody = place.program("ana"), place.browser()
    with ThreadPoolExecutor(1) as pool:
        with place.app_state.users.database.read():
            datasets = pool.submit(ana.get, "/api/v1/datasets")
            with pytest.raises(TimeoutError):
                datasets.result(0.2)
            assert anybody.get("/health", timeout=PATIENCE / 2).status_code == 200
            assert not datasets.done()
        assert datasets.result(PATIENCE).status_code == 200


def test_a_browser_whose_visit_is_written_down_holds_up_nobody(place: Place) -> None:
    """That waits for other writers, so it is never done on the event loop."""
    cora, anybody = place.browser("cora"), place.browser()
    place.time[0] += STALE + 1
    with ThreadPoolExecutor(1) as pool:
        with place.app_state.users.database.write():
            datasets = pool.submit(cora.get, "/api/v1/datasets")
            with pytest.raises(TimeoutError):
                datasets.result(0.2)
            assert anybody.get("/health", timeout=PATIENCE / 2).status_code == 200
        assert datasets.result(PATIENCE).status_code == 200
