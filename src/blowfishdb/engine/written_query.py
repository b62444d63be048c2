"""A question as plain data: checked for size and for values of odd types, and the same for the same question."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.predicate import (
    PREDICATES,
    Axis,
    Both,
    Comparison,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Predicate,
)
from blowfishdb.model.query import Query

Plain: TypeAlias = bool | int | str | list["Plain"] | dict[str, "Plain"] | None

MOST_CONDITIONS = 256
MOST_VALUES = 100_000
LONGEST_TEXT = 10_000
LITERALS = (bool, int, float, str, Decimal, Fraction, datetime.date, datetime.datetime)


def write_query(asked: Query) -> dict[str, Plain]:
    """Everything the question says; QueryError for values that are no plain numbers, texts or dates."""
    values = sum(len(axis.edges) + sum(len(members) for _, members in axis.groups) for axis in asked.axes)
    _exactly(asked, (Query,))
    if asked.ways is not None and type(asked.ways) is not int:
        raise QueryError("ways is a whole number of attributes")
    _check("values that bins and groups list", values + len(asked.boxes) + len(asked.subsets), MOST_VALUES)
    return {
        "kind": asked.kind,
        "axes": [_axis(axis) for axis in asked.axes],
        "where": None if asked.where is None else _predicate(asked.where),
        "boxes": [[[int(low), int(high)] for low, high in box] for box in asked.boxes],
        "subsets": [[_text(name) for name in subset] for subset in asked.subsets],
        "ways": asked.ways,
        "levels": [str(level) for level in asked.levels],
    }


def request_digest(
    asked: Mapping[str, Plain], demanded: Mapping[str, str | None], versions: Mapping[str, str | int]
) -> str:
    """A hash that two requests share only when they ask the same, of the same data under the same versions."""
    return text_digest(request_text(asked, demanded, versions))


def request_text(
    asked: Mapping[str, Plain], demanded: Mapping[str, str | None], versions: Mapping[str, str | int]
) -> str:
    """The whole request as canonical JSON; ledgers hold its hash, so it never changes."""
    whole = {"question": asked, "demand": demanded, "versions": versions}
    return json.dumps(whole, sort_keys=True, ensure_ascii=True)


def text_digest(text: str) -> str:
    """The hash of a request's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _axis(axis: Axis) -> Plain:
    _exactly(axis, (Axis,))
    return {
        "attribute": _text(axis.attribute),
        "width": None if axis.width is None else _literal(axis.width),
        "edges": [_literal(edge) for edge in axis.edges],
        "unit": None if axis.unit is None else _text(axis.unit),
        "groups": [[_text(name), [_literal(value) for value in values]] for name, values in axis.groups],
    }


def _predicate(predicate: Predicate) -> Plain:
    """The condition, inside out: a chain of conditions is deep, and Python's stack is not."""
    finished: list[Plain] = []
    waiting: list[tuple[Predicate, bool]] = [(predicate, False)]
    seen = 0
    while waiting:
        part, is_ready = waiting.pop()
        _exactly(part, PREDICATES)
        seen += 1
        _check("conditions of a filter", seen // 2, MOST_CONDITIONS)
        if isinstance(part, Both | Either):
            if is_ready:
                second, first = finished.pop(), finished.pop()
                finished.append([type(part).__name__, first, second])
            else:
                waiting += [(part, True), (part.second, False), (part.first, False)]
        elif isinstance(part, Negation):
            if is_ready:
                finished.append(["Negation", finished.pop()])
            else:
                waiting += [(part, True), (part.inner, False)]
        else:
            finished.append(_atom(part))
    return finished[0]


def _atom(part: Comparison | Member | IsNull | IsOutside) -> Plain:
    name = _text(part.attribute)
    if isinstance(part, Comparison):
        return [part.op, name, _literal(part.value)]
    if isinstance(part, Member):
        _check("values of a filter", len(part.values), MOST_VALUES)
        return ["isin", name, [_literal(value) for value in part.values]]
    return [type(part).__name__, name]


def _literal(value: object) -> Plain:
    """A value with its type, so that 1, '1' and true differ; only exact types, whose behaviour nobody can change."""
    if type(value) not in LITERALS:
        raise QueryError(f"a value is a number, a text, a date or a time, not {type(value).__name__}")
    text = str(value) if not isinstance(value, int) or abs(value) < 10**40 else None
    if text is None or len(text) > LONGEST_TEXT:
        raise QueryError(f"a value is at most {LONGEST_TEXT:,} characters long, a number at most 40 digits")
    return [type(value).__name__, text]


def _exactly(part: object, kinds: tuple[type, ...]) -> None:
    """Refuses subclasses: their values could change between the quote and the count."""
    if type(part) not in kinds:
        raise QueryError(f"a question is made of columns, bins and conditions, not of {type(part).__name__}")


def _text(name: object) -> str:
    if type(name) is not str or not 0 < len(name) <= LONGEST_TEXT:
        raise QueryError("names are texts")
    return name


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise TooLarge(what, count, limit, "Ask for less at once.")
