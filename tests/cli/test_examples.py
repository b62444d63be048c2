"""Every example in the help and on the pages is a command that can be typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from blowfishdb.cli.serve import STOPS
from tests.cli.test_help import COMMANDS, PAGE

SQL_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text()


def examples() -> Iterator[str]:
    """The command lines of the help and the pages, continued lines joined."""
    texts = [PAGE, SQL_PAGE, *(str(getattr(command, "help", "")) for command in COMMANDS.values())]
    for text in texts:
        joined = re.sub(r"\\\n\s*", "", text)
        yield from re.findall(
            r"^ +(blowfish (?:demo|preview|release|sql|dataset|policy|ledger) .*)$", joined, re.MULTILINE
        )


EXAMPLES = sorted(set(examples()))


def parses(words: list[str]) -> None:
    """Has the options of a command read, without running it."""
    depth = 2 if words[0] in ("dataset", "policy", "ledger") else 1
    command = COMMANDS[" ".join(["blowfish", *words[:depth]])]
    command.make_context("blowfish", words[depth:])  # type: ignore[attr-defined]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 30


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_typed(example: str) -> None:
    words = shlex.split(example, comments=True)
    parses(words[1 : words.index("|") if "|" in words else None])


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: " ".join(stop.command[:2]))
def test_a_stop_of_the_tour_can_be_typed(stop: object) -> None:
    parses(["--plot" if word == "{plot}" else word for word in stop.command])  # type: ignore[attr-defined]
