"""Request: one query with its accuracy target, of one dataset at the versions in force; and queries as plain data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from blowfishdb.engine.compile import DatasetHandle
from blowfishdb.engine.target import AccuracyTarget
from blowfishdb.errors import QueryError, TooLarge
from blowfishdb.model.aggregates import Affine, Aggregate
from blowfishdb.model.document import write_attribute
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
from blowfishdb.model.query import Part, PartGroup, Query, levels_of
from blowfishdb.model.serialize import LONGEST_NUMBER, LONGEST_TEXT, Field, Plain, write, write_literal

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
    values = sum(len(axis.edges) + sum(len(members) for _, members in axis.groups) for axis in query.axes)
    _exactly(query, (Query,))
    if query.ways is not None and type(query.ways) is not int:
        raise QueryError("ways is a whole number of attributes")
    _check("values that bins and groups list", values + len(query.boxes) + len(query.subsets), MOST_VALUES)
    content: dict[str, Plain] = {
        "kind": query.kind,
        "axes": [_write_axis(axis) for axis in query.axes],
        "where": None if query.where is None else _write_predicate(query.where, [0]),
        "boxes": [[[int(low), int(high)] for low, high in box] for box in query.boxes],
        "subsets": [[_write_text(name) for name in subset] for subset in query.subsets],
        "ways": query.ways,
        "levels": [str(level) for level in query.levels],
    }
    if query.clusters is not None:
        content["clusters"] = query.clusters
    if query.aggregates or (query.rows is not None and not query.parts):
        content["rows"] = query.rows
    seen = [0]
    listed: dict[str, list[Plain]] = {
        "linear": [[[cell, weight] for cell, weight in row] for row in query.linear],
        "aggregates": [_write_aggregate(part, seen) for part in query.aggregates],
        "parts": [_write_part(part) for part in query.parts],
        "groups": [write(group) for group in query.groups],
    }
    return content | {name: entries for name, entries in listed.items() if entries}


def _write_aggregate(aggregate: Aggregate, seen: list[int]) -> Plain:
    """What one column asks; what is at its default is left out."""
    _exactly(aggregate, (Aggregate,))
    content: dict[str, Plain] = {"function": aggregate.function}
    content |= {"factors": [_write_text(name) for name in aggregate.factors]} if aggregate.factors else {}
    content |= {} if aggregate.where is None else {"where": _write_predicate(aggregate.where, seen)}
    content |= {} if aggregate.level is None else {"level": str(aggregate.level)}
    content |= {"of": [_write_text(name) for name in aggregate.of]} if aggregate.of else {}
    content |= {"times": aggregate.times} if aggregate.times != 1 else {}
    content |= {"affine": [[str(scale), str(more)] for scale, more in aggregate.affine]} if aggregate.affine else {}
    content |= {"name": _write_text(aggregate.name)} if aggregate.name else {}
    return content | ({} if aggregate.tolerance is None else {"tolerance": str(aggregate.tolerance)})


def _write_part(part: Part) -> Plain:
    _exactly(part, (Part,))
    content: dict[str, Plain] = {"query": write_query(part.query), "alpha": str(part.alpha), "beta": str(part.beta)}
    return content | ({"per_query": True} if part.per_query else {})


def _write_axis(axis: Axis) -> Plain:
    _exactly(axis, (Axis,))
    return {
        "attribute": _write_text(axis.attribute),
        "width": None if axis.width is None else _literal(axis.width),
        "edges": [_literal(edge) for edge in axis.edges],
        "unit": None if axis.unit is None else _write_text(axis.unit),
        "groups": [[_write_text(name), [_literal(value) for value in values]] for name, values in axis.groups],
    }


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


QUERY_KEYS = ("kind", "axes", "where", "boxes", "subsets", "ways", "levels", "clusters", "rows", "aggregates", "linear")
AGGREGATE_KEYS = ("function", "factors", "where", "level", "of", "times", "name", "tolerance", "affine")
JOINT_KEYS = ("parts", "groups")
PART_KEYS = ("query", "alpha", "beta", "per_query")
GROUP_KEYS = ("members", "mechanism", "level")
AXIS_KEYS = ("attribute", "width", "edges", "unit", "groups")


def read_query(content: object) -> Query:
    """The query that `write_query` wrote; QueryError for anything else."""
    try:
        fields = Field(content, "the query", QueryError).fields((*QUERY_KEYS, *JOINT_KEYS))
        levels = fields["levels"].each(_level) if "levels" in fields else ()
        kind = fields["kind"].short_text()
        query = Query(
            kind=cast(Any, kind),
            axes=fields["axes"].each(_read_axis) if "axes" in fields else (),
            where=fields.optional("where", lambda where: _read_predicate(where, [0])),
            boxes=fields["boxes"].each(lambda box: box.each(_range)) if "boxes" in fields else (),
            subsets=fields["subsets"].each(lambda subset: subset.each(Field.short_text)) if "subsets" in fields else (),
            ways=fields.optional("ways", Field.whole),
            levels=levels_of(levels) if levels or kind == "quantiles" else (),
            clusters=fields.optional("clusters", Field.whole),
            rows=fields.optional("rows", Field.whole),
            aggregates=fields["aggregates"].each(_read_aggregate) if "aggregates" in fields else (),
            linear=fields["linear"].each(lambda row: row.each(_range)) if "linear" in fields else (),
            parts=fields["parts"].each(_read_part) if "parts" in fields else (),
            groups=fields["groups"].each(_read_group_of_parts) if "groups" in fields else (),
        )
        write_query(query)
    except QueryError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise QueryError("this is not a query as BlowfishDB writes it") from None
    return query


def _read_aggregate(aggregate: Field) -> Aggregate:
    fields = aggregate.fields(AGGREGATE_KEYS)
    return Aggregate(
        function=cast(Any, fields["function"].short_text()),
        factors=fields["factors"].each(Field.short_text) if "factors" in fields else (),
        where=fields.optional("where", lambda where: _read_predicate(where, [0])),
        level=fields.optional("level", _level),
        of=fields["of"].each(Field.short_text) if "of" in fields else (),
        times=fields.optional("times", Field.whole) or 1,
        name=fields.optional("name", Field.short_text) or "",
        tolerance=fields.optional("tolerance", _level),
        affine=fields["affine"].each(_affine) if "affine" in fields else (),
    )


def _read_part(part: Field) -> Part:
    fields = part.fields(PART_KEYS)
    content = fields["query"]
    content.fields(QUERY_KEYS)
    per_query = fields.optional("per_query", Field.truth) or False
    return Part(read_query(content.value), _level(fields["alpha"]), _level(fields["beta"]), per_query)


def _read_group_of_parts(group: Field) -> PartGroup:
    fields = group.fields(GROUP_KEYS)
    members, mechanism = fields["members"].each(Field.whole), fields["mechanism"].short_text()
    return PartGroup(members, mechanism, _level(fields["level"]))


def _read_axis(axis: Field) -> Axis:
    fields = axis.fields(AXIS_KEYS)
    return Axis(
        attribute=fields["attribute"].short_text(),
        width=fields.optional("width", Field.literal),
        edges=fields["edges"].each(Field.literal) if "edges" in fields else (),
        unit=fields.optional("unit", Field.short_text),
        groups=fields["groups"].each(_read_group) if "groups" in fields else (),
    )


def _read_group(group: Field) -> tuple[str, tuple[object, ...]]:
    name, values = group.pair()
    return name.short_text(), values.each(Field.literal)


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


def _affine(pair: Field) -> Affine:
    scale, more = pair.pair()
    return _level(scale), _level(more)


def _range(span: Field) -> tuple[int, int]:
    low, high = span.pair()
    return low.whole(), high.whole()


def _level(level: Field) -> Fraction:
    if len(level.text()) > LONGEST_NUMBER:
        raise QueryError("a level is a short number")
    return level.fraction()
