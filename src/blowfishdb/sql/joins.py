"""JOIN as an analyst writes it, put down to the joins that the curator declared of the dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from blowfishdb.errors import QueryError
from blowfishdb.model.conditions import only, shown
from blowfishdb.model.numbers import suggest
from blowfishdb.sources.base import Join
from blowfishdb.sql.statement import Statement

KINDS = ("", "INNER", "OUTER")
SIDES = ("", "LEFT")


@dataclass(frozen=True)
class Joined:
    """A declared join under the name by which a statement calls its table."""

    name: str
    join: Join


def without_joins(statement: Statement, declared: Sequence[Join]) -> Statement:
    """The statement over the dataset alone; QueryError with what is declared for a join that is not.

    A row without a partner counts with NULL in what the table gives, whether JOIN or LEFT JOIN is written.
    """
    select = statement.select.copy()
    named: list[Joined] = []
    for clause in select.args["joins"]:
        named.append(_declared(clause, statement, named, declared))
    select.set("joins", None)
    columns = {
        one.name.lower(): {column.lower(): name for name, column in one.join.attributes.items()} for one in named
    }
    for node in list(select.find_all(exp.Column)):
        given = columns.get(node.table.lower())
        if given is None:
            continue
        name = node.name if node.name in given.values() else given.get(node.name.lower())
        if name is None:
            raise QueryError(f"{node.table} gives no {shown(node.name)}; {suggest(node.name, given)}")
        node.replace(exp.column(exp.to_identifier(name, quoted=True)))
    return replace(statement, select=select)


def _declared(clause: exp.Join, statement: Statement, named: list[Joined], declared: Sequence[Join]) -> Joined:
    """The declared join that one JOIN clause writes."""
    table = clause.this
    is_plain = (
        isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier) and only(table, "this", "db", "alias")
    )
    side, kind = (str(clause.args.get(part) or "").upper() for part in ("side", "kind"))
    if (
        not is_plain
        or side not in SIDES
        or kind not in KINDS
        or not only(clause, "this", "side", "kind", "on", "using")
    ):
        _refuse("a join is written JOIN table USING (key) or LEFT JOIN table ON foreign_key = key", statement, declared)
    full = f"{table.db}.{table.name}" if table.db else table.name
    candidates = [join for join in declared if join.table.lower() in (full.lower(), table.name.lower())]
    if not candidates:
        _refuse(f"{shown(full)} is not joined to {statement.table}", statement, declared)
    compared = _compared(clause, table.alias_or_name)
    for join in candidates:
        if compared is not None and _fits(join, compared, statement, named):
            return Joined(table.alias_or_name, join)
    _refuse(f"{shown(full)} is joined by other keys", statement, declared)


def _compared(clause: exp.Join, name: str) -> tuple[str, str, str] | None:
    """The key of the joined table, then the qualifier and the name of what is compared with it."""
    using, condition = clause.args.get("using") or [], clause.args.get("on")
    if len(using) == 1 and condition is None:
        return using[0].name, "", using[0].name
    condition = condition.unnest() if condition is not None else None
    if using or not isinstance(condition, exp.EQ):
        return None
    sides = [condition.this.unnest(), condition.expression.unnest()]
    if not all(isinstance(side, exp.Column) for side in sides):
        return None
    inner = [side for side in sides if side.table.lower() == name.lower()]
    outer = [side for side in sides if side.table.lower() != name.lower()]
    if not inner:
        # Neither side says whose it is: the key stands second, as after USING.
        outer, inner = sides[:1], sides[1:] if not sides[1].table else []
    return (inner[0].name, outer[0].table, outer[0].name) if inner and outer else None


def _fits(join: Join, compared: tuple[str, str, str], statement: Statement, named: list[Joined]) -> bool:
    key, qualifier, foreign = compared
    if key.lower() != join.key.lower():
        return False
    owner = next((one for one in named if one.join.gives(join)), None)
    names = [join.foreign_key, *([] if owner is None else [owner.join.attributes[join.foreign_key]])]
    callers = statement.names if owner is None else (*statement.names, owner.name)
    return foreign.lower() in map(str.lower, names) and qualifier.lower() in ("", *map(str.lower, callers))


def _refuse(reason: str, statement: Statement, declared: Sequence[Join]) -> NoReturn:
    """Refuses with the joins that work; attributes of a declared join need none."""
    works = [f"JOIN {join.table} ON {join.foreign_key} = {join.table}.{join.key}" for join in declared]
    listed = f"declared are {'; '.join(works)}" if works else "no join is declared: name the dataset alone"
    raise QueryError(f"{reason}. Joins are declared by the curator; of {statement.table}, {listed}.")
