"""The one statement of a count: bound each person's rows, join dimensions, group, put groups together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import itemgetter
from typing import Generic, TypeVar

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.cells import Cells, Points
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.policy import Person, Row
from blowfishdb.model.predicate import Predicate, atoms
from blowfishdb.sources.base import ColumnType, Engine, Expr, Join, Kind
from blowfishdb.sources.location import TableName
from blowfishdb.sources.pushdown.filters import check_type, condition, make_key, push
from blowfishdb.sources.pushdown.keys import Key, Work, null_flag

IBIS_TYPES = {
    Kind.INTEGER: "int64",
    # Written down as single precision, so that Ibis casts every real to double before anything is done with it.
    Kind.REAL: "float32",
    Kind.DECIMAL: "decimal(38, 9)",
    Kind.BOOLEAN: "boolean",
    Kind.TEXT: "string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.INSTANT: "timestamp",
}
ORDERED = (Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
Asked = TypeVar("Asked", Cells, Points)
MATCHED = (Kind.INTEGER, Kind.DECIMAL, Kind.TEXT, Kind.DATE)


@dataclass(frozen=True)
class Table:
    """A table's name and the types of its columns."""

    name: TableName
    columns: Mapping[str, ColumnType]

    def find(self, column: str, allowed: Sequence[Kind], use: str) -> ColumnType:
        """The type of a column, or SourceError when it is missing or cannot be used so."""
        if column not in self.columns:
            raise SourceError(f"the table {self.name.name} has no column {column!r}, which is {use}")
        kind = self.columns[column]
        if kind.kind not in allowed:
            raise SourceError(f"the column {column!r} is {use}; {kind.native} cannot serve as that")
        return kind


@dataclass(frozen=True)
class Tables:
    """The main table and its joined dimension tables."""

    main: Table
    joined: tuple[tuple[Join, Table], ...] = ()

    def home(self, attribute: str) -> tuple[Join | None, str, ColumnType]:
        """The join (None for the main table), the column and the type behind an attribute of the domain."""
        for join, table in self.joined:
            if attribute in join.attributes:
                column = join.attributes[attribute]
                return join, column, table.find(column, tuple(Kind), f"the attribute {attribute}")
        return None, attribute, self.main.find(attribute, tuple(Kind), "an attribute of the domain")


@dataclass(frozen=True)
class Statement(Generic[Asked]):
    """An expression ready to be written, and the keys that read its columns."""

    expression: Expr
    keys: Mapping[str, Key]
    asked: Asked
    """The question without what the statement has filtered already."""

    def codes(self, rows: Sequence[tuple[object, ...]]) -> tuple[dict[str, Ints], Ints]:
        """The value codes of each fetched group by attribute, and its number of rows."""
        columns = [list(map(itemgetter(place), rows)) for place in range(len(rows[0]))] if rows else []
        numbers = _whole_numbers(columns[-1] if rows else [])
        codes, place = {}, 0
        for name, key in self.keys.items():
            codes[name] = key.decode(columns[place : place + key.fetched]) if rows else np.empty(0, dtype=np.int64)
            place += key.fetched
        return codes, numbers


def _whole_numbers(values: Sequence[object]) -> Ints:
    if not set(map(type, values)) <= {int}:
        values = [int(value) if isinstance(value, int | Decimal) else 0 for value in values]
    return np.array(values, dtype=np.int64)


def make_statement(tables: Tables, asked: Asked, unit: Row | Person, engine: Engine) -> Statement[Asked]:
    """The statement that counts the rows of the tables in the cells, or at the points, of a query."""
    homes = {name: tables.home(name) for name in asked.attributes}
    for name, (_, _, kind) in homes.items():
        check_type(name, asked.cuts[name].attribute, kind)
    rows, column = _rows(tables, homes, unit, engine)

    def condition_of(name: str, accepted: Bools) -> Expr | None:
        return condition(asked.cuts[name], accepted, rows[column[name]], homes[name][2], engine)

    undecided: Predicate | None
    conditions, undecided = push(asked.where, condition_of, asked.cuts)
    rows = rows.filter(conditions) if conditions else rows
    needed = {*asked.axes, *(atom.attribute for atom in atoms(undecided))}
    left = replace(asked, where=undecided, attributes=tuple(name for name in asked.attributes if name in needed))
    keys = {name: make_key(asked.cuts[name], rows[column[name]], homes[name][2], engine) for name in left.attributes}
    return Statement(_counted(rows, list(keys.values())) if keys else rows.aggregate(n=rows.count()), keys, left)


def _counted(rows: Expr, keys: Sequence[Key]) -> Expr:
    """The rows placed and grouped; groups that become equal by each key's finishing touch are put together."""
    columns = [key.columns for key in keys]
    placed = rows.select(**_named(columns))
    if any(key.place for key in keys):
        columns = _worked_out(placed, columns, [key.place for key in keys])
        placed = placed.select(**_named(columns))
    counted = placed.group_by(list(_named(columns))).aggregate(n=placed.count())
    if not any(key.finish for key in keys):
        return counted
    columns = _worked_out(counted, columns, [key.finish for key in keys])
    final = counted.select(**_named(columns), n=counted.n)
    return final.group_by(list(_named(columns))).aggregate(n=final.n.sum())


def _named(columns: Iterable[tuple[Expr, ...]]) -> dict[str, Expr]:
    return {f"k{number}": column for number, column in enumerate(itertools.chain(*columns))}


def _worked_out(
    table: Expr, columns: Iterable[tuple[Expr, ...]], work: Iterable[Work | None]
) -> list[tuple[Expr, ...]]:
    """The expressions that each key makes of its columns, which stand in the table in their order."""
    names = iter(_named(columns))
    groups = [tuple(table[name] for name in itertools.islice(names, len(group))) for group in columns]
    return [made(group) if made is not None else group for group, made in zip(groups, work, strict=True)]


def _rows(
    tables: Tables, homes: Mapping[str, tuple[Join | None, str, ColumnType]], unit: Row | Person, engine: Engine
) -> tuple[Expr, dict[str, str]]:
    """The rows that may count, and the column of each attribute among them."""
    used = [(join, table) for join, table in tables.joined if any(home[0] is join for home in homes.values())]
    of_main = {name: column for name, (join, column, _) in homes.items() if join is None}
    main = _ibis_table(tables.main, {*of_main.values(), *(join.foreign_key for join, _ in used), *_bound_columns(unit)})
    columns_of_rows = {f"a{place}": main[column] for place, column in enumerate(of_main.values())}
    where = {name: f"a{place}" for place, name in enumerate(of_main)}
    for place, (join, table) in enumerate(used):
        foreign = tables.main.find(join.foreign_key, MATCHED, f"the foreign key to {join.table}")
        key = table.find(join.key, MATCHED, "the key of a join")
        if foreign.kind != key.kind:
            raise SourceError(f"{join.foreign_key} is {foreign.native}, but {join.key} is {key.native}")
        columns_of_rows[f"f{place}"] = _comparable(main[join.foreign_key], foreign, engine)
    rows = _bounded(main, columns_of_rows, tables.main, unit, engine)
    for place, (join, table) in enumerate(used):
        wanted = {name: column for name, (home, column, _) in homes.items() if home is join}
        dimension = _dimension(table, join, wanted.values(), engine)
        joined = rows.left_join(dimension, rows[f"f{place}"] == dimension["key"])
        names = {name: f"d{place}_{number}" for number, name in enumerate(wanted)}
        columns = {names[name]: dimension[f"c{number}"] for number, name in enumerate(wanted)}
        rows = joined.select(**{name: rows[name] for name in rows.columns}, **columns)
        where |= names
    return rows, where


def _bound_columns(unit: Row | Person) -> tuple[str, ...]:
    return (unit.id, unit.order_by) if isinstance(unit, Person) else ()


def _bounded(main: Expr, kept: Mapping[str, Expr], table: Table, unit: Row | Person, engine: Engine) -> Expr:
    """Of each person the first rows in the order of the key; a tie that does not fit whole is left out.

    The running count includes all rows with an equal key, so which rows stay never depends on anything but the keys.
    Rows without an id belong to nobody whose rows could be bounded: they do not count.
    """
    import ibis

    if isinstance(unit, Row):
        return main.select(**kept) if kept else main
    id_type = table.find(unit.id, MATCHED, "the id of a person")
    order_type = table.find(unit.order_by, ORDERED, "the order of rows")
    person = _comparable(main[unit.id], id_type, engine)
    order = _comparable(main[unit.order_by], order_type, engine)
    keyed = main.select(**kept, person=person, key=order, keyless=null_flag(order))
    window = ibis.window(group_by=keyed.person, order_by=[keyed.keyless, keyed.key], range=(None, 0))
    ranked = keyed.select(*kept, "person", rank=keyed.count().over(window))
    return ranked.filter((ranked["rank"] <= unit.at_most) & ranked.person.notnull())


def _dimension(table: Table, join: Join, columns: Iterable[str], engine: Engine) -> Expr:
    """The dimension table by key, without keys that occur twice: they could multiply rows."""
    import ibis

    wanted = list(columns)
    raw = _ibis_table(table, {join.key, *wanted})
    key = _comparable(raw[join.key], table.columns[join.key], engine)
    keyed = raw.select(key=key, **{f"c{number}": raw[column] for number, column in enumerate(wanted)})
    names = [f"c{number}" for number in range(len(wanted))]
    counted = keyed.select("key", *names, same=keyed.count().over(ibis.window(group_by=keyed["key"])))
    return counted.filter((counted.same == 1) & counted["key"].notnull())


def _comparable(column: Expr, kind: ColumnType, engine: Engine) -> Expr:
    return engine.text(column) if kind.kind == Kind.TEXT else column


def _ibis_table(table: Table, wanted: Iterable[str]) -> Expr:
    import ibis

    needed = {name: IBIS_TYPES[kind.kind] for name, kind in table.columns.items() if name in set(wanted)}
    # Ibis wants a column even where none is looked at.
    needed = needed or {next(iter(table.columns)): "int64"}
    return ibis.table(needed, name=table.name.name, database=table.name.schema)
