"""A real server whose PostgreSQL goes silent in the middle of a release, as every face sees it, until it is back."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.server.places import PATIENCE, code
from tests.server.silence import ANSWERS, FAR, NEAR, SilentEngine, environment, question, silent_engine, statement

pytestmark = pytest.mark.postgres

DEADLINE, SHUTDOWN = 4, 2
LAST_SECONDS = 10
"""Seconds after `shutdown_seconds` in which the process ends in any case, as docs/server.md says."""
SLOW = 5
"""Seconds that a busy machine may take to end a process."""
ROUTE, PORT = "/api/v1/datasets/{name}/answers", "postgres/control"
CANCELLED = 499


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[SilentEngine]:
    """A server whose counts may take an hour."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE silent")
    url = postgres_server.rsplit("/", 1)[0] + "/silent"
    with silent_engine(tmp_path_factory.mktemp("silent"), url, server=f"shutdown_seconds = {SHUTDOWN}") as place:
        place.start()
        yield place


@contextmanager
def charged_once(engine: SilentEngine, price: Fraction) -> Iterator[None]:
    """What happens in the block is charged this price, all in all."""
    before = engine.spent()
    yield
    assert engine.spent() == before + price


def test_a_deadline_ends_a_count_and_readiness_follows_the_engine(tmp_path: Path, postgres_url: str) -> None:
    with silent_engine(tmp_path, postgres_url, f"longest_count = {DEADLINE}") as engine:
        engine.start()
        price, client = engine.price(), engine.client()
        assert client.get("/ready").status_code == 200
        with charged_once(engine, price), engine.counting() as fall_silent, ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(engine.ask, price)
            fall_silent()
            failed = hanging.result(PATIENCE)
            assert (code(failed), failed.json()["fields"]["can_retry"]) == ("release-failed", True)
            # Sources are looked at anew every ten seconds.
            engine.until(lambda: client.get("/ready").status_code == 503)
            assert code(client.get("/ready")) == "sources-unavailable"
            # What begins in the silence fails before it is charged.
            assert code(engine.ask(engine.price())) == "source-failed"
            engine.proxy.forward()
            engine.until(lambda: client.get("/ready").status_code == 200)
            assert engine.ask(price).status_code == 200


def test_a_count_that_hangs_holds_nobody_up_and_ends_when_its_program_leaves(engine: SilentEngine) -> None:
    paid, price, where = engine.price(), engine.price(), urlsplit(engine.address)
    answer, client = engine.ask(paid), engine.client()
    assert answer.status_code == 200
    with charged_once(engine, price), engine.counting() as fall_silent:
        ended = engine.ended(ROUTE, CANCELLED)
        with closing(http.client.HTTPConnection(where.netloc)) as connection:
            headers = {"Authorization": f"Bearer {engine.secrets['ana']}", "Content-Type": "application/json"}
            connection.request("POST", ANSWERS.format(name=FAR), json.dumps(question(price)), headers)
            fall_silent()
            assert engine.ask(paid).content == answer.content
            assert client.post(f"/api/v1/datasets/{FAR}/previews", json=question(price)).status_code == 200
            assert client.get(ANSWERS.format(name=FAR)).status_code == 200
            assert engine.ask(engine.price(), NEAR).status_code == 200
            # The same analyst, on the port.
            with engine.port() as other:
                assert other.execute(statement(NEAR, engine.price()).encode()).fetchall()
            assert engine.ended(ROUTE, CANCELLED) == ended
        engine.until(lambda: engine.ended(ROUTE, CANCELLED) > ended)
        engine.proxy.forward()
        assert engine.ask(price).status_code == 200


@pytest.mark.nightly
def test_the_port_cancels_on_request_and_when_its_client_leaves(engine: SilentEngine) -> None:
    for leave in (psycopg.Connection.cancel, cut):
        price, ended = engine.price(), engine.ended(PORT, CANCELLED)
        sql = statement(FAR, price).encode()
        with charged_once(engine, price), engine.counting() as fall_silent, ThreadPoolExecutor(1) as pool:
            connection = engine.port()
            hanging = pool.submit(connection.execute, sql)
            fall_silent()
            leave(connection)
            failure = hanging.exception(PATIENCE)
            engine.until(partial(lambda before: engine.ended(PORT, CANCELLED) > before, ended))
            engine.proxy.forward()
            if leave is not cut:
                assert isinstance(failure, psycopg.errors.QueryCanceled)
                # The connection goes on.
                assert connection.execute(sql).fetchall()
            connection.close()
            with engine.port() as again:
                assert again.execute(sql).fetchall()


def cut(connection: psycopg.Connection[Any]) -> None:
    """Ends a connection as the death of its program does."""
    with socket.socket(fileno=socket.dup(connection.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["here", "server"])
def test_an_assistant_cancels_and_is_held_up_by_nothing(engine: SilentEngine, place: str) -> None:
    paid, price = engine.price(), engine.price()
    where = ["--server", engine.address] if place == "server" else ["--config", str(engine.config), "--analyst", "ana"]
    arguments = ["-m", "blowfishdb", "mcp", *where, "--spend", "1"]
    variables = {**environment(), "BLOWFISH_TOKEN": engine.secrets["ana"]}
    command = StdioServerParameters(command=sys.executable, args=arguments, env=variables)

    async def script(client: Client) -> None:
        async def call(name: str, **values: object) -> dict[str, Any]:
            result = await client.call_tool(name, values)
            assert not result.is_error, result.content
            return dict(json.loads(result.content[0].text))  # type: ignore[union-attr]

        async def release(name: str, epsilon: Fraction) -> dict[str, Any]:
            return await call("release", sql=statement(name, epsilon))

        first = await release(FAR, paid)
        with charged_once(engine, price), engine.counting() as fall_silent:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(release, FAR, price)
                await anyio.to_thread.run_sync(fall_silent)
                with anyio.fail_after(PATIENCE):
                    assert (await release(FAR, paid))["rows"] == first["rows"]
                    assert len((await call("datasets"))["datasets"]) == 2
                    assert (await call("history", dataset=FAR))["answers"]
                    assert await call("preview", sql=statement(NEAR, price))
                    # What costs waits until it is known what may still be spent, and may be cancelled meanwhile.
                    with anyio.move_on_after(1) as leaving:
                        await release(NEAR, price)
                    assert leaving.cancelled_caught
                tasks.cancel_scope.cancel()
            with anyio.fail_after(PATIENCE):
                # What may be spent is known again once the count has ended.
                other = await release(NEAR, engine.price())
                engine.proxy.forward()
                assert (await release(FAR, price))["cap_left"] == other["cap_left"]

    async def run() -> None:
        async with Client(stdio_client(command)) as client:
            await script(client)

    anyio.run(run)


@pytest.mark.nightly
def test_an_interrupt_ends_a_command(engine: SilentEngine) -> None:
    price = engine.price()
    asking = ["release", FAR, "--histogram", "age", "--epsilon", str(price), "--analyst", "ana", "--json"]
    command = [sys.executable, "-m", "blowfishdb", *asking, "--config", str(engine.config)]
    with charged_once(engine, price), engine.counting() as fall_silent:
        with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            fall_silent()
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=PATIENCE)
        assert running.returncode == 130, said
        engine.proxy.forward()
        assert subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.nightly
def test_a_signal_ends_a_server_whose_count_hangs_and_one_that_starts_in_the_silence_serves_the_rest(
    engine: SilentEngine,
) -> None:
    price = engine.price()
    with charged_once(engine, price):
        with engine.counting() as fall_silent, ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(engine.ask, price)
            fall_silent()
            assert SHUTDOWN <= engine.stop() < SHUTDOWN + LAST_SECONDS + SLOW
            assert code(hanging.result(PATIENCE)) == "release-cancelled"
        engine.proxy.swallow()
        engine.start()
        assert engine.ask(engine.price(), NEAR).status_code == 200
        assert code(engine.ask(price)) == "source-failed"
        assert engine.client().get("/ready").status_code == 503
        engine.proxy.forward()
        assert engine.ask(price).status_code == 200
