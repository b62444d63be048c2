"""Queries and accuracy targets as plain data and back; anything unknown or of an odd type is refused."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias, cast

from blowfishdb.engine.target import AccuracyTarget, accuracy_target
from blowfishdb.errors import AccuracyError, QueryError, TooLarge
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
    Op,
    Predicate,
)
from blowfishdb.model.query import Query, levels_of

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
        "axes": [_write_axis(axis) for axis in asked.axes],
        "where": None if asked.where is None else _write_predicate(asked.where),
        "boxes": [[[int(low), int(high)] for low, high in box] for box in asked.boxes],
        "subsets": [[_write_text(name) for name in subset] for subset in asked.subsets],
        "ways": asked.ways,
        "levels": [str(level) for level in asked.levels],
    }


def request_digest(
    asked: Mapping[str, Plain], target: Mapping[str, str | None], versions: Mapping[str, str | int]
) -> str:
    """A hash that two requests share only when they ask the same, of the same data under the same versions."""
    return text_digest(request_text(asked, target, versions))


def request_text(
    asked: Mapping[str, Plain], target: Mapping[str, str | None], versions: Mapping[str, str | int]
) -> str:
    """The whole request as canonical JSON; ledgers hold its hash, so it never changes."""
    whole = {"question": asked, "demand": target, "versions": versions}
    return json.dumps(whole, sort_keys=True, ensure_ascii=True)


def text_digest(text: str) -> str:
    """The hash of a request's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _write_axis(axis: Axis) -> Plain:
    _exactly(axis, (Axis,))
    return {
        "attribute": _write_text(axis.attribute),
        "width": None if axis.width is None else _write_literal(axis.width),
        "edges": [_write_literal(edge) for edge in axis.edges],
        "unit": None if axis.unit is None else _write_text(axis.unit),
        "groups": [[_write_text(name), [_write_literal(value) for value in values]] for name, values in axis.groups],
    }


def _write_predicate(predicate: Predicate) -> Plain:
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
    name = _write_text(part.attribute)
    if isinstance(part, Comparison):
        return [part.op, name, _write_literal(part.value)]
    if isinstance(part, Member):
        _check("values of a filter", len(part.values), MOST_VALUES)
        return ["isin", name, [_write_literal(value) for value in part.values]]
    return [type(part).__name__, name]


def _write_literal(value: object) -> Plain:
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


def _write_text(name: object) -> str:
    if type(name) is not str or not 0 < len(name) <= LONGEST_TEXT:
        raise QueryError("names are texts")
    return name


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise TooLarge(what, count, limit, "Ask for less at once.")


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
TARGET_KEYS = {"alpha", "epsilon", "beta", "guarantee", "mechanism"}


def read_query(written: object) -> Query:
    """The question that `write_query` wrote; QueryError for anything else."""
    try:
        content = _object(written, QUERY_KEYS)
        found = Query(
            kind=cast(Any, _read_text(content["kind"])),
            axes=tuple(_read_axis(axis) for axis in _list(content.get("axes", []))),
            where=None if content.get("where") is None else _read_predicate(content["where"], [0]),
            boxes=tuple(tuple(_range(span) for span in _list(box)) for box in _list(content.get("boxes", []))),
            subsets=tuple(tuple(map(_read_text, _list(subset))) for subset in _list(content.get("subsets", []))),
            ways=_ways(content.get("ways")),
            levels=_levels(content["kind"], _list(content.get("levels", []))),
        )
        write_query(found)
    except QueryError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError):
        raise QueryError("this is not a question as BlowfishDB writes it") from None
    return found


def read_target(written: object) -> AccuracyTarget:
    """The demand that `Demand.written` wrote, keys left out meaning what they usually do; AccuracyError otherwise."""
    if not isinstance(written, Mapping) or not set(written) <= TARGET_KEYS:
        raise AccuracyError(f"a demand is an object with some of {', '.join(sorted(TARGET_KEYS))}")
    guarantee = written.get("guarantee") or "simultaneous"
    if guarantee not in ("simultaneous", "per-query"):
        raise AccuracyError("the guarantee is 'simultaneous' or 'per-query'")
    return accuracy_target(
        alpha=written.get("alpha"),
        beta=written.get("beta"),
        epsilon=written.get("epsilon"),
        mechanism=written.get("mechanism"),
        per_query=guarantee == "per-query",
    )


def _read_axis(written: object) -> Axis:
    content = _object(written, {"attribute", "width", "edges", "unit", "groups"})
    width, unit = content.get("width"), content.get("unit")
    groups = [_pair(group) for group in _list(content.get("groups", []))]
    return Axis(
        attribute=_read_text(content["attribute"]),
        width=None if width is None else _read_literal(width),
        edges=tuple(_read_literal(edge) for edge in _list(content.get("edges", []))),
        unit=None if unit is None else _read_text(unit),
        groups=tuple(
            (_read_text(name), tuple(_read_literal(value) for value in _list(values))) for name, values in groups
        ),
    )


def _read_predicate(written: object, seen: list[int]) -> Predicate:
    seen[0] += 1
    if seen[0] > 2 * MOST_CONDITIONS:
        raise QueryError(f"a filter has at most {MOST_CONDITIONS} conditions")
    head, *rest = _list(written)
    match head, len(rest):
        case "Both", 2:
            return Both(_read_predicate(rest[0], seen), _read_predicate(rest[1], seen))
        case "Either", 2:
            return Either(_read_predicate(rest[0], seen), _read_predicate(rest[1], seen))
        case "Negation", 1:
            return Negation(_read_predicate(rest[0], seen))
        case "isin", 2:
            return Member(_read_text(rest[0]), tuple(_read_literal(value) for value in _list(rest[1])))
        case "IsNull", 1:
            return IsNull(_read_text(rest[0]))
        case "IsOutside", 1:
            return IsOutside(_read_text(rest[0]))
        case _, 2 if head in COMPARISONS:
            return Comparison(_read_text(rest[0]), cast(Op, head), _read_literal(rest[1]))
    raise QueryError("a condition is a comparison, isin, IsNull, IsOutside, Both, Either or Negation")


def _read_literal(written: object) -> object:
    """A value that was written with its type; plain numbers, texts and truths stand for themselves."""
    if isinstance(written, bool | int | float):
        return written
    if isinstance(written, str):
        return _read_text(written)
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
    text = _read_text(written)
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


def _read_text(written: object) -> str:
    if not isinstance(written, str) or not len(written) <= LONGEST_TEXT:
        raise QueryError("a text was expected")
    return written
