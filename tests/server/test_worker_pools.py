"""Slow work holds up no quick work: kinds have their own threads, and one person's questions wait outside of them."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from starlette.requests import Request

from blowfishdb.errors import WorkCancelled
from blowfishdb.server.auth.database import open_database
from blowfishdb.server.auth.grants import Grants
from blowfishdb.server.auth.users import Tokens, Users
from blowfishdb.server.worker_pools import RELEASES_AT_ONCE, WorkerPools, is_cancelled

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
    turn, now, most = threading.Lock(), [0], [0]

    def counted() -> None:
        with turn:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.002)
        with turn:
            now[0] -= 1

    async def crowd() -> None:
        worker_pools = WorkerPools(quotes=anyio.CapacityLimiter(3))
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(worker_pools.quote, str(number), counted, client())

    anyio.run(crowd)
    assert 1 <= most[0] <= 3


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
