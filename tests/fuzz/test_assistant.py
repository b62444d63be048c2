"""Tools of an assistant: whatever it sends, a tool answers or refuses in words, and spends what it says at most."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from blowfishdb.cli.mcp import Conversation, mcp_server
from blowfishdb.session import Session
from blowfishdb.session.session import SpendingCap
from tests.fuzz.effort import effort
from tests.fuzz.grammar import bent, numbers, plain, texts
from tests.fuzz.incidents import no_incidents
from tests.fuzz.test_sql import statements
from tests.session.places import make_fixture, session, visits

CAP = Fraction(10**6)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "sql": statements() | st.sampled_from([f"SELECT {one}COUNT(*) FROM visits GROUP BY ALL" for one in ("", "ward, ")]),
    "within": st.sampled_from([50, "5 %", "1/3", 0.5]) | numbers(),
    "confidence": st.sampled_from([0.95, "0.5", 1]) | numbers(),
    "epsilon": st.sampled_from([0.1, "1/10", "1e-9"]) | numbers(),
    "dataset": st.sampled_from(["visits", "VISITS", "nobody's"]),
    "number": st.integers(-1, 40),
    "before": st.integers(-1, 40),
    "key": st.sampled_from(["a", "b", ""]) | texts(),
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("assistant")
    make_fixture(folder, visits(epsilon="1000000000"))
    with session(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(db: Session) -> dict[str, list[str]]:
    """The arguments of each tool, as the server itself describes them."""

    async def listed() -> dict[str, list[str]]:
        async with Client(mcp_server(Conversation(db, SpendingCap(CAP)))) as client:
            found = (await client.list_tools()).tools
            return {tool.name: sorted(tool.input_schema.get("properties", {})) for tool in found}

    return anyio.run(listed)


def test_every_argument_has_values(tools: dict[str, list[str]]) -> None:
    assert {name for arguments in tools.values() for name in arguments} == set(VALUES)


@given(data=st.data())
@effort(25)
def test_whatever_an_assistant_sends(db: Session, tools: dict[str, list[str]], data: st.DataObject) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(tools)))
        given_ = {one: bent(VALUES[one]) for one in tools[name]}
        required = {"sql", "dataset", "number"} if data.draw(st.integers(1, 8)) > 1 else set[str]()
        calls.append(
            (
                name,
                data.draw(
                    st.fixed_dictionaries(
                        {one: made for one, made in given_.items() if one in required},
                        optional={one: made for one, made in given_.items() if one not in required}
                        | {"more": plain(2)},
                    )
                ),
            )
        )
    cap = SpendingCap(CAP)

    async def talked() -> None:
        async with Client(mcp_server(Conversation(db, cap))) as client:
            for name, arguments in calls:
                before, spent = db.budget("visits").spent, cap.spent
                result = await client.call_tool(name, sendable(arguments))
                text = result.content[0].text  # type: ignore[union-attr]
                charged = db.budget("visits").spent - before
                assert charged == cap.spent - spent
                assert "internal-error" not in text and "Traceback" not in text
                assert text.strip()
                if result.is_error:
                    assert charged == 0
                else:
                    assert charged == Fraction(json.loads(text).get("charged", "0"))

    with no_incidents():
        anyio.run(talked)


def sendable(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as they come over a wire, which carries no half characters and no numbers that are none."""
    written = json.dumps(arguments).encode("utf-8", "replace").decode()
    return dict(json.loads(written, parse_constant=str))
