"""blowfish mcp: a scripted client over stdin and stdout and over HTTP; the cap, the refusals, the notes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from blowfishdb.cli.mcp import MOST_ROWS, Conversation, mcp_server
from blowfishdb.session.session import SpendingCap
from tests.session.places import make_fixture, session, visits

WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
Call = Callable[..., Awaitable[dict[str, Any]]]


def talk(target: Any, script: Callable[[Call], Awaitable[None]]) -> None:
    """Runs a script of tool calls; a refusal is returned as {"refused": its words}."""

    async def run() -> None:
        async with Client(target) as client:

            async def call(name: str, **arguments: object) -> dict[str, Any]:
                result = await client.call_tool(name, arguments)
                text = result.content[0].text  # type: ignore[union-attr]
                return {"refused": text} if result.is_error else dict(json.loads(text))

            await script(call)

    anyio.run(run)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_fixture(tmp_path, visits(epsilon="1"))
    return tmp_path


def test_a_conversation_over_stdin_and_stdout(folder: Path) -> None:
    config = str(folder / "blowfish.toml")
    arguments = ["-m", "blowfishdb", "mcp", "--config", config, "--analyst", "ana", "--spend", "0.3"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def script(call: Call) -> None:
        (dataset,) = (await call("datasets"))["datasets"]
        assert dataset["name"] == "visits"
        assert dataset["columns"]["ward"]["values"] == ["A1", "A2", "A3"]
        assert any("at most 5 apart" in line for line in dataset["policy"])
        assert dataset["budget_left"] == "1"

        preview = await call("preview", sql=WARDS, within=40)
        assert 0 < Fraction(preview["epsilon"]) < 1
        assert "would run" in preview["text"]
        assert preview["cap_left"] == "3/10"

        answer = await call("release", sql=WARDS, epsilon="0.2")
        assert (answer["charged"], answer["cap_left"]) == ("1/5", "1/10")
        assert [row["ward"] for row in answer["rows"]] == ["A1", "A2", "A3"]
        assert all(row["low"] <= row["count"] <= row["high"] for row in answer["rows"])
        assert "95 % confidence" in answer["note"]

        again = await call("release", sql=WARDS, epsilon=0.2)
        assert again == {**answer, "charged": "0"}

        refusal = await call("release", sql="SELECT age, COUNT(*) FROM visits GROUP BY age", epsilon="0.2")
        assert "costs epsilon 0.2, and 0.1 may be spent" in refusal["refused"]

        (past,) = (await call("history", dataset="visits"))["answers"]
        assert past["epsilon"] == "1/5"
        opened = await call("answer", dataset="visits", number=past["number"])
        assert (opened["rows"], opened["note"]) == (answer["rows"], answer["note"])

    talk(stdio_client(command), script)
    with session(folder) as db:
        assert db.budget("visits").spent == Fraction(1, 5)


def test_fresh_noise_is_charged_each_time_and_once_for_a_key(folder: Path) -> None:
    question = f"{WARDS} OPTIONS (fresh = TRUE)"
    with session(folder) as db:
        talking = Conversation(db, SpendingCap(Fraction(1)))
        charged = [talking.release(question, epsilon="0.125", key=key)["charged"] for key in (None, None, "k", "k")]
    assert charged == ["1/8", "1/8", "1/8", "0"]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("release", {"sql": WARDS, "epsilon": "0.1"}, "spending-cap-reached"),
        ("release", {"sql": WARDS}, "invalid-accuracy"),
        ("release", {"sql": WARDS, "epsilon": "0.1", "within": "5"}, "invalid-accuracy"),
        ("release", {"sql": WARDS, "within": "much"}, "invalid-accuracy"),
        ("release", {"sql": "SELECT * FROM visits", "epsilon": "0.1"}, "invalid-query"),
        ("release", {"sql": f"EXPLAIN {WARDS}", "epsilon": "0.1"}, "for preview"),
        ("release", {"sql": "DROP TABLE visits", "epsilon": "0.1"}, "invalid-query"),
        ("preview", {"sql": "SELECT COUNT(*) FROM wards", "epsilon": "0.1"}, "unknown-dataset"),
        ("history", {"dataset": "wards"}, "unknown-dataset"),
        ("answer", {"dataset": "visits", "number": 1}, "unknown-answer"),
        ("answer", {"dataset": "visits", "number": "x"}, "number"),
        ("drop", {}, "drop"),
    ],
)
def test_refusals_are_typed_and_charge_nothing(
    folder: Path, tool: str, arguments: dict[str, object], words: str
) -> None:
    async def script(call: Call) -> None:
        assert words in (await call(tool, **arguments))["refused"]

    with session(folder) as db:
        talk(mcp_server(Conversation(db, SpendingCap(Fraction(0)))), script)
        assert db.budget("visits").spent == 0


def test_failures_tell_an_incident_and_a_charge_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("row 17: Ada Lovelace")

    async def script(call: Call) -> None:
        monkeypatch.setattr("blowfishdb.sources.ibis_source.IbisCount.run", fail)
        refusal = (await call("release", sql=WARDS, epsilon="0.2"))["refused"]
        assert "Ada" not in refusal
        assert "incident" in refusal
        assert conversation.cap.left == Fraction(1, 10)
        monkeypatch.setattr("blowfishdb.session.local._history", fail)
        refusal = (await call("history", dataset="visits"))["refused"]
        assert "internal-error" in refusal
        assert "Ada" not in refusal

    with session(folder) as db:
        conversation = Conversation(db, SpendingCap(Fraction(3, 10)))
        talk(mcp_server(conversation), script)


def test_long_answers_say_what_they_leave_out(tmp_path: Path) -> None:
    make_fixture(tmp_path, visits(epsilon="5"))

    async def script(call: Call) -> None:
        answer = await call("release", sql="SELECT ward, cost, COUNT(*) FROM visits GROUP BY ward, cost", epsilon="1")
        assert len(answer["rows"]) == MOST_ROWS
        assert answer["rows_left_out"] == 3 * 500 - MOST_ROWS

    with session(tmp_path) as db:
        talk(mcp_server(Conversation(db, SpendingCap(Fraction(1)))), script)


@contextmanager
def over_http(folder: Path, secret: str) -> Iterator[str]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = str(folder / "blowfish.toml")
    command = [sys.executable, "-m", "blowfishdb", "mcp", "--config", config, "--analyst", "ana", "--http", str(port)]
    with subprocess.Popen(command, env={**os.environ, "BLOWFISH_MCP_SECRET": secret}) as process:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and process.poll() is None:
                with closing(socket.socket()) as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def test_http_wants_the_secret_and_this_machine(folder: Path) -> None:
    import httpx
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def signed_in(url: str) -> None:
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer s3cret"}) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport) as client:
                assert not (await client.call_tool("datasets", {})).is_error

    with over_http(folder, "s3cret") as url:
        assert httpx.post(url, json={}).status_code == 401
        assert httpx.post(url, json={}, headers={"Authorization": "Bearer s3cre"}).status_code == 401
        foreign = {"Authorization": "Bearer s3cret", "Host": "evil.example", "Accept": "application/json"}
        assert httpx.post(url, json={}, headers=foreign).status_code == 421
        anyio.run(signed_in, url)
