"""Groups written in SQL: GROUP BY with bins, CASE, calendar units, and arithmetic that rounds down."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import TypeGuard, TypeVar

import numpy as np
from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.calendar import Dates
from blowfishdb.model.conditions import Names, node_text, only, read_condition, shown, value_of
from blowfishdb.model.domain import Bins, Categorical, Domain, Integers
from blowfishdb.model.groups import Segments
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis, atoms, truth

GROUPS_HELP = "groups are attributes, bin(x, 10), bin_edges(x, 0, 18, 65) or DATE_TRUNC('month', x)"
MOST_GROUPS = 16
T = TypeVar("T")


def read_axis(node: exp.Expression, names: Names) -> Axis | None:
    """The groups that a node writes, or None where it writes none."""
    if isinstance(node, exp.Paren | exp.Cast):
        return read_axis(node.this, names)
    if isinstance(node, exp.Column):
        name = names.find(node)
        return None if name is None else Axis(name)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return _period(node, names)
    if isinstance(node, exp.If):
        branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
        default = node.args.get("false")
        return _cases(exp.Case(ifs=[branch], default=None if default is None else default.copy()), names)
    if isinstance(node, exp.Case):
        return _cases(node, names)
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not) and node.find(exp.AggFunc) is None:
        branch = exp.If(this=node.copy(), true=exp.Literal.string("true"))
        return _cases(exp.Case(ifs=[branch], default=exp.Literal.string("false")), names)
    if isinstance(node, exp.Left | exp.Substring | exp.Upper | exp.Lower) and names.declared is not None:
        return _texts(node, names.declared, names)
    if isinstance(node, exp.WidthBucket):
        return _buckets(node, names)
    part = _part_of_date(node)
    if part is not None:
        return _date_part(*part, names)
    steps = _steps(node, names)
    if steps is not None:
        return _aligned(*steps, names)
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


def read_values(node: exp.Expression, names: Names) -> Axis | None:
    """The same with periods as named groups of the declared days, by the first day of each: what conditions look at."""
    axis = read_axis(node, names)
    if axis is None or axis.unit not in STARTS or names.declared is None:
        return axis
    start, days = STARTS[axis.unit], _declared_days(axis.attribute, names.declared)
    return _named_groups(axis.attribute, days, lambda day: start(day).isoformat())


def _named_groups(name: str, values: Iterable[T], label: Callable[[T], str]) -> Axis:
    """Groups of the values of an attribute that have a label in common, in the order in which labels come first."""
    groups: dict[str, list[T]] = {}
    for value in values:
        groups.setdefault(label(value), []).append(value)
    return Axis(name, groups=tuple((one, tuple(members)) for one, members in groups.items()))


def read_groups(select: exp.Select, names: Names, measures: Sequence[exp.Expression]) -> tuple[Axis, ...]:
    """The groups of a SELECT, each once; what is selected and what is grouped must be the same."""
    selected = _selected(select, names, measures)
    group = select.args.get("group")
    if group is None:
        if selected:
            listed = ", ".join(node_text(item).strip("'\"") for item, _, _ in selected)
            raise QueryError(f"attributes beside an aggregate must be grouped: add GROUP BY {listed}")
        return ()
    if not only(group, "expressions", "all"):
        raise QueryError(f"only plain groups are known; {GROUPS_HELP}")
    if group.args.get("all"):
        return tuple(axis for _, axis, _ in selected)
    grouped = [_grouped(node, select, selected, names) for node in group.expressions]
    if len(grouped) > MOST_GROUPS:
        raise QueryError(f"a question has at most {MOST_GROUPS} groups, not {len(grouped)}")
    for item, axis, _ in selected:
        if axis not in grouped:
            raise QueryError(f"{node_text(item)} is selected but not grouped: add it to GROUP BY as it stands")
    for axis in grouped:
        if axis not in [chosen for _, chosen, _ in selected]:
            raise QueryError(f"{shown(axis.attribute)} is grouped but not selected: add it after SELECT as it stands")
    return tuple(axis for _, axis, _ in selected)


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
WRITTEN_OUT = {"YYYY": "%Y", "YYYY-MM": "%Y-%m", "YYYY-MM-DD": "%Y-%m-%d"}
"""The same as TO_CHAR takes them."""
MOST_LISTED = 20_000
"""Declared values that are sorted into named groups one by one."""
ELSE = "NULL"
"""The group of what a CASE without ELSE leaves over."""


def _part_of_date(node: exp.Expression) -> tuple[str, exp.Expression] | None:
    """The part of a date that a node takes, and the node of the date."""
    if isinstance(node, exp.Extract):
        return str(node.this.name).lower(), node.expression
    if type(node) in PARTS:
        return PARTS[type(node)], node.this
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "DATE_PART" and len(node.expressions) == 2:
        return str(node.expressions[0].name).lower(), node.expressions[1]
    if isinstance(node, exp.ToChar) and isinstance(node.args.get("format"), exp.Literal):
        return f"format {WRITTEN_OUT.get(node.args['format'].this, '')}", node.this
    if isinstance(node, exp.TimeToStr) and isinstance(node.args.get("format"), exp.Literal):
        return f"format {node.args['format'].this}", node.this
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "STRFTIME" and len(node.expressions) == 2:
        return f"format {node.expressions[1].name}", node.expressions[0]
    return None


def _date_part(part: str, node: exp.Expression, names: Names) -> Axis:
    """Years as periods; months, quarters and days of the week as named groups of the declared dates."""
    while isinstance(node, exp.Cast | exp.Paren | exp.TsOrDsToDate) or type(node).__name__ == "TsOrDsToTimestamp":
        node = node.this
    name = names.attribute(node, "EXTRACT takes a part and a date: EXTRACT(MONTH FROM day)")
    if part.startswith("format "):
        unit = FORMATS.get(part.removeprefix("format "))
        if unit is None:
            raise QueryError("dates are grouped by '%Y', '%Y-%m' or '%Y-%m-%d', or by DATE_TRUNC('month', x)")
        return Axis(name, unit=unit)
    if part == "year":
        return Axis(name, unit="year")
    read = {"quarter": lambda day: f"{(day.month + 2) // 3}", "month": lambda day: f"{day.month:02}"}
    read |= {"dow": lambda day: f"{day.isoweekday() % 7}", "isodow": lambda day: f"{day.isoweekday()}"}
    read |= {"day": lambda day: f"{day.day:02}"}
    if part not in read or names.declared is None:
        raise QueryError(
            "dates are grouped by DATE_TRUNC('month', x), or by EXTRACT of year, quarter, month, day or dow"
        )
    return _named_groups(name, sorted(_declared_days(name, names.declared), key=read[part]), read[part])


def _declared_days(name: str, declared: Domain) -> list[datetime.date]:
    attribute = declared.find(name)
    if not isinstance(attribute, Dates):
        raise QueryError(f"{name} is not a date; bin({name}, 10) groups numbers, and texts are grouped by themselves")
    if attribute.by != "day":
        raise QueryError(f"{name} is not a date by day; DATE_TRUNC('month', {name}) groups it by period")
    if attribute.size > MOST_LISTED:
        raise QueryError(
            f"{name} has {attribute.size:,} declared days; DATE_TRUNC('month', {name}) groups them by period"
        )
    starts = attribute.starts(np.arange(attribute.size)).tolist()
    return [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(day)) for day in starts]


def _steps(node: exp.Expression, names: Names) -> tuple[str, Fraction] | None:
    """The attribute and the width of arithmetic that rounds down: x / 10 * 10, FLOOR(x / 10), x - x % 10."""
    if isinstance(node, exp.Mul):
        for inner, times in ((node.this, node.expression), (node.expression, node.this)):
            width, steps = value_of(times), _steps(inner, names)
            if steps is not None and width == steps[1]:
                return steps
        return None
    if isinstance(node, exp.Sub) and isinstance(node.expression, exp.Mod | exp.Paren):
        rest = node.expression.this if isinstance(node.expression, exp.Paren) else node.expression
        name, width = names.find(node.this), value_of(rest.expression) if isinstance(rest, exp.Mod) else None
        return (name, Fraction(width)) if name and _is_width(width) and names.find(rest.this) == name else None
    if isinstance(node, exp.Floor | exp.Paren | exp.Cast | exp.Trunc):
        return _steps(node.this, names)
    if isinstance(node, exp.Div | exp.IntDiv):
        name, width = names.find(node.this), value_of(node.expression)
        return (name, Fraction(width)) if name and _is_width(width) else None
    return None


def _is_width(width: object) -> TypeGuard[int | Fraction]:
    return isinstance(width, int | Fraction) and not isinstance(width, bool) and width > 0


def _aligned(name: str, width: Fraction, names: Names) -> Axis:
    """Bins that begin at multiples of the width, also where the declared values begin between two of them."""
    step = int(width) if width.denominator == 1 else width
    attribute = None if names.declared is None else names.declared.find(name)
    if not isinstance(attribute, Integers | Bins):
        return Axis(name, width=step)
    if isinstance(attribute, Integers):
        low, high = Fraction(attribute.low), Fraction(attribute.low + attribute.size)
    else:
        low, high = attribute.edge(0), attribute.edge(attribute.size)
    if low % width == 0:
        return Axis(name, width=step)
    first = (low // width + 1) * width
    if (high - first) / width > MOST_LISTED:
        raise QueryError(f"bins of {show(width)} are too many for {name}; use wider ones")
    inner = [first + place * width for place in range(math.ceil((high - first) / width))]
    return Axis(name, edges=tuple(int(edge) if edge.denominator == 1 else edge for edge in (low, *inner, high)))


def _buckets(node: exp.WidthBucket, names: Names) -> Axis:
    name = names.attribute(node.this, "WIDTH_BUCKET takes an attribute, two ends and a number of buckets")
    low, high, count = (value_of(node.args[key]) for key in ("min_value", "max_value", "num_buckets"))
    if not isinstance(low, int | Fraction) or not isinstance(high, int | Fraction) or not isinstance(count, int):
        raise QueryError("WIDTH_BUCKET takes an attribute, two ends and a number of buckets")
    if not 1 <= count <= MOST_LISTED or low >= high:
        raise QueryError("WIDTH_BUCKET has a low end below its high end, and at least one bucket")
    edges = [Fraction(low) + (Fraction(high) - low) * place / count for place in range(count + 1)]
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
    return _named_groups(name, attribute.values, lambda value: part(str(value)))


def _cases(node: exp.Case, names: Names) -> Axis | None:
    """Named groups of the values of one attribute: the first WHEN that holds names the group.

    None where the branches give no texts or numbers: such a CASE is no group.
    """
    branches = [(branch.this, value_of(branch.args["true"])) for branch in node.args["ifs"]]
    default = node.args.get("default")
    other = ELSE if default is None or isinstance(default, exp.Null) else value_of(default)
    if other is None or any(label is None for _, label in branches):
        raise QueryError("a CASE that groups gives texts or numbers: CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END")
    if node.this is not None:
        subject = node.this
        conditions = [read_condition(exp.EQ(this=subject.copy(), expression=value), names) for value, _ in branches]
    else:
        conditions = [read_condition(condition, names) for condition, _ in branches]
    about = {atom.attribute for condition in conditions for atom in atoms(condition)}
    if len(about) != 1 or names.declared is None:
        raise QueryError("a CASE that groups looks at one attribute; GROUP BY both, or COUNT(*) FILTER (WHERE ...)")
    (name,) = about
    attribute = names.declared.find(name)
    if attribute.size > MOST_LISTED:
        raise QueryError(f"{name} has {attribute.size:,} declared values; bin_edges({name}, ...) groups them by ranges")
    cuts = Segments(attribute, np.arange(attribute.size))
    label_of = np.full(attribute.size, len(branches))
    for place in reversed(range(len(branches))):
        holds = truth(conditions[place], cuts.truth)[0][: attribute.size]
        label_of[holds] = place
    groups: dict[str, list[object]] = {}
    labels = [*(str(label) for _, label in branches), str(other)]
    days = _declared_days(name, names.declared) if isinstance(attribute, Dates) else None
    for index, place in enumerate(label_of.tolist()):
        groups.setdefault(labels[place], []).append(days[index] if days else attribute.value_at(index))
    in_order = [label for label in dict.fromkeys(labels) if label in groups]
    return Axis(name, groups=tuple((label, tuple(groups[label])) for label in in_order))
