"""The query of a statement: what to count, by which groups, under which condition; and its pieces on their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NoReturn, Protocol, Self, TypeVar

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.conditions import Names, node_text, only, read_condition, value_of
from blowfishdb.model.predicate import Axis, Predicate, as_axes
from blowfishdb.sql.groups import read_axis, read_groups
from blowfishdb.sql.statement import (
    AGGREGATES,
    FUNCTIONS,
    Accuracy,
    Statement,
    parse,
    refuse,
)

Measure = Literal["count", "cdf", "sum", "mean", "quantiles"]
MOST_LEVELS = 100

QuestionT = TypeVar("QuestionT", covariant=True)


@dataclass(frozen=True)
class Asked:
    """What a statement asks: a count (by groups, if there are any), or one number or curve of one attribute."""

    measure: Measure
    groups: tuple[Axis, ...] = ()
    where: Predicate | None = None
    of: Axis | None = None
    levels: tuple[Fraction, ...] = ()


class Askable(Protocol[QuestionT]):
    """A dataset that takes questions, as the Python face has it."""

    def where(self, predicate: Predicate) -> Self: ...

    def count(self) -> QuestionT: ...

    def histogram(self, *axes: Axis) -> QuestionT: ...

    def cdf(self, axis: Axis) -> QuestionT: ...

    def sum(self, column: str) -> QuestionT: ...

    def mean(self, column: str) -> QuestionT: ...

    def quantiles(self, column: str, levels: list[Fraction]) -> QuestionT: ...


def ask(table: Askable[QuestionT], asked: Asked) -> QuestionT:
    """The same question through the Python face."""
    if asked.where is not None:
        table = table.where(asked.where)
    if asked.of is None:
        return table.histogram(*asked.groups) if asked.groups else table.count()
    if asked.measure == "cdf":
        return table.cdf(asked.of)
    if asked.measure == "quantiles":
        return table.quantiles(asked.of.attribute, list(asked.levels))
    return table.sum(asked.of.attribute) if asked.measure == "sum" else table.mean(asked.of.attribute)


def read_question(statement: Statement, attributes: Iterable[str]) -> Asked:
    """What the statement asks of a dataset with these attributes; QueryError with the nearest thing that works."""
    names = Names(tuple(attributes), statement.names)
    try:
        return _question(statement, names)
    except RecursionError:
        raise QueryError("the statement is nested too deeply; write conditions side by side with AND and OR") from None


def _question(statement: Statement, names: Names) -> Asked:
    select, table = statement.select, statement.table
    items = [_without_alias(item) for item in select.expressions]
    if not items:
        refuse("Nothing is asked for", table)
    if any(isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star) for item in items):
        refuse("Rows are never shown", table)
    measures = [item for item in items if not _is_group(item, names)]
    if not measures:
        refuse("Rows are never shown, only counts: COUNT(*) is missing", table)
    found = [_measure(item, names, table) for item in measures]
    if len(found) > 1:
        raise QueryError("one aggregate at a time, since each is charged on its own; ask the others in turn")
    asked = found[0]
    where = select.args.get("where")
    condition = read_condition(where.this, names) if where is not None else None
    groups = read_groups(select, names, measures[0])
    if asked.measure != "count" and groups:
        refuse(f"Groups have counts only: leave GROUP BY out for {asked.measure}, or ask for COUNT(*)", table)
    return Asked(asked.measure, groups, condition, asked.of, asked.levels)


def _without_alias(item: exp.Expression) -> exp.Expression:
    inner = item.this if isinstance(item, exp.Alias) else item
    return inner if isinstance(inner, exp.Expression) else item


def _is_group(item: exp.Expression, names: Names) -> bool:
    return isinstance(item, exp.Column) or read_axis(item, names) is not None


def _measure(item: exp.Expression, names: Names, table: str) -> Asked:
    if isinstance(item, exp.Count):
        return _count(item)
    if isinstance(item, exp.Sum | exp.Avg) and only(item, "this"):
        of = Axis(names.attribute(item.this, "SUM and AVG take one attribute"))
        return Asked("sum" if isinstance(item, exp.Sum) else "mean", of=of)
    if isinstance(item, exp.Median) and only(item, "this"):
        of = Axis(names.attribute(item.this, "MEDIAN takes one attribute"))
        return Asked("quantiles", of=of, levels=(Fraction(1, 2),))
    called = str(item.this).upper() if isinstance(item, exp.Anonymous) else ""
    if called == "CDF":
        if len(item.expressions) != 1:
            raise QueryError("CDF takes one attribute, perhaps binned: CDF(age) or CDF(bin(age, 5))")
        axis = read_axis(item.expressions[0], names)
        return Asked("cdf", of=axis or Axis(names.attribute(item.expressions[0], "CDF takes one attribute")))
    if called == "QUANTILES":
        return _quantiles(item, names)
    _refuse_measure(item, table)


def _count(item: exp.Count) -> Asked:
    if isinstance(item.this, exp.Distinct):
        raise QueryError(f"{FUNCTIONS['count_distinct']}.")
    if not isinstance(item.this, exp.Star) or not only(item, "this", "big_int"):
        raise QueryError(f"{FUNCTIONS['count_column']}.")
    return Asked("count")


def _quantiles(item: exp.Expression, names: Names) -> Asked:
    example = "QUANTILES takes an attribute and its levels: QUANTILES(age, 0.25, 0.5, 0.75)"
    if not 2 <= len(item.expressions) <= 1 + MOST_LEVELS:
        raise QueryError(f"{example}; at most {MOST_LEVELS} of them")
    levels = [value_of(part) for part in item.expressions[1:]]
    numbers = [Fraction(level) for level in levels if isinstance(level, int | Fraction)]
    if len(numbers) != len(levels) or not all(0 < level < 1 for level in numbers):
        raise QueryError(f"{example}; levels lie strictly between 0 and 1")
    return Asked("quantiles", of=Axis(names.attribute(item.expressions[0], example)), levels=tuple(numbers))


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
    asked = _asked("SELECT COUNT(*) FROM t WHERE", text, "", attributes, CONDITION)
    if asked.where is None or asked.groups:
        raise QueryError(CONDITION)
    return asked.where


def read_axes(text: str, attributes: Iterable[str]) -> tuple[Axis, ...]:
    """The groups that the text writes: `sex, bin(age, 5)`; names as they are declared need no quotes here."""
    known = list(attributes)
    for names in ([text], text.split(",")) if isinstance(text, str) else ():
        plain = [name.strip() for name in names]
        if all(name in known for name in plain):
            return as_axes(plain)
    asked = _asked("SELECT", text, ", COUNT(*) FROM t GROUP BY ALL", known, GROUPS)
    if asked.where is not None or not asked.groups:
        raise QueryError(GROUPS)
    return asked.groups


def _asked(before: str, text: str, after: str, attributes: Iterable[str], advice: str) -> Asked:
    """The question around a piece; the piece stands on a line of its own, so that no comment swallows the rest."""
    if not isinstance(text, str) or "/*" in text:
        raise QueryError(advice)
    try:
        statement = parse(f"{before}\n{text}\n{after}")
        asked = read_question(statement, attributes)
    except QueryError as error:
        reason, _, _ = str(error).partition(". What works: ")
        raise QueryError(f"{reason}; {advice}" if reason != str(error) else reason) from None
    if statement.explain or statement.table != "t" or statement.options != Accuracy() or asked.measure != "count":
        raise QueryError(advice)
    return asked
