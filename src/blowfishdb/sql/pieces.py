"""Pieces of a statement on their own: a condition, or a list of groups, as the command line takes them."""

from __future__ import annotations

from collections.abc import Iterable

from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Axis, Predicate, as_axes
from blowfishdb.sql.options import Accuracy
from blowfishdb.sql.question import Asked, read_question
from blowfishdb.sql.statement import parse

CONDITION = "a condition is written ward = 'A3' AND age >= 18"
GROUPS = "groups are written sex, bin(age, 5), bin_edges(age, 0, 18, 65) or DATE_TRUNC('month', day)"


def read_where(text: str, attributes: Iterable[str]) -> Predicate:
    """The condition that the text writes: `ward = 'A3' AND age >= 18`."""
    asked = _asked("SELECT COUNT(*) FROM t WHERE", text, "", attributes, CONDITION)
    if asked.where is None or asked.groups:
        raise QueryError(CONDITION)
    return asked.where


def read_axes(text: str, attributes: Iterable[str]) -> tuple[Axis, ...]:
    """The groups that the text writes: `sex, bin(age, 5)`; names as they are declared need no quotes here."""
    known = list(attributes)
    for names in ([text], text.split(",")) if isinstance(text, str) else ():
        plain = [name.strip() for name in names]
        if all(name in known for name in plain):
            return as_axes(plain)
    asked = _asked("SELECT", text, ", COUNT(*) FROM t GROUP BY ALL", known, GROUPS)
    if asked.where is not None or not asked.groups:
        raise QueryError(GROUPS)
    return asked.groups


def _asked(before: str, text: str, after: str, attributes: Iterable[str], advice: str) -> Asked:
    """The question around a piece; the piece stands on a line of its own, so that no comment swallows the rest."""
    if not isinstance(text, str) or "/*" in text:
        raise QueryError(advice)
    try:
        statement = parse(f"{before}\n{text}\n{after}")
        asked = read_question(statement, attributes)
    except QueryError as error:
        reason, _, _ = str(error).partition(". What works: ")
        raise QueryError(f"{reason}; {advice}" if reason != str(error) else reason) from None
    if statement.explain or statement.table != "t" or statement.options != Accuracy() or asked.measure != "count":
        raise QueryError(advice)
    return asked
