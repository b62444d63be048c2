"""Leaks that are planted are found, each with the same questions that tell nothing without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blowfishdb.audit.twin_questions import ALL, library, neighbouring
from blowfishdb.audit.twins import Compared, Heard, compare
from tests.leaks.planted import LEAKS, Leak, Spy

FIRST = "histogram of two"


def found(spy: Spy, name: str, label: str) -> Compared:
    """The comparison of two worlds that are asked for a table, then this question."""

    def script(config: Path) -> Iterator[Heard]:
        spy.folder = config.parent
        yield from library({name: {FIRST: ALL[FIRST], label: ALL[label]}})(config)

    return compare(neighbouring((name,)), script)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_a_planted_leak_is_found(leak: Leak, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy()
    spy.watch(monkeypatch)
    leak(spy, monkeypatch)
    assert found(spy, *LEAKS[leak]).differences


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "label"), sorted(set(LEAKS.values())))
def test_without_a_leak_nothing_is_found(name: str, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy()
    spy.watch(monkeypatch)
    assert found(spy, name, label).differences == ()
