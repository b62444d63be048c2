"""Leaks that are planted are found, each with the same questions that tell nothing without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blowfishdb.audit.twin_questions import ALL, library, neighbouring
from blowfishdb.audit.twins import Compared, Heard, Sitting, compare
from tests.leaks.faces import SERVED_EQUAL, assistant, port, rest
from tests.leaks.planted import (
    LEAKS,
    Leak,
    Spy,
    budget_of_others,
    command_tag,
    header,
    history_of_others,
    status,
)
from tests.leaks.test_others import OTHER_ROWS, SAME_ROWS, bob, of_ana

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


ASKED = "SELECT ward, COUNT(*) FROM {} GROUP BY ward OPTIONS (epsilon = 1)"
SERVED: dict[Leak, Sitting] = {
    status: rest({"everything": {FIRST: ALL[FIRST]}}),
    header: rest({"everything": {FIRST: ALL[FIRST]}}),
    command_tag: port({"everything": (ASKED,)}),
}
"""Leaks of what a server adds to an answer, and the face that hears them."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("leak", SERVED, ids=lambda leak: leak.__name__)
def test_a_leak_beside_the_body_of_an_answer_is_found(leak: Leak, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy()
    spy.watch(monkeypatch)
    leak(spy, monkeypatch)
    assert compare(neighbouring(("everything",)), SERVED[leak], equal=SERVED_EQUAL, everywhere=True).differences


OF_OTHERS: dict[Leak, Sitting] = {
    history_of_others: assistant({"everything": (ASKED,)}),
    budget_of_others: of_ana("everything", {"histogram": ALL["histogram"]}),
}


@pytest.mark.parametrize("leak", OF_OTHERS, ids=lambda leak: leak.__name__)
def test_what_is_told_of_others_is_found(leak: Leak, monkeypatch: pytest.MonkeyPatch) -> None:
    leak(Spy(), monkeypatch)
    others = bob("everything", *SAME_ROWS), bob("everything", *OTHER_ROWS)
    assert compare(neighbouring(("everything",)), OF_OTHERS[leak], others=others).differences
