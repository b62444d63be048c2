"""Groups written in SQL: GROUP BY with bins, calendar units, parts of texts, and arithmetic that rounds down."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import itemgetter
from typing import Literal, TypeGuard

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.conditions import (
    KEEP_DATES,
    GroupedValues,
    Names,
    node_text,
    only,
    shown,
    value_of,
    without_date_cast,
)
from blowfishdb.model.domain import Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis
from blowfishdb.sql.cases import MOST_LISTED, T, days_of, is_case, named_axis, read_case, read_case_values, sorted_by

GROUPS_HELP = "groups are attributes, bin(x, 10), bin_edges(x, 0, 18, 65) or DATE_TRUNC('month', x)"
MOST_GROUPS = 16


def read_axis(node: exp.Expression, names: Names) -> Axis | None:
    """The groups that a node writes, or None where it writes none."""
    if isinstance(node, exp.Paren):
        return read_axis(node.this, names)
    if isinstance(node, exp.Date) and only(node, "this"):
        return _cast(exp.Cast(this=node.this.copy(), to=exp.DataType.build("date")), names)
    if isinstance(node, exp.Cast):
        return _cast(node, names)
    if isinstance(node, exp.Column):
        name = names.find(node)
        return None if name is None else Axis(name)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return _period(node, names)
    if is_case(node):
        return read_case(node, names)
    if isinstance(node, exp.Left | exp.Substring | exp.Upper | exp.Lower) and names.declared is not None:
        return _texts(node, names.declared, names)
    if isinstance(node, exp.WidthBucket):
        return _buckets(node, names)
    part = _part_of_date(node)
    if part is not None:
        return _date_part(*part, names)
    steps = _steps(node, names)
    if steps is not None:
        return _aligned(steps, names)
    called = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    if called == "BIN":
        return _bin(node, names)
    if called == "BIN_EDGES":
        return _bin_edges(node, names)
    return None


STARTS: dict[str, Callable[[datetime.date], datetime.date]] = {
    "day": lambda day: day,
    "week": lambda day: day - datetime.timedelta(days=day.weekday()),
    "month": lambda day: day.replace(day=1),
    "quarter": lambda day: day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1),
    "year": lambda day: day.replace(month=1, day=1),
}


def read_values(node: exp.Expression, names: Names) -> GroupedValues | None:
    """What a node makes of the declared values of an attribute, as conditions compare it; None where it makes nothing.

    Periods are the moments at which they begin, parts of dates are numbers, and dates in a format are texts.
    """
    if isinstance(node, exp.Paren):
        return read_values(node.this, names)
    day = _day_of(node, names)
    if isinstance(node, exp.Cast) and day is None:
        return _cast_values(node, names)
    if is_case(node):
        return read_case_values(node, names)
    part = _part_of_date(node)
    if part is not None and names.declared is not None:
        return _part_values(node, *part, names, names.declared)
    axis = read_axis(node, names) if day is None else Axis(day, unit="day")
    if axis is None or names.declared is None:
        return None
    if axis.unit in STARTS:
        start, days = STARTS[axis.unit], _periods_of_days(axis.attribute, names.declared)
        return _made(axis.attribute, node, days, lambda day: datetime.datetime.combine(start(day), datetime.time()))
    return GroupedValues(axis.attribute, node_text(node), axis.groups) if axis.groups else None


def _day_of(node: exp.Expression, names: Names) -> str | None:
    """The attribute with dates or moments whose day a node is: CAST(x AS DATE), DATE(x)."""
    is_cast = isinstance(node, exp.Cast) and only(node, "this", "to", "safe") and node.to.is_type("date")
    is_day = is_cast or (isinstance(node, exp.Date) and only(node, "this"))
    name = names.find(node.this) if is_day else None
    if name is None or names.declared is None:
        return None
    return name if isinstance(names.declared.find(name), Dates | Timestamps) else None


def _periods_of_days(name: str, declared: Domain) -> Sequence[datetime.date]:
    """The declared days; of an attribute that has moments their midnights."""
    attribute = declared.find(name)
    if not isinstance(attribute, Timestamps):
        return _declared_days(name, declared)
    first = datetime.datetime.combine(attribute.start, datetime.time())
    count = (attribute.end - first - datetime.timedelta(microseconds=1)).days + 1
    if count > MOST_LISTED:
        raise QueryError(f"{name} has {count:,} declared days; compare it with the first and the last moment")
    return [first + datetime.timedelta(days=day) for day in range(count)]


def _made(
    name: str, node: exp.Expression, values: Iterable[T], label: Callable[[T], object], shape: str = ""
) -> GroupedValues:
    groups = sorted_by(values, label)
    return GroupedValues(name, node_text(node), groups, shape=shape)


def _part_values(
    node: exp.Expression, part: str, date: exp.Expression, names: Names, declared: Domain
) -> GroupedValues | None:
    """Numbers for parts of dates, texts for dates in a format."""
    axis = _date_part(part, date, names)
    days = _declared_days(axis.attribute, declared)
    if part.startswith("format "):
        form = part.removeprefix("format ")
        shape = form.replace("%Y", r"\d{4}").replace("%m", r"\d{2}").replace("%d", r"\d{2}")
        # Not strftime, which pads years before 1000 on some systems only.
        return _made(axis.attribute, node, days, lambda day: day.isoformat()[: LENGTHS[form]], shape)
    read = PART_NUMBERS[part]
    return _made(axis.attribute, node, days, read)


def _cast_values(node: exp.Cast, names: Names) -> GroupedValues | None:
    """What is cast to the type that it has; QueryError for another."""
    values, kind = read_values(node.this, names), node.to
    if values is None:
        return None
    kinds = {type(label) for label, _ in values.groups}
    same = exp.DataType.TEXT_TYPES if kinds == {str} else exp.DataType.INTEGER_TYPES if kinds == {int} else ()
    if not only(node, "this", "to", "safe") or kind.expressions or not same or not kind.is_type(*same):
        raise QueryError(f"{node_text(node)} may be another value; compare {node_text(node.this)} itself")
    return values


def _cast(node: exp.Cast, names: Names) -> Axis | None:
    """The groups of what is cast, where each value stays the same; a moment cast to its date is grouped by day."""
    steps = _steps(node, names)
    if steps is not None:
        return _aligned(steps, names)
    axis = read_axis(node.this, names)
    if axis is None or names.declared is None:
        return axis
    attribute, kind = names.declared.find(axis.attribute), node.to
    is_plain = only(node, "this", "to", "safe") and not kind.expressions
    part = _part_of_date(without_date_cast(node.this))
    if is_plain and part is not None:
        if kind.is_type(*_types_of_part(part[0])):
            return axis
    elif is_plain and isinstance(attribute, Timestamps) and kind.is_type("date") and not axis.groups:
        return Axis(axis.attribute, unit="day") if axis.unit in (None, "second", "minute", "hour") else axis
    elif is_plain and kind.is_type(*_types_of(axis, attribute)):
        return axis
    raise QueryError(f"{node_text(node)} may put other values together; group by {node_text(node.this)} itself")


REAL_TYPES = (exp.DType.DOUBLE, exp.DType.FLOAT)
NUMBER_TYPES = (*exp.DataType.INTEGER_TYPES, *REAL_TYPES, exp.DType.DECIMAL)
TRUTH_TYPES = (exp.DType.BOOLEAN,)
AS_NUMBER = re.compile("0|-?[1-9][0-9]*")
"""A whole number as it is written alone: '01' and '1' are two texts and one number."""


def _types_of_part(part: str) -> tuple[exp.DType, ...]:
    """The types that keep a part of a date, and its order among the others."""
    texts = tuple(exp.DataType.TEXT_TYPES)
    if part in ("year", "format %Y"):
        return (*NUMBER_TYPES, *texts)
    return texts if part.startswith("format ") else NUMBER_TYPES


def _types_of(axis: Axis, attribute: Attribute) -> tuple[exp.DType, ...]:
    """The types that keep every value of a group, and its order among the others."""
    texts = tuple(exp.DataType.TEXT_TYPES)
    if axis.groups:
        return NUMBER_TYPES if all(AS_NUMBER.fullmatch(label) for label, _ in axis.groups) else texts
    if isinstance(attribute, Dates | Timestamps):
        return (*KEEP_DATES, *texts) if isinstance(attribute, Dates) else (*KEEP_DATES[1:], *texts)
    if axis != Axis(axis.attribute):
        return ()
    if isinstance(attribute, Integers):
        return NUMBER_TYPES
    if isinstance(attribute, Bins):
        return REAL_TYPES
    for kind, types in ((str, texts), (bool, TRUTH_TYPES), (int, NUMBER_TYPES)):
        if isinstance(attribute, Categorical) and all(type(value) is kind for value in attribute.values):
            return types
    return ()


def read_groups(select: exp.Select, names: Names, measures: Sequence[exp.Expression]) -> tuple[Axis, ...]:
    """The groups of a SELECT, each once; what is selected and what is grouped must be the same."""
    selected = _selected(select, names, measures)
    chosen = tuple(axis for _, axis, _ in selected)
    _check_parts_of_dates([axis.attribute for axis in chosen], names.declared)
    group = select.args.get("group")
    if group is None:
        if selected:
            listed = ", ".join(node_text(item).strip("'\"") for item, _, _ in selected)
            raise QueryError(f"attributes beside an aggregate must be grouped: add GROUP BY {listed}")
        return ()
    if not only(group, "expressions", "all"):
        raise QueryError(f"only plain groups are known; {GROUPS_HELP}")
    if group.args.get("all"):
        return chosen
    grouped = [_grouped(node, select, selected, names) for node in group.expressions]
    if len(grouped) > MOST_GROUPS:
        raise QueryError(f"a question has at most {MOST_GROUPS} groups, not {len(grouped)}")
    for item, axis, _ in selected:
        if axis not in grouped:
            raise QueryError(f"{node_text(item)} is selected but not grouped: add it to GROUP BY as it stands")
    for axis in grouped:
        if axis not in chosen:
            raise QueryError(f"{shown(axis.attribute)} is grouped but not selected: add it after SELECT as it stands")
    return chosen


def _check_parts_of_dates(attributes: Sequence[str], declared: Domain | None) -> None:
    """QueryError where two parts of a date are grouped side by side."""
    for name in dict.fromkeys(attributes):
        is_date = declared is not None and isinstance(declared.find(name), Dates | Timestamps)
        if is_date and attributes.count(name) > 1:
            raise QueryError(
                f"{name} is grouped twice; the months of each year are one group: DATE_TRUNC('month', {name})"
            )


def _selected(
    select: exp.Select, names: Names, measures: Sequence[exp.Expression]
) -> list[tuple[exp.Expression, Axis, str | None]]:
    """The groups between SELECT and FROM, with their aliases."""
    groups = []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if any(inner is measure for measure in measures):
            continue
        axis = read_axis(inner, names) or Axis(names.attribute(inner, GROUPS_HELP))
        groups.append((inner, axis, item.alias if isinstance(item, exp.Alias) else None))
    return groups


def _grouped(
    node: exp.Expression,
    select: exp.Select,
    selected: list[tuple[exp.Expression, Axis, str | None]],
    names: Names,
) -> Axis:
    if isinstance(node, exp.Literal) and not node.is_string:
        return _by_place(node, select, selected)
    axis = read_axis(node, names)
    if axis is not None:
        return axis
    if isinstance(node, exp.Column):
        aliased = [axis for _, axis, alias in selected if alias and alias.lower() == node.name.lower()]
        if not aliased:
            meant = [item.this for item in select.expressions if item.alias.lower() == node.name.lower()]
            if meant and meant[0].find(exp.AggFunc) is None:
                raise QueryError(f"{node_text(meant[0])} cannot be grouped; {GROUPS_HELP}")
        return aliased[0] if aliased else Axis(names.attribute(node, GROUPS_HELP))
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        raise QueryError("ROLLUP, CUBE and GROUPING SETS are not known here; marginals in Python give several tables")
    raise QueryError(f"{node_text(node)} cannot be grouped; {GROUPS_HELP}")


def _by_place(node: exp.Literal, select: exp.Select, selected: list[tuple[exp.Expression, Axis, str | None]]) -> Axis:
    place = value_of(node)
    items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if isinstance(place, int) and 1 <= place <= len(items):
        for item, axis, _ in selected:
            if item is items[place - 1]:
                return axis
        if items[place - 1].find(exp.AggFunc) is None:
            raise QueryError(f"{node_text(items[place - 1])} cannot be grouped; {GROUPS_HELP}")
    raise QueryError(f"GROUP BY {shown(node.this)} names no attribute between SELECT and FROM")


def _bin(node: exp.Expression, names: Names) -> Axis:
    example = "bin takes an attribute and a width: bin(age, 5)"
    if len(node.expressions) != 2:
        raise QueryError(f"{example}; edges are given by bin_edges(age, 0, 18, 65)")
    width = value_of(node.expressions[1])
    if width is None or isinstance(width, bool | str):
        raise QueryError(f"{example}; the width is a number")
    return Axis(names.attribute(node.expressions[0], example), width=width)


def _bin_edges(node: exp.Expression, names: Names) -> Axis:
    example = "bin_edges takes an attribute and two or more edges: bin_edges(age, 0, 18, 65)"
    if len(node.expressions) < 3:
        raise QueryError(example)
    edges = [value_of(part) for part in node.expressions[1:]]
    if any(edge is None or isinstance(edge, bool) for edge in edges):
        raise QueryError(f"{example}; edges are values")
    return Axis(names.attribute(node.expressions[0], example), edges=tuple(edges))


def _period(node: exp.Expression, names: Names) -> Axis:
    example = "DATE_TRUNC takes a unit and an attribute: DATE_TRUNC('month', day)"
    unit = node.args.get("unit")
    if not only(node, "this", "unit", "input_type_preserved") or unit is None:
        raise QueryError(example)
    return Axis(names.attribute(node.this, example), unit=str(unit.name).lower())


PARTS: dict[type[exp.Expression], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.DayOfWeek: "dow",
    exp.DayOfMonth: "day",
    exp.Day: "day",
}
FORMATS = {"%Y": "year", "%Y-%m": "month", "%Y-%m-%d": "day"}
LENGTHS = {"%Y": 4, "%Y-%m": 7, "%Y-%m-%d": 10}
PART_NUMBERS: dict[str, Callable[[datetime.date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "dow": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "day": lambda day: day.day,
}
WRITTEN_OUT = {"YYYY": "%Y", "YYYY-MM": "%Y-%m", "YYYY-MM-DD": "%Y-%m-%d"}
"""The same as TO_CHAR takes them."""
FORMATTED = ("this", "format")


def _part_of_date(node: exp.Expression) -> tuple[str, exp.Expression] | None:
    """The part of a date that a node takes, and the node of the date."""
    if isinstance(node, exp.Extract):
        return str(node.this.name).lower(), node.expression
    if type(node) in PARTS:
        return PARTS[type(node)], node.this
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "DATE_PART" and len(node.expressions) == 2:
        return str(node.expressions[0].name).lower(), node.expressions[1]
    if isinstance(node, exp.ToChar) and isinstance(node.args.get("format"), exp.Literal) and only(node, *FORMATTED):
        return f"format {WRITTEN_OUT.get(node.args['format'].this, '')}", node.this
    if isinstance(node, exp.TimeToStr) and isinstance(node.args.get("format"), exp.Literal) and only(node, *FORMATTED):
        return f"format {node.args['format'].this}", node.this
    called = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    if called in ("STRFTIME", "DATE_FORMAT") and len(node.expressions) == 2:
        # SQLite writes the format first.
        date, form = sorted(node.expressions, key=lambda part: isinstance(part, exp.Literal))
        return f"format {form.name}", date
    return None


def _date_part(part: str, node: exp.Expression, names: Names) -> Axis:
    """Years as periods; months, quarters and days of the week as named groups of the declared dates."""
    name = names.attribute(without_date_cast(node), "EXTRACT takes a part and a date: EXTRACT(MONTH FROM day)")
    if part.startswith("format "):
        unit = FORMATS.get(part.removeprefix("format "))
        if unit is None:
            raise QueryError("dates are grouped by '%Y', '%Y-%m' or '%Y-%m-%d', or by DATE_TRUNC('month', x)")
        return Axis(name, unit=unit)
    if part == "year":
        return Axis(name, unit="year")
    if part not in PART_NUMBERS or names.declared is None:
        raise QueryError(
            "dates are grouped by DATE_TRUNC('month', x), or by EXTRACT of year, quarter, month, day or dow"
        )
    read, digits = PART_NUMBERS[part], 2 if part in ("month", "day") else 1

    def label(day: datetime.date) -> str:
        return f"{read(day):0{digits}}"

    groups = sorted_by(sorted(_declared_days(name, names.declared), key=label), label)
    return Axis(name, groups=groups)


def _declared_days(name: str, declared: Domain) -> list[datetime.date]:
    attribute = declared.find(name)
    if isinstance(attribute, Timestamps):
        raise QueryError(
            f"{name} has moments, which are compared by ranges: {name} >= '2024-03-01' AND {name} < '2024-04-01'; "
            f"DATE_TRUNC('month', {name}) groups them"
        )
    if not isinstance(attribute, Dates):
        raise QueryError(f"{name} is not a date; bin({name}, 10) groups numbers, and texts are grouped by themselves")
    return days_of(name, attribute)


@dataclass(frozen=True)
class _Steps:
    """An attribute divided by a width: exactly, rounded down, or towards 0, as whole numbers are divided."""

    name: str
    width: Fraction
    rounded: Literal["not", "down", "to zero"]

    @property
    def example(self) -> str:
        """The quotient as SQL writes it."""
        return f"{self.name} / {show(self.width)}"


def _steps(node: exp.Expression, names: Names) -> _Steps | None:
    """Arithmetic that makes steps: x / 10 * 10, FLOOR(x / 10), x - x % 10."""
    if isinstance(node, exp.Paren):
        return _steps(node.this, names)
    if isinstance(node, exp.Mul):
        for inner, times in ((node.this, node.expression), (node.expression, node.this)):
            width, steps = value_of(times), _steps(inner, names)
            if steps is not None and width == steps.width:
                if steps.rounded == "not":
                    # Rounding that follows would be that of the attribute itself.
                    raise QueryError(f"{steps.example} is not rounded; FLOOR({steps.example}) gives groups")
                return steps
        return None
    if isinstance(node, exp.Sub) and isinstance(node.expression, exp.Mod | exp.Paren):
        rest = node.expression.this if isinstance(node.expression, exp.Paren) else node.expression
        name, width = names.find(node.this), value_of(rest.expression) if isinstance(rest, exp.Mod) else None
        if name is None or not _is_width(width) or names.find(rest.this) != name:
            return None
        return _Steps(name, Fraction(width), "to zero")
    if isinstance(node, exp.Floor | exp.Cast | exp.Trunc):
        steps = _steps(node.this, names)
        return None if steps is None else _rounded(node, steps)
    if isinstance(node, exp.Div | exp.IntDiv):
        name, width = names.find(node.this), value_of(node.expression)
        if name is None or not _is_width(width):
            return None
        is_whole = isinstance(node, exp.IntDiv) or (_is_whole(name, names) and node.expression.sql().isdigit())
        return _Steps(name, Fraction(width), "to zero" if is_whole else "not")
    return None


def _rounded(node: exp.Floor | exp.Cast | exp.Trunc, steps: _Steps) -> _Steps:
    """Steps after FLOOR, TRUNC or CAST; QueryError where these do something else than rounding to whole steps."""
    if isinstance(node, exp.Cast):
        is_plain = only(node, "this", "to", "safe") and not node.to.expressions
        if is_plain and node.to.is_type(*(REAL_TYPES if steps.rounded == "not" else NUMBER_TYPES)):
            return steps
        raise QueryError(f"{node_text(node)} may round to the nearest; FLOOR({steps.example}) rounds down")
    decimals = node.args.get("decimals")
    if not only(node, "this", "decimals", "fractions_supported") or (decimals is not None and value_of(decimals) != 0):
        raise QueryError(f"{node_text(node)} rounds to decimals; FLOOR({steps.example}) rounds down to whole numbers")
    if steps.rounded == "not":
        return replace(steps, rounded="down" if isinstance(node, exp.Floor) else "to zero")
    # FLOOR(x / 10) means rounding down, also where whole numbers were divided already.
    return replace(steps, rounded="down") if isinstance(node, exp.Floor) and _divides(node.this) else steps


def _divides(node: exp.Expression) -> bool:
    return _divides(node.this) if isinstance(node, exp.Paren) else isinstance(node, exp.Div)


def _is_whole(name: str, names: Names) -> bool:
    """Whether an attribute has whole numbers, as far as is known."""
    return names.declared is None or isinstance(names.declared.find(name), Integers)


def _is_width(width: object) -> TypeGuard[int | Fraction]:
    return isinstance(width, int | Fraction) and not isinstance(width, bool) and width > 0


def _aligned(steps: _Steps, names: Names) -> Axis:
    """Bins that begin at multiples of the width, also where the declared values begin between two of them."""
    name, width = steps.name, steps.width
    step = int(width) if width.denominator == 1 else width
    attribute = None if names.declared is None else names.declared.find(name)
    if isinstance(attribute, Dates | Timestamps):
        raise QueryError(f"{name} has dates, which are no numbers; DATE_TRUNC('month', {name}) groups them by period")
    if steps.rounded == "not":
        raise QueryError(f"{steps.example} is not rounded; FLOOR({steps.example}) gives groups")
    if not isinstance(attribute, Integers | Bins):
        return Axis(name, width=step)
    low, high = _ends(attribute)
    if low < 0 and steps.rounded == "to zero":
        raise QueryError(
            f"{name} has values below 0, which such arithmetic rounds up to 0; FLOOR({steps.example}) rounds down"
        )
    if low % width == 0:
        return Axis(name, width=step)
    first = (low // width + 1) * width
    if (high - first) / width > MOST_LISTED:
        raise QueryError(f"bins of {show(width)} are too many for {name}; use wider ones")
    inner = [first + place * width for place in range(math.ceil((high - first) / width))]
    return Axis(name, edges=tuple(int(edge) if edge.denominator == 1 else edge for edge in (low, *inner, high)))


def _ends(attribute: Integers | Bins) -> tuple[Fraction, Fraction]:
    """The least declared value, and where the declared values end."""
    if isinstance(attribute, Integers):
        return Fraction(attribute.low), Fraction(attribute.low + attribute.size)
    return attribute.edge(0), attribute.edge(attribute.size)


def _buckets(node: exp.WidthBucket, names: Names) -> Axis:
    """Buckets of equal width, and one for all that lies before or after them where values are declared there."""
    usage = "WIDTH_BUCKET takes an attribute, two ends and a number of buckets"
    name = names.attribute(node.this, usage)
    ends = ("min_value", "max_value", "num_buckets")
    if not only(node, "this", *ends) or any(node.args.get(key) is None for key in ends):
        raise QueryError(usage)
    low, high, count = (value_of(node.args[key]) for key in ends)
    if not isinstance(low, int | Fraction) or not isinstance(high, int | Fraction) or not isinstance(count, int):
        raise QueryError(usage)
    if not 1 <= count <= MOST_LISTED or low >= high:
        raise QueryError("WIDTH_BUCKET has a low end below its high end, and at least one bucket")
    edges = [Fraction(low) + (Fraction(high) - low) * place / count for place in range(count + 1)]
    attribute = None if names.declared is None else names.declared.find(name)
    if isinstance(attribute, Integers | Bins):
        first, after = _ends(attribute)
        edges = [*([first] if first < low else []), *edges, *([after] if after > high else [])]
    return Axis(name, edges=tuple(int(edge) if edge.denominator == 1 else edge for edge in edges))


def _texts(node: exp.Left | exp.Substring | exp.Upper | exp.Lower, declared: Domain, names: Names) -> Axis:
    """Named groups of the declared texts of an attribute: by their first letters, a part of them, or without case."""
    name = names.attribute(node.this, "LEFT, SUBSTRING, UPPER and LOWER take an attribute with listed values")
    attribute = declared.find(name)
    if not isinstance(attribute, Categorical) or not all(isinstance(value, str) for value in attribute.values):
        raise QueryError(f"{name} lists no texts; {GROUPS_HELP}")
    numbers = [value_of(part) for key in ("start", "length", "expression") if (part := node.args.get(key)) is not None]
    if not all(type(number) is int and number >= 1 for number in numbers) or not only(
        node, "this", "start", "length", "expression"
    ):
        raise QueryError("LEFT(x, 2) and SUBSTRING(x, 1, 2) take whole numbers from 1 on")
    if isinstance(node, exp.Upper | exp.Lower):
        part = str.upper if isinstance(node, exp.Upper) else str.lower
    else:
        start, *length = numbers if isinstance(node, exp.Substring) else (1, *numbers)
        begin = int(str(start)) - 1
        part = itemgetter(slice(begin, begin + int(str(length[0])) if length else None))
    return named_axis(name, sorted_by(attribute.values, lambda value: part(str(value))), node)
