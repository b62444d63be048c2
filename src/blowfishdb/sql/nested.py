"""Queries after FROM and in WITH: the statement over a dataset that asks the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.conditions import node_text, only
from blowfishdb.sql.refusals import JOINS, refuse

DEEPEST = 8
NESTED = (
    "A query after FROM, or in WITH, chooses and filters columns of one dataset. Aggregates, groups and limits stand "
    "in the outer query; where the inner one has them, the outer one selects * or all of its columns in their order, "
    "filters and sorts"
)
INNER = ("expressions", "from_", "where")
OUTER = ("expressions", "from_", "where", "order", "limit", "offset")
SCALAR = (
    *(exp.Case, exp.If, exp.Cast, exp.Coalesce, exp.Nullif, exp.Connector, exp.StartsWith, exp.RegexpLike),
    *(exp.DateTrunc, exp.TimestampTrunc, exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day),
    *(exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.Hour, exp.TimeToStr, exp.ToChar, exp.TsOrDsToDate),
    *(exp.Upper, exp.Lower, exp.Left, exp.Right, exp.Substring, exp.Trim, exp.Length, exp.Concat),
    *(exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.Greatest, exp.Least, exp.WidthBucket),
)
"""Functions of one row that give one value: a query has as many rows with them as without."""


@dataclass(frozen=True)
class InnerQuery:
    """A query after FROM."""

    select: exp.Select
    qualifiers: tuple[str, ...]
    """What may stand before its columns and a dot."""
    common: Mapping[str, exp.Select]
    """The queries of WITH that it may name: those that stand before it."""
    name: str | None = None
    """Its name in WITH."""

    def check(self, node: exp.Column) -> None:
        """QueryError for a column with a name before its dot that is not this query's."""
        if not only(node, "this", "table") or node.table.lower() not in ("", *map(str.lower, self.qualifiers)):
            known = f"is called {self.qualifiers[0]}" if self.qualifiers else "has no alias"
            raise QueryError(f"{node_text(node)} is no column of the query after FROM, which {known}")


def flattened(select: exp.Select) -> tuple[exp.Select, frozenset[str]]:
    """The statement over a dataset that asks the same as one over queries; QueryError where there is none.

    And the names that the queries give to something beside a *, in small letters: no attribute may have one of them.
    """
    common: Mapping[str, exp.Select] = _common(select)
    unused, beside = list(common), frozenset[str]()
    select.set("with_", None)
    for _ in range(DEEPEST):
        inner = _inner(select, common)
        if inner is None:
            if unused:
                listed = ", ".join(map(repr, unused))
                raise QueryError(
                    f"nothing is selected from {listed} of WITH: leave it out, or put it before the query that names it"
                )
            return select, beside
        beside |= _beside_star(inner.select)
        common, unused = inner.common, [name for name in unused if name != inner.name]
        select = _merged(select, inner)
    raise QueryError(f"queries are nested more than {DEEPEST} deep")


def _beside_star(select: exp.Select) -> frozenset[str]:
    """The names that a query gives to something else beside a *."""
    items = [item for item in select.expressions if isinstance(item, exp.Alias)]
    is_star = any(item.is_star for item in select.expressions)
    return frozenset(one.alias.lower() for one in items if is_star and one.alias.lower() != one.this.name.lower())


def _common(select: exp.Select) -> dict[str, exp.Select]:
    """The queries of WITH by name, in their order."""
    clause = select.args.get("with_")
    parts = [] if clause is None else clause.expressions
    is_plain = all(isinstance(part.this, exp.Select) and only(part, "this", "alias", "materialized") for part in parts)
    if not is_plain or (clause is not None and not only(clause, "expressions")):
        raise QueryError(NESTED)
    if any(part.alias_column_names for part in parts):
        raise QueryError("a query of WITH has a name without names of columns: give the columns aliases in its SELECT")
    named = {part.alias.lower(): part.this for part in parts}
    if len(named) < len(parts):
        raise QueryError("two queries of WITH have the same name: give each its own")
    return named


def _inner(select: exp.Select, common: Mapping[str, exp.Select]) -> InnerQuery | None:
    """The query after FROM, standing there or taken from those of WITH; None for a dataset."""
    source = select.args.get("from_")
    if source is None:
        return None
    table = source.this
    is_query = isinstance(table, exp.Subquery)
    is_name = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and not table.args.get("db")
    name = str(table.this.this).lower() if is_name else None
    if not is_query and name not in common:
        return None
    if table.args.get("joins"):
        raise QueryError(JOINS)
    if not only(table, "this", "alias"):
        raise QueryError(
            "a query after FROM is followed by nothing but an alias: leave out TABLESAMPLE, PIVOT and more"
        )
    alias = table_alias(table)
    if name is not None:
        names = list(common)
        earlier = {one: common[one] for one in names[: names.index(name)]}
        return InnerQuery(common[name].copy(), alias or (table.name,), earlier, name)
    if not isinstance(table.this, exp.Select):
        raise QueryError(NESTED)
    return InnerQuery(table.this.copy(), alias, common)


def _merged(outer: exp.Select, query: InnerQuery) -> exp.Select:
    inner = query.select
    if outer.args.get("joins") or inner.args.get("joins"):
        raise QueryError(JOINS)
    if inner.args.get("group") is not None or any(item.find(exp.AggFunc) for item in inner.expressions):
        return _shown(outer, query)
    if not only(inner, *INNER):
        raise QueryError(NESTED)
    if inner.args.get("from_") is None:
        refuse("The query after FROM names no dataset: FROM is missing in it")
    merged = outer.copy()
    merged.set("from_", None)
    _substitute(merged, query)
    items = [inner.expressions if isinstance(item, exp.Star) else [item] for item in merged.expressions]
    merged.set("expressions", [item.copy() for listed in items for item in listed])
    merged.set("from_", inner.args["from_"].copy())
    condition = inner.args.get("where")
    if condition is not None:
        outer_where = merged.args.get("where")
        both = condition.this.copy()
        if outer_where is not None:
            both = exp.And(this=exp.Paren(this=both), expression=exp.Paren(this=outer_where.this.copy()))
        merged.set("where", exp.Where(this=both))
    return merged


def _substitute(outer: exp.Select, query: InnerQuery) -> None:
    """Puts what the columns of a query stand for in place of their names."""
    columns, passes_all = _columns(query.select)
    aliases = {item.alias.lower(): item.this.copy() for item in outer.expressions if isinstance(item, exp.Alias)}
    if not passes_all:
        _write_out_groups(outer, {name: node for name, node in aliases.items() if name not in columns})
    used: set[str] = set()
    for node in list(outer.find_all(exp.Column)):
        name, clause = node.name.lower(), _alias_clause(node, outer)
        is_alias = bool(clause) and not node.table and name in aliases
        if is_alias and (clause == "order" or name not in columns):
            # ORDER BY means the alias where a column has the same name, GROUP BY and HAVING mean the column.
            continue
        query.check(node)
        node.set("table", None)
        used.add(name)
        if name not in columns and not passes_all and not node.is_star:
            raise QueryError(f"{node.name!r} is no column of the query after FROM")
        meaning = columns.get(name, node)
        if clause in ("having", "order"):
            _check_notable_alias(meaning, name, aliases)
        if name in columns:
            node.replace(meaning.copy() if isinstance(meaning, exp.Column) else exp.Paren(this=meaning.copy()))
    for name, meaning in columns.items():
        if name not in used:
            _check_rows(meaning)


def _write_out_groups(select: exp.Select, aliases: Mapping[str, exp.Expression]) -> None:
    """Puts what aliases stand for in their place after GROUP BY."""
    group = select.args.get("group")
    for node in [] if group is None else list(group.find_all(exp.Column)):
        if not node.table and node.name.lower() in aliases:
            node.replace(aliases[node.name.lower()].copy())


def _check_notable_alias(meaning: exp.Expression, name: str, aliases: Mapping[str, exp.Expression]) -> None:
    """QueryError where HAVING or ORDER BY names a column that would be read as the alias of something else."""
    target = aliases.get(meaning.name.lower()) if isinstance(meaning, exp.Column) else None
    if target is not None and not (isinstance(target, exp.Column) and target.name.lower() == name):
        raise QueryError(f"{meaning.name!r} is an alias and the name of a column: choose another alias")


def _alias_clause(node: exp.Expression, select: exp.Select) -> str:
    """The clause of a SELECT in which a node may be an alias: none inside of aggregates and in other clauses."""
    part: exp.Expr = node
    while part.parent is not None and part.parent is not select:
        part = part.parent
        if isinstance(part, exp.AggFunc):
            return ""
    return part.arg_key if part.arg_key in ("group", "having", "order") else ""


def _check_rows(column: exp.Expression) -> None:
    """QueryError for a column that nothing uses and that may change the number of rows."""
    for node in column.find_all(exp.Func, exp.Query):
        is_bin = isinstance(node, exp.Anonymous) and str(node.this).upper() in ("BIN", "BIN_EDGES")
        if not is_bin and not isinstance(node, SCALAR):
            raise QueryError(f"{node_text(column)} in the query after FROM is not used: leave it out")


def _columns(inner: exp.Select) -> tuple[dict[str, exp.Expression], bool]:
    """What each name of a query stands for, and whether all other names pass through a *."""
    columns: dict[str, exp.Expression] = {}
    passes_all = any(item.is_star for item in inner.expressions)
    for item in inner.expressions:
        if item.is_star:
            continue
        if not isinstance(item, exp.Alias | exp.Column):
            raise QueryError("a column of a query after FROM that is no attribute needs a name: x / 10 * 10 AS decade")
        name, meaning = item.alias_or_name.lower(), item.this if isinstance(item, exp.Alias) else item
        is_same = isinstance(meaning, exp.Column) and meaning.name.lower() == name
        of_itself = any(part.name.lower() == name for part in meaning.find_all(exp.Column))
        if columns.get(name, meaning) != meaning or (passes_all and of_itself and not is_same):
            raise QueryError(f"two columns of the query after FROM are called {name!r}: give one of them another alias")
        columns[name] = meaning
    return columns, passes_all


def _shown(outer: exp.Select, query: InnerQuery) -> exp.Select:
    """A statement with groups whose rows an outer SELECT * filters, sorts and cuts."""
    inner = query.select
    listed, columns = outer.expressions, [item.alias_or_name.lower() for item in inner.expressions]
    is_star = len(listed) == 1 and isinstance(listed[0], exp.Star)
    # The names of all columns in their order are a * as well.
    is_all = all(isinstance(item, exp.Column) for item in listed) and [item.name.lower() for item in listed] == columns
    twice = [key for key in ("order", "limit", "offset") if outer.args.get(key) and inner.args.get(key)]
    if not (is_star or is_all) or not only(outer, *OUTER) or twice:
        raise QueryError(NESTED)
    is_cut = any(inner.args.get(key) for key in ("limit", "offset"))
    if is_cut and any(outer.args.get(key) for key in ("where", "order", "offset")):
        raise QueryError(
            "LIMIT and OFFSET of a query after FROM come before WHERE, ORDER BY and OFFSET of the outer one: ask the "
            "inner query alone, and filter or sort its answer"
        )
    _check_shown(outer, query)
    where, having = outer.args.get("where"), inner.args.get("having")
    if where is not None:
        condition = where.this.copy()
        if having is not None:
            condition = exp.And(this=having.this.copy(), expression=condition)
        inner.set("having", exp.Having(this=condition))
    for key in ("order", "limit", "offset"):
        if outer.args.get(key):
            inner.set(key, outer.args[key].copy())
    return inner


def _check_shown(outer: exp.Select, query: InnerQuery) -> None:
    """QueryError where the outer query names anything but columns of the inner one."""
    columns = [item.alias_or_name.lower() for item in query.select.expressions]
    listed = [item for item in outer.expressions if isinstance(item, exp.Column)]
    for clause in [*listed, *(outer.args[key] for key in ("where", "order") if outer.args.get(key))]:
        if clause.find(exp.AggFunc):
            raise QueryError("aggregates of the query after FROM are named by their aliases in the outer query")
        for node in list(clause.find_all(exp.Column)):
            query.check(node)
            if columns.count(node.name.lower()) != 1:
                raise QueryError(
                    f"{node.name!r} is no column of the query after FROM, or two of them: give each an alias of its own"
                )
            node.set("table", None)


def table_alias(source: exp.Expression) -> tuple[str, ...]:
    """The alias of what stands after FROM or JOIN, if it has one; QueryError for one that also names columns."""
    alias = source.args.get("alias")
    if alias is None:
        return ()
    if not isinstance(alias.this, exp.Identifier) or not only(alias, "this"):
        refuse("An alias after FROM or JOIN is one name, as in FROM visits AS v: leave out names of columns and signs")
    return (str(alias.this.this),)
