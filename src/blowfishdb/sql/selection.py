"""ORDER BY, LIMIT, OFFSET and HAVING of a statement, as a selection of rows of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from sqlglot import exp

from blowfishdb.engine.selection import AllOf, Op, Selection, SortKey, Threshold
from blowfishdb.errors import QueryError
from blowfishdb.model.aggregates import Aggregate
from blowfishdb.model.conditions import COMPARED, TURNED, Names, node_text, only, value_of
from blowfishdb.model.query import Query
from blowfishdb.sql.aggregates import ReadingContext, bare, read_aggregates
from blowfishdb.sql.groups import read_axis
from blowfishdb.sql.statement import Statement

COUNTS = {"count": "count", "histogram": "count", "sum": "sum", "mean": "mean", "cdf": "count"}
"""What the one column of an answer is called, by the kind of its query."""
HAVING_HELP = "HAVING compares an aggregate of the statement with a number: HAVING COUNT(*) > 100"


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
    )
    if not chosen.is_everything and query.kind not in ("histogram", "table"):
        # One number, or one along an attribute: nothing to choose from or to sort.
        raise QueryError("ORDER BY, LIMIT and HAVING choose among groups: add GROUP BY, or leave them out")
    return chosen


def _whole(clause: exp.Expression | None, what: str) -> int | None:
    if clause is None:
        return None
    number = value_of(clause.expression) if isinstance(clause.args.get("expression"), exp.Expression) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise QueryError(f"{what} takes a whole number")
    return number


class _Reader:
    """Names of columns and attributes as they stand after ORDER BY and HAVING."""

    def __init__(self, select: exp.Select, names: Names, query: Query, table: str) -> None:
        self.names, self.query = names, query
        self.context = ReadingContext(names, tuple(axis.attribute for axis in query.axes), table)
        self.items: Sequence[exp.Expression] = select.expressions

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
        if axis is not None and axis.attribute in self.context.groups:
            return SortKey(axis.attribute, descending)
        raise QueryError(f"ORDER BY names what is selected, not {node_text(node.this)}")

    def condition(self, node: exp.Expression) -> Threshold | AllOf:
        """What HAVING demands."""
        if isinstance(node, exp.Paren):
            return self.condition(node.this)
        if isinstance(node, exp.And | exp.Or):
            parts = (self.condition(node.this), self.condition(node.expression))
            return AllOf(parts, any_of=isinstance(node, exp.Or))
        if isinstance(node, exp.Between):
            low, high = (
                exp.GTE(this=node.this, expression=node.args["low"]),
                exp.LTE(this=node.this, expression=node.args["high"]),
            )
            return AllOf((self.condition(low), self.condition(high)))
        op: Op | None = "<>" if isinstance(node, exp.NEQ) else cast(Op | None, COMPARED.get(type(node)))
        if op is None or not only(node, "this", "expression"):
            raise QueryError(HAVING_HELP)
        column, number = self._column(node.this), value_of(node.expression)
        if column is None:
            column, number = self._column(node.expression), value_of(node.this)
            op = op if op == "<>" else cast(Op, TURNED[op])
        if column is None or number is None or isinstance(number, str | bool):
            raise QueryError(HAVING_HELP)
        return Threshold(column, op, float(number))

    def _by_alias(self, node: exp.Expression) -> exp.Expression:
        """The selected item that a name stands for, or the node itself."""
        if isinstance(node, exp.Column):
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
            aggregates = read_aggregates(inner, self.context)
        except QueryError:
            return None
        if self.query.kind != "table":
            same = len(aggregates) == 1 and aggregates[0] == Aggregate("count")
            return COUNTS[self.query.kind] if same and self.query.kind in COUNTS else None
        for aggregate in self.query.aggregates:
            if len(aggregates) == 1 and replace(aggregate, name="") == replace(aggregates[0], name=""):
                return aggregate.title
        raise QueryError(f"{node_text(node)} is not selected: add it after SELECT, so that its column can be looked at")
