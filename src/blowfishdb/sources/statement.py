"""The one statement of a count: bound each person's rows, join dimensions, filter, group, put groups together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from blowfishdb.errors import SourceError
from blowfishdb.model.calendar import DAY, FIRST_SECOND, LAST_SECOND, SECONDS, Dates, Timestamps
from blowfishdb.model.cells import Cells, Points
from blowfishdb.model.domain import CLAMP, Attribute, Bins, Categorical, Domain, Integers
from blowfishdb.model.groups import AxisCells, Segments, first_codes
from blowfishdb.model.numbers import Bools, Ints
from blowfishdb.model.policy import ROW, Person, Row
from blowfishdb.model.predicate import Both, Either, Negation, Predicate, atoms
from blowfishdb.model.projection import passing
from blowfishdb.sources.base import ColumnKind, ColumnType, Engine, Expr, Fetched, FetchedColumn, Join, People, ibis
from blowfishdb.sources.keys import (
    LIST_LIMIT,
    Key,
    KeyWork,
    OrderedColumn,
    category_key,
    date_key,
    day_literal,
    null_flag,
    number_key,
    number_line,
    raw_key,
    segment_decoder,
    timestamp_key,
)
from blowfishdb.sources.location import TableName

IBIS_TYPES = {
    ColumnKind.INTEGER: "int64",
    # Written down as single precision, so that Ibis casts every real to double before anything is done with it.
    ColumnKind.REAL: "float32",
    ColumnKind.DECIMAL: "decimal(38, 9)",
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.TEXT: "string",
    ColumnKind.DATE: "date",
    ColumnKind.TIMESTAMP: "timestamp",
    ColumnKind.INSTANT: "timestamp",
}
ORDERED = (
    ColumnKind.INTEGER,
    ColumnKind.REAL,
    ColumnKind.DECIMAL,
    ColumnKind.TEXT,
    ColumnKind.DATE,
    ColumnKind.TIMESTAMP,
    ColumnKind.INSTANT,
)
Places = TypeVar("Places", Cells, Points)
MATCHED = (ColumnKind.INTEGER, ColumnKind.DECIMAL, ColumnKind.TEXT, ColumnKind.DATE)


@dataclass(frozen=True)
class TableSchema:
    """A table's name and the types of its columns."""

    name: TableName
    columns: Mapping[str, ColumnType]

    def find(self, column: str, allowed: Sequence[ColumnKind], use: str) -> ColumnType:
        """The type of a column, or SourceError when it is missing or cannot be used so."""
        if column not in self.columns:
            raise SourceError(f"the table {self.name.name} has no column {column!r}, which is {use}")
        kind = self.columns[column]
        if kind.kind not in allowed:
            types = ", ".join(allowed)
            raise SourceError(f"the column {column!r} is {use}; it is of {kind.native}, and has to be one of {types}")
        return kind

    def person_kinds(self, unit: Person) -> tuple[ColumnKind, ColumnKind]:
        """The kinds of the columns that tell people apart and that order the rows of each."""
        id_type = self.find(unit.id, MATCHED, "the id of a person")
        return id_type.kind, self.find(unit.order_by, ORDERED, "the order of rows").kind


@dataclass(frozen=True)
class Tables:
    """The main table and the tables that are joined to it."""

    main: TableSchema
    joined: tuple[tuple[Join, TableSchema], ...] = ()

    def home(self, attribute: str) -> tuple[Join | None, str, ColumnType]:
        """The join (None for the main table), the column and the type behind an attribute of the domain."""
        for join, table in self.joined:
            if attribute in join.attributes:
                column = join.attributes[attribute]
                return join, column, table.find(column, tuple(ColumnKind), f"the attribute {attribute}")
        return None, attribute, self.main.find(attribute, tuple(ColumnKind), "an attribute of the domain")

    def check_columns(self, domain: Domain, unit: Row | Person) -> None:
        """Refuses an attribute or a unit that the columns cannot serve; looks at types only."""
        for name, attribute in domain.attributes:
            check_type(name, attribute, self.home(name)[2])
        if not isinstance(unit, Person):
            return
        for column in (unit.id, unit.order_by):
            giver = next((join for join, _ in self.joined if column in join.attributes), None)
            if giver is not None:
                raise SourceError(
                    f"{column} comes from the joined table {giver.name}: people are told apart, and their rows "
                    f"ordered, by columns of the main table itself, such as {giver.foreign_key}"
                )
        self.main.person_kinds(unit)

    def check_key(self, join: Join, table: TableSchema, engine: Engine) -> None:
        """Refuses a join whose foreign key or key is missing, or which are compared otherwise than keys of one type."""
        given = ((one, other.attributes[join.foreign_key]) for other, one in self.joined if other.gives(join))
        owner, column = next(given, (self.main, join.foreign_key))
        foreign = owner.find(column, MATCHED, f"the foreign key to {join.name}")
        key = table.find(join.key, MATCHED, "the key of a join")
        if not engine.are_joined(foreign, key):
            raise SourceError(
                f"{join.foreign_key} is {foreign.native}, but {join.key} is {key.native}: give both keys the same type"
            )


@dataclass(frozen=True)
class CountStatement(Generic[Places]):
    """An expression ready to be written, and the keys that read its columns."""

    expression: Expr
    keys: Mapping[str, Key]
    places: Places
    """The question without what the statement has filtered already."""

    def fetch(self, engine: Engine, sql: str, deadline: float | None) -> Fetched:
        """The columns of the groups, by the engine or, where a key does so, put together here."""
        tally = next((key.tally for key in self.keys.values() if key.tally is not None), None)
        return engine.fetch_columns(sql, deadline) if tally is None else tally(engine.stream(sql, deadline))

    def codes(self, columns: Fetched) -> tuple[dict[str, Ints], Ints]:
        """The value codes of each fetched group by attribute, and its number of rows."""
        numbers = whole_numbers(columns[-1] if columns else [])
        codes, place = {}, 0
        for name, key in self.keys.items():
            codes[name] = key.decode(columns[place : place + key.fetched]) if columns else np.empty(0, dtype=np.int64)
            place += key.fetched
        return codes, numbers


def whole_numbers(values: FetchedColumn) -> Ints:
    """Counts as an engine gives them, NULL as 0."""
    if isinstance(values, np.ndarray):
        return values.astype(np.int64)
    if not set(map(type, values)) <= {int}:
        values = [int(value) if isinstance(value, int | Decimal) else 0 for value in values]
    return np.array(values, dtype=np.int64)


def make_statement(
    tables: Tables, places: Places, unit: Row | Person | People, engine: Engine
) -> CountStatement[Places]:
    """The statement that counts the rows of the tables, or their people, in the cells or at the points of a query."""
    homes = {name: _home(tables, name, unit) for name in places.attributes}
    for name, (_, _, kind) in homes.items():
        check_type(name, places.cuts[name].attribute, kind)
    rows, column = _rows(tables, homes, unit, engine)

    def condition_of(name: str, accepted: Bools) -> Expr | None:
        return condition(places.cuts[name], accepted, rows[column[name]], homes[name][2], engine)

    undecided: Predicate | None
    conditions, undecided = push(places.where, condition_of, places.cuts)
    rows = rows.filter(conditions) if conditions else rows
    needed = {*places.axes, *(atom.attribute for atom in atoms(undecided))}
    left = replace(places, where=undecided, attributes=tuple(name for name in places.attributes if name in needed))
    is_alone = len(left.attributes) == 1
    keys = {
        name: make_key(places.cuts[name], rows[column[name]], homes[name][2], engine, is_alone=is_alone)
        for name in left.attributes
    }
    placed = [_on_rows(key) if engine.shuffles else key for key in keys.values()]
    return CountStatement(_counted(rows, placed) if keys else rows.aggregate(n=rows.count()), keys, left)


MOST_CELLS = 256
"""Cells of one attribute that a statement tells apart by conditions."""


def people_statement(tables: Tables, cells: Cells, unit: Person, engine: Engine) -> CountStatement[Cells]:
    """The statement that counts the different persons in each cell; the engine decides every condition and group.

    Persons in two groups of rows that the proxy put together afterwards would count twice, so nothing is left to it.
    """
    homes = {name: tables.home(name) for name in cells.attributes}
    for name, (_, _, kind) in homes.items():
        check_type(name, cells.cuts[name].attribute, kind)
    rows, column = _rows(tables, homes, unit, engine)

    def condition_of(name: str, accepted: Bools) -> Expr | None:
        return condition(cells.cuts[name], accepted, rows[column[name]], homes[name][2], engine)

    conditions, undecided = push(cells.where, condition_of, cells.cuts)
    keys = {name: _cell_key(cells.layout[name], partial(condition_of, name)) for name in cells.axes}
    if undecided is not None or None in keys.values():
        raise SourceError(
            "persons are counted by the engine itself, which cannot tell these groups or decide this filter; use fewer "
            f"groups (up to {MOST_CELLS} of one attribute) of numbers, dates or listed values, or count rows"
        )
    rows = rows.filter(conditions) if conditions else rows
    places = replace(cells, where=None, attributes=cells.axes)
    known = {name: key for name, key in keys.items() if key is not None}
    if not known:
        return CountStatement(rows.aggregate(n=rows.person.nunique()), {}, places)
    placed = rows.select("person", **_named([key.columns for key in known.values()]))
    names = [name for name in placed.columns if name != "person"]
    placed = placed.filter([placed[name].notnull() for name in names])
    return CountStatement(placed.group_by(names).aggregate(n=placed.person.nunique()), known, places)


def _cell_key(axis: AxisCells, condition_of: Callable[[Bools], Expr | None]) -> Key | None:
    """The number of a row's cell along an axis; None where the engine cannot tell it."""
    if axis.cells > MOST_CELLS:
        return None
    conditions = [condition_of(axis.cell_of == cell) for cell in range(axis.cells)]
    if any(part is None for part in conditions):
        return None
    codes = first_codes(axis)
    cell = ibis().cases(*((part, ibis().literal(number, "int64")) for number, part in enumerate(conditions)))
    return Key((cell,), lambda fetched: codes[whole_numbers(fetched[0])])


def _home(tables: Tables, name: str, unit: Row | Person | People) -> tuple[Join | None, str, ColumnType]:
    if isinstance(unit, People) and name == unit.rows:
        return None, name, ColumnType(ColumnKind.INTEGER, "a number of rows")
    return tables.home(name)


def _on_rows(key: Key) -> Key:
    """The key whose finishing touch is given to rows, where it is light: no groups need then be put together."""
    return replace(key, place=key.finish, finish=None) if key.is_light and key.place is None else key


def _counted(rows: Expr, keys: Sequence[Key]) -> Expr:
    """The rows placed and grouped; groups that become equal by each key's finishing touch are put together."""
    columns = [key.columns for key in keys]
    placed = rows.select(**_named(columns))
    if any(key.tally for key in keys):
        return placed
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
    table: Expr, columns: Iterable[tuple[Expr, ...]], work: Iterable[KeyWork | None]
) -> list[tuple[Expr, ...]]:
    """The expressions that each key makes of its columns, which stand in the table in their order."""
    names = iter(_named(columns))
    groups = [tuple(table[name] for name in itertools.islice(names, len(group))) for group in columns]
    return [made(group) if made is not None else group for group, made in zip(groups, work, strict=True)]


def _rows(
    tables: Tables,
    homes: Mapping[str, tuple[Join | None, str, ColumnType]],
    unit: Row | Person | People,
    engine: Engine,
) -> tuple[Expr, dict[str, str]]:
    """The rows that may count, and the column of each attribute among them."""
    used = _used(tables, homes)
    if isinstance(unit, Person):
        tables.main.person_kinds(unit)
    foreign = {join.foreign_key: tables.home(join.foreign_key) for join, _ in used}
    of_main = {name: column for name, (join, column, _) in homes.items() if join is None}
    keys = {name: column for name, (join, column, _) in foreign.items() if join is None}
    if isinstance(unit, People):
        main = _people(tables.main, unit, engine)
    else:
        bounding = (unit.id, unit.order_by) if isinstance(unit, Person) else ()
        main = _ibis_table(tables.main, {*of_main.values(), *keys.values(), *bounding})
    columns_of_rows = {f"a{place}": main[column] for place, column in enumerate(of_main.values())}
    where = {name: f"a{place}" for place, name in enumerate(of_main)}
    key_of = {name: f"f{place}" for place, name in enumerate(foreign)}
    columns_of_rows |= {key_of[name]: engine.comparable(main[name], foreign[name][2].kind) for name in keys}
    rows = _bounded(main, columns_of_rows, tables.main, ROW if isinstance(unit, People) else unit, engine)
    for place, (join, table) in enumerate(used):
        tables.check_key(join, table, engine)
        names = {name: f"d{place}_{number}" for number, name in enumerate(homes) if homes[name][0] is join}
        onward = [name for name in foreign if foreign[name][0] is join]
        dimension = _dimension(table, join, {names[name]: homes[name][1] for name in names}, onward, engine)
        joined = rows.left_join(dimension, rows[key_of[join.foreign_key]] == dimension["key"])
        columns = {column: dimension[column] for column in names.values()}
        columns |= {key_of[name]: dimension[f"to_{number}"] for number, name in enumerate(onward)}
        rows = joined.select(**{name: rows[name] for name in rows.columns}, **columns)
        where |= names
    return rows, where


def _used(tables: Tables, homes: Mapping[str, tuple[Join | None, str, ColumnType]]) -> list[tuple[Join, TableSchema]]:
    """The joins that give an attribute, or the foreign key of one that does, in their order."""
    used: list[tuple[Join, TableSchema]] = []
    wanted = set(homes)
    for join, table in reversed(tables.joined):
        if wanted & set(join.attributes):
            used.insert(0, (join, table))
            wanted.add(join.foreign_key)
    return used


def _bounded(main: Expr, columns: Mapping[str, Expr], table: TableSchema, unit: Row | Person, engine: Engine) -> Expr:
    """Of each person the first rows in the order of the key; a tie that does not fit whole is left out.

    The running count includes all rows with an equal key, so which rows stay never depends on anything but the keys.
    Rows without an id belong to nobody whose rows could be bounded: they do not count.
    """
    if isinstance(unit, Row):
        return main.select(**columns) if columns else main
    ranked = _ranked(main, columns, table, unit, engine)
    return ranked.filter((ranked["rank"] <= unit.at_most) & ranked.person.notnull())


def _ranked(main: Expr, columns: Mapping[str, Expr], table: TableSchema, unit: Person, engine: Engine) -> Expr:
    """The rows with their person and their rank: how many rows of the person come up to their key, ties included."""
    id_kind, order_kind = table.person_kinds(unit)
    person, order = engine.comparable(main[unit.id], id_kind), engine.comparable(main[unit.order_by], order_kind)
    keyed = main.select(**columns, person=person, key=order, keyless=null_flag(order))
    window = ibis().window(group_by=keyed.person, order_by=[keyed.keyless, keyed.key], range=(None, 0))
    return keyed.select(*columns, "person", rank=keyed.count().over(window))


def _people(table: TableSchema, unit: People, engine: Engine) -> Expr:
    """One row for each person: the id, which further tables are found by, and how many rows the person has."""
    kind = table.find(unit.id, MATCHED, "the id of a person").kind
    rows = _ibis_table(table, {unit.id})
    ids = rows.select(person=engine.comparable(rows[unit.id], kind))
    named = ids.filter(ids.person.notnull())
    people = named.group_by("person").aggregate(n=named.count())
    return people.select(**{unit.id: people.person, unit.rows: people.n})


def caps_expression(table: TableSchema, unit: Person, caps: Sequence[int], engine: Engine) -> Expr:
    """The number of rows, of people and of rows of nobody; then for each cap the rows it counts and who has more."""
    table.person_kinds(unit)
    ranked = _ranked(_ibis_table(table, {unit.id, unit.order_by}), {}, table, unit, engine)
    people = ranked.group_by("person").aggregate(
        number=ranked.count(),
        **{f"c{place}": (ranked["rank"] <= cap).sum() for place, cap in enumerate(caps)},
    )
    named = people.person.notnull()
    numbers = {"total": people.number.sum(), "people": named.sum(), "nobody": people.number.sum(where=~named)}
    for place, cap in enumerate(caps):
        numbers[f"counted{place}"] = people[f"c{place}"].sum(where=named)
        numbers[f"over{place}"] = (named & (people.number > cap)).sum()
    return people.aggregate(**numbers)


def repeated_keys(table: TableSchema, join: Join, engine: Engine) -> Expr:
    """One row where a key of a joined table occurs more than once, else none."""
    rows = _ibis_table(table, {join.key})
    keyed = rows.select(key=engine.comparable(rows[join.key], table.columns[join.key].kind))
    known = keyed.filter(keyed["key"].notnull())
    groups = known.group_by("key").aggregate(n=known.count())
    return groups.filter(groups.n > 1).limit(1)


def _dimension(
    table: TableSchema, join: Join, columns: Mapping[str, str], onward: Sequence[str], engine: Engine
) -> Expr:
    """The joined table by key, without keys that occur twice: they could multiply rows.

    `columns` names what is read of it; `onward` are attributes by which further tables are found.
    """
    foreign = [join.attributes[name] for name in onward]
    raw = _ibis_table(table, {join.key, *columns.values(), *foreign})

    def matched(column: str) -> Expr:
        return engine.comparable(raw[column], table.columns[column].kind)

    given = {name: raw[column] for name, column in columns.items()}
    given |= {f"to_{number}": matched(column) for number, column in enumerate(foreign)}
    keyed = raw.select(key=matched(join.key), **given)
    same = keyed.count().over(ibis().window(group_by=keyed["key"]))
    counted = keyed.select("key", *given, same=same)
    return counted.filter((counted.same == 1) & counted["key"].notnull())


def _ibis_table(table: TableSchema, wanted: Iterable[str]) -> Expr:
    needed = {name: IBIS_TYPES[kind.kind] for name, kind in table.columns.items() if name in set(wanted)}
    # Ibis wants a column even where none is looked at.
    needed = needed or {next(iter(table.columns)): "int64"}
    return ibis().table(needed, name=table.name.name, database=table.name.schema)


NUMBER_KINDS = (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.DECIMAL, ColumnKind.BOOLEAN, ColumnKind.TEXT)
ALLOWED: dict[type[Attribute], tuple[ColumnKind, ...]] = {
    Integers: NUMBER_KINDS,
    Bins: NUMBER_KINDS,
    Dates: (ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TEXT),
    Timestamps: (ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.INSTANT, ColumnKind.TEXT),
}


def check_type(name: str, attribute: Attribute, column: ColumnType) -> None:
    """Refuses a column that cannot hold what is declared; looks at types only."""
    if isinstance(attribute, Categorical):
        text = isinstance(attribute.values[0], str)
        allowed: tuple[ColumnKind, ...] = (
            (ColumnKind.TEXT,)
            if text
            else (ColumnKind.INTEGER, ColumnKind.BOOLEAN, ColumnKind.DECIMAL, ColumnKind.REAL)
        )
    else:
        allowed = ALLOWED[type(attribute)]
    if column.kind not in allowed:
        declared = "listed values" if isinstance(attribute, Categorical) else type(attribute).__name__.lower()
        wanted = ", ".join(allowed)
        zoned = column.kind == ColumnKind.INSTANT and ColumnKind.TIMESTAMP in allowed
        advice = "; declare timestamps in a time zone" if zoned else ""
        raise SourceError(f"{name}: {declared} are read from {wanted}, not from {column.native}{advice}")
    _check_calendar(name, attribute)
    if column.native == NANOSECONDS and isinstance(attribute, Dates | Timestamps):
        _check_nanoseconds(name, attribute)


NANOSECONDS = "TIMESTAMP_NS"
FIRST_NANOSECOND, LAST_NANOSECOND = -(2**63) // 10**9, 2**63 // 10**9
"""In seconds since 1970: in 1677 and in 2262."""


def _check_nanoseconds(name: str, attribute: Dates | Timestamps) -> None:
    """Refuses days that times in nanoseconds cannot be compared with: that would fail as soon as there is a row."""
    if isinstance(attribute, Timestamps):
        unit = SECONDS[attribute.by]
        begin, end = attribute.first_period * unit, (attribute.first_period + attribute.size) * unit
    else:
        begin, end = (int(day) * DAY for day in attribute.starts(np.array([0, attribute.size])))
    if begin - 2 * DAY < FIRST_NANOSECOND or end + 2 * DAY > LAST_NANOSECOND:
        raise SourceError(
            f"{name} holds times in nanoseconds, which end in 1677 and 2262; declare days between, or store {name} as "
            "TIMESTAMP"
        )


def _check_calendar(name: str, attribute: Attribute) -> None:
    """Refuses dates and times that end with the calendar: what lies beyond has no date to compare a column with.

    Dates whose outside counts at the ends are told apart all the same.
    """
    begin, end = FIRST_SECOND + 1, LAST_SECOND
    if isinstance(attribute, Timestamps):
        end = (attribute.first_period + attribute.size) * SECONDS[attribute.by]
    elif isinstance(attribute, Dates) and attribute.outside != CLAMP:
        begin, end = (int(day) * DAY for day in attribute.starts(np.array([0, attribute.size])))
    if begin <= FIRST_SECOND or end > LAST_SECOND:
        raise SourceError(
            f"{name}: the first day of the year 1 and the last of the year 9999 cannot be told from what lies beyond; "
            "declare fewer days, or dates with outside='clamp'"
        )


def make_key(cut: Segments, column: Expr, kind: ColumnType, engine: Engine, *, is_alone: bool = True) -> Key:
    """The key of one attribute for one column of the given type, alone or beside others."""
    attribute = cut.attribute
    if isinstance(attribute, Categorical):
        return category_key(attribute, column, kind, engine, is_alone=is_alone)
    if kind.kind == ColumnKind.TEXT or (not engine.typed and isinstance(attribute, Dates | Timestamps)):
        return raw_key(attribute, engine.comparable(column, kind.kind))
    if isinstance(attribute, Dates):
        return date_key(attribute, cut, column, kind, engine, is_alone=is_alone)
    if isinstance(attribute, Timestamps):
        return timestamp_key(attribute, cut, column, kind, engine)
    if isinstance(attribute, Integers | Bins):
        return number_key(attribute, cut, column, kind, engine, is_alone=is_alone)
    raise SourceError(f"{type(attribute).__name__} attributes cannot be counted by a data source")


Cuts: TypeAlias = Mapping[str, Segments]
ATOM_LIMIT = 64
"""Comparisons of several attributes in one bracket; longer ones are left to the proxy."""
RUN_LIMIT = 8
"""Segments of accepted values beyond which the values are grouped and the proxy decides."""


def push(
    where: Predicate | None, condition_of: Callable[[str, Bools], Expr | None], cuts: Cuts
) -> tuple[list[Expr], Predicate | None]:
    """The conditions that the engine can decide, which need not be grouped by, and the rest of the filter."""
    conditions, left = list[Expr](), None
    for part in _conjuncts(where):
        condition = _holds(part, True, condition_of, cuts)
        if condition is not None:
            conditions.append(condition)
        else:
            left = part if left is None else Both(left, part)
    return conditions, left


def _conjuncts(where: Predicate | None) -> Iterator[Predicate]:
    waiting = [] if where is None else [where]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Both):
            waiting += [part.second, part.first]
        else:
            yield part


def _holds(part: Predicate, wanted: bool, condition_of: Callable[[str, Bools], Expr | None], cuts: Cuts) -> Expr | None:
    """An expression that is true exactly where the part is true, or false if that is wanted; unknown is neither."""
    while isinstance(part, Negation):
        part, wanted = part.inner, not wanted
    conditions = atoms(part)
    names = {atom.attribute for atom in conditions}
    if len(names) == 1:
        name = names.pop()
        places = np.arange(cuts[name].count)
        predicate = part if wanted else Negation(part)
        return condition_of(name, passing(predicate, cuts, {name: places}))
    if not isinstance(part, Both | Either) or len(conditions) > ATOM_LIMIT:
        return None
    first, second = (_holds(side, wanted, condition_of, cuts) for side in (part.first, part.second))
    if first is None or second is None:
        return None
    return first & second if isinstance(part, Both) == wanted else first | second


def condition(cut: Segments, accepted: Bools, column: Expr, kind: ColumnType, engine: Engine) -> Expr | None:
    """True on exactly the rows whose value lies in an accepted segment; None where the engine is not asked."""
    attribute = cut.attribute
    if not accepted.any() or not engine.typed:
        return None
    if isinstance(attribute, Categorical):
        return _listed(attribute, cut, accepted, column, kind, engine)
    if isinstance(attribute, Integers | Bins):
        line = number_line(attribute, column, kind, engine)
        return None if line is None else _union(cut, accepted, line)
    if isinstance(attribute, Dates) and kind.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        return _union(cut, accepted, OrderedColumn(column, day_literal(attribute, kind)))
    return None


def _listed(
    attribute: Categorical, cut: Segments, accepted: Bools, column: Expr, kind: ColumnType, engine: Engine
) -> Expr | None:
    if kind.kind not in (ColumnKind.TEXT, ColumnKind.INTEGER) or attribute.size > LIST_LIMIT:
        return None
    is_text = kind.kind == ColumnKind.TEXT
    value = engine.comparable(column, kind.kind)
    taken = accepted[cut.of(np.arange(attribute.size))]
    # NULL, and a value that is not listed.
    special = np.zeros(2, dtype=np.int64), np.array([True, False]), np.array([False, True])
    takes_null, takes_others = accepted[cut.of(attribute.place(special))].tolist()
    wanted = [
        v if is_text else int(v)
        for v, is_taken in zip(attribute.values, taken, strict=True)
        if is_taken != takes_others
    ]
    if not all(isinstance(v, str) or -(2**63) <= v < 2**63 for v in wanted):
        return None
    holds = value.isin(wanted) if wanted else value != value
    if takes_others:
        holds = ~holds if wanted else value.notnull()
    return holds | value.isnull() if takes_null else holds


def _union(cut: Segments, accepted: Bools, line: OrderedColumn) -> Expr | None:
    """A union of segments of the line, in the order below, each segment, above."""
    segments = int(cut.starts.size)
    numbers: Sequence[object] = [*range(-1, segments + 1), None]
    taken = accepted[cut.of(segment_decoder(cut)([numbers]))]
    takes_null, taken = bool(taken[-1]), taken[:-1]
    changes = np.flatnonzero(np.diff(np.concatenate([[False], taken, [False]]).astype(np.int8)))
    runs = list(zip(changes[::2] - 1, changes[1::2] - 1, strict=True))
    if len(runs) > RUN_LIMIT:
        return None
    edges = [*(int(start) for start in cut.starts), cut.attribute.size]
    parts = [_segment(line, edges, int(first), int(after), segments) for first, after in runs]
    if takes_null:
        parts += [line.value.isnull()] + ([line.value.isnan()] if line.nan else [])
    union = parts[0]
    for other in parts[1:]:
        union |= other
    return union


def _segment(line: OrderedColumn, edges: Sequence[int], first: int, after: int, segments: int) -> Expr:
    """Places `first` up to, not including, `after`: -1 lies below the first edge, `segments` above the last."""
    low = None if first < 0 else line.value >= line.edge(edges[first])
    if after <= segments:
        high = line.value < line.edge(edges[after])
        return high if low is None else low & high
    # What has no upper end would take NaN in, which engines hold to be the largest number.
    low = line.value.notnull() if low is None else low
    return low & ~line.value.isnan() if line.nan else low
