"""Questions and demands back from plain data, as a server or a file hands them in; anything odd is refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, cast

from blowfishdb.engine.demand import Demand, demand
from blowfishdb.engine.written_query import LONGEST_TEXT, MOST_CONDITIONS, write_query
from blowfishdb.errors import AccuracyError, QueryError
from blowfishdb.model.predicate import (
    Axis,
    Both,
    Comparison,
    Either,
    IsNull,
    IsOutside,
    Member,
    Negation,
    Op,
    Predicate,
)
from blowfishdb.model.query import Query, levels_of

Read = Callable[[str], object]
TYPES: dict[str, Read] = {
    "bool": lambda text: {"True": True, "False": False}[text],
    "int": int,
    "float": float,
    "str": str,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "date": datetime.date.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}
COMPARISONS = ("==", "<", "<=", ">", ">=")
QUERY_KEYS = {"kind", "axes", "where", "boxes", "subsets", "ways", "levels"}
DEMAND_KEYS = {"alpha", "epsilon", "beta", "guarantee", "mechanism"}


def read_query(written: object) -> Query:
    """The question that `write_query` wrote; QueryError for anything else."""
    try:
        content = _object(written, QUERY_KEYS)
        found = Query(
            kind=cast(Any, _text(content["kind"])),
            axes=tuple(_axis(axis) for axis in _list(content.get("axes", []))),
            where=None if content.get("where") is None else _predicate(content["where"], [0]),
            boxes=tuple(tuple(_range(span) for span in _list(box)) for box in _list(content.get("boxes", []))),
            subsets=tuple(tuple(map(_text, _list(subset))) for subset in _list(content.get("subsets", []))),
            ways=_ways(content.get("ways")),
            levels=_levels(content["kind"], _list(content.get("levels", []))),
        )
        write_query(found)
    except QueryError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise QueryError("this is not a question as BlowfishDB writes it") from None
    return found


def read_demand(written: object) -> Demand:
    """The demand that `Demand.written` wrote, keys left out meaning what they usually do; AccuracyError otherwise."""
    if not isinstance(written, Mapping) or not set(written) <= DEMAND_KEYS:
        raise AccuracyError(f"a demand is an object with some of {', '.join(sorted(DEMAND_KEYS))}")
    guarantee = written.get("guarantee") or "simultaneous"
    if guarantee not in ("simultaneous", "per-query"):
        raise AccuracyError("the guarantee is 'simultaneous' or 'per-query'")
    return demand(
        alpha=written.get("alpha"),
        beta=written.get("beta"),
        epsilon=written.get("epsilon"),
        mechanism=written.get("mechanism"),
        per_query=guarantee == "per-query",
    )


def _axis(written: object) -> Axis:
    content = _object(written, {"attribute", "width", "edges", "unit", "groups"})
    width, unit = content.get("width"), content.get("unit")
    groups = [_pair(group) for group in _list(content.get("groups", []))]
    return Axis(
        attribute=_text(content["attribute"]),
        width=None if width is None else _literal(width),
        edges=tuple(_literal(edge) for edge in _list(content.get("edges", []))),
        unit=None if unit is None else _text(unit),
        groups=tuple((_text(name), tuple(_literal(value) for value in _list(values))) for name, values in groups),
    )


def _predicate(written: object, seen: list[int]) -> Predicate:
    seen[0] += 1
    if seen[0] > 2 * MOST_CONDITIONS:
        raise QueryError(f"a filter has at most {MOST_CONDITIONS} conditions")
    head, *rest = _list(written)
    match head, len(rest):
        case "Both", 2:
            return Both(_predicate(rest[0], seen), _predicate(rest[1], seen))
        case "Either", 2:
            return Either(_predicate(rest[0], seen), _predicate(rest[1], seen))
        case "Negation", 1:
            return Negation(_predicate(rest[0], seen))
        case "isin", 2:
            return Member(_text(rest[0]), tuple(_literal(value) for value in _list(rest[1])))
        case "IsNull", 1:
            return IsNull(_text(rest[0]))
        case "IsOutside", 1:
            return IsOutside(_text(rest[0]))
        case _, 2 if head in COMPARISONS:
            return Comparison(_text(rest[0]), cast(Op, head), _literal(rest[1]))
    raise QueryError("a condition is a comparison, isin, IsNull, IsOutside, Both, Either or Negation")


def _literal(written: object) -> object:
    """A value that was written with its type; plain numbers, texts and truths stand for themselves."""
    if isinstance(written, bool | int | float):
        return written
    if isinstance(written, str):
        return _text(written)
    kind, text = _pair(written)
    if kind not in TYPES or not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise QueryError(f"a value is written as [type, text] with a type in {', '.join(TYPES)}")
    if kind != "str" and len(text) > 64:
        raise QueryError("a number or a date is at most 64 characters long")
    try:
        return TYPES[kind](text)
    except (ValueError, KeyError, InvalidOperation, ZeroDivisionError):
        raise QueryError(f"{text[:40]!r} is no {kind}") from None


def _range(written: object) -> tuple[int, int]:
    low, high = _pair(written)
    if type(low) is not int or type(high) is not int:
        raise QueryError("a range is a pair of whole numbers")
    return low, high


def _ways(written: object) -> int | None:
    if written is not None and type(written) is not int:
        raise QueryError("ways is a whole number of attributes")
    return written


def _levels(kind: object, written: Sequence[object]) -> tuple[Fraction, ...]:
    return levels_of(_number(level) for level in written) if written or kind == "quantiles" else ()


def _number(written: object) -> Fraction:
    text = _text(written)
    if len(text) > 64:
        raise QueryError("a level is a short number")
    return Fraction(text)


def _object(written: object, keys: set[str]) -> Mapping[str, object]:
    if not isinstance(written, Mapping) or not set(written) <= keys:
        raise QueryError(f"an object with some of {', '.join(sorted(keys))} was expected")
    return written


def _list(written: object) -> Sequence[object]:
    if not isinstance(written, list):
        raise QueryError("a list was expected")
    return written


def _pair(written: object) -> tuple[object, object]:
    listed = _list(written)
    if len(listed) != 2:
        raise QueryError("a list of two was expected")
    return listed[0], listed[1]


def _text(written: object) -> str:
    if not isinstance(written, str) or not len(written) <= LONGEST_TEXT:
        raise QueryError("a text was expected")
    return written
