"""Groups written in SQL: GROUP BY with bins and calendar units."""

from __future__ import annotations

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.conditions import Names, node_text, only, shown, value_of
from blowfishdb.model.predicate import Axis

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
    select: exp.Select, names: Names, measure: exp.Expression
) -> list[tuple[exp.Expression, Axis, str | None]]:
    """The groups between SELECT and FROM, with their aliases."""
    groups = []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if inner is measure:
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
