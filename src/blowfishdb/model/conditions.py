"""Conditions on attributes as SQL writes them: from a text, or from a parsed statement, to a predicate.

The one module of the model that needs sqlglot, which parses and never runs anything; imported by the functions that
read text, so that importing the model stays light.
"""

from __future__ import annotations

import calendar
import datetime
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import reduce
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from blowfishdb.errors import QueryError
from blowfishdb.model.domain import CELL, Categorical, Domain
from blowfishdb.model.numbers import exact, suggest
from blowfishdb.model.predicate import (
    KEYWORDS,
    NAME,
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

LONGEST_SHOWN = 60
LISTED = 5
ONE_DAY = datetime.timedelta(days=1)
MOST_CONDITIONS = 128
CONDITIONS_HELP = (
    "conditions compare an attribute with a value: age >= 18, state IN ('NC', 'VA'), cost BETWEEN 0 AND 100, x IS NULL"
)

COMPARED: dict[type[exp.Expression], Op] = {exp.EQ: "==", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
ARITHMETIC: dict[type[exp.Expression], Callable[[Fraction, Fraction], Fraction]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
TURNED: dict[Op, Op] = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def read_condition(node: exp.Expression, names: Names) -> Predicate:
    """The condition of a parsed node."""
    if isinstance(node, exp.Paren):
        return read_condition(node.this, names)
    if isinstance(node, exp.And | exp.Or):
        parts = [read_condition(part, names) for part in chain(node)]
        if len(parts) > MOST_CONDITIONS:
            raise QueryError(f"at most {MOST_CONDITIONS} conditions are joined in one row; use IN (...)")
        joined = Both if isinstance(node, exp.And) else Either
        return reduce(joined, parts) if names.are_free else _balanced(parts, joined)
    if isinstance(node, exp.Not):
        return Negation(read_condition(node.this, names))
    if isinstance(node, exp.NEQ):
        return Negation(_comparison(node, "==", names))
    if type(node) in COMPARED:
        return _comparison(node, COMPARED[type(node)], names)
    if isinstance(node, exp.Between):
        return _between(node, names)
    if isinstance(node, exp.In):
        return _member(node, names)
    if isinstance(node, exp.Is):
        return _is(node, names)
    if isinstance(node, exp.Like | exp.ILike | exp.StartsWith) and names.declared is not None:
        return _like(node, names.declared, names)
    if names.declared is not None and isinstance(node, exp.Column) and is_truth(names.find(node), names.declared):
        return Comparison(names.attribute(node, CONDITIONS_HELP), "==", True)
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "OUTSIDE" and len(node.expressions) == 1:
        return IsOutside(names.attribute(node.expressions[0], CONDITIONS_HELP))
    return _refuse(node, names)


def chain(node: exp.Expression) -> list[exp.Expression]:
    """The operands of a run of ANDs, or of ORs, from left to right; the parser leans such runs to the left."""
    kind, parts = type(node), []
    while type(node) is kind:
        parts.append(node.args["expression"])
        node = node.this
    return [node, *reversed(parts)]


def _balanced(parts: list[Predicate], joined: type[Both] | type[Either]) -> Predicate:
    """One condition of small depth; AND and OR may be bracketed in any way."""
    while len(parts) > 1:
        pairs = [parts[place : place + 2] for place in range(0, len(parts), 2)]
        parts = [reduce(joined, pair) for pair in pairs]
    return parts[0]


def _comparison(node: exp.Expression, op: Op, names: Names) -> Predicate:
    left, right = node.this, node.args["expression"]
    if not names.are_free and _is_turned(left, right, names):
        left, right, op = right, left, TURNED[op]
    year = _year(left, names)
    if year is not None:
        return _in_years(year, op, _value(right, names))
    values = _grouped_values(left, names)
    if values is not None:
        return values.where((op, _value(right, names)))
    return Comparison(names.attribute(left, CONDITIONS_HELP), op, _value(right, names))


def _is_turned(left: exp.Expression, right: exp.Expression, names: Names) -> bool:
    """Whether the value stands before what it is compared with."""
    if names.find(left) is not None:
        return False
    return names.find(right) is not None or (value_of(left) is not None and value_of(right) is None)


def _year(node: exp.Expression, names: Names) -> str | None:
    """The attribute whose year a node takes."""
    if names.are_free:
        return None
    if isinstance(node, exp.Extract) and str(node.this.name).lower() == "year":
        node = node.expression
    elif isinstance(node, exp.Year):
        node = node.this
    else:
        return None
    return names.attribute(without_date_cast(node), CONDITIONS_HELP)


def without_date_cast(node: exp.Expression) -> exp.Expression:
    """What is cast to a date or a moment, which keeps the parts of its date; other nodes as they are."""
    while isinstance(node, exp.Paren | exp.TsOrDsToDate) or (
        isinstance(node, exp.Cast | exp.Date)
        and only(node, "this", "to", "safe")
        and (isinstance(node, exp.Date) or node.to.is_type(*KEEP_DATES))
    ):
        node = node.this
    return node


def _in_years(name: str, op: Op, year: ConditionValue) -> Predicate:
    """A comparison of a date's year, as one with the first day of this year or of the next."""
    if isinstance(year, str) and WHOLE.fullmatch(year):
        year = number(year)
    if not isinstance(year, int) or isinstance(year, bool) or not 1 <= year < LAST_YEAR:
        raise QueryError("a year is compared with a number such as 2024")
    first, after = f"{year:04}-01-01", f"{year + 1:04}-01-01"
    if op == "==":
        return Comparison(name, ">=", first) & Comparison(name, "<", after)
    if op in (">=", "<"):
        return Comparison(name, op, first)
    return Comparison(name, ">=" if op == ">" else "<", after)


def _between(node: exp.Between, names: Names) -> Predicate:
    if not only(node, "this", "low", "high"):
        raise QueryError("BETWEEN takes its low end first, then its high end, both included")
    low, high = _value(node.args["low"], names), _value(node.args["high"], names)
    year = _year(node.this, names)
    if year is not None:
        return Both(_in_years(year, ">=", low), _in_years(year, "<=", high))
    values = _grouped_values(node.this, names)
    if values is not None:
        return values.where((">=", low), ("<=", high))
    name = names.attribute(node.this, CONDITIONS_HELP)
    return Comparison(name, ">=", low) & Comparison(name, "<=", high)


def _member(node: exp.In, names: Names) -> Predicate:
    if not only(node, "this", "expressions") or not node.expressions:
        raise QueryError("IN takes a list of values, never a query: state IN ('NC', 'VA')")
    listed = tuple(_value(part, names) for part in node.expressions)
    year = _year(node.this, names)
    if year is not None and len(listed) <= MOST_CONDITIONS:
        return _balanced([_in_years(year, "==", value) for value in listed], Either)
    values = _grouped_values(node.this, names)
    if values is not None:
        return values.where(*(("==", value) for value in listed), any_of=True)
    return Member(names.attribute(node.this, CONDITIONS_HELP), listed)


TESTS: Mapping[Op, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WHOLE = re.compile(r"-?\d+")
MOMENT = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?")


@dataclass(frozen=True)
class GroupedValues:
    """The declared values of an attribute by what is made of them: the month of a day, the first letter of a text.

    What is made of all values has one type: texts, numbers, truth values, or the moments at which periods begin.
    """

    attribute: str
    text: str
    groups: tuple[tuple[object, tuple[object, ...]], ...]
    special: tuple[tuple[str, object], ...] = ()
    """What is made of NULL and of values outside, None for NULL; left out where comparing it is unknown."""
    shape: str = ""
    """The form of the texts, where they all have one; other texts are not compared."""

    def where(self, *tests: tuple[Op, ConditionValue], any_of: bool = False) -> Predicate:
        """The values of which something is made that passes all tests, or any; QueryError where there is none."""
        sides = [(op, self._read(value)) for op, value in tests]

        def passes(label: object) -> bool:
            return (any if any_of else all)(TESTS[op](label, side) for op, side in sides)

        values = [value for label, listed in self.groups if passes(label) for value in listed]
        cells = {name: None if label is None else passes(label) for name, label in self.special}
        if not values and True not in cells.values():
            examples = ", ".join([_shown_label(label) for label, _ in self.groups][:LISTED])
            raise QueryError(
                f"no declared value of {self.attribute} matches: {self.text} gives {examples} and the like"
            )
        return self._with_cells(_in_runs(self.attribute, values) if values else None, cells)

    def _with_cells(self, plain: Predicate | None, cells: Mapping[str, bool | None]) -> Predicate:
        """The condition with NULL and outside as they should be: true, false, or unknown."""
        is_cell: dict[str, Predicate] = {"NULL": IsNull(self.attribute), "outside": IsOutside(self.attribute)}
        true_cells = [is_cell[name] for name, holds in cells.items() if holds]
        condition = reduce(Either, true_cells if plain is None else [plain, *true_cells])
        for name, holds in cells.items():
            # Comparing NULL is unknown, and so is the order of what lies outside; but outside equals no listed value.
            is_unknown = plain is not None and (name == "NULL" or not isinstance(plain, Member))
            if holds is None and not is_unknown:
                raise QueryError(f"{self.text} gives NULL for some records of {self.attribute}; give the CASE an ELSE")
            if holds is False and is_unknown:
                condition = Both(condition, Negation(is_cell[name]))
        return condition

    def _read(self, value: ConditionValue) -> object:
        """The other side of a comparison in the type of the labels; QueryError where it has another."""
        labels = [label for label, _ in self.groups]
        is_number = isinstance(value, int | Fraction) and not isinstance(value, bool)
        if isinstance(labels[0], bool):
            if isinstance(value, bool):
                return value
        elif isinstance(labels[0], datetime.datetime):
            moment = _read_moment(value)
            if moment is not None:
                return moment
        elif isinstance(labels[0], int | Fraction):
            if is_number:
                return value
            if isinstance(value, str) and WHOLE.fullmatch(value):
                return number(value)
        elif isinstance(value, str) and (not self.shape or re.fullmatch(self.shape, value)):
            return value
        what = "a number" if is_number else value_shown(value)
        raise QueryError(f"{self.text} is compared with a value such as {_shown_label(labels[0])}, not with {what}")


def value_shown(value: ConditionValue) -> str:
    """A value for a message."""
    return str(value).upper() if isinstance(value, bool) else shown(value)


def _shown_label(label: object) -> str:
    if isinstance(label, datetime.datetime):
        return f"DATE '{label.date().isoformat()}'"
    if isinstance(label, bool):
        return str(label).upper()
    return shown(label) if isinstance(label, str) else str(label)


def _read_moment(value: ConditionValue) -> datetime.datetime | None:
    """The moment of a text such as '2024-3-1' or '2024-03-01 12:30'; None where it is none, or has a zone."""
    match = MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    microsecond = int((match[7] or "0").ljust(6, "0"))
    try:
        return datetime.datetime(year, month, day, hour, minute, second, microsecond)
    except ValueError:
        return None


def _in_runs(name: str, values: list[object]) -> Predicate:
    """A condition for listed values; days that follow each other become ranges."""
    days = sorted(value for value in values if isinstance(value, datetime.date))
    starts = _starts(days)
    if days and isinstance(days[0], datetime.datetime):
        return _in_moments(name, days, starts)
    if len(days) < len(values) or 2 * len(starts) > len(days) or len(starts) > MOST_CONDITIONS:
        plain = (value.isoformat() if isinstance(value, datetime.date) else value for value in values)
        return Member(name, tuple(plain))
    ends = [days[place - 1] for place in starts[1:]] + days[-1:]
    ranges: list[Predicate] = [
        Both(Comparison(name, ">=", days[place].isoformat()), Comparison(name, "<=", end.isoformat()))
        for place, end in zip(starts, ends, strict=True)
    ]
    return _balanced(ranges, Either)


def _in_moments(name: str, midnights: list[datetime.date], starts: list[int]) -> Predicate:
    """A condition for the moments of days: ranges of days that follow each other, up to the midnight after them."""
    if len(starts) > MOST_CONDITIONS:
        raise QueryError(f"at most {MOST_CONDITIONS} separate days of {name} are compared; ask for a range of days")
    ends = [midnights[place - 1] for place in starts[1:]] + midnights[-1:]
    ranges: list[Predicate] = [
        Both(Comparison(name, ">=", midnights[place].isoformat()), Comparison(name, "<", (end + ONE_DAY).isoformat()))
        for place, end in zip(starts, ends, strict=True)
    ]
    return _balanced(ranges, Either)


def _starts(days: list[datetime.date]) -> list[int]:
    """The places of days that do not follow the one before."""
    return [place for place, day in enumerate(days) if place == 0 or day - days[place - 1] != ONE_DAY]


def _grouped_values(node: exp.Expression, names: Names) -> GroupedValues | None:
    """The values of one attribute by what a node makes of them; None where it makes nothing."""
    if names.groups_of is None or isinstance(node, exp.Column | exp.Literal) or names.find(node) is not None:
        return None
    return names.groups_of(node, names)


def _is(node: exp.Is, names: Names) -> Predicate:
    """IS NULL; and of truth values IS TRUE and IS FALSE, which are never unknown."""
    value, declared = node.args["expression"], names.declared
    if not isinstance(value, exp.Null | exp.Boolean) or (
        isinstance(value, exp.Boolean) and (declared is None or not is_truth(names.find(node.this), declared))
    ):
        raise QueryError("IS is followed by NULL or NOT NULL, or by TRUE or FALSE where an attribute has truth values")
    name = names.attribute(node.this, CONDITIONS_HELP)
    if declared is None or isinstance(value, exp.Null):
        return IsNull(name)
    holds = Comparison(name, "==", bool(value.this))
    return Both(holds, Negation(IsNull(name))) if declared.find(name).null == CELL else holds


def is_truth(name: str | None, declared: Domain) -> bool:
    """Whether an attribute has truth values, so that its name alone is a condition."""
    attribute = None if name is None else declared.find(name)
    return isinstance(attribute, Categorical) and all(isinstance(value, bool) for value in attribute.values)


def _like(node: exp.Like | exp.ILike | exp.StartsWith, declared: Domain, names: Names) -> Predicate:
    """The declared values that match a pattern, of an attribute that lists them; NOT LIKE is a part of the node."""
    if not only(node, "this", "expression", "negate"):
        raise QueryError(CONDITIONS_HELP)
    name, pattern = names.attribute(node.this, CONDITIONS_HELP), value_of(node.args["expression"])
    attribute = declared.find(name)
    if not isinstance(attribute, Categorical) or not isinstance(pattern, str):
        raise QueryError(f"LIKE matches the declared texts of an attribute with a pattern, and {name} lists none")
    fold = str.casefold if isinstance(node, exp.ILike) else str
    if isinstance(node, exp.StartsWith):
        values = tuple(value for value in attribute.values if str(value).startswith(pattern))
    else:
        values = tuple(value for value in attribute.values if is_like(fold(str(value)), fold(pattern)))
    if not values:
        raise QueryError(f"no declared value of {name} is like {shown(pattern)}; {suggest(pattern, attribute.values)}")
    return Negation(Member(name, values)) if node.args.get("negate") else Member(name, values)


def is_like(text: str, pattern: str) -> bool:
    """Whether a text matches a pattern in which % is any text and _ any sign; in time proportional to both lengths."""
    reached = {0}
    for sign in pattern:
        if sign == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(text) and sign in ("_", text[at])}
    return len(text) in reached


CLOCKS = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime)
CLOCK_CALLS = frozenset(["NOW", "TODAY", "GETDATE", "SYSDATE"])


def _value(node: exp.Expression, names: Names) -> ConditionValue:
    if isinstance(node, exp.Null):
        raise QueryError("nothing equals NULL; write x IS NULL or x IS NOT NULL")
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise QueryError("placeholders are not filled in; write the value itself")
    value = value_of(node, plain=names.are_free)
    if value is None and not names.are_free:
        value = _worked_out(node)
    if value is not None:
        return value
    calls = [str(call.this).upper() for call in node.find_all(exp.Anonymous)]
    if node.find(*CLOCKS) is not None or not CLOCK_CALLS.isdisjoint(calls):
        raise QueryError("the same question has the same answer on any day: write the day, DATE '2024-03-01'")
    if names.find(node) is not None:
        raise QueryError(f"{node_text(node)} is another attribute; {CONDITIONS_HELP}")
    hint = "; text stands in single quotes" if isinstance(node, exp.Column) else ""
    raise QueryError(f"{node_text(node)} is not a plain value{hint}; {CONDITIONS_HELP}")


def _worked_out(node: exp.Expression) -> ConditionValue | None:
    """The number that constants give, such as 2 * 100; None where they are not numbers, or division would round."""
    if isinstance(node, exp.Paren):
        return _worked_out(node.this)
    if type(node) not in ARITHMETIC:
        return value_of(node)
    sides = [_worked_out(side) for side in (node.this, node.args["expression"])]
    numbers = [Fraction(side) for side in sides if isinstance(side, int | Fraction) and not isinstance(side, bool)]
    return _whole(ARITHMETIC[type(node)](*numbers)) if len(numbers) == len(sides) else None


def _refuse(node: exp.Expression, names: Names) -> Predicate:
    name = names.find(node)
    if name is not None:
        raise QueryError(f"{shown(name)} is an attribute, no condition; compare it with a value")
    if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike | exp.SimilarTo):
        raise QueryError("patterns are not matched: list the declared values, x IN ('...', '...')")
    if node.find(exp.Select) is not None:
        raise QueryError(f"subqueries are not supported; {CONDITIONS_HELP}")
    raise QueryError(f"{node_text(node)} cannot be a condition; {CONDITIONS_HELP}")


def shown(text: object) -> str:
    """A text for a message: quoted, shortened, with invisible characters spelled out."""
    plain = str(text)
    cut = plain if len(plain) <= LONGEST_SHOWN else plain[: LONGEST_SHOWN - 3] + "..."
    return ascii(cut) if not cut.isprintable() else repr(cut)


LONGEST_NUMBER = 40
LAST_YEAR = 9999
LONGEST_TEXT = 1_000
LARGEST_EXPONENT = 40
DATE_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME")
KEEP_DATES = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.DATETIME)
"""Types in which a date is the same day; a zone may move it."""

ConditionValue = int | Fraction | str | bool


def only(node: exp.Expression, *known: str) -> bool:
    """Whether no part of the node is set but the known ones."""
    return all(key in known for key, part in node.args.items() if part not in (None, False, []))


def value_of(node: exp.Expression, *, plain: bool = False) -> ConditionValue | None:
    """The value that a node writes, or None where it writes none.

    A `plain` text, as the ledger stores it, may also write a fraction, and its numbers and texts may be long.
    """
    if isinstance(node, exp.Paren):
        return value_of(node.this, plain=plain)
    if isinstance(node, exp.Neg):
        inner = value_of(node.this, plain=plain)
        return -inner if isinstance(inner, int | Fraction) and not isinstance(inner, bool) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Date) and only(node, "this") and isinstance(node.this, exp.Literal) and not plain:
        return _day_text(str(node.this.this)) if node.this.is_string else None
    if isinstance(node, exp.Cast):
        moment = _moment(node)
        return _converted(node) if moment is None else moment
    if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval) and not plain:
        return _moved(value_of(node.this), node.expression, 1 if isinstance(node, exp.Add) else -1)
    if plain and isinstance(node, exp.Div):
        over, under = value_of(node.this, plain=True), value_of(node.args["expression"], plain=True)
        return _whole(exact(f"{over}/{under}", "a number", QueryError))
    if not isinstance(node, exp.Literal):
        return None
    text = str(node.this)
    if plain:
        return text if node.is_string else _whole(exact(text, "a number", QueryError))
    return _text(text) if node.is_string else number(text)


def _converted(node: exp.Cast) -> ConditionValue | None:
    """A constant in the type that a driver writes behind it, where that is the same value."""
    value, kind = value_of(node.this), node.args.get("to")
    # A length or a number of places may cut.
    if not isinstance(kind, exp.DataType) or kind.expressions:
        return None
    # Not `is_type`, which makes a tree of every type: casts within casts are read many times.
    if kind.this in exp.DataType.TEXT_TYPES:
        return value if isinstance(value, str) else None
    if kind.this == exp.DType.BOOLEAN:
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or kind.this not in exp.DataType.NUMERIC_TYPES:
        return None
    exactly = number(value) if isinstance(value, str) else value
    return None if isinstance(exactly, Fraction) and kind.this in exp.DataType.INTEGER_TYPES else exactly


def number(text: str) -> int | Fraction:
    """The exact number of a text of digits."""
    if len(text) > LONGEST_NUMBER:
        raise QueryError(f"a number has at most {LONGEST_NUMBER} characters, not {len(text):,}")
    try:
        decimal = Decimal(text)
    except InvalidOperation:
        raise QueryError(f"{shown(text)} is not a number") from None
    if not decimal.is_finite() or abs(decimal.adjusted()) > LARGEST_EXPONENT:
        raise QueryError(f"{shown(text)} is out of range: numbers lie below 1e{LARGEST_EXPONENT} in size")
    return _whole(Fraction(decimal))


def _whole(value: Fraction) -> int | Fraction:
    return int(value) if value.denominator == 1 else value


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise QueryError(f"a text value has at most {LONGEST_TEXT:,} characters, not {len(text):,}")
    return text


def _moment(node: exp.Cast) -> str | None:
    """DATE '2024-02-29' and TIMESTAMP '...': the text, which the declared attribute reads."""
    kind = node.args.get("to")
    inner = node.this
    if not isinstance(kind, exp.DataType) or not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    if kind.this == exp.DType.DATE:
        return _day_text(str(inner.this))
    return _text(str(inner.this)) if kind.this.name in DATE_TYPES else None


def _day_text(text: str) -> str:
    """The text of a date, without the time of day that a moment has."""
    match = MOMENT.fullmatch(text.strip())
    return _text(text) if match is None else text.strip()[: match.end(3)]


def _moved(start: ConditionValue | None, interval: exp.Interval, sign: int) -> str | None:
    """A date so many days, weeks, months or years later or earlier; in a shorter month its last day."""
    unit = str(interval.args["unit"].name).upper().removesuffix("S") if interval.args.get("unit") else ""
    try:
        number = sign * int(str(interval.this.this))
        day = datetime.date.fromisoformat(str(start))
        if unit in ("DAY", "WEEK"):
            return (day + datetime.timedelta(days=number * (7 if unit == "WEEK" else 1))).isoformat()
        if unit not in ("MONTH", "YEAR"):
            return None
        years, month = divmod(day.month - 1 + number * (12 if unit == "YEAR" else 1), 12)
        last = calendar.monthrange(day.year + years, month + 1)[1]
        return day.replace(day.year + years, month + 1, min(day.day, last)).isoformat()
    except (ValueError, OverflowError, AttributeError):
        return None


@dataclass(frozen=True)
class Names:
    """The attributes of one dataset, and what may stand before them with a dot.

    Names are free where no dataset is given (`attributes` is None): each is taken as it is written. `declared` has the
    attributes' values, where they are known, and `groups_of` reads what a node makes of them, such as MONTH(day).
    """

    attributes: tuple[str, ...] | None
    qualifiers: tuple[str, ...] = ()
    declared: Domain | None = None
    groups_of: Callable[[exp.Expression, Names], GroupedValues | None] | None = field(default=None, compare=False)

    @property
    def are_free(self) -> bool:
        """Whether every name is taken as it is written."""
        return self.attributes is None

    def find(self, node: exp.Expression) -> str | None:
        """The attribute that a node names; None where it names none."""
        if isinstance(node, exp.Paren):
            return self.find(node.this)
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        if not only(node, "this", "table"):
            return None
        before = node.args.get("table")
        if before is not None and str(before.this).lower() not in [name.lower() for name in self.qualifiers]:
            return None
        return self._declared(str(node.this.this), quoted=bool(node.this.args.get("quoted")))

    def attribute(self, node: exp.Expression, advice: str) -> str:
        """The attribute that a node names; an error with the nearest names where it names none."""
        name = self.find(node)
        if name is not None:
            return name
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and only(node, "this"):
            raise QueryError(f"there is no attribute {shown(node.this.this)}; {self.nearest(str(node.this.this))}")
        raise QueryError(f"{node_text(node)} is not an attribute; {advice}")

    def nearest(self, name: str) -> str:
        """A half-sentence with the nearest names, and how to write one that is not a plain word."""
        known_names = self.attributes or ()
        hint = suggest(name[:200], known_names)
        odd = [known for known in known_names if repr(known) in hint and not known.isidentifier()]
        end = "" if hint.endswith("?") else "."
        return f"{hint}{end} Names with spaces or signs stand in double quotes" if odd else hint

    def _declared(self, name: str, *, quoted: bool) -> str | None:
        if self.attributes is None or name in self.attributes:
            return name
        same = [known for known in self.attributes if known.lower() == name.lower()]
        return same[0] if len(same) == 1 and not quoted else None


def node_text(node: exp.Expression) -> str:
    """A node as SQL, for a message."""
    try:
        return shown(node.sql())
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        # A tree that the parser accepts and the writer does not: its kind says enough.
        return shown(node.key)


MOST_NESTED = 40
MOST_PREFIXES = 40
"""Signs or NOTs that may stand in a row: each costs the parser a level."""
PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
QUOTED = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
FREE = Names(None)


def check_depth(tokens: Sequence[Token]) -> None:
    """Refuses brackets and prefixes nested so deep that the recursive parser might run out of stack."""
    depth = prefixes = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        prefixes = prefixes + 1 if token.token_type in PREFIXES else 0
        if depth > MOST_NESTED or prefixes > MOST_PREFIXES:
            raise QueryError(f"the statement is nested more than {MOST_NESTED} deep; write conditions side by side")


def free_tokens(text: str) -> list[Token]:
    """The tokens of a text in which every word is a name, `group` and `date` too, except for a few keywords."""
    try:
        tokens = sqlglot.tokenize(text)
    except SqlglotError:
        raise QueryError(f"a quote or a comment is left open in {shown(text)}") from None
    return [
        token
        if token.token_type in QUOTED or token.text.lower() in KEYWORDS or not NAME.fullmatch(token.text)
        else Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end)
        for token in tokens
    ]


def read_call(text: str) -> tuple[str, list[list[Token]], list[Token]]:
    """The parts of `word(argument, ...) = value` as free tokens; brackets and value may be left out."""
    tokens = free_tokens(text)
    if not tokens:
        raise QueryError("the text is empty")
    word, rest = tokens[0].text.lower(), tokens[1:]
    arguments: list[list[Token]] = []
    if rest and rest[0].token_type == TokenType.L_PAREN:
        arguments, rest = _arguments(rest)
    if rest and (rest[0].token_type != TokenType.EQ or len(rest) == 1):
        raise QueryError(f"{shown(rest[0].text)} is not expected there")
    return word, arguments, rest[1:]


def _arguments(tokens: list[Token]) -> tuple[list[list[Token]], list[Token]]:
    """The arguments between the first bracket and its partner, and what follows."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0:
            return arguments, tokens[place + 1 :]
        if depth == 1 and token.token_type == TokenType.COMMA:
            arguments.append([])
        elif place:
            arguments[-1].append(token)
    raise QueryError("a bracket is left open")


def condition_of(tokens: Sequence[Token]) -> Predicate:
    """The condition that free tokens write, bracketed from left to right."""
    return read_condition(_tree(tokens), FREE)


def value_in(tokens: Sequence[Token]) -> ConditionValue:
    """The value that free tokens write."""
    return _value(_tree(tokens), FREE)


def name_in(tokens: Sequence[Token]) -> str:
    """The attribute that free tokens write."""
    if len(tokens) == 1 and tokens[0].token_type == TokenType.IDENTIFIER:
        return tokens[0].text
    text = " ".join(token.text for token in tokens)
    raise QueryError(f'{shown(text)} is not an attribute; put a name with special characters in "double quotes"')


def _tree(tokens: Sequence[Token]) -> exp.Expression:
    if len(tokens) == 1 and tokens[0].token_type in (TokenType.NUMBER, TokenType.STRING):
        # Ranges by the thousand hold such values: they need no parser.
        return exp.Literal(this=tokens[0].text, is_string=tokens[0].token_type == TokenType.STRING)
    check_depth(tokens)
    text = " ".join(token.text for token in tokens)
    try:
        (tree,) = Parser().parse_into(exp.Condition, list(tokens))
    except RecursionError:
        raise QueryError("the condition is nested too deeply; write conditions side by side") from None
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        # The parser trips over some malformed texts; what it says then is of no use.
        tree = None
    if not isinstance(tree, exp.Expression):
        raise QueryError(f"{shown(text)} cannot be read")
    return tree
