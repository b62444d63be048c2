"""Two histories of another analyst: what the first one is told is the same, whatever the other one asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from blowfishdb.audit.twin_questions import AGE, ALL, COST, WARD, Asked, account, neighbouring
from blowfishdb.audit.twins import ANALYST, Act, Compared, Heard, Sitting, compare, tell
from blowfishdb.session.session import connect
from blowfishdb.session.table import Question, Table
from tests.leaks.faces import SERVED_EQUAL, assistant, command_line, port, rest

Asking = tuple[Callable[[Table], Question], str]
"""A question of somebody else and its epsilon."""


def bob(name: str, *questions: Asking) -> Act:
    """Another analyst, who asks these questions."""

    def act(config: Path) -> None:
        with connect(config, analyst="bob") as session:
            for make, epsilon in questions:
                make(session[name]).release(epsilon=epsilon)

    return act


def of_ana(name: str, asked: Mapping[str, Asked]) -> Sitting:
    """All that these questions tell the analyst, and what the account says afterwards."""

    def script(config: Path) -> Iterator[Heard]:
        with connect(config, analyst=ANALYST) as session:
            for label, ask in {**asked, "account": account}.items():
                yield from tell(label, partial(ask, session, name))

    return script


SAME_ROWS: tuple[Asking, ...] = (
    (lambda t: t.histogram(WARD), "1/8"),
    (lambda t: t.histogram(AGE), "2"),
    (lambda t: t.histogram(AGE.bins(2)), "3/4"),
)
OTHER_ROWS: tuple[Asking, ...] = (
    (lambda t: t.sum(COST), "1/3"),
    (lambda t: t.histogram(WARD), "3/8"),
    (lambda t: t.where(AGE < 3).cdf(COST), "1/5"),
)
"""As many questions of other rows: numbers of entries count those of everybody (docs/threat-model.md)."""
ASKED = ("histogram", "levels", "plan", "too much")


def told(name: str, labels: Sequence[str], *others: Sequence[Asking]) -> tuple[str, ...]:
    first, second = (bob(name, *questions) for questions in others)
    asked = {label: ALL[label] for label in labels}
    return compare(neighbouring((name,)), of_ana(name, asked), others=(first, second)).differences


def test_what_somebody_else_asked_is_not_told() -> None:
    assert told("everything", ASKED, SAME_ROWS, OTHER_ROWS) == ()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["steps", "presence", "persons", "known"])
def test_no_kind_of_question_tells_what_somebody_else_asked(name: str) -> None:
    assert told(name, tuple(ALL), SAME_ROWS, OTHER_ROWS) == ()


STATEMENTS = (
    "EXPLAIN SELECT ward, COUNT(*) FROM {} GROUP BY ward OPTIONS (alpha = 20)",
    "SELECT ward, COUNT(*) FROM {} GROUP BY ward OPTIONS (epsilon = 0.25)",
    "SELECT age, COUNT(*) FROM {} GROUP BY age OPTIONS (epsilon = 0.5)",
    "SELECT age, COUNT(*) FROM {} GROUP BY age OPTIONS (epsilon = 1)",
    "SELECT age, COUNT(*) FROM {} GROUP BY age OPTIONS (epsilon = 99.9)",
    "SELECT age, COUNT(*) FROM {} GROUP BY age OPTIONS (epsilon = 999)",
)
"""Rows that another analyst has at levels below and above, more than is left, and more than there ever was."""
AS_ANA = ("--analyst", ANALYST)
COMMANDS = tuple(("sql", text, *AS_ANA) for text in STATEMENTS)
SERVED: Mapping[str, Sitting] = {
    "REST": rest({"everything": {label: ALL[label] for label in ASKED}}),
    "the port": port({"everything": STATEMENTS}),
    "an assistant": assistant({"everything": STATEMENTS}),
    "the command line": command_line({"everything": COMMANDS}),
}


def told_by(sitting: Sitting) -> Compared:
    others = bob("everything", *SAME_ROWS), bob("everything", *OTHER_ROWS)
    return compare(neighbouring(("everything",)), sitting, others=others, equal=SERVED_EQUAL, everywhere=True)


@pytest.mark.parametrize("face", SERVED)
def test_no_face_tells_what_somebody_else_asked(face: str) -> None:
    found = told_by(SERVED[face])
    assert found.differences == ()
    assert found.accesses >= 3
