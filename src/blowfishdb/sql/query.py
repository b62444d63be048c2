"""The query of a statement: what to count, by which groups, under which condition; and its pieces on their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.conditions import Names, node_text, only, read_condition, value_of
from blowfishdb.model.predicate import Axis, Predicate, as_axes
from blowfishdb.model.query import Query, query
from blowfishdb.sql.groups import read_axis, read_groups
from blowfishdb.sql.statement import AGGREGATES, FUNCTIONS, Statement, parse, refuse

MOST_LEVELS = 100


def query_of(statement: Statement, attributes: Iterable[str]) -> Query:
    """The query of a dataset with these attributes; QueryError with the nearest thing that works."""
    names = Names(tuple(attributes), statement.names)
    try:
        return _query(statement, names)
    except RecursionError:
        raise QueryError("the statement is nested too deeply; write conditions side by side with AND and OR") from None


def _query(statement: Statement, names: Names) -> Query:
    select, table = statement.select, statement.table
    items = [_without_alias(item) for item in select.expressions]
    if not items:
        refuse("Nothing is asked for", table)
    if any(isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star) for item in items):
        refuse("Rows are never shown", table)
    measures = [item for item in items if not _is_group(item, names)]
    if not measures:
        refuse("Rows are never shown, only counts: COUNT(*) is missing", table)
    aggregates = [_aggregate(item, names, table) for item in measures]
    if len(aggregates) > 1:
        raise QueryError("one aggregate at a time, since each is charged on its own; ask the others in turn")
    where = select.args.get("where")
    condition = read_condition(where.this, names) if where is not None else None
    aggregate, groups = replace(aggregates[0], where=condition), read_groups(select, names, measures[0])
    if aggregate.kind == "count" and groups:
        return replace(aggregate, kind="histogram", axes=groups)
    if groups:
        refuse(f"Groups have counts only: leave GROUP BY out for {aggregate.kind}, or ask for COUNT(*)", table)
    return aggregate


def _without_alias(item: exp.Expression) -> exp.Expression:
    inner = item.this if isinstance(item, exp.Alias) else item
    return inner if isinstance(inner, exp.Expression) else item


def _is_group(item: exp.Expression, names: Names) -> bool:
    return isinstance(item, exp.Column) or read_axis(item, names) is not None


def _aggregate(item: exp.Expression, names: Names, table: str) -> Query:
    if isinstance(item, exp.Count):
        return _count(item)
    if isinstance(item, exp.Sum | exp.Avg) and only(item, "this"):
        attribute = names.attribute(item.this, "SUM and AVG take one attribute")
        return query("sum" if isinstance(item, exp.Sum) else "mean", attribute)
    if isinstance(item, exp.Median) and only(item, "this"):
        return query("quantiles", names.attribute(item.this, "MEDIAN takes one attribute"), levels=(Fraction(1, 2),))
    called = str(item.this).upper() if isinstance(item, exp.Anonymous) else ""
    if called == "CDF":
        if len(item.expressions) != 1:
            raise QueryError("CDF takes one attribute, perhaps binned: CDF(age) or CDF(bin(age, 5))")
        axis = read_axis(item.expressions[0], names)
        return query("cdf", axis or names.attribute(item.expressions[0], "CDF takes one attribute"))
    if called == "QUANTILES":
        return _quantiles(item, names)
    _refuse_measure(item, table)


def _count(item: exp.Count) -> Query:
    if isinstance(item.this, exp.Distinct):
        raise QueryError(f"{FUNCTIONS['count_distinct']}.")
    if not isinstance(item.this, exp.Star) or not only(item, "this", "big_int"):
        raise QueryError(f"{FUNCTIONS['count_column']}.")
    return query("count")


def _quantiles(item: exp.Expression, names: Names) -> Query:
    example = "QUANTILES takes an attribute and its levels: QUANTILES(age, 0.25, 0.5, 0.75)"
    if not 2 <= len(item.expressions) <= 1 + MOST_LEVELS:
        raise QueryError(f"{example}; at most {MOST_LEVELS} of them")
    levels = [value_of(part) for part in item.expressions[1:]]
    numbers = [Fraction(level) for level in levels if isinstance(level, int | Fraction)]
    if len(numbers) != len(levels) or not all(0 < level < 1 for level in numbers):
        raise QueryError(f"{example}; levels lie strictly between 0 and 1")
    return query("quantiles", names.attribute(item.expressions[0], example), levels=numbers)


def _refuse_measure(item: exp.Expression, table: str) -> NoReturn:
    for kinds, advice in (
        ((exp.Min,), "min"),
        ((exp.Max,), "max"),
        ((exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop), "spread"),
        ((exp.Window,), "window"),
        ((exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile), "percentile"),
        ((exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.Extract), "part_of_date"),
    ):
        if isinstance(item, kinds):
            raise QueryError(f"{FUNCTIONS[advice]}.")
    if item.find(exp.Select) is not None:
        refuse("Subqueries are not known here", table)
    raise QueryError(
        f"{node_text(item)} is not known here. Between SELECT and FROM stand attributes, bin(x, 10), "
        f"DATE_TRUNC('month', x), and one of {AGGREGATES}."
    )


CONDITION = "a condition is written ward = 'A3' AND age >= 18"
GROUPS = "groups are written sex, bin(age, 5), bin_edges(age, 0, 18, 65) or DATE_TRUNC('month', day)"


def read_where(text: str, attributes: Iterable[str]) -> Predicate:
    """The condition that the text writes: `ward = 'A3' AND age >= 18`."""
    piece = _piece("SELECT COUNT(*) FROM t WHERE", text, "", attributes, CONDITION)
    if piece.where is None or piece.axes:
        raise QueryError(CONDITION)
    return piece.where


def read_axes(text: str, attributes: Iterable[str]) -> tuple[Axis, ...]:
    """The groups that the text writes: `sex, bin(age, 5)`; names as they are declared need no quotes here."""
    known = list(attributes)
    for names in ([text], text.split(",")) if isinstance(text, str) else ():
        plain = [name.strip() for name in names]
        if all(name in known for name in plain):
            return as_axes(plain)
    piece = _piece("SELECT", text, ", COUNT(*) FROM t GROUP BY ALL", known, GROUPS)
    if piece.where is not None or not piece.axes:
        raise QueryError(GROUPS)
    return piece.axes


def _piece(before: str, text: str, after: str, attributes: Iterable[str], advice: str) -> Query:
    """The query around a piece; the piece stands on a line of its own, so that no comment swallows the rest."""
    if not isinstance(text, str) or "/*" in text:
        raise QueryError(advice)
    try:
        statement = parse(f"{before}\n{text}\n{after}")
        piece = query_of(statement, attributes)
    except QueryError as error:
        reason, _, _ = str(error).partition(". What works: ")
        raise QueryError(f"{reason}; {advice}" if reason != str(error) else reason) from None
    is_count = piece.kind in ("count", "histogram")
    if statement.explain or statement.table != "t" or statement.options or not is_count:
        raise QueryError(advice)
    return piece
