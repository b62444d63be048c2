"""Conditions and groups written in SQL: WHERE, and GROUP BY with bins and calendar units."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Axis, Comparison, IsNull, IsOutside, Member, Negation, Op, Predicate
from blowfishdb.sql.statement import Names, Value, only, shown, value_of, written

MOST_CONDITIONS = 128
CONDITIONS_HELP = (
    "conditions compare an attribute with a value: age >= 18, state IN ('NC', 'VA'), cost BETWEEN 0 AND 100, x IS NULL"
)

COMPARED: dict[type[exp.Expression], Op] = {exp.EQ: "==", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
TURNED: dict[Op, Op] = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def read_condition(node: exp.Expression, names: Names) -> Predicate:
    """The condition that a node writes."""
    if isinstance(node, exp.Paren):
        return read_condition(node.this, names)
    if isinstance(node, exp.And | exp.Or):
        parts = [read_condition(part, names) for part in _chain(node)]
        if len(parts) > MOST_CONDITIONS:
            raise QueryError(f"at most {MOST_CONDITIONS} conditions stand in one row; use IN (...)")
        return _balanced(parts, and_=isinstance(node, exp.And))
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
        return _null(node, names)
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "OUTSIDE" and len(node.expressions) == 1:
        return IsOutside(names.attribute(node.expressions[0], CONDITIONS_HELP))
    return _refuse(node, names)


def _chain(node: exp.Expression) -> list[exp.Expression]:
    """The operands of a run of ANDs, or of ORs, from left to right; the parser leans such runs to the left."""
    kind, parts = type(node), []
    while type(node) is kind:
        parts.append(node.args["expression"])
        node = node.this
    return [node, *reversed(parts)]


def _balanced(parts: list[Predicate], *, and_: bool) -> Predicate:
    """One condition of small depth; AND and OR may be bracketed in any way."""
    while len(parts) > 1:
        pairs = [parts[place : place + 2] for place in range(0, len(parts), 2)]
        parts = [reduce(lambda one, two: one & two if and_ else one | two, pair) for pair in pairs]
    return parts[0]


def _comparison(node: exp.Expression, op: Op, names: Names) -> Comparison:
    left, right = node.this, node.args["expression"]
    if names.find(left) is None and names.find(right) is not None:
        left, right, op = right, left, TURNED[op]
    return Comparison(names.attribute(left, CONDITIONS_HELP), op, _value(right, names))


def _between(node: exp.Between, names: Names) -> Predicate:
    if not only(node, "this", "low", "high"):
        raise QueryError("BETWEEN takes its low end first, then its high end, both included")
    name = names.attribute(node.this, CONDITIONS_HELP)
    low, high = _value(node.args["low"], names), _value(node.args["high"], names)
    return Comparison(name, ">=", low) & Comparison(name, "<=", high)


def _member(node: exp.In, names: Names) -> Member:
    if not only(node, "this", "expressions") or not node.expressions:
        raise QueryError("IN takes a list of values, never a query: state IN ('NC', 'VA')")
    return Member(names.attribute(node.this, CONDITIONS_HELP), tuple(_value(part, names) for part in node.expressions))


def _null(node: exp.Is, names: Names) -> IsNull:
    if not isinstance(node.args["expression"], exp.Null):
        raise QueryError("IS is followed by NULL or NOT NULL; for truth values write x = TRUE")
    return IsNull(names.attribute(node.this, CONDITIONS_HELP))


def _value(node: exp.Expression, names: Names) -> Value:
    if isinstance(node, exp.Null):
        raise QueryError("nothing equals NULL; write x IS NULL or x IS NOT NULL")
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise QueryError("placeholders are not filled in; write the value itself")
    value = value_of(node)
    if value is not None:
        return value
    if names.find(node) is not None:
        raise QueryError(f"{written(node)} is another attribute; {CONDITIONS_HELP}")
    hint = "; text stands in single quotes" if isinstance(node, exp.Column) else ""
    raise QueryError(f"{written(node)} is no plain value{hint}; {CONDITIONS_HELP}")


def _refuse(node: exp.Expression, names: Names) -> Predicate:
    name = names.find(node)
    if name is not None:
        raise QueryError(f"{shown(name)} is an attribute, no condition; compare it with a value")
    if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike | exp.SimilarTo):
        raise QueryError("patterns are not matched: list the declared values, x IN ('...', '...')")
    if node.find(exp.Select) is not None:
        raise QueryError(f"subqueries are not known here; {CONDITIONS_HELP}")
    raise QueryError(f"{written(node)} cannot be a condition; {CONDITIONS_HELP}")


GROUPS_HELP = "groups are attributes, bin(x, 10), bin_edges(x, 0, 18, 65) or DATE_TRUNC('month', x)"
MOST_GROUPS = 16


def read_axis(node: exp.Expression, names: Names) -> Axis | None:
    """The groups that a node writes, or None where it writes none."""
    if isinstance(node, exp.Paren):
        return read_axis(node.this, names)
    if isinstance(node, exp.Column):
        name = names.find(node)
        return None if name is None else Axis(name)
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):
        return _period(node, names)
    called = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    if called == "BIN":
        return _bin(node, names)
    if called == "BIN_EDGES":
        return _bin_edges(node, names)
    return None


def read_groups(select: exp.Select, names: Names, measure: exp.Expression) -> tuple[Axis, ...]:
    """The groups of a SELECT, each once; what is selected and what is grouped must be the same."""
    selected = _selected(select, names, measure)
    group = select.args.get("group")
    if group is None:
        if selected:
            listed = ", ".join(written(item).strip("'\"") for item, _, _ in selected)
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
            raise QueryError(f"{written(item)} is selected but not grouped: add it to GROUP BY as it stands")
    for axis in grouped:
        if axis not in [chosen for _, chosen, _ in selected]:
            raise QueryError(f"{shown(axis.attribute)} is grouped but not selected: add it after SELECT as it stands")
    return tuple(axis for _, axis, _ in selected)


def _selected(
    select: exp.Select, names: Names, measure: exp.Expression
) -> list[tuple[exp.Expression, Axis, str | None]]:
    """The groups between SELECT and FROM, with their aliases."""
    found = []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if inner is measure:
            continue
        axis = read_axis(inner, names) or Axis(names.attribute(inner, GROUPS_HELP))
        found.append((inner, axis, item.alias if isinstance(item, exp.Alias) else None))
    return found


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
        return aliased[0] if aliased else Axis(names.attribute(node, GROUPS_HELP))
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        raise QueryError("ROLLUP, CUBE and GROUPING SETS are not known here; marginals in Python give several tables")
    raise QueryError(f"{written(node)} cannot be grouped; {GROUPS_HELP}")


def _by_place(node: exp.Literal, select: exp.Select, selected: list[tuple[exp.Expression, Axis, str | None]]) -> Axis:
    place = value_of(node)
    items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if isinstance(place, int) and 1 <= place <= len(items):
        for item, axis, _ in selected:
            if item is items[place - 1]:
                return axis
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
