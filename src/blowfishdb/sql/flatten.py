"""WITH and queries after FROM, put into the statement around them where both together are one question."""

from __future__ import annotations

from sqlglot import exp

from blowfishdb.errors import QueryError

DEEPEST = 8
NESTED = (
    "A query after FROM, or in WITH, chooses and filters columns of one dataset. Aggregates, groups and limits stand "
    "in the outer query; where the inner one has them, the outer one selects *, filters and sorts"
)
INNER = ("expressions", "from_", "where", "kind")
OUTER = ("expressions", "from_", "where", "order", "limit", "offset", "with_")


def flattened(select: exp.Select) -> exp.Select:
    """The statement over a dataset that asks the same as one over queries; QueryError where there is none."""
    named = _common(select)
    select.set("with_", None)
    for _ in range(DEEPEST):
        inner = _inner(select, named)
        if inner is None:
            return select
        select = _merged(select, inner)
    raise QueryError(f"queries are nested more than {DEEPEST} deep")


def _common(select: exp.Select) -> dict[str, exp.Select]:
    """The queries of WITH by name."""
    clause = select.args.get("with_")
    named: dict[str, exp.Select] = {}
    for part in clause.expressions if clause is not None else []:
        if (
            clause is None
            or clause.args.get("recursive")
            or not isinstance(part.this, exp.Select)
            or part.alias_column_names
        ):
            raise QueryError(NESTED)
        named[part.alias.lower()] = part.this
    return named


def _inner(select: exp.Select, named: dict[str, exp.Select]) -> exp.Select | None:
    """The query after FROM, written there or named in WITH; None for a dataset."""
    source = select.args.get("from_")
    table = None if source is None else source.this
    if isinstance(table, exp.Subquery):
        if not isinstance(table.this, exp.Select):
            raise QueryError(NESTED)
        return table.this.copy()
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and not table.args.get("db"):
        inner = named.get(str(table.this.this).lower())
        return None if inner is None else inner.copy()
    return None


def _merged(outer: exp.Select, inner: exp.Select) -> exp.Select:
    if outer.args.get("joins") or inner.args.get("joins"):
        raise QueryError(
            "Joins are declared by the curator, and their attributes then belong to the dataset: name one dataset"
        )
    if _has_groups(inner):
        return _shown(outer, inner)
    unknown = [key for key, part in inner.args.items() if part not in (None, False, []) and key not in INNER]
    if unknown:
        raise QueryError(NESTED)
    columns, passes_all = _columns(inner)
    merged = outer.copy()
    merged.set("from_", inner.args["from_"].copy())
    for node in list(merged.find_all(exp.Column)):
        node.set("table", None)
        name = node.name.lower()
        if name in columns:
            replacement = columns[name].copy()
            is_column = isinstance(replacement, exp.Column)
            node.replace(replacement if is_column else exp.Paren(this=replacement))
        elif not passes_all:
            raise QueryError(f"{node.name!r} is no column of the query after FROM")
    condition = inner.args.get("where")
    if condition is not None:
        outer_where = merged.args.get("where")
        both = condition.this.copy()
        if outer_where is not None:
            both = exp.And(this=exp.Paren(this=both), expression=exp.Paren(this=outer_where.this.copy()))
        merged.set("where", exp.Where(this=both))
    return merged


def _columns(inner: exp.Select) -> tuple[dict[str, exp.Expression], bool]:
    """What each name of a query stands for, and whether all other names pass through a *."""
    columns: dict[str, exp.Expression] = {}
    passes_all = False
    for item in inner.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star):
            passes_all = True
        elif isinstance(item, exp.Alias):
            columns[item.alias.lower()] = item.this
        elif isinstance(item, exp.Column):
            columns[item.name.lower()] = item
        else:
            raise QueryError("a column of a query after FROM that is no attribute needs a name: x / 10 * 10 AS decade")
    return columns, passes_all


def _has_groups(select: exp.Select) -> bool:
    return select.args.get("group") is not None or any(item.find(exp.AggFunc) for item in select.expressions)


def _shown(outer: exp.Select, inner: exp.Select) -> exp.Select:
    """A statement with groups whose rows an outer SELECT * filters, sorts and cuts."""
    stars = [item for item in outer.expressions if isinstance(item, exp.Star)]
    unknown = [key for key, part in outer.args.items() if part not in (None, False, []) and key not in OUTER]
    twice = [key for key in ("order", "limit", "offset") if outer.args.get(key) and inner.args.get(key)]
    if len(stars) != 1 or len(outer.expressions) != 1 or unknown or twice:
        raise QueryError(NESTED)
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
