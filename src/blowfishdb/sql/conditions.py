"""WHERE: comparisons of declared attributes with values, joined by AND, OR and NOT."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.predicate import Comparison, IsNull, IsOutside, Member, Negation, Op, Predicate
from blowfishdb.sql.literals import Value, only, value_of
from blowfishdb.sql.names import Names, written
from blowfishdb.sql.refusals import shown

MOST_CONDITIONS = 128
HELP = (
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
        return IsOutside(names.attribute(node.expressions[0], HELP))
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
    return Comparison(names.attribute(left, HELP), op, _value(right, names))


def _between(node: exp.Between, names: Names) -> Predicate:
    if not only(node, "this", "low", "high"):
        raise QueryError("BETWEEN takes its low end first, then its high end, both included")
    name = names.attribute(node.this, HELP)
    low, high = _value(node.args["low"], names), _value(node.args["high"], names)
    return Comparison(name, ">=", low) & Comparison(name, "<=", high)


def _member(node: exp.In, names: Names) -> Member:
    if not only(node, "this", "expressions") or not node.expressions:
        raise QueryError("IN takes a list of values, never a query: state IN ('NC', 'VA')")
    return Member(names.attribute(node.this, HELP), tuple(_value(part, names) for part in node.expressions))


def _null(node: exp.Is, names: Names) -> IsNull:
    if not isinstance(node.args["expression"], exp.Null):
        raise QueryError("IS is followed by NULL or NOT NULL; for truth values write x = TRUE")
    return IsNull(names.attribute(node.this, HELP))


def _value(node: exp.Expression, names: Names) -> Value:
    if isinstance(node, exp.Null):
        raise QueryError("nothing equals NULL; write x IS NULL or x IS NOT NULL")
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise QueryError("placeholders are not filled in; write the value itself")
    value = value_of(node)
    if value is not None:
        return value
    if names.find(node) is not None:
        raise QueryError(f"{written(node)} is another attribute; {HELP}")
    hint = "; text stands in single quotes" if isinstance(node, exp.Column) else ""
    raise QueryError(f"{written(node)} is no plain value{hint}; {HELP}")


def _refuse(node: exp.Expression, names: Names) -> Predicate:
    name = names.find(node)
    if name is not None:
        raise QueryError(f"{shown(name)} is an attribute, no condition; compare it with a value")
    if isinstance(node, exp.Like | exp.ILike | exp.RegexpLike | exp.SimilarTo):
        raise QueryError("patterns are not matched: list the declared values, x IN ('...', '...')")
    if node.find(exp.Select) is not None:
        raise QueryError(f"subqueries are not known here; {HELP}")
    raise QueryError(f"{written(node)} cannot be a condition; {HELP}")
