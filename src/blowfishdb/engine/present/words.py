"""A question and its condition in words, as titles and notes show them."""

from __future__ import annotations

import datetime
from collections.abc import Collection

from blowfishdb.model.domain import Domain
from blowfishdb.model.explain import explain
from blowfishdb.model.policy import Policy
from blowfishdb.model.predicate import Axis, Both, Comparison, Either, IsNull, IsOutside, Member, Negation, Predicate
from blowfishdb.model.query import Query

LISTED = 6
"""A list of values in a condition shows this many, then how many more there are."""
DEEPEST = 40
"""A condition nested deeper than this is cut short in words."""


def question_words(asked: Query) -> str:
    """What is asked, in one line: "CDF of cost where ward = 'A3'"."""
    said = _asked(asked)
    return said if asked.where is None else f"{said} where {condition_words(asked.where)}"


def _asked(asked: Query) -> str:
    by = " × ".join(_axis_words(axis) for axis in asked.axes)
    if asked.kind == "count":
        return "Number of records"
    if asked.kind == "cdf":
        return f"CDF of {by}"
    if asked.kind == "ranges":
        count = len(asked.boxes)
        return f"{'All ranges' if not count else 'One range' if count == 1 else f'{count:,} ranges'} of {by}"
    if asked.kind == "marginals":
        if asked.ways is not None:
            return f"All {asked.ways}-way marginals of {', '.join(_axis_words(axis) for axis in asked.axes)}"
        named = {axis.attribute: _axis_words(axis) for axis in asked.axes}
        return f"Marginals of {', '.join(' × '.join(named.get(name, name) for name in s) for s in asked.subsets)}"
    if asked.kind in ("histogram", "histogram2d"):
        return f"Histogram of {by}"
    return f"{asked.kind.capitalize()} of {by}"


def _axis_words(axis: Axis) -> str:
    if axis.width is not None:
        return f"{axis.attribute} in bins of {axis.width}"
    if axis.unit is not None:
        return f"{axis.attribute} by {axis.unit}"
    if axis.edges:
        return f"{axis.attribute} in {len(axis.edges) - 1} bins"
    if axis.groups:
        return f"{axis.attribute} in {len(axis.groups)} groups"
    return axis.attribute


def condition_words(condition: Predicate) -> str:
    """The condition as SQL would write it."""
    return _condition(condition, DEEPEST)


def _condition(condition: Predicate, depth: int) -> str:
    if depth == 0:
        return "..."
    match condition:
        case Comparison(attribute, op, value):
            return f"{attribute} {'=' if op == '==' else op} {_value(value)}"
        case Member(attribute, values):
            shown = [_value(value) for value in values[:LISTED]]
            more = [f"... {len(values) - LISTED} more"] if len(values) > LISTED else []
            return f"{attribute} in ({', '.join([*shown, *more])})"
        case IsNull(attribute):
            return f"{attribute} is NULL"
        case IsOutside(attribute):
            return f"{attribute} is outside its domain"
        case Negation(Comparison(attribute, "==", value)):
            return f"{attribute} <> {_value(value)}"
        case Negation(inner):
            return f"not ({_condition(inner, depth - 1)})"
        case Both(Comparison(one, ">=", low), Comparison(two, "<=", high)) if one == two:
            return f"{one} between {_value(low)} and {_value(high)}"
        case Both(first, second):
            return f"{_condition(first, depth - 1)} and {_condition(second, depth - 1)}"
        case Either(first, second):
            return f"({_condition(first, depth - 1)} or {_condition(second, depth - 1)})"


def policy_words(domain: Domain, policy: Policy, attributes: Collection[str]) -> tuple[str, ...]:
    """The policy in words, as far as it concerns a question that looks at these attributes alone."""
    others = tuple(f"{name}: " for name in domain if name not in attributes)
    said = [sentence for sentence in explain(domain, policy) if not sentence.startswith(others)]
    return (*said, "No other attribute enters these numbers.") if others else tuple(said)


def _value(value: object) -> str:
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'"
    if isinstance(value, datetime.date):
        return f"'{value.isoformat()}'"
    return str(value)
