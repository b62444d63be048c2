"""Pieces of a statement on their own: a condition, or a list of groups, as the command line takes them."""

from __future__ import annotations

from collections.abc import Iterable

from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Axis, Predicate
from blowfishdb.sql.options import Accuracy
from blowfishdb.sql.question import read_question
from blowfishdb.sql.statement import parse


def read_where(text: str, attributes: Iterable[str]) -> Predicate:
    """The condition that the text writes: `ward = 'A3' AND age >= 18`."""
    statement = parse(f"SELECT COUNT(*) FROM t WHERE {_one_line(text)}")
    asked = read_question(statement, attributes)
    if asked.where is None or asked.groups or statement.options != Accuracy():
        raise QueryError("a condition stands alone: ward = 'A3' AND age >= 18")
    return asked.where


def read_axes(text: str, attributes: Iterable[str]) -> tuple[Axis, ...]:
    """The groups that the text writes: `sex, bin(age, 5)`."""
    statement = parse(f"SELECT {_one_line(text)}, COUNT(*) FROM t GROUP BY ALL")
    asked = read_question(statement, attributes)
    if asked.where is not None or not asked.groups or statement.options != Accuracy() or statement.table != "t":
        raise QueryError("groups are attributes, bin(x, 10), bin_edges(x, 0, 18, 65) or DATE_TRUNC('month', x)")
    return asked.groups


def _one_line(text: str) -> str:
    """The text on a line of its own, so that a comment in it cannot swallow what follows."""
    if "/*" in text:
        raise QueryError("leave comments out")
    return f"\n{text}\n"
