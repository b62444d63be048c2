"""The query of a statement, what ORDER BY, LIMIT and HAVING do to its answer; and the statement of a query."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import cast

import numpy as np
from sqlglot import exp

from blowfishdb.engine.postprocess import AllOf, ColumnOp, ColumnThreshold, Computed, Selection, SortKey, formula_words
from blowfishdb.engine.request import Relative
from blowfishdb.errors import BlowfishError, QueryError
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.calendar import Dates, Timestamps
from blowfishdb.model.conditions import COMPARED, TURNED, Names, chain, node_text, only, read_condition, value_of
from blowfishdb.model.domain import CELL, Attribute, Bins, Domain, Integers
from blowfishdb.model.numbers import show, suggest
from blowfishdb.model.predicate import Axis, Predicate, as_axes, condition_text, condition_words, name_text, value_text
from blowfishdb.model.query import Kind, Query, query
from blowfishdb.sql.aggregates import ReadingContext, bare, is_formula, read_aggregates, read_formula, summed
from blowfishdb.sql.cases import ELSE, OUTSIDE
from blowfishdb.sql.groups import read_axis, read_groups, read_values
from blowfishdb.sql.refusals import FUNCTIONS, JOINS, nesting_refused, refuse
from blowfishdb.sql.statement import Statement, parse

CHOOSING = ("having", "order")
"""Clauses that choose or sort groups; their aggregates are measured though they are not selected."""


@nesting_refused()
def query_of(statement: Statement, attributes: Iterable[str]) -> Query:
    """The query of a dataset with these attributes; QueryError with the nearest thing that works."""
    return _query(statement, names_of(statement, attributes))


def _query(statement: Statement, names: Names) -> Query:
    select, table = statement.select, statement.table
    if select.args.get("joins"):
        refuse(JOINS, table)
    items = [_without_alias(item) for item in select.expressions]
    if not items:
        refuse("Nothing is asked for", table)
    if any(isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star) for item in items):
        refuse("Rows are never shown", table)
    measures = [item for item in select.expressions if not _is_group(_without_alias(item), names)]
    is_chosen = any(select.args.get(part) is not None and select.args[part].find(exp.AggFunc) for part in CHOOSING)
    if not measures and not is_chosen:
        refuse("Rows are never shown, only counts: COUNT(*) is missing", table)
    if any(isinstance(bare(item), exp.Window) for item in measures):
        raise QueryError(f"{FUNCTIONS['window']}.")
    where = select.args.get("where")
    condition = None if where is None else _condition(where.this, names)
    groups = read_groups(select, names, [_without_alias(item) for item in measures])
    running = [item for item in measures if _called(_without_alias(item)) == "CDF"]
    if running:
        return _cdf(_without_alias(running[0]), names, groups, condition, alone=len(measures) == 1)
    context = ReadingContext(names, tuple(axis.attribute for axis in groups), table)
    formulas = [item for item in measures if is_formula(item, context)]
    direct = [item for item in measures if all(item is not formula for formula in formulas)]
    aggregates = [_named(part, item) for item in direct for part in read_aggregates(item, context)]
    for formula in formulas:
        new = [part for part in _inputs(formula, context) if part not in map(_unnamed, aggregates)]
        aggregates += [_under_condition(part) for part in new]
    aggregates += _looked_at(select, context, aggregates)
    plain = None if statement.columns.within or formulas else _plain_query(aggregates, groups, condition)
    if plain is not None:
        return replace(plain, rows=statement.columns.rows)
    columns = _with_own_accuracy(_distinct(aggregates), statement.columns.within)
    return query("table", groups, condition, aggregates=columns, rows=statement.columns.rows)


ALWAYS = (exp.true(), exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(1)))
"""Conditions that tools write before AND, and that are true of every record."""


def _condition(node: exp.Expression, names: Names) -> Predicate | None:
    """The condition of WHERE without parts that are always true; None where nothing is left."""
    parts = chain(node) if isinstance(node, exp.And) else [node]
    kept = [part.copy() for part in parts if part.unnest() not in ALWAYS]
    if len(kept) == len(parts):
        return read_condition(node, names)
    return read_condition(reduce(_both, kept), names) if kept else None


def _both(one: exp.Expression, two: exp.Expression) -> exp.Expression:
    return exp.And(this=one, expression=two)


@dataclass(frozen=True)
class ResultColumn:
    """One column of the table that a statement asks for: labels of an attribute, or numbers of the answer."""

    name: str
    attribute: str | None = None
    place: int = 0
    """Which numbers: the aggregate of a table, or the level of quantiles."""


def result_columns(statement: Statement, attributes: Iterable[str], query: Query) -> tuple[ResultColumn, ...]:
    """The columns between SELECT and FROM in their order and under their aliases; quantiles stand side by side."""
    names = names_of(statement, attributes)
    context = ReadingContext(names, tuple(axis.attribute for axis in query.axes), statement.table)
    columns: list[ResultColumn] = []
    place = direct = 0
    for item in statement.select.expressions:
        inner, alias = _without_alias(item), item.alias if isinstance(item, exp.Alias) else ""
        if _is_group(inner, names):
            axis = read_axis(inner, names)
            columns += [ResultColumn(alias or axis.attribute, axis.attribute)] if axis is not None else []
        elif _called(inner) == "CDF":
            along = query.axes[-1].attribute
            columns += [ResultColumn(along, along), ResultColumn(alias or "cdf")]
        elif is_formula(item, context):
            columns.append(ResultColumn(_computed(item, context, query, place).name, place=place))
            place += 1
        else:
            for part in (_named(one, item) for one in read_aggregates(item, context)):
                if query.kind == "table":
                    columns.append(ResultColumn(query.aggregates[direct].title, place=place))
                    place, direct = place + 1, direct + 1
                else:
                    columns.append(ResultColumn(part.title, place=query.levels.index(part.level) if part.level else 0))
    return tuple(columns)


def _looked_at(select: exp.Select, context: ReadingContext, selected: list[Aggregate]) -> list[Aggregate]:
    """The aggregates of HAVING and ORDER BY that are not selected: they become columns too."""
    plain = [_unnamed(part) for part in selected]
    listed: list[Aggregate] = []
    for clause in CHOOSING:
        part = select.args.get(clause)
        nodes = (
            [] if part is None else [node for node in part.find_all(exp.AggFunc) if not node.find_ancestor(exp.AggFunc)]
        )
        for node in nodes:
            inner = summed(node)
            filtered = inner.parent if isinstance(inner.parent, exp.Filter) else inner
            listed += [one for one in read_aggregates(filtered, context) if one not in plain and one not in listed]
    return listed


def _unnamed(aggregate: Aggregate) -> Aggregate:
    """What an aggregate asks, without its name and its accuracy."""
    return replace(aggregate, name="", tolerance=None, relative=None)


def _inputs(formula: exp.Expression, context: ReadingContext) -> list[Aggregate]:
    """The aggregates that a formula is worked out of, each once."""
    parts: list[Aggregate] = []

    def noted(part: Aggregate) -> str:
        parts.append(part)
        return part.title

    read_formula(formula, context, noted)
    return list(dict.fromkeys(parts))


def _under_condition(part: Aggregate) -> Aggregate:
    """The aggregate with its condition in its name, where it has one: two of them stand beside each other."""
    return part if part.where is None else replace(part, name=f"{part.title} where {condition_words(part.where)}")


def _computed(item: exp.Expression, context: ReadingContext, query: Query, place: int) -> Computed:
    """The column of a formula, worked out of columns of the query."""

    def named(part: Aggregate) -> str:
        title = next((one.title for one in query.aggregates if _unnamed(one) == part), None)
        if title is None:
            raise QueryError(f"{node_text(item)} is worked out of what is selected: select it too, and name it with AS")
        return title

    formula = read_formula(item, context, named)
    return Computed(item.alias if isinstance(item, exp.Alias) else formula_words(formula), formula, place)


def names_of(statement: Statement, attributes: Iterable[str]) -> Names:
    """The attributes of a dataset as a statement may write them."""
    declared = attributes if isinstance(attributes, Domain) else None
    listed = tuple(attributes)
    for name in listed if statement.taken else ():
        if name.lower() in statement.taken:
            raise QueryError(f"the query after FROM has two columns {name!r}: choose another alias for the new one")
    return Names(listed, statement.names, declared, None if declared is None else read_values)


def _named(aggregate: Aggregate, item: exp.Expression) -> Aggregate:
    """The aggregate under its alias; several levels of one QUANTILES are told apart by their level."""
    if not isinstance(item, exp.Alias) or not item.alias:
        return aggregate
    inner = bare(item)
    several = (isinstance(inner, exp.Anonymous) and len(inner.expressions) > 2) or inner.find(exp.Array) is not None
    level = f"_q{float(100 * aggregate.level):g}" if several and aggregate.level is not None else ""
    return replace(aggregate, name=f"{item.alias}{level}")


def _with_own_accuracy(aggregates: list[Aggregate], within: Mapping[str, Fraction | Relative]) -> list[Aggregate]:
    """The aggregates with the accuracies that OPTIONS gives single columns."""
    titles = [part.title.lower() for part in aggregates]
    unknown = [name for name in within if name not in titles]
    if unknown:
        raise QueryError(f"within_{unknown[0]} is about no column; {suggest(unknown[0], titles)}")
    return [_within(part, within.get(part.title.lower())) for part in aggregates]


def _within(aggregate: Aggregate, alpha: Fraction | Relative | None) -> Aggregate:
    if isinstance(alpha, Relative):
        return replace(aggregate, relative=alpha.share)
    return replace(aggregate, tolerance=alpha)


def _distinct(aggregates: Iterable[Aggregate]) -> list[Aggregate]:
    """The aggregates with headings of their own: a second count is called count_2."""
    listed: list[Aggregate] = []
    taken: set[str] = set()
    for aggregate in aggregates:
        title, number = aggregate.title, 2
        while title in taken:
            title, number = f"{aggregate.title}_{number}", number + 1
        taken.add(title)
        listed.append(aggregate if title == aggregate.title else replace(aggregate, name=title))
    return listed


def _plain_query(aggregates: list[Aggregate], groups: tuple[Axis, ...], where: Predicate | None) -> Query | None:
    """The query of one aggregate that has a kind of its own; None for a table."""
    first = aggregates[0]
    levels = [part.level for part in aggregates if part.level is not None and part.where is None]
    if len(levels) == len(aggregates) and not groups and len({part.factors for part in aggregates}) == 1:
        return query("quantiles", first.factors[0], where, levels=levels)
    if len(aggregates) > 1 or first.where is not None:
        return None
    if first.function == "count" and not first.factors:
        return query("histogram", groups, where) if groups else query("count", (), where)
    if groups or first.affine or len(first.factors) != 1 or first.function not in ("sum", "mean"):
        return None
    return query(cast(Kind, first.function), first.factors[0], where)


def _cdf(
    item: exp.Expression, names: Names, groups: tuple[Axis, ...], where: Predicate | None, *, alone: bool
) -> Query:
    """Running counts along an attribute, for each group."""
    if len(item.expressions) != 1:
        raise QueryError("CDF takes one attribute, perhaps binned: CDF(age) or CDF(bin(age, 5))")
    axis = read_axis(item.expressions[0], names) or Axis(
        names.attribute(item.expressions[0], "CDF takes one attribute")
    )
    if not alone:
        raise QueryError(
            "CDF gives a row for each value, other aggregates one for each group: ask it in a statement of its own"
        )
    if not groups:
        return query("cdf", axis, where)
    if axis.attribute in [group.attribute for group in groups]:
        raise QueryError(f"{axis.attribute} is grouped already; CDF(x) makes rows of x itself")
    if axis != Axis(axis.attribute):
        raise QueryError("with GROUP BY the running counts are over declared values: write CDF(x)")
    return query("table", (*groups, axis), where, aggregates=[Aggregate("running", (axis.attribute,), name="cdf")])


def _without_alias(item: exp.Expression) -> exp.Expression:
    inner = item.this if isinstance(item, exp.Alias) else item
    return inner if isinstance(inner, exp.Expression) else item


def _called(item: exp.Expression) -> str:
    return str(item.this).upper() if isinstance(item, exp.Anonymous) else ""


def _is_group(item: exp.Expression, names: Names) -> bool:
    return isinstance(item, exp.Column) or read_axis(item, names) is not None


CONDITION = "a condition is written ward = 'A3' AND age >= 18"
GROUPS = "groups are written sex, bin(age, 5), bin_edges(age, 0, 18, 65) or DATE_TRUNC('month', day)"


def is_names_only(statement: Statement, names: Names) -> bool:
    """Whether a statement shows groups alone, and no number."""
    return all(_is_group(_without_alias(item), names) for item in statement.select.expressions)


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
    is_sorted = any(statement.select.args.get(clause) for clause in ("having", "order", "limit", "offset"))
    if statement.explain or statement.table != "t" or statement.options or not is_count or is_sorted:
        raise QueryError(advice)
    return piece


HAVING_HELP = "HAVING compares an aggregate of the statement with a number: HAVING COUNT(*) > 100"


@nesting_refused()
def selection_of(statement: Statement, names: Names, query: Query) -> Selection:
    """What the statement does to the answer of its query; QueryError where it names something that is not selected."""
    select = statement.select
    reader = _Reader(select, names, query, statement.table)
    having, order = select.args.get("having"), select.args.get("order")
    keys = tuple(reader.key(part) for part in order.expressions) if order is not None else ()
    chosen = Selection(
        None if having is None else reader.condition(having.this),
        keys,
        _whole(select.args.get("limit"), "LIMIT"),
        _whole(select.args.get("offset"), "OFFSET") or 0,
        reader.computed,
    )
    if not chosen.is_everything and query.kind not in ("histogram", "table"):
        # One number, or one along an attribute: nothing to choose from or to sort.
        raise QueryError("ORDER BY, LIMIT and HAVING choose among groups: add GROUP BY, or leave them out")
    if chosen.having is not None or chosen.order or chosen.computed:
        _check_headings(query, chosen)
    return chosen


def _check_headings(query: Query, chosen: Selection) -> None:
    """Refuses two columns of one name, of which HAVING, ORDER BY or a formula might mean the other."""
    columns = [part.title for part in query.aggregates] or ["count"]
    headings = [*(axis.attribute for axis in query.axes), *columns, *(one.name for one in chosen.computed)]
    twice = next((name for place, name in enumerate(headings) if name in headings[:place]), None)
    if twice is not None:
        raise QueryError(f"two columns are called {twice!r}: name one of them in another way with AS")


def _is_rounded(node: exp.Expression) -> bool:
    inner = node
    while isinstance(inner, exp.Alias | exp.Paren):
        inner = inner.this
    return isinstance(inner, exp.Round) or (
        isinstance(inner, exp.Cast) and inner.to.is_type(*exp.DataType.INTEGER_TYPES)
    )


def _whole(clause: exp.Expression | None, what: str) -> int | None:
    if clause is None:
        return None
    written = clause.args.get("count" if isinstance(clause, exp.Fetch) else "expression")
    number = value_of(written) if isinstance(written, exp.Expression) else None
    options = clause.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise QueryError("FETCH FIRST takes a number of rows, without PERCENT and WITH TIES")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise QueryError(f"{what} takes a whole number")
    return number


class _Reader:
    """Names of columns and attributes as they stand after ORDER BY and HAVING."""

    def __init__(self, select: exp.Select, names: Names, query: Query, table: str) -> None:
        self.names, self.query = names, query
        self.context = ReadingContext(names, tuple(axis.attribute for axis in query.axes), table)
        self.items: Sequence[exp.Expression] = select.expressions
        self.computed = tuple(self._formulas())

    def _formulas(self) -> Iterator[Computed]:
        """The columns that are worked out of others, at the places where they are selected."""
        place = 0
        for item in self.items:
            inner = _without_alias(item)
            if _is_group(inner, self.names):
                continue
            if is_formula(item, self.context):
                yield _computed(item, self.context, self.query, place)
                place += 1
            else:
                place += 1 if _called(inner) == "CDF" else len(read_aggregates(item, self.context))

    def key(self, node: exp.Expression) -> SortKey:
        """What ORDER BY sorts by."""
        descending, inner = bool(node.args.get("desc")), node.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            place = value_of(inner)
            if not isinstance(place, int) or not 1 <= place <= len(self.items):
                raise QueryError(f"ORDER BY {inner.this} names no column between SELECT and FROM")
            inner = self.items[place - 1]
        column = self._column(inner)
        if column is not None:
            return SortKey(column, descending)
        axis = read_axis(bare(self._by_alias(inner)), self.names)
        if axis is not None and self._sorts(axis):
            # Without a word on NULL it is the largest, as in PostgreSQL.
            nulls_first = bool(node.args.get("nulls_first"))
            is_told = nulls_first == descending and self._ends_with_null(axis)
            return SortKey(axis.attribute, descending, None if is_told else nulls_first)
        raise QueryError(f"ORDER BY names what is selected, not {node_text(node.this)}")

    def _sorts(self, axis: Axis) -> bool:
        """Whether groups are sorted as this is: it is one of them, or the attribute of groups of values in order."""
        grouped = next((one for one in self.query.axes if one.attribute == axis.attribute), None)
        return axis == grouped or (grouped is not None and axis == Axis(axis.attribute) and not grouped.groups)

    def _ends_with_null(self, axis: Axis) -> bool:
        """Whether NULL is the last group as it is: in no named group, and with no values outside behind it."""
        declared = self.names.declared
        slots = () if declared is None else declared.find(axis.attribute).slots
        return ELSE not in dict(axis.groups) and all(slot.name != OUTSIDE for slot in slots)

    def condition(self, node: exp.Expression) -> ColumnThreshold | AllOf:
        """What HAVING demands."""
        if isinstance(node, exp.Paren):
            return self.condition(node.this)
        if isinstance(node, exp.And | exp.Or):
            parts = (self.condition(node.this), self.condition(node.expression))
            return AllOf(parts, any_of=isinstance(node, exp.Or))
        if isinstance(node, exp.Between):
            if not only(node, "this", "low", "high"):
                raise QueryError("BETWEEN takes its low end first, then its high end, both included")
            low, high = (
                exp.GTE(this=node.this, expression=node.args["low"]),
                exp.LTE(this=node.this, expression=node.args["high"]),
            )
            return AllOf((self.condition(low), self.condition(high)))
        op: ColumnOp | None = "<>" if isinstance(node, exp.NEQ) else cast(ColumnOp | None, COMPARED.get(type(node)))
        if op is None or not only(node, "this", "expression"):
            raise QueryError(HAVING_HELP)
        if any(_is_rounded(self._by_alias(side)) for side in (node.this, node.expression)):
            raise QueryError("HAVING compares numbers as they are: leave ROUND, or CAST to whole numbers, out of it")
        column, number = self._column(node.this), value_of(node.expression)
        if column is None:
            column, number = self._column(node.expression), value_of(node.this)
            op = op if op == "<>" else cast(ColumnOp, TURNED[op])
        if column is None or number is None or isinstance(number, str | bool):
            raise QueryError(HAVING_HELP)
        return ColumnThreshold(column, op, float(number))

    def _by_alias(self, node: exp.Expression) -> exp.Expression:
        """The selected item that a name stands for, or the node itself."""
        if isinstance(node, exp.Column) and not node.table:
            for item in self.items:
                if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                    return item
        return node

    def _column(self, node: exp.Expression) -> str | None:
        """The heading of the column that a node names, by alias or as the same aggregate."""
        named = self._by_alias(node)
        inner = bare(named)
        if isinstance(inner, exp.Column) or read_axis(inner, self.names) is not None:
            return None
        try:
            if is_formula(inner, self.context):
                formula = _computed(inner, self.context, self.query, 0).formula
                return next((one.name for one in self.computed if one.formula == formula), None)
            aggregates = read_aggregates(inner, self.context)
        except QueryError:
            return None
        if self.query.kind != "table":
            return "count" if aggregates == [Aggregate("count")] else None
        for aggregate in self.query.aggregates:
            if len(aggregates) == 1 and _unnamed(aggregate) == _unnamed(aggregates[0]):
                return aggregate.title
        raise QueryError(f"{node_text(node)} is not selected: add it after SELECT, so that its column can be looked at")


CALLS = {
    "sum": "SUM",
    "mean": "AVG",
    "stddev": "STDDEV",
    "variance": "VARIANCE",
    "stddev_pop": "STDDEV_POP",
    "variance_pop": "VAR_POP",
}


LONGEST = 5_000
"""Characters of a statement to continue from."""


def write_statement(dataset: str, query: Query, attributes: Iterable[str]) -> str | None:
    """The SELECT that reads back to exactly this query; None where SQL has no words for it."""
    try:
        text = _statement(dataset, query, attributes if isinstance(attributes, Domain) else None)
        return text if len(text) <= LONGEST and query_of(parse(text), attributes) == query else None
    except BlowfishError:
        return None


def _statement(dataset: str, query: Query, declared: Domain | None) -> str:
    axes = [_group(axis, declared) for axis in query.axes]
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


def _group(axis: Axis, declared: Domain | None) -> str:
    name = name_text(axis.attribute)
    if axis.width is not None:
        return f"bin({name}, {_literal(axis.width)})"
    if axis.edges:
        return f"bin_edges({name}, {', '.join(map(_literal, axis.edges))})"
    if axis.groups:
        return _case(axis, declared)
    return name if axis.unit is None else f"DATE_TRUNC('{axis.unit}', {name})"


def _case(axis: Axis, declared: Domain | None) -> str:
    """Named groups as a CASE; NULL that is in none of them needs no WHEN."""
    name, groups = name_text(axis.attribute), [*axis.groups]
    attribute = None if declared is None else declared.find(axis.attribute)
    slots = [] if attribute is None else [slot.name for slot in attribute.slots]
    if "outside" in slots and not any("outside" in values for _, values in groups):
        groups.append(("outside", ("outside",)))
    is_special = {"NULL": f"{name} IS NULL", "outside": f"OUTSIDE({name})"}
    cases = []
    for label, values in groups:
        tests = _members(name, [value for value in values if value not in slots], attribute)
        tests += [is_special[slot] for slot in slots if slot in values]
        cases.append(f"WHEN {' OR '.join(tests)} THEN {value_text(label)}")
    return f"CASE {' '.join(cases)} END"


SCATTERED = 3
"""A list is as short as ranges of so few values each."""


def _members(name: str, values: Sequence[object], attribute: Attribute | None) -> list[str]:
    """Conditions that declared values meet: ranges where they are bins or moments, or many in a row, else a list."""
    if not values:
        return []
    if isinstance(attribute, Bins | Timestamps | Integers | Dates):
        places = np.sort([attribute.begins_with(value) for value in values])
        firsts, lasts = places[np.diff(places, prepend=-2) > 1], places[np.diff(places, append=attribute.size + 1) > 1]
        # For values outside a range is unknown, while they are in no list.
        is_shorter = attribute.outside != CELL and SCATTERED * firsts.size <= places.size
        if is_shorter or isinstance(attribute, Bins | Timestamps):
            return [_range(name, attribute, *ends) for ends in zip(firsts.tolist(), lasts.tolist(), strict=True)]
    return [f"{name} IN ({', '.join(map(_literal, values))})"]


def _range(name: str, attribute: Attribute, first: int, last: int) -> str:
    """The condition that the declared values from one index to another meet."""
    low = f"{name} >= {_literal(attribute.value_at(first))}"
    high = f"{name} < {_literal(attribute.value_at(last + 1))}" if last + 1 < attribute.size else ""
    return f"{low} AND {high}" if first and high else high or low


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
