"""Neighbouring tables with coupled noise: all that Python and SQL tell is the same, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from blowfishdb.audit.twin_questions import ALL, NEIGHBOURHOODS, Asked, library, neighbouring, rotated
from blowfishdb.audit.twins import Compared, Heard, compare

REFUSED = {"too much", "SQL, unknown column"}
"""Questions that are asked for the words of their refusal."""
TURNS = [0, *(pytest.param(turn, marks=pytest.mark.nightly) for turn in range(1, len(NEIGHBOURHOODS)))]


def compared(asked: Mapping[str, Mapping[str, Asked]], refused: set[str]) -> Compared:
    """The comparison of these questions; notes which of them ended in an error."""

    def script(config: Path) -> Iterator[Heard]:
        for told in library(asked)(config):
            if told.part == "error":
                refused.add(told.label.partition(": ")[2])
            yield told

    return compare(neighbouring(tuple(asked)), script)


@pytest.mark.parametrize("turn", TURNS)
def test_every_kind_of_question_tells_the_same_of_two_tables(turn: int) -> None:
    refused: set[str] = set()
    found = compared(rotated(turn), refused)
    assert found.differences == ()
    assert found.accesses > 60 and found.told > 1000
    assert turn or refused == REFUSED


@pytest.mark.nightly
@pytest.mark.parametrize("name", NEIGHBOURHOODS)
def test_every_kind_of_question_under_every_policy(name: str) -> None:
    assert compared({name: ALL}, set()).differences == ()
