"""Request: one query with its accuracy target, of one dataset at the versions in force; and queries as plain data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np

from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.document import write_attribute
from blowfishdb.model.predicate import (
    PREDICATES,
    Axis,
    Both,
    Comparison,
    Condition,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Predicate,
)
from blowfishdb.model.query import Part, PartGroup, Query, levels_of
from blowfishdb.model.serialize import LONGEST_NUMBER, LONGEST_TEXT, Field, Leaves, Plain, stored_fields, write_literal

STORED_KINDS = {"points": "node weights"}
"""Kinds that requests on record call by another name."""


@dataclass(frozen=True)
class Request:
    """A query, its accuracy target, and the text that the same request always has."""

    query: Query
    target: AccuracyTarget
    text: str

    @property
    def digest(self) -> str:
        """The hash of the text, by which ledgers find what was answered before."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def make_request(handle: DatasetHandle, query: Query, target: AccuracyTarget) -> Request:
    """The request; refuses queries that hold anything but plain values.

    Its text is canonical JSON; ledgers hold its hash, so it never changes. Points are asked with an epsilon alone.
    """
    priced = {"epsilon": str(target.epsilon)} if query.kind == "points" else target.to_dict()
    question = {**write_query(query), "kind": STORED_KINDS.get(query.kind, query.kind)}
    content = {"question": question, "demand": priced, "versions": handle.versions()}
    return Request(query, target, json.dumps(content, sort_keys=True, ensure_ascii=True))


def subject_of(handle: DatasetHandle, query: Query, attributes: Iterable[str]) -> str:
    """A name for the true answer of a query: the rows, what counts of them, how values are read, and the question."""
    content = {
        "account": handle.account,
        "snapshot": handle.snapshot,
        "unit": repr(handle.policy.unit),
        "attributes": {name: write_attribute(handle.domain[name]) for name in sorted(attributes)},
        "question": write_query(query),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


MOST_CONDITIONS = 256
MOST_VALUES = 100_000


def write_query(query: Query) -> dict[str, Plain]:
    """Everything the question says; QueryError for values that are no plain numbers, texts or dates."""
    _exactly(query, (Query,))
    values = sum(len(axis.edges) + sum(len(members) for _, members in axis.groups) for axis in query.axes)
    if query.ways is not None and type(query.ways) is not int:
        raise QueryError("ways is a whole number of attributes")
    _check("values that bins and groups list", values + len(query.boxes) + len(query.subsets), MOST_VALUES)
    content = _write_fields(query, always=(*ALWAYS, "rows") if query.aggregates else ALWAYS)
    return {name: part for name, part in content.items() if name != "rows" or not query.parts}


ALWAYS = ("kind", "axes", "where", "boxes", "subsets", "ways", "levels")
"""Fields of a query that are written even at their default; all others are left out then."""


def _write_fields(
    value: Query | Aggregate | Part | PartGroup, seen: list[int] | None = None, always: tuple[str, ...] = ()
) -> dict[str, Plain]:
    """The fields of a value; `seen` counts conditions, in each field of a query by itself."""
    parts = {field.name: (getattr(value, field.name), field.default) for field in stored_fields(value)}
    told = ((name, part) for name, (part, usual) in parts.items() if name in always or part != usual)
    return {name: _write(part, [0] if seen is None else seen) for name, part in told}


def _write(value: Any, seen: list[int]) -> Plain:
    """A part of a question; `seen` counts its conditions. Only exact types, whose behaviour nobody can change."""
    match value:
        case Query():
            return write_query(value)
        case Axis(attribute, width, edges, unit, groups):
            _exactly(value, (Axis,))
            return {
                "attribute": _write_text(attribute),
                "width": None if width is None else _literal(width),
                "edges": [_literal(edge) for edge in edges],
                "unit": None if unit is None else _write_text(unit),
                "groups": [[_write_text(name), [_literal(one) for one in values]] for name, values in groups],
            }
        case Aggregate() | Part() | PartGroup():
            _exactly(value, (Aggregate, Part, PartGroup))
            return _write_fields(value, seen)
        case Condition():
            return _write_predicate(cast(Predicate, value), seen)
        case tuple() | list():
            return [_write(part, seen) for part in value]
        case Fraction():
            return str(value)
        case None | bool():
            return value
        case int() | np.integer():
            return int(value)
    return _write_text(value)


def _write_predicate(part: Predicate, seen: list[int]) -> Plain:
    """The condition as nested lists; `seen` counts its parts, so that a chain of them is refused before it is deep."""
    _exactly(part, PREDICATES)
    seen[0] += 2 if isinstance(part, Both | Either | Negation) else 1
    _check("conditions of a filter", seen[0] // 2, MOST_CONDITIONS)
    match part:
        case Both() | Either():
            return [type(part).__name__, _write_predicate(part.first, seen), _write_predicate(part.second, seen)]
        case Negation():
            return ["Negation", _write_predicate(part.inner, seen)]
        case Comparison():
            return [part.op, _write_text(part.attribute), _literal(part.value)]
        case Member():
            _check("values of a filter", len(part.values), MOST_VALUES)
            return ["isin", _write_text(part.attribute), [_literal(value) for value in part.values]]
    return [type(part).__name__, _write_text(part.attribute)]


def _literal(value: object) -> Plain:
    return write_literal(value, QueryError)


def _exactly(part: object, kinds: tuple[type, ...]) -> None:
    """Refuses subclasses: their values could change between the quote and the count."""
    if type(part) not in kinds:
        raise QueryError(f"a question is made of columns, bins and conditions, not of {type(part).__name__}")


def _write_text(name: object) -> str:
    if type(name) is not str or not 0 < len(name) <= LONGEST_TEXT:
        raise QueryError("names are texts")
    return name


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise TooLarge(what, count, limit, "Ask for less at once.")


def read_query(content: object) -> Query:
    """The query that `write_query` wrote; QueryError for anything else."""
    try:
        query: Query = Field(content, "the query", QueryError).read(Query, LEAVES)
        for one in (query, *(part.query for part in query.parts)):
            if one.kind == "quantiles":
                levels_of(one.levels)
        write_query(query)
    except QueryError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise QueryError("this is not a query as BlowfishDB writes it") from None
    return query


def _read_predicate(condition: Field, seen: list[int]) -> Predicate:
    seen[0] += 1
    if seen[0] > 2 * MOST_CONDITIONS:
        raise QueryError(f"a filter has at most {MOST_CONDITIONS} conditions")
    head, *rest = condition.items()
    match head.value, len(rest):
        case "Both", 2:
            return Both(_read_predicate(rest[0], seen), _read_predicate(rest[1], seen))
        case "Either", 2:
            return Either(_read_predicate(rest[0], seen), _read_predicate(rest[1], seen))
        case "Negation", 1:
            return Negation(_read_predicate(rest[0], seen))
        case "isin", 2:
            return Member(rest[0].short_text(), rest[1].each(Field.literal))
        case "IsNull", 1:
            return IsNull(rest[0].short_text())
        case "IsOutside", 1:
            return IsOutside(rest[0].short_text())
        case "==" | "<" | "<=" | ">" | ">=", 2:
            return Comparison(rest[0].short_text(), head.value, rest[1].literal())
    raise QueryError("a condition is a comparison, isin, IsNull, IsOutside, Both, Either or Negation")


def _level(level: Field) -> Fraction:
    if len(level.text()) > LONGEST_NUMBER:
        raise QueryError("a level is a short number")
    return level.fraction()


LEAVES: Leaves = {
    str: Field.short_text,
    int: Field.whole,
    bool: Field.truth,
    object: Field.literal,
    Fraction: _level,
    Predicate: lambda condition: _read_predicate(condition, [0]),
}
