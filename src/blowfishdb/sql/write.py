"""The SELECT of a query: what was asked in Python or on a page, written so that somebody can go on from it in SQL."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from fractions import Fraction

from blowfishdb.errors import BlowfishError, QueryError
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.numbers import show
from blowfishdb.model.predicate import Axis, condition_text, name_text, value_text
from blowfishdb.model.query import Query
from blowfishdb.sql.query import query_of
from blowfishdb.sql.statement import parse

CALLS = {
    "sum": "SUM",
    "mean": "AVG",
    "stddev": "STDDEV",
    "variance": "VARIANCE",
    "stddev_pop": "STDDEV_POP",
    "variance_pop": "VAR_POP",
}


LONGEST = 5_000
"""Characters of a statement that somebody would go on from."""


def write_statement(dataset: str, query: Query, attributes: Iterable[str]) -> str | None:
    """The SELECT that reads back to exactly this query; None where SQL has no words for it."""
    try:
        text = _statement(dataset, query)
        return text if len(text) <= LONGEST and query_of(parse(text), attributes) == query else None
    except BlowfishError:
        return None


def _statement(dataset: str, query: Query) -> str:
    axes = [_group(axis) for axis in query.axes]
    groups = [] if query.kind in ("cdf", "quantiles", "sum", "mean") else axes
    where = "" if query.where is None else f" WHERE {condition_text(query.where)}"
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {', '.join([*groups, *_measures(query, axes)])} FROM {name_text(dataset)}{where}{by}"


def _measures(query: Query, axes: list[str]) -> list[str]:
    match query.kind:
        case "count" | "histogram" | "histogram2d":
            return ["COUNT(*)"]
        case "cdf":
            return [f"CDF({axes[0]})"]
        case "sum" | "mean":
            return [f"{CALLS[query.kind]}({axes[0]})"]
        case "quantiles":
            return [f"QUANTILES({axes[0]}, {', '.join(map(show, query.levels))})"]
        case "table":
            return [_aggregate(one) for one in query.aggregates]
    raise QueryError("SQL has no words for this kind of question")


def _group(axis: Axis) -> str:
    name = name_text(axis.attribute)
    if axis.width is not None:
        return f"bin({name}, {_literal(axis.width)})"
    if axis.edges:
        return f"bin_edges({name}, {', '.join(map(_literal, axis.edges))})"
    if axis.groups:
        cases = [
            f"WHEN {name} IN ({', '.join(map(_literal, values))}) THEN {value_text(to)}" for to, values in axis.groups
        ]
        return f"CASE {' '.join(cases)} END"
    return name if axis.unit is None else f"DATE_TRUNC('{axis.unit}', {name})"


def _literal(value: object) -> str:
    if isinstance(value, datetime.date):
        return value_text(value.isoformat())
    return show(Fraction(str(value))) if isinstance(value, float | Fraction) else value_text(value)


def _aggregate(one: Aggregate) -> str:
    factors = [name_text(name) for name in one.factors]
    if one.affine:
        factors = [
            f"({_literal(slope)} * {name} + {_literal(base)})"
            for name, (slope, base) in zip(factors, one.affine, strict=True)
        ]
    kept = "" if one.where is None else f" FILTER (WHERE {condition_text(one.where)})"
    match one.function:
        case "count":
            text = f"COUNT({' * '.join(factors) or '*'})"
        case "people":
            text = f"COUNT(DISTINCT {factors[0]})"
        case "quantile":
            text = f"PERCENTILE_CONT({show(one.level or Fraction(0))}) WITHIN GROUP (ORDER BY {factors[0]})"
        case "share":
            within = f"PARTITION BY {', '.join(map(name_text, one.of))}" if one.of else ""
            times = "" if one.times == 1 else f"{one.times} * "
            text, kept = f"{times}COUNT(*){kept} / SUM(COUNT(*)) OVER ({within})", ""
        case "running":
            text = f"CDF({factors[0]})"
        case _:
            text = f"{CALLS[one.function]}({' * '.join(factors)})"
    return f"{text}{kept} AS {name_text(one.name)}" if one.name else f"{text}{kept}"
