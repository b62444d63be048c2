"""Neighbouring tables with coupled noise: all that Python and SQL tell is the same, byte by byte."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from blowfishdb.audit.twin_questions import ALL, NEIGHBOURHOODS, Asked, library, neighbouring, rotated
from blowfishdb.audit.twins import DATA, Compared, Heard, compare
from blowfishdb.engine.charge import Draw
from blowfishdb.model.numbers import Ints

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


ROWS = ("histogram", "levels", "sum", "synopsis")


@pytest.mark.parametrize("name", ["everything", pytest.param("persons_gone", marks=pytest.mark.nightly)])
def test_a_file_that_is_rewritten_while_it_is_counted_tells_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins, usual, moments = neighbouring((name,)), Draw.count, list[int]()
    config = Path()

    def counting(draw: Draw) -> Ints:
        """The counts, after which the same rows are in another file, written at another moment."""
        counts = usual(draw)
        file, new = config.parent / DATA, config.parent / "new.duckdb"
        shutil.copyfile(file, new)
        moments.append(file.stat().st_mtime_ns + 10**9 * (1 + len(moments)))
        os.utime(new, ns=(moments[-1], moments[-1]))
        os.replace(new, file)
        return counts

    def script(world: Path) -> Iterator[Heard]:
        nonlocal config
        config = world
        # What is written while it is counted was written at the same moments in both worlds.
        moments.clear()
        os.utime(config.parent / DATA, ns=(10**18, 10**18))
        yield from library({name: {label: ALL[label] for label in ROWS}})(config)

    monkeypatch.setattr(Draw, "count", counting)
    found = compare(twins, script)
    assert found.differences == ()
    assert len(moments) > len(ROWS)
